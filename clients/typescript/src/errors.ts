import type { Lost } from "./events.js";
import { ms } from "./time.js";

const maxText = 1000; // characters of a text for people

/**
 * Returns a text for people, at most 1,000 characters of it, and "" for what is not a text. What a
 * terminal could act on is replaced.
 */
export function printable(value: unknown): string {
  return typeof value === "string" ? value.slice(0, maxText).replace(/\p{C}|\p{Zl}|\p{Zp}/gu, "\ufffd") : "";
}

/** What a gateway refused, over REST or on the stream. It is the base of the other errors. */
export class RuedaError extends Error {
  override readonly name: string = "RuedaError";
  /** As in HTTP; 0: the gateway has refused nothing. */
  readonly code: number;
  /** The word to branch on; "": the answer is not from a gateway. */
  readonly reason: string;
  /** What to do, in the gateway's words. */
  readonly hint: string | undefined;
  /** How long to wait before the next attempt, in ms; 0: the gateway does not say. */
  readonly retryAfter: number;
  /** Of a request of REST. */
  readonly requestId: string | undefined;
  /** The stream was closed with it. */
  readonly closed: boolean;

  constructor(
    fields: { code: number; reason: string; msg?: string; hint?: string; retryAfter?: number; requestId?: string; closed?: boolean },
    options?: ErrorOptions,
  ) {
    const reason = printable(fields.reason);
    const msg = printable(fields.msg);
    super([reason, msg].filter(Boolean).join(": ") || `the server answered ${fields.code}`, options);
    this.code = fields.code;
    this.reason = reason;
    this.hint = printable(fields.hint) || undefined;
    this.retryAfter = Math.min(fields.retryAfter ?? 0, ms.maxRequested);
    this.requestId = printable(fields.requestId) || undefined;
    this.closed = fields.closed ?? false;
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

/** Rows of history that were requested are lost, and requireComplete makes that an error. */
export class IncompleteError extends RuedaError {
  override readonly name = "IncompleteError";
  constructor(
    msg: string,
    /** The ranges that are known so far. */
    readonly lost: Lost[],
  ) {
    super({ code: 0, reason: "", msg });
  }
}

const final = new Set([
  "invalid_credentials", "invalid_refresh_token", "mfa_required", "mfa_enrolment_required", "invalid_otp",
  "password_change_required", "second_factor_locked",
  "token_revoked", "address_not_allowed", "replaced", "message_too_big",
]);

// isFinal reports whether trying again cannot help.
export function isFinal(err: unknown): boolean {
  if (!(err instanceof RuedaError)) return false;
  return final.has(err.reason) || (err.closed && (err.code === 400 || err.code === 403));
}

// Reasons of an Error that closes the connection.
const closing = new Set([
  "invalid_token", "token_expired", "token_revoked", "address_not_allowed", "connection_limit", "too_many_failures",
  "internal", "overloaded", "shutting_down", "auth_timeout", "replaced", "message_too_big", "pong_timeout", "slow_client",
]);

export const closes = (reason: string): boolean => closing.has(reason);

// closeError returns what ended a connection: the Error before the close, or the code of the close.
export function closeError(code: number, reason: string, last: RuedaError | undefined): Error {
  if (code >= 4000 && code < 5000) {
    if (last?.code === code - 4000) return closed(last);
    return new RuedaError({ code: code - 4000, reason, closed: true });
  }
  if (last && closes(last.reason)) return closed(last); // its close frame was lost
  return new ConnectionError(code === 1006 ? "the connection broke" : `the connection was closed: ${code} ${reason}`.trim());
}

function closed(e: RuedaError): RuedaError {
  const msg = e.message.startsWith(`${e.reason}: `) ? e.message.slice(e.reason.length + 2) : "";
  const more = { ...(e.hint !== undefined && { hint: e.hint }), retryAfter: e.retryAfter, closed: true };
  return new RuedaError({ code: e.code, reason: e.reason, msg, ...more });
}
