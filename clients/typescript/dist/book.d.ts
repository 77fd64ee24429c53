import type { BookUpdate, Level } from "./events.js";
/** Returns the CRC-32 (IEEE) of a text in ASCII. */
export declare function crc32(text: string): number;
/** Why a book is not valid: the update does not follow it, or its checksum differs. */
export type BookFault = "chain" | "checksum" | "invalid";
/**
 * The order book of an instrument, made of its updates. It is valid from a snapshot to the first
 * update that does not follow, or whose checksum differs. A book that is not valid shows no levels.
 *
 * The checksum is over whole units of the decimals of the instrument, which updates do not name. A
 * Book finds them with its first checksum.
 */
export declare class Book {
    #private;
    /** True while the book is known. */
    get valid(): boolean;
    /** The number of the newest update. */
    get n(): number;
    /** How many levels each side has; 0: all. */
    get depth(): number;
    /**
     * Applies an update. Returns why the book is not valid after it, or undefined. An update of an
     * invalid book that is not a snapshot is "invalid".
     */
    apply(u: BookUpdate): BookFault | undefined;
    /** Makes the book invalid until its next snapshot. */
    invalidate(): void;
    /** Returns the best bids, best first: count of them, or all. An invalid book has none. */
    bids(count?: number): Level[];
    /** Returns the best asks, best first: count of them, or all. An invalid book has none. */
    asks(count?: number): Level[];
    /** Returns the best level of each side, undefined where there is none. */
    best(): {
        bid: Level | undefined;
        ask: Level | undefined;
    };
}
