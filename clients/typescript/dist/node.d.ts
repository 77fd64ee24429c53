import type { TokenStore, Tokens } from "./tokens.js";
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
