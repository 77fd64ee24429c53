import type { Connection } from "./connection.js";
import type * as wire from "./messages.js";
import { type ItemOptions, type Series } from "./subscriptions.js";
/** An item of the set at the gateway. */
interface Subscribed extends ItemOptions {
    rejected?: boolean;
    /** The gateway has accepted to resume it. */
    resumed?: boolean;
}
/** The set of subscriptions of a connection, which follows the set that the program wants. */
export declare class Sets {
    #private;
    private readonly link;
    readonly sent: Map<`quotes ${string}` | `summary ${string}` | `status ${string}` | `trades ${string}` | `order_book ${string}` | `bars ${string}`, Subscribed>;
    constructor(link: Connection);
    /** Sets how long messages may be. */
    limit(bytes: number): void;
    /** Reports whether a request has no answer yet, or instruments are being listed. */
    waits(): boolean;
    /** Compares the sets again if that is due. */
    due(at: number): void;
    /** Asks the gateway for what the program wants and does not have, and to stop the rest. */
    reconcile(): void;
    /** Requests a new snapshot of a book. */
    resync(s: Series): void;
    /** Handles a Subscription. */
    acknowledged(m: wire.Subscription): void;
    /** Handles an Error. Returns false if it answers no request. */
    refused(m: wire.Error, retryAfter: number): boolean;
    /** Reports whether an item of the set includes a series. The item except does not count. */
    covered(s: Series, except?: Series): boolean;
    /**
     * Forgets, at the beginning of a connection, what the program has removed from the set since the
     * last one.
     */
    prune(): void;
}
export {};
