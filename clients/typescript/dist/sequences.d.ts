import type { MarketEvent } from "./events.js";
import type { Connection } from "./connection.js";
import type * as wire from "./messages.js";
import { type Series } from "./subscriptions.js";
interface Numbered {
    n: number;
    event: MarketEvent;
    snapshot: boolean;
}
/** The series of a connection whose numbers have no gaps: each message once, and in order. */
export declare class Sequences {
    #private;
    private readonly link;
    replaying: number;
    constructor(link: Connection);
    /** Queues market data. If there is no space, the connection ends, and the next one resumes. */
    push(s: Series, n: number, event: MarketEvent): boolean;
    /** Handles an event of a series without gaps. */
    numbered(s: Series, x: Numbered): void;
    /** Records the ranges of a Subscription: what will be replayed, and what cannot be. */
    ranges(m: wire.Subscription): void;
    /** Ends the replay of a resume. After the last one, what was missed has been delivered. */
    caughtUp(position: string): void;
    /** Handles an Alive mark. It shows messages that were lost without a later one. */
    alive(m: wire.Alive, at: number): void;
}
export {};
