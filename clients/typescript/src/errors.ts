import { ms } from "./time.js";

const maxText = 1000; // characters of a text for people

/**
 * Returns a text for people, at most 1,000 characters of it, and "" for what is not a string. What a
 * terminal could act on is replaced.
 */
export function printable(value: unknown): string {
  return typeof value === "string" ? value.slice(0, maxText).replace(/\p{C}|\p{Zl}|\p{Zp}/gu, "\ufffd") : "";
}

/**
 * What a gateway refused, over REST or on the stream. It is the base of the other errors. Its message
 * includes reason, msg, details and hint.
 */
export class RuedaError extends Error {
  override readonly name: string = "RuedaError";
  /** As in HTTP; 0: the gateway has refused nothing. */
  readonly code: number;
  /** The word to branch on; "": the answer is not from a gateway. */
  readonly reason: string;
  /** What is wrong, in the gateway's words. */
  readonly msg: string;
  /** What to do, in the gateway's words. */
  readonly hint: string | undefined;
  /** What is wrong with fields of the request: "instrument GGLA|BYMA|24hs is not listed". */
  readonly details: string[];
  /** How long to wait before the next attempt, in ms; 0: the gateway does not say. */
  readonly retryAfter: number;
  /** Of a request of REST. */
  readonly requestId: string | undefined;
  /** The stream was closed with it. */
  readonly closed: boolean;
  /** The gateway says that the same may succeed later. */
  readonly retry: boolean;

  constructor(
    fields: {
      code: number; reason: string; msg?: string; hint?: string; details?: string[]; retryAfter?: number; requestId?: string; closed?: boolean; retry?: boolean;
    },
    options?: ErrorOptions,
  ) {
    const reason = printable(fields.reason);
    const msg = printable(fields.msg);
    const hint = printable(fields.hint);
    const details = (fields.details ?? []).map(printable);
    let text = [reason, msg].filter(Boolean).join(": ") || `the server answered ${fields.code}`;
    for (const detail of details) if (!text.includes(detail)) text += `: ${detail}`;
    super(hint ? `${text.replace(/\.$/, "")}. ${hint}` : text, options);
    this.code = fields.code;
    this.reason = reason;
    this.msg = msg;
    this.hint = hint || undefined;
    this.details = details;
    this.retryAfter = Math.min(fields.retryAfter ?? 0, ms.maxRequested);
    this.requestId = printable(fields.requestId) || undefined;
    this.closed = fields.closed ?? false;
    this.retry = fields.retry ?? false;
  }
}

/** The connection broke, or a gateway cannot be reached. The client tries again. */
export class ConnectionError extends RuedaError {
  override readonly name: string = "ConnectionError";
  constructor(msg: string, options?: ErrorOptions) {
    super({ code: 0, reason: "", msg }, options);
  }
}

/** A message or an answer is not one of a gateway. */
export class ProtocolError extends RuedaError {
  override readonly name = "ProtocolError";
  constructor(msg: string, options?: ErrorOptions) {
    super({ code: 0, reason: "", msg }, options);
  }
}

/** The program is slower than its events, and the client has stopped reading until it is ready. */
export class BehindError extends ConnectionError {
  override readonly name = "BehindError";
  constructor() {
    super("the queue of events is full");
  }
}

// mayHelp reports whether another attempt can help: after an error of the network, of a message or
// answer, a failure of the gateway (408 and 5xx), a wait (429), with a new access token, and if the
// gateway says so. A mistake of the program is none of them.
export function mayHelp(err: unknown): boolean {
  if (err instanceof ConnectionError || err instanceof ProtocolError) return true;
  if (!(err instanceof RuedaError)) return false;
  const { code, reason, retry } = err;
  return retry || code === 408 || code === 429 || code >= 500 || reason === "invalid_token" || reason === "token_expired";
}

// Reasons of an Error that closes the connection.
const closing = new Set([
  "invalid_token", "token_expired", "token_revoked", "address_not_allowed", "connection_limit", "too_many_failures",
  "internal", "overloaded", "shutting_down", "auth_timeout", "replaced", "message_too_big", "pong_timeout", "slow_client",
]);

export const closes = (reason: string): boolean => closing.has(reason);

// closeError returns what ended a connection: the Error before the close, or the code of the close.
export function closeError(code: number, reason: string, last: RuedaError | undefined): RuedaError {
  if (code >= 4000 && code < 5000) {
    if (last?.code === code - 4000) return closed(last);
    return new RuedaError({ code: code - 4000, reason, closed: true });
  }
  if (last && closes(last.reason)) return closed(last); // its close frame was lost
  return new ConnectionError(code === 1006 ? "the connection broke" : `the connection was closed: ${code} ${reason}`.trim());
}

function closed({ code, reason, msg, hint = "", retryAfter, retry }: RuedaError): RuedaError {
  return new RuedaError({ code, reason, msg, hint, retryAfter, closed: true, retry });
}
