import { Book } from "./book.js";
import type { Decimal } from "./decimal.js";
import { type Bar, type Event, type Quote, type Status, type Trade } from "./events.js";
import { type HealthReport } from "./health.js";
import { type Range, type Rows } from "./history.js";
import type * as wire from "./messages.js";
import { type Checkpoint, type Options } from "./options.js";
import { type Subscriptions } from "./subscriptions.js";
/** An instrument of the catalogue. */
export interface Instrument {
    instrument: string;
    symbol: string;
    market: string;
    term: string;
    name: string;
    kind: string;
    isin?: string;
    currency: string;
    multiplier?: Decimal;
    price_decimals: number;
    size_decimals: number;
    /** Pairs of a price and the step from there on. */
    tick?: [Decimal, Decimal][];
    lot?: Decimal;
    min_size?: Decimal;
    status?: string;
    channels: string[];
}
/** An account of the user. */
export interface Account {
    account_id: string;
    number: string;
    name?: string;
    type: string;
    status: string;
    currency: string;
    currencies?: string[];
    roles?: string[];
    permissions?: string[];
    is_default: boolean;
    created_at?: string;
}
/** A user's access to a gateway. It connects to nothing before its first use. */
export declare class Client {
    #private;
    /** Takes one or more URLs such as https://api.broker.example. Throws a TypeError. */
    constructor(urls: string | string[], options?: Options);
    /**
     * Connects the stream and iterates over its events until the signal is aborted or the loop is
     * left. A later call continues where this one stopped. Throws a RuedaError if the gateway refuses
     * the client for good.
     */
    events(signal?: AbortSignal): AsyncGenerator<Event, void, void>;
    /**
     * Adds to the set of subscriptions, and replaces the options of those that it has. The stream
     * follows as soon as it is connected. Throws a TypeError, and then changes nothing.
     */
    subscribe(set: Subscriptions): void;
    /**
     * Removes from the set exactly these identifiers. Events that the gateway has already sent may
     * still come.
     */
    unsubscribe(set: Subscriptions): void;
    /** Returns the set, sorted, without its options. */
    subscriptions(): Subscriptions;
    /**
     * Returns the book of an instrument to which the set subscribes, as new as what the client has
     * received. It changes with the next update. Returns undefined if the book is not known at
     * present or not in the set, because a page may be painted before it subscribes.
     */
    book(instrument: string): Book | undefined;
    /** Returns what is alive. */
    health(): HealthReport;
    /**
     * Returns what the body of the loop over events has processed, without the event in progress. An
     * event is in progress until the loop asks for the next one. After a break, that is when the
     * program calls events again. See Options.resume.
     */
    checkpoint(): Checkpoint;
    /** Makes sure that there is a valid login. Other methods do that themselves. */
    login(): Promise<void>;
    /**
     * Ends the login with its tokens, and so the streams that use it. It is the login of the store if
     * the client has not used it yet.
     */
    logout(): Promise<void>;
    /** Requests a path of REST, such as /market/status, and returns the data of the answer. */
    get(path: string, query?: Record<string, string | number | undefined>): Promise<unknown>;
    /**
     * Requests a path of REST, such as /market/export, and returns the answer. Its body is not read yet,
     * and may be of any length. The module for Node.js writes exports to files.
     */
    open(path: string, query?: Record<string, string | number | undefined>, signal?: AbortSignal): Promise<Response>;
    /** Iterates over stored trades, cancels and corrections. */
    trades(instrument: string, range?: Range): Rows<Trade>;
    /** Iterates over stored quotes. */
    quotes(instrument: string, range?: Range): Rows<Quote>;
    /** Iterates over stored statuses. */
    statuses(instrument: string, range?: Range): Rows<Status>;
    /** Iterates over stored bars, including revisions. */
    bars(instrument: string, interval: wire.Interval, range?: Range): Rows<Bar>;
    /** Iterates over the instruments of the catalogue. text is a part of symbol, name or ISIN. */
    instruments(filter?: {
        market?: string;
        term?: string;
        kind?: string;
        text?: string;
    }): AsyncGenerator<Instrument, void, void>;
    /** Iterates over the accounts of the user. */
    accounts(): AsyncGenerator<Account, void, void>;
    /** Returns the book of an instrument from REST: now, or at a time, as in Range, that the journal has. */
    bookAt(instrument: string, options?: {
        depth?: number;
        at?: string | Date;
    }): Promise<Book>;
}
