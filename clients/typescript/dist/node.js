import { open, readFile, rename, unlink } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
/**
 * A TokenStore in a file, which only the user may read. save writes a temporary file, syncs it and
 * renames it, so that a crash leaves the old or the new tokens. One program at a time may use it.
 */
export class FileStore {
    file;
    constructor(file) {
        this.file = file;
    }
    async load() {
        let text;
        try {
            text = await readFile(this.file, "utf8");
        }
        catch (err) {
            if (err.code === "ENOENT")
                return undefined;
            throw err;
        }
        const tokens = JSON.parse(text);
        return tokens?.refresh_token ? tokens : undefined;
    }
    async save(tokens) {
        const temporary = `${this.file}.${randomBytes(6).toString("hex")}`;
        const f = await open(temporary, "wx", 0o600);
        try {
            try {
                await f.writeFile(JSON.stringify(tokens ?? null));
                await f.sync();
            }
            finally {
                await f.close();
            }
            await rename(temporary, this.file);
        }
        catch (err) {
            await unlink(temporary).catch(() => undefined);
            throw err;
        }
        await syncFolder(dirname(this.file));
    }
}
// syncFolder makes a rename durable. On Windows, a rename needs no more.
async function syncFolder(name) {
    if (process.platform === "win32")
        return;
    const folder = await open(name, "r");
    try {
        await folder.sync();
    }
    finally {
        await folder.close();
    }
}
