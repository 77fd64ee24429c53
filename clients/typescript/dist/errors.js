import { ms } from "./time.js";
/** What a gateway refused, over REST or on the stream. */
export class RuedaError extends Error {
    name = "RuedaError";
    /** As in HTTP. */
    code;
    /** The word to branch on; "": the answer is not from a gateway. */
    reason;
    /** What to do, in the gateway's words. */
    hint;
    /** How long to wait before the next attempt, in ms; 0: the gateway does not say. */
    retryAfter;
    /** Of a request of REST. */
    requestId;
    /** The stream was closed with it. */
    closed;
    constructor(fields) {
        super(fields.msg ? `${fields.reason}: ${fields.msg}` : fields.reason || `the server answered ${fields.code}`);
        this.code = fields.code;
        this.reason = fields.reason;
        this.hint = fields.hint;
        this.retryAfter = Math.min(fields.retryAfter ?? 0, ms.maxRequested);
        this.requestId = fields.requestId;
        this.closed = fields.closed ?? false;
    }
}
/** The connection broke, or a gateway cannot be reached. The client tries again. */
export class ConnectionError extends Error {
    name = "ConnectionError";
}
/** The program is slower than its events, and the client has stopped reading until it is ready. */
export class BehindError extends ConnectionError {
    name = "BehindError";
    constructor() {
        super("the queue of events is full");
    }
}
const final = new Set([
    "invalid_credentials", "invalid_refresh_token", "mfa_required", "mfa_enrolment_required", "invalid_otp",
    "token_revoked", "address_not_allowed", "replaced", "message_too_big",
]);
// isFinal reports whether trying again cannot help.
export function isFinal(err) {
    if (!(err instanceof RuedaError))
        return false;
    return final.has(err.reason) || (err.closed && (err.code === 400 || err.code === 403));
}
// Reasons of an Error that closes the connection.
const closing = new Set([
    "invalid_token", "token_expired", "token_revoked", "address_not_allowed", "connection_limit", "too_many_failures",
    "internal", "overloaded", "shutting_down", "auth_timeout", "replaced", "message_too_big", "pong_timeout", "slow_client",
]);
export const closes = (reason) => closing.has(reason);
// closeError returns what ended a connection: the Error before the close, or the code of the close.
export function closeError(code, reason, last) {
    if (code >= 4000 && code < 5000) {
        if (last?.code === code - 4000)
            return closed(last);
        return new RuedaError({ code: code - 4000, reason, closed: true });
    }
    if (last && closes(last.reason))
        return closed(last); // its close frame was lost
    return new ConnectionError(code === 1006 ? "the connection broke" : `the connection was closed: ${code} ${reason}`.trim());
}
function closed(e) {
    const msg = e.message.startsWith(`${e.reason}: `) ? e.message.slice(e.reason.length + 2) : "";
    const more = { ...(e.hint !== undefined && { hint: e.hint }), retryAfter: e.retryAfter, closed: true };
    return new RuedaError({ code: e.code, reason: e.reason, msg, ...more });
}
