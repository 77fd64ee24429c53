import { ProtocolError, RuedaError, printable } from "./errors.js";
import { eventOf } from "./events.js";
import { channelOf, identifierOf, splitSeries } from "./subscriptions.js";
import { momentOf } from "./time.js";
import { checkMembers, list, members, whole } from "./values.js";
const page = 1000;
/** Rows of history that were requested are lost, and requireComplete makes that an error. */
export class IncompleteError extends RuedaError {
    lost;
    name = "IncompleteError";
    constructor(msg, 
    /** The ranges that are known so far. */
    lost) {
        super({ code: 0, reason: "", msg });
        this.lost = lost;
    }
}
const routes = { trades: "trades", quotes: "quotes", status: "statuses", bars: "bars" };
/** Iterates over rows of history, page after page. */
export function rowsOf(rest, tokens, s, r, ifLost, signal) {
    checkMembers("a range", r, ["start", "end", "after", "epoch", "limit", "newestFirst", "requireComplete"]);
    const start = momentOf("start of a range", r.start);
    const end = momentOf("end of a range", r.end);
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
                instrument: id.slice(0, cut), interval: id.slice(cut + 1) || undefined, start, end, after_sequence: r.after,
                epoch: r.epoch, order: r.newestFirst ? "desc" : undefined, limit: Math.min(left, page), cursor,
            },
        }, tokens));
        const ranges = list(data.lost).map((range) => lostOf(s, members(range)));
        for (const range of ranges)
            lost.push(range); // may be more than a call can have arguments
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
                throw new IncompleteError(textOfLost(lost), [...lost]);
            if (p.lost.length > 0 && !silent) {
                silent = true;
                console.warn(`${textOfLost(lost)}. The method lost has all ranges. requireComplete makes it an error`);
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
/** Returns the rows that an export lacks, of its header. Throws a ProtocolError. */
export function lostOfExport(table, header) {
    const channel = (table === "depth" ? "order_book" : table);
    try {
        return list(JSON.parse(header || "[]")).map((row) => {
            const { instrument, interval, ...range } = members(row);
            const name = [instrument, interval].map(printable).filter(Boolean).join("|");
            return lostOf(`${channel} ${name}`, range);
        });
    }
    catch (err) {
        throw new ProtocolError("an export with a wrong list of what is lost", { cause: err });
    }
}
const cursorOf = ({ next_cursor }) => (typeof next_cursor === "string" ? next_cursor : undefined);
/** Returns the first lost range, for people. */
export function textOfLost(lost) {
    const { channel, instrument, from, to, start, end, reason } = lost[0];
    const words = [
        "lost rows", from !== undefined && `from N ${from}`, to !== undefined && `to N ${to}`, start !== undefined && `after ${start}`,
        end !== undefined && `before ${end}`, `(${reason})`,
    ];
    const more = lost.length > 1 ? `, and ${lost.length - 1} more` : "";
    return `${channel} ${instrument}: history is incomplete: ${words.filter(Boolean).join(" ")}${more}`;
}
/** Iterates over the elements of a list that REST returns in pages. */
export async function* listOf(rest, tokens, path, what, query, signal) {
    for (let cursor;;) {
        const data = members(await rest.call({ method: "GET", path, query: { ...query, cursor }, signal }, tokens));
        for (const row of list(data[what]))
            yield members(row);
        cursor = cursorOf(data);
        if (!cursor)
            return;
    }
}
