import type { Event, MarketEvent } from "./events.js";
import { type Series } from "./subscriptions.js";
/**
 * What happens when the program is slower than its events. No policy loses a trade silently.
 *
 * - "conflate": the newest quote, book or summary replaces the waiting one. When the queue is full
 *   of others, the client disconnects, and resumes when the program has caught up.
 * - "block": as conflate does for trades, for all events.
 * - "drop": as conflate, but trades, statuses and bars are dropped when the queue is full, and
 *   reported as lost with their range.
 */
export type Overflow = "conflate" | "block" | "drop";
/** A waiting event, or a mark: the program has processed everything before a position. */
export interface Entry {
    event?: Event | undefined;
    series?: Series;
    n?: number;
    /** A book that replaces others: its levels are added when it is taken. */
    merged?: boolean;
    mark?: {
        epoch: string;
        position: string;
    };
}
/** Events that the program has not taken. */
export declare class Queue {
    #private;
    private readonly most;
    private readonly policy;
    /** Number of waiting events. */
    count: number;
    constructor(most: number, policy: Overflow);
    /** Adds market data. Returns false if the queue is full, and the event was not added. */
    data(s: Series, n: number, event: MarketEvent): boolean;
    /** Adds an entry, whether or not there is space. */
    add(e: Entry): void;
    /** Removes the next entry. */
    take(): Entry | undefined;
    /** Resolves when there may be an entry, or the signal is aborted. */
    ready(signal: AbortSignal): Promise<void>;
    /** Resolves when half of the queue is free, or the signal is aborted. */
    space(signal: AbortSignal): Promise<void>;
}
