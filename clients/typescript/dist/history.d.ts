import { type Lost, type MarketEvent } from "./events.js";
import type { Access, Rest } from "./rest.js";
import { type Series } from "./subscriptions.js";
/** Which rows of history to read. Without members, all of them in order of n. */
export interface Range {
    /** Event times from start to before end: RFC 3339, or a date, the start of a trading day. */
    start?: string;
    end?: string;
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
/** Iterates over the elements of a list that REST returns in pages. */
export declare function listOf<T>(rest: Rest, tokens: Access, path: string, what: string, query: Record<string, string | undefined>): AsyncGenerator<T, void, void>;
