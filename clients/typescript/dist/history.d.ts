import { RuedaError } from "./errors.js";
import { type Lost, type MarketEvent } from "./events.js";
import type { Access, Rest } from "./rest.js";
import { type Series } from "./subscriptions.js";
/** Rows of history that were requested are lost, and requireComplete makes that an error. */
export declare class IncompleteError extends RuedaError {
    /** The ranges that are known so far. */
    readonly lost: Lost[];
    readonly name = "IncompleteError";
    constructor(msg: string, 
    /** The ranges that are known so far. */
    lost: Lost[]);
}
/** Which rows of history to read. Without members, all of them in order of n. */
export interface Range {
    /**
     * Event times from start to before end: a Date, or a string. A string is a date, which is the start
     * of that trading day in the market, or a time such as 2026-11-22T10:00, in UTC without a zone. 7d
     * stands for seven days ago by the clock of this machine, and s, m and h for shorter units.
     */
    start?: string | Date;
    end?: string | Date;
    /** Only rows above this n. */
    after?: number;
    /** Only rows of this epoch, which must be the current one. */
    epoch?: string;
    /** How many rows. By default all. */
    limit?: number;
    /** True: the newest row first. */
    newestFirst?: boolean;
    /** True: rows that are lost are an IncompleteError. By default the client's option decides. */
    requireComplete?: boolean;
}
/** Stored rows, which come page after page. The loop over them may be left at any time. */
export interface Rows<T> extends AsyncGenerator<T, void, void> {
    /**
     * Returns the ranges of rows that cannot be delivered, of the pages that were read. If none was
     * read, it reads the first one, which has the rows that are no longer kept. Later pages can have
     * more ranges. A program that does not call it is warned once, with console.warn.
     */
    lost(): Promise<Lost[]>;
}
/** What happens if rows of a page are lost, and lost was not called. */
export type IfLost = "warn" | "throw" | "nothing";
/** Iterates over rows of history, page after page. */
export declare function rowsOf(rest: Rest, tokens: Access, s: Series, r: Range, ifLost: IfLost, signal?: AbortSignal): Rows<MarketEvent>;
/** Returns the rows that an export lacks, of its header. Throws a ProtocolError. */
export declare function lostOfExport(table: string, header: string): Lost[];
/** Returns the first lost range, for people. */
export declare function textOfLost(lost: Lost[]): string;
/** Iterates over the elements of a list that REST returns in pages. */
export declare function listOf<T>(rest: Rest, tokens: Access, path: string, what: string, query: Record<string, string | undefined>, signal?: AbortSignal): AsyncGenerator<T, void, void>;
