/**
 * Returns a text for people, at most 1,000 characters of it, and "" for what is not a string. What a
 * terminal could act on is replaced.
 */
export declare function printable(value: unknown): string;
/**
 * What a gateway refused, over REST or on the stream. It is the base of the other errors. Its message
 * includes reason, msg, details and hint.
 */
export declare class RuedaError extends Error {
    readonly name: string;
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
    constructor(fields: {
        code: number;
        reason: string;
        msg?: string;
        hint?: string;
        details?: string[];
        retryAfter?: number;
        requestId?: string;
        closed?: boolean;
        retry?: boolean;
    }, options?: ErrorOptions);
}
/** The connection broke, or a gateway cannot be reached. The client tries again. */
export declare class ConnectionError extends RuedaError {
    readonly name: string;
    constructor(msg: string, options?: ErrorOptions);
}
/** A message or an answer is not one of a gateway. */
export declare class ProtocolError extends RuedaError {
    readonly name = "ProtocolError";
    constructor(msg: string, options?: ErrorOptions);
}
/** The program is slower than its events, and the client has stopped reading until it is ready. */
export declare class BehindError extends ConnectionError {
    readonly name = "BehindError";
    constructor();
}
export declare function mayHelp(err: unknown): boolean;
export declare const closes: (reason: string) => boolean;
export declare function closeError(code: number, reason: string, last: RuedaError | undefined): RuedaError;
