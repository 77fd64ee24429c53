import { checkMembers } from "./values.js";
const intervals = ["1s", "1m", "5m", "15m", "1h", "1d"];
const symbol = /^(?:\*|[!#-)+\-.-:<-[\]-{}~]{1,32})$/;
const part = /^(?:\*|[A-Za-z0-9][A-Za-z0-9._-]{0,15})$/;
const lists = { trades: "trades", quotes: "quotes", books: "order_book", status: "status", summary: "summary", bars: "bars" };
const channels = new Set(Object.values(lists));
export const isChannel = (name) => channels.has(name);
// seriesOf returns a series, or throws a TypeError if the identifier is not one.
export function seriesOf(channel, id) {
    const fail = (text) => {
        throw new TypeError(`${JSON.stringify(id)} in ${channel === "order_book" ? "books" : channel}${text}`);
    };
    if (typeof id !== "string")
        return fail(` must be a string such as "GGAL|BYMA|24hs"`);
    const parts = id.split("|");
    if (channel === "bars" && parts.length === 3)
        return fail(` has no interval: write ${id}|1m`);
    if (parts.length !== (channel === "bars" ? 4 : 3))
        return fail(` is not of the form SYMBOL|MARKET|TERM${channel === "bars" ? "|INTERVAL" : ""}`);
    const forms = { symbol, market: part, term: part };
    Object.entries(forms).forEach(([name, form], i) => form.test(parts[i]) || fail(`: ${JSON.stringify(parts[i])} is not a ${name}`));
    if (channel === "bars" && !intervals.includes(parts[3]))
        return fail(`: ${parts[3]} is not one of ${intervals.join(", ")}`);
    return `${channel} ${id}`;
}
export function channelOf(s) {
    return s.slice(0, s.indexOf(" "));
}
// identifierOf returns the identifier on the wire, of bars with the interval.
export function identifierOf(s) {
    return s.slice(s.indexOf(" ") + 1);
}
export function splitSeries(s) {
    return { channel: channelOf(s), instrument: identifierOf(s) };
}
// replays reports whether N of the series has no gaps, and the gateway replays it.
export function replays(s) {
    return s.startsWith("trades ") || s.startsWith("status ") || s.startsWith("bars ");
}
export function isPattern(s) {
    return s.includes("*");
}
// matches reports whether a pattern, or a series itself, includes a series.
export function matches(pattern, s) {
    if (pattern === s)
        return true;
    if (!isPattern(pattern) || channelOf(pattern) !== channelOf(s))
        return false;
    const parts = identifierOf(pattern).split("|");
    const of = identifierOf(s).split("|");
    return parts.length === of.length && parts.every((p, i) => p === "*" || p === of[i]);
}
// itemsOf checks a set and returns its items.
export function itemsOf(set) {
    checkMembers("a set of subscriptions", set, [...Object.keys(lists), "depth", "conflate"]);
    const { depth = 5, conflate } = set;
    if (!["all", 1, 5, 10, 25].includes(depth))
        throw new TypeError(`depth is ${depth}: must be 1, 5, 10, 25 or "all"`);
    if (conflate !== undefined && !["100ms", "250ms", "1s"].includes(conflate)) {
        throw new TypeError(`conflate is ${JSON.stringify(conflate)}: must be 100ms, 250ms or 1s`);
    }
    const items = new Map();
    for (const [list, channel] of Object.entries(lists)) {
        const ids = set[list] ?? [];
        if (!Array.isArray(ids))
            throw new TypeError(`${JSON.stringify(ids)} in ${list}: write a list, [${JSON.stringify(ids)}]`);
        for (const id of ids) {
            const o = {};
            if (channel === "order_book")
                o.depth = depth === "all" ? 0 : depth;
            if (conflate && (channel === "order_book" || channel === "quotes"))
                o.conflate = conflate;
            items.set(seriesOf(channel, id), o);
        }
    }
    return items;
}
// setOf returns the identifiers of items, sorted, without their options.
export function setOf(items) {
    const set = {};
    for (const s of [...items].sort()) {
        const list = channelOf(s) === "order_book" ? "books" : channelOf(s);
        (set[list] ??= []).push(identifierOf(s));
    }
    return set;
}
