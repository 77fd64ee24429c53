import type { Client } from "./client.js";
import type { Lost } from "./events.js";
import type { TokenStore, Tokens } from "./store.js";
/**
 * A TokenStore in a file, which only the user may read. save writes a temporary file, syncs it and
 * renames it, so that a crash leaves the old or the new tokens. One program at a time may use it.
 */
export declare class FileStore implements TokenStore {
    private readonly file;
    constructor(file: string);
    load(): Promise<Tokens | undefined>;
    save(tokens: Tokens | undefined): Promise<void>;
}
/** What to download besides the table and the day. */
export interface DownloadOptions {
    /** By default all markets. */
    market?: string;
    /** Is called with the number of bytes so far, from 0 again if the download begins again. */
    progress?: (bytes: number) => void;
    /** True: rows that the file lacks are an IncompleteError, and there is no file. By default it warns. */
    requireComplete?: boolean;
    /** Ends the download. */
    signal?: AbortSignal;
}
/**
 * Writes a table of a closed day to a file, and resolves to the rows that the file lacks. The table
 * is trades, quotes, bars or depth; the day a date of UTC, for all markets, such as 2026-11-20. The
 * name of the file ends with .parquet, .csv or .ndjson. The file appears only when it is complete,
 * and replaces an older one. A download that is cut off begins again, up to twice.
 */
export declare function download(client: Client, table: string, day: string, file: string, options?: DownloadOptions): Promise<Lost[]>;
