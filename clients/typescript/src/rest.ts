import { ConnectionError, ProtocolError, RuedaError } from "./errors.js";
import { read } from "./json.js";
import { ms, sleep } from "./time.js";
import { bounded } from "./values.js";

const maxTries = 3;
const maxAnswer = 64 << 20; // bytes
const maxRefusal = 64 << 10; // of the text of an error

export interface Request {
  method: "GET" | "POST";
  path: string;
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  signal?: AbortSignal | undefined;
}

/** The part of the token keeper that requests need. */
export interface Access {
  get(signal?: AbortSignal): Promise<{ access: string }>;
  invalidate(access: string): void;
}

/** Requests of REST to one of several URLs. */
export class Rest {
  #at = 0;

  constructor(
    private readonly urls: string[],
    private readonly fetcher: typeof fetch,
  ) {}

  /** Returns the URL in use. */
  url(): string {
    return this.urls[this.#at % this.urls.length]!;
  }

  /** Makes the next URL the one in use. */
  next(): void {
    this.#at++;
  }

  /**
   * Sends a request and returns the data of its answer. It tries the next URL if one cannot be
   * reached, waits if the gateway asks for it, and renews a refused token once.
   */
  async call(r: Request, tokens?: Access): Promise<unknown> {
    for (let attempt = 1; ; attempt++) {
      const access = tokens && (await tokens.get(r.signal)).access;
      try {
        return dataOf(await this.#anywhere(r, access));
      } catch (err) {
        if (!(err instanceof RuedaError) || attempt === maxTries) throw err;
        const later = err.reason === "rate_limited" || err.code === 503;
        if (access && err.code === 401 && attempt === 1) tokens.invalidate(access);
        else if (later && r.method === "GET" && err.retryAfter <= ms.maxWait) await sleep(Math.max(err.retryAfter, 100), r.signal);
        else throw err;
      }
    }
  }

  // anywhere sends a request to the URL in use or, if it cannot be reached, to the next ones.
  async #anywhere(r: Request, access: string | undefined): Promise<string> {
    for (let skip = 0; ; skip++) {
      try {
        return await this.#send(this.urls[(this.#at + skip) % this.urls.length]!, r, access);
      } catch (err) {
        const answered = err instanceof RuedaError && err.code !== 503 && err.reason !== "";
        if (answered || r.signal?.aborted || skip === this.urls.length - 1) throw err;
      }
    }
  }

  async #send(base: string, r: Request, access: string | undefined): Promise<string> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(r.query ?? {})) if (value !== undefined) query.set(name, String(value));
    const stop = new AbortController();
    const abort = (): void => stop.abort(r.signal?.reason);
    if (r.signal?.aborted) abort();
    r.signal?.addEventListener("abort", abort, { once: true });
    const timer = setTimeout(() => stop.abort(new Error(`no answer of ${r.path} in ${ms.answer / 1000} s`)), ms.answer);
    try {
      const response = await this.fetcher(base + r.path + (query.size ? `?${query}` : ""), {
        method: r.method,
        redirect: "manual", // another address gets no password and no token
        headers: { ...(r.body !== undefined && { "Content-Type": "application/json" }), ...(access && { Authorization: `Bearer ${access}` }) },
        ...(r.body !== undefined && { body: JSON.stringify(r.body) }),
        signal: stop.signal,
      });
      const { text, whole } = await textOf(response, response.ok ? maxAnswer : maxRefusal);
      if (!response.ok) throw refusal(response, text);
      if (!whole) throw new ProtocolError(`the answer of ${r.path} is longer than 64 MiB`);
      return text;
    } catch (err) {
      if (r.signal?.aborted || err instanceof RuedaError) throw err;
      const { message } = stop.signal.aborted ? (stop.signal.reason as Error) : (err as Error);
      throw new ConnectionError(`the connection broke: ${message}`, { cause: err });
    } finally {
      clearTimeout(timer);
      r.signal?.removeEventListener("abort", abort);
    }
  }
}

// textOf returns at most the first bytes of an answer, and whether they are the whole of it.
async function textOf(response: Response, most: number): Promise<{ text: string; whole: boolean }> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let length = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) {
      await reader.cancel();
      return { text, whole: false };
    }
    text += decoder.decode(value, { stream: true });
  }
  return { text: text + decoder.decode(), whole: true };
}

// refusal returns the error of an answer. The constructor takes no texts of another type.
function refusal(response: Response, text: string): RuedaError {
  let e: { reason?: string; msg?: string; hint?: string; request_id?: string } = {};
  try {
    e = (JSON.parse(text) as { error?: typeof e | null }).error ?? {};
  } catch {
    // Without a body, the status says what there is.
  }
  const retryAfter = bounded(Number(response.headers.get("Retry-After")) * 1000, ms.maxRequested);
  return new RuedaError({
    code: response.status, reason: e.reason ?? "", ...(e.msg && { msg: e.msg }), ...(e.hint && { hint: e.hint }),
    ...(e.request_id && { requestId: e.request_id }), retryAfter,
  });
}

function dataOf(text: string): unknown {
  let answer: { success?: unknown; data?: unknown } | null;
  try {
    answer = read(text) as typeof answer;
  } catch (err) {
    throw new ProtocolError("the answer is not from a gateway", { cause: err });
  }
  if (answer?.success !== true) throw new ProtocolError("the answer is not from a gateway");
  return answer.data;
}
