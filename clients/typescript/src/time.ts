// Times in milliseconds.
export const ms = {
  dial: 15_000, // also until the answer to auth_token
  answer: 30_000, // of a request
  // An Alive mark comes every 15 s.
  streamSilence: 25_000,
  resyncAgain: 5_000,
  removePause: 100, // between two messages that remove identifiers
  unavailable: 5_000, // until an identifier is requested again
  firstBackoff: 500,
  maxBackoff: 30_000,
  ownDelay: 60_000, // how long after a connection broke off its messages may reach the gateway
  maxRequested: 3_600_000, // longest wait that a gateway may request
  maxWait: 60_000, // the same in the middle of a request
  minHeartbeat: 1_000, // whatever a gateway states, as the following ones
  maxLife: 10 * 365 * 86_400_000, // of a token
  renewAgain: 500, // between two renewals of a stream
} as const;

// now is a clock that never goes back.
export const now = (): number => performance.now();

// sleep waits, or rejects when the signal is aborted.
export function sleep(wait: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, Math.min(wait, 2 ** 31 - 1));
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

const units: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const isoTime = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?$/;

/** Returns a time that a program passes as the protocol writes it. Throws a TypeError. */
export function momentOf(name: string, value: string | Date | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
  const text = typeof value === "string" ? value : "";
  const ago = /^(\d{1,5})([smhd])$/.exec(text);
  if (ago) return new Date(Date.now() - Number(ago[1]) * units[ago[2]!]!).toISOString();
  const [, date, minute, second = ":00", fraction = "", zone = "Z"] = isoTime.exec(text) ?? [];
  if (date === undefined || Number.isNaN(Date.parse(minute === undefined ? date : `${date}T${minute}${second}${zone}`))) {
    throw new TypeError(
      `${name}: ${value instanceof Date ? "Invalid Date" : JSON.stringify(value)} is not a time: write a Date, 2026-11-22, 2026-11-22T10:00 (UTC), or 7d for seven days ago`,
    );
  }
  return minute === undefined ? date : `${date}T${minute}${second}${fraction}${zone}`;
}
