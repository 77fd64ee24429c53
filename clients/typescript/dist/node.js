import { open, readFile, rename, unlink } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { dirname, extname } from "node:path";
import { ConnectionError } from "./errors.js";
import { IncompleteError, lostOfExport, textOfLost } from "./history.js";
import { brokenOf } from "./rest.js";
import { ms, sleep } from "./time.js";
import { checkMembers } from "./values.js";
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
    save(tokens) {
        return replace(this.file, 0o600, async (f) => f.writeFile(JSON.stringify(tokens ?? null)));
    }
}
/**
 * Writes a table of a closed day to a file, and resolves to the rows that the file lacks. The table
 * is trades, quotes, bars or depth; the day a date of UTC, for all markets, such as 2026-11-20. The
 * name of the file ends with .parquet, .csv or .ndjson. The file appears only when it is complete,
 * and replaces an older one. A download that is cut off begins again, up to twice.
 */
export async function download(client, table, day, file, options = {}) {
    checkMembers("the options of download", options, ["market", "progress", "requireComplete", "signal"]);
    const format = extname(file).slice(1);
    if (!["parquet", "csv", "ndjson"].includes(format))
        throw new TypeError(`${JSON.stringify(file)} does not end with .parquet, .csv or .ndjson`);
    for (let attempt = 1;; attempt++) {
        const stop = new AbortController(); // of an answer that stands still
        const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
        try {
            const response = await client.open("/market/export", { type: table, date: day, market: options.market, format }, signal);
            const lost = lostOfExport(table, response.headers.get("Rueda-Lost") ?? "");
            if (lost.length > 0 && options.requireComplete) {
                await response.body?.cancel();
                throw new IncompleteError(textOfLost(lost), lost);
            }
            await replace(file, 0o666, (f) => copy(response, f, stop, options.progress));
            if (lost.length > 0)
                console.warn(textOfLost(lost));
            return lost;
        }
        catch (err) {
            if (options.signal?.aborted || !(err instanceof ConnectionError) || attempt === 3)
                throw err;
            await sleep(1000 * attempt, options.signal);
        }
    }
}
// copy writes an answer to a file. It ends an answer that stands still.
async function copy(response, to, stop, progress) {
    const reader = response.body.getReader();
    try {
        for (let done = 0;;) {
            const silent = setTimeout(() => stop.abort(), ms.answer);
            const part = await reader.read().catch((err) => {
                throw stop.signal.aborted ? new ConnectionError("the connection is silent") : brokenOf(err);
            }).finally(() => clearTimeout(silent));
            if (part.done)
                return;
            await to.writeFile(part.value); // all of it, at the present position
            done += part.value.length;
            progress?.(done);
        }
    }
    finally {
        await reader.cancel().catch(() => undefined);
    }
}
// replace replaces a file by what a function writes. After an error, and after a crash, there is the
// old file.
async function replace(name, mode, write) {
    const temporary = `${name}.${randomBytes(6).toString("hex")}`;
    const f = await open(temporary, "wx", mode);
    try {
        try {
            await write(f);
            await f.sync();
        }
        finally {
            await f.close();
        }
        await rename(temporary, name);
    }
    catch (err) {
        await unlink(temporary).catch(() => undefined);
        throw err;
    }
    await syncFolder(dirname(name));
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
