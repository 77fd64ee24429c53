const intervals = new Set(["1s", "1m", "5m", "15m", "1h", "1d"]);
const symbol = /^(?:\*|[!#-)+\-.-:<-[\]-{}~]{1,32})$/;
const part = /^(?:\*|[A-Za-z0-9][A-Za-z0-9._-]{0,15})$/;
const lists = { trades: "trades", quotes: "quotes", books: "order_book", status: "status", summary: "summary", bars: "bars" };
const channels = new Set(Object.values(lists));
// seriesOf returns a series, or throws a TypeError if the identifier is not one.
export function seriesOf(channel, id) {
    const parts = id.split("|");
    const interval = channel === "bars" ? parts.pop() : "1m";
    const ok = parts.length === 3 && symbol.test(parts[0]) && part.test(parts[1]) && part.test(parts[2]);
    if (!ok || !intervals.has(interval) || !channels.has(channel)) {
        const form = channel === "bars" ? "SYMBOL|MARKET|TERM|INTERVAL" : "SYMBOL|MARKET|TERM";
        throw new TypeError(`${JSON.stringify(id)} in ${channel} is not of the form ${form}`);
    }
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
    const { depth = 5, conflate } = set;
    if (!["all", 1, 5, 10, 25].includes(depth))
        throw new TypeError(`depth ${depth}: it is 1, 5, 10, 25 or "all"`);
    if (conflate !== undefined && !["100ms", "250ms", "1s"].includes(conflate)) {
        throw new TypeError(`conflate ${JSON.stringify(conflate)}: it is 100ms, 250ms or 1s`);
    }
    const items = new Map();
    for (const [list, channel] of Object.entries(lists)) {
        for (const id of set[list] ?? []) {
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
