import { IncompleteError, printable } from "./errors.js";
import { eventOf } from "./events.js";
import { channelOf, identifierOf, splitSeries } from "./subscriptions.js";
import { list, members, whole } from "./values.js";
const page = 1000;
const routes = { trades: "trades", quotes: "quotes", status: "statuses", bars: "bars" };
/** Iterates over rows of history, page after page. */
export function rowsOf(rest, tokens, s, r, ifLost, signal) {
    const what = routes[channelOf(s)];
    const id = identifierOf(s);
    const cut = what === "bars" ? id.lastIndexOf("|") : id.length;
    const lost = [];
    let left = r.limit ?? Infinity;
    let first;
    let silent = ifLost === "nothing";
    const read = async (cursor) => {
        const data = members(await rest.call({
            method: "GET", path: `/market/${what}`, signal,
            query: {
                instrument: id.slice(0, cut), interval: id.slice(cut + 1) || undefined, start: r.start, end: r.end, after_sequence: r.after,
                epoch: r.epoch, order: r.newestFirst ? "desc" : undefined, limit: Math.min(left, page), cursor,
            },
        }, tokens));
        const ranges = list(data.lost).map((range) => lostOf(s, members(range)));
        lost.push(...ranges);
        return { rows: list(data[what]), lost: ranges, cursor: cursorOf(data) };
    };
    const begin = () => (first ??= read().catch((err) => {
        first = undefined; // to try again
        throw err;
    }));
    async function* rows() {
        if (left <= 0)
            return;
        for (let p = await begin();; p = await read(p.cursor)) {
            if (p.lost.length > 0 && ifLost === "throw")
                throw new IncompleteError(textOf(lost), [...lost]);
            if (p.lost.length > 0 && !silent) {
                silent = true;
                console.warn(`${textOf(lost)}. The method lost has all ranges. requireComplete makes it an error`);
            }
            for (const row of p.rows) {
                const event = eventOf(row, Date.now());
                if (!event)
                    continue;
                yield event;
                if (--left <= 0)
                    return;
            }
            if (!p.cursor)
                return;
        }
    }
    return Object.assign(rows(), {
        async lost() {
            silent = true;
            if (left > 0)
                await begin();
            return [...lost];
        },
    });
}
function lostOf(s, { from, to, start, end, reason }) {
    const n = (value) => (value === undefined ? undefined : whole(value));
    const at = (value) => printable(value) || undefined;
    return { type: "lost", ...splitSeries(s), from: n(from), to: n(to), start: at(start), end: at(end), reason: printable(reason) };
}
const cursorOf = ({ next_cursor }) => (typeof next_cursor === "string" ? next_cursor : undefined);
// textOf returns the first lost range, for people.
function textOf(lost) {
    const { channel, instrument, from, to, start, end, reason } = lost[0];
    const words = [
        "lost rows", from !== undefined && `from N ${from}`, to !== undefined && `to N ${to}`, start !== undefined && `after ${start}`,
        end !== undefined && `before ${end}`, `(${reason})`,
    ];
    const more = lost.length > 1 ? `, and ${lost.length - 1} more` : "";
    return `${channel} ${instrument}: history is incomplete: ${words.filter(Boolean).join(" ")}${more}`;
}
/** Iterates over the elements of a list that REST returns in pages. */
export async function* listOf(rest, tokens, path, what, query) {
    for (let cursor;;) {
        const data = members(await rest.call({ method: "GET", path, query: { ...query, cursor } }, tokens));
        for (const row of list(data[what]))
            yield members(row);
        cursor = cursorOf(data);
        if (!cursor)
            return;
    }
}
