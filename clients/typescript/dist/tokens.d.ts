import type { Options } from "./options.js";
import type { Rest } from "./rest.js";
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
