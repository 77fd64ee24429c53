import type { Book } from "./book.js";
import type { State, Status } from "./events.js";
import type { Series } from "./subscriptions.js";
/** What is alive: the connection, the stream with its feeds, and each instrument. Ages are in ms. */
export interface HealthReport {
    state: State;
    url: string;
    /** How long the state has lasted. */
    stateAge: number;
    /** Since anything arrived on the connection; undefined: there is none. */
    link: number | undefined;
    /** Since market data or an Alive mark arrived; undefined: nothing yet. */
    stream: number | undefined;
    /** Markets whose feed is interrupted, sorted. */
    down: string[];
    instruments: Record<string, InstrumentHealth>;
    /** Of the newest ping of the client; undefined: unknown. */
    roundTrip: number | undefined;
    /** Clock of the gateway minus that of this machine, to about roundTrip. */
    clockOffset: number | undefined;
    /** Events that the program has not taken. */
    queued: number;
}
/** An instrument of which something was received. */
export interface InstrumentHealth {
    /** Since it was last known to be complete: by a message, or an Alive mark. */
    age: number;
    /** Newest trading status. */
    phase: string | undefined;
    /** Its book is valid. */
    book: boolean;
}
/** The state from which a HealthReport is made. */
export declare class Health {
    #private;
    state: State;
    link: number | undefined;
    data: number | undefined;
    roundTrip: number | undefined;
    clockOffset: number | undefined;
    enter(state: State, url: string): void;
    disconnected(): void;
    /** Records that an instrument is alive. */
    note(instrument: string, at: number): void;
    /** Records a status of an instrument or of a market. */
    status(s: Status): void;
    report(books: Map<Series, Book>, queued: number): HealthReport;
}
