import { Decimal } from "./decimal.js";
import type * as wire from "./messages.js";
/** What all market data has. */
export interface Header {
    /** SYMBOL|MARKET|TERM; of a status perhaps *|MARKET|*, the market as a whole. */
    instrument: string;
    /** Number in the channel of the instrument, within an epoch. */
    n: number;
    /** Time at the market: RFC 3339 in UTC with nine fraction digits, so that times sort as text. */
    time: string;
    /** From time to publication, in ns. */
    latency: number | undefined;
    /** Of delayed data, in s; 0: real time. */
    delay: number;
    /** When this program received it: Date.now(). */
    received: number;
    /** True if it was missed before, and was sent again after a reconnect or a gap. */
    replayed: boolean;
}
/** A price and the size there. */
export interface Level {
    price: Decimal;
    size: Decimal;
    /** Number of orders, if the market counts them. */
    orders: number | undefined;
}
/** A trade, a cancel or a correction, as kind says. */
export interface Trade extends Header {
    type: "trade";
    kind: "trade" | "cancel" | "correction";
    price: Decimal;
    size: Decimal;
    /** The market's id of the trade. */
    id: string | undefined;
    aggressor: "buyer" | "seller" | undefined;
    conditions: string[];
    /** Of a correction. */
    oldPrice: Decimal | undefined;
    oldSize: Decimal | undefined;
    /** Of a cancel or a correction: n of the trade. */
    of: number | undefined;
}
/** The best bid and offer. */
export interface Quote extends Header {
    type: "quote";
    /** True: the current state, not a new event. */
    snapshot: boolean;
    bid: Level | undefined;
    ask: Level | undefined;
}
/** An order book or changes to it. Book applies it. */
export interface BookUpdate extends Header {
    type: "book";
    /** True: the whole book. False: changed levels, and a level of size 0 is removed. */
    snapshot: boolean;
    /** Of a snapshot: levels of each side; 0: all. */
    depth: number;
    /** Of a change: n of the update before. */
    previous: number;
    bids: Level[];
    asks: Level[];
    checksum: number;
}
/** A phase of trading, or the state of the feed. */
export interface Status extends Header {
    type: "status";
    snapshot: boolean;
    phase: string;
    reason: string | undefined;
    /** Next expected change. */
    until: string | undefined;
}
/** The figures of a summary or bar. */
export interface Figures extends Header {
    open: Decimal | undefined;
    high: Decimal | undefined;
    low: Decimal | undefined;
    volume: Decimal;
    turnover: Decimal;
    trades: number;
    average: Decimal | undefined;
}
/** The figures of the trading day. */
export interface Summary extends Figures {
    type: "summary";
    snapshot: boolean;
    last: Decimal | undefined;
    /** Of the day before. */
    previousClose: Decimal | undefined;
    settlement: Decimal | undefined;
    openInterest: Decimal | undefined;
}
/** The trades of an interval, which began at time. */
export interface Bar extends Figures {
    type: "bar";
    interval: wire.Interval;
    /** Date of the trading day that it belongs to, such as "2026-11-20". */
    tradingDate: string | undefined;
    close: Decimal | undefined;
    /** True: it revises a bar that was sent before. */
    revision: boolean;
}
/** State of the stream, in the usual order. */
export type State = "idle" | "connecting" | "authenticating" | "syncing" | "live" | "waiting" | "closed";
/** The stream is in another state. */
export interface StateChange {
    type: "state";
    state: State;
    url: string;
    /** What ended the connection, in waiting and closed. */
    error: Error | undefined;
    /** Until the next attempt, in ms. */
    wait: number | undefined;
}
/** A range that was missed has been delivered. */
export interface Recovered {
    type: "recovered";
    channel: wire.Channel;
    instrument: string;
    from: number;
    to: number;
    /** True: from REST. False: by a resume. */
    history: boolean;
}
/** A range that cannot be delivered. */
export interface Lost {
    type: "lost";
    channel: wire.Channel;
    instrument: string;
    /** First n; undefined: unknown. */
    from: number | undefined;
    /** Last n; undefined: unknown, as in a new epoch. */
    to: number | undefined;
    /** In history: the time of the row before the range; undefined: unknown. */
    start?: string | undefined;
    /** In history: the time of the row after the range; undefined: unknown. */
    end?: string | undefined;
    reason: string;
}
/** A book is not known until its next snapshot. */
export interface BookInvalid {
    type: "bookInvalid";
    instrument: string;
    reason: string;
}
/** The gateway refuses an identifier, or has removed it. */
export interface Rejected {
    type: "rejected";
    channel: string;
    instrument: string;
    reason: string;
    msg: string | undefined;
    hint: string | undefined;
    /** True: a right was lost. */
    removed: boolean;
}
/** Data has another delay from now on. */
export interface Delayed {
    type: "delayed";
    channel: string;
    instrument: string;
    /** In s; 0: real time. */
    delay: number;
}
/** A warning of the gateway, such as slow_client, or of the client, such as tokens_not_stored. */
export interface Notice {
    type: "notice";
    reason: string;
    msg: string | undefined;
    hint: string | undefined;
}
/** Market data. */
export type MarketEvent = Trade | Quote | BookUpdate | Status | Summary | Bar;
/** An element of the stream. Its type says which one. */
export type Event = MarketEvent | StateChange | Recovered | Lost | BookInvalid | Rejected | Delayed | Notice;
/** Data messages of the stream and rows of history. */
export type DataMessage = wire.Trade | wire.Cancel | wire.Correction | wire.Quote | wire.BookSnapshot | wire.BookUpdate | wire.Status | wire.Summary | wire.Bar;
/** Converts a data message; undefined: this version does not know it. Throws a ProtocolError. */
export declare function eventOf(m: DataMessage, received: number, replayed?: boolean): MarketEvent | undefined;
