import type { Channel } from "./messages.js";
/**
 * A set of subscriptions. An identifier is SYMBOL|MARKET|TERM, and * may stand for a whole part.
 * Identifiers of bars have an interval as a fourth part: GGAL|BYMA|24hs|5m. A pattern of books
 * stands for the instruments that are listed when the client connects or subscribes, as the gateway
 * sends books of single instruments only.
 */
export interface Subscriptions {
    trades?: string[];
    quotes?: string[];
    books?: string[];
    status?: string[];
    summary?: string[];
    bars?: string[];
    /** Levels of each side of books; "all": whole books. By default 5. */
    depth?: 1 | 5 | 10 | 25 | "all";
    /** Interval in which the newest quote and book is sent. By default every change is. */
    conflate?: "100ms" | "250ms" | "1s";
}
/** A channel of an instrument or a pattern: "trades GGAL|BYMA|24hs", "bars GGAL|BYMA|24hs|5m". */
export type Series = `${Channel} ${string}`;
/** Options of a subscription, as on the wire. */
export interface ItemOptions {
    depth?: number;
    conflate?: string;
}
export declare const isChannel: (name: string) => name is Channel;
export declare function seriesOf(channel: Channel, id: string): Series;
export declare function channelOf(s: Series): Channel;
export declare function identifierOf(s: Series): string;
export declare function splitSeries(s: Series): {
    channel: Channel;
    instrument: string;
};
export declare function replays(s: Series): boolean;
export declare function isPattern(s: Series): boolean;
export declare function matches(pattern: Series, s: Series): boolean;
export declare function itemsOf(set: Subscriptions): Map<Series, ItemOptions>;
export declare function setOf(items: Iterable<Series>): Subscriptions;
