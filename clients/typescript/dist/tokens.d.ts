import type { Options } from "./options.js";
import type { Rest } from "./rest.js";
/** The tokens of a login, with the names of the Go client's file. Times are in RFC 3339. */
export interface Tokens {
    access_token: string;
    expires: string;
    refresh_token: string;
    refresh_expires: string;
    /** Separated by spaces. */
    scope: string;
}
/** Keeps tokens between runs of a program. A client calls one method at a time. */
export interface TokenStore {
    /** Returns the stored tokens, undefined if there are none. */
    load(): Promise<Tokens | undefined>;
    /** Resolves when the tokens are durable; undefined: there are none any more. */
    save(tokens: Tokens | undefined): Promise<void>;
}
/** What a request or a connection needs. */
export interface Login {
    access: string;
    scope: string[];
}
/**
 * Has the tokens of a client and renews them at 80 % of the life of the access token. All who need
 * a token at the same time share one request.
 */
export declare class TokenKeeper {
    #private;
    private readonly rest;
    private readonly options;
    private readonly warn;
    constructor(rest: Rest, options: Options, warn: (reason: string, err: unknown) => void);
    /** Returns a valid access token. */
    get(signal?: AbortSignal): Promise<Login>;
    /** How long a stream waits before the next renewal, in ms. */
    untilRenewal(): number;
    /** Makes get renew the tokens no later than after a time. */
    renewWithin(wait: number): void;
    /** Discards an access token that the gateway has refused. */
    invalidate(access: string): void;
    /** Ends the login of the client or, if the client has not used it yet, of the store. */
    end(): Promise<void>;
}
