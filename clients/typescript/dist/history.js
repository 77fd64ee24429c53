import { eventOf } from "./events.js";
import { channelOf, identifierOf } from "./subscriptions.js";
const page = 1000;
const routes = { trades: "trades", quotes: "quotes", status: "statuses", bars: "bars" };
/** Iterates over rows of history, page after page. */
export async function* rowsOf(rest, tokens, s, r, signal) {
    const what = routes[channelOf(s)];
    const id = identifierOf(s);
    const cut = what === "bars" ? id.lastIndexOf("|") : id.length;
    let left = r.limit ?? Infinity;
    for (let cursor; left > 0;) {
        const data = (await rest.call({
            method: "GET", path: `/market/${what}`, signal,
            query: {
                instrument: id.slice(0, cut), interval: id.slice(cut + 1) || undefined, start: r.start, end: r.end, after_sequence: r.after,
                epoch: r.epoch, order: r.newestFirst ? "desc" : undefined, limit: Math.min(left, page), cursor,
            },
        }, tokens));
        for (const row of data[what] ?? []) {
            const event = eventOf(row, Date.now());
            if (!event)
                continue;
            yield event;
            if (--left <= 0)
                return;
        }
        cursor = data.next_cursor;
        if (!cursor)
            return;
    }
}
/** Iterates over the elements of a list that REST returns in pages. */
export async function* listOf(rest, tokens, path, what, query) {
    for (let cursor;;) {
        const data = (await rest.call({ method: "GET", path, query: { ...query, cursor } }, tokens));
        yield* data[what] ?? [];
        cursor = data.next_cursor;
        if (!cursor)
            return;
    }
}
