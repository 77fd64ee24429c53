import type { Book } from "./book.js";
import type { Event, State } from "./events.js";
import type { Health } from "./health.js";
import type { Checkpoint, Settings } from "./options.js";
import type { Entry, Queue } from "./queue.js";
import type { Rest } from "./rest.js";
import { type ItemOptions, type Series } from "./subscriptions.js";
import type { TokenKeeper } from "./tokens.js";
/** Progress in a series. */
export interface Cursor {
    floor: number;
    n: number;
    known: boolean;
    first: number;
    to: number;
    fill: Fill | undefined;
    tried: number;
    named: boolean;
}
/** A gap that is being filled, and what came after it. */
export interface Fill {
    from: number;
    to: number;
    held: {
        n: number;
        event: Event;
        snapshot: boolean;
    }[];
}
/** Is called without a connection. */
export declare const nothing: () => void;
/** The progress of a stream, and what it has for the program: what is known over all connections. */
export declare class Engine {
    #private;
    readonly options: Settings;
    readonly rest: Rest;
    readonly tokens: TokenKeeper;
    readonly queue: Queue;
    readonly desired: Map<Series, ItemOptions>;
    readonly books: Map<Series, Book>;
    readonly health: Health;
    epoch: string;
    position: string;
    readonly series: Map<`quotes ${string}` | `summary ${string}` | `status ${string}` | `trades ${string}` | `order_book ${string}` | `bars ${string}`, Cursor>;
    readonly had: Set<`quotes ${string}` | `summary ${string}` | `status ${string}` | `trades ${string}` | `order_book ${string}` | `bars ${string}`>;
    restored: boolean;
    bound: number;
    reconnectAt: number;
    changed: () => void;
    constructor(options: Settings, rest: Rest, tokens: TokenKeeper, queue: Queue, desired: Map<Series, ItemOptions>, books: Map<Series, Book>, health: Health);
    cursor(s: Series): Cursor;
    /**
     * Forgets the progress of a series that the set has no more, except what was delivered: a resume
     * by position may repeat it.
     */
    drop(s: Series): void;
    /** Queues an event of the client itself. */
    report(event: Event): void;
    /** Reports a state. */
    enter(state: State, url: string, error?: Error, wait?: number): void;
    /** Forgets what ends with a connection. Books are not known until their next snapshot. */
    disconnected(): void;
    /** Makes a book invalid and reports it, if it is valid. */
    invalidate(s: Series, b: Book, reason: string): void;
    /** Begins a new series of numbers. What was missed in the old one is lost. */
    newEpoch(epoch: string): void;
    /** Stores a position from which the next connection can resume. */
    moveTo(position: string): void;
    /** Returns what the program has processed. */
    checkpoint(): Checkpoint;
    /** Records an entry that the program has processed. */
    processed(e: Entry): void;
}
