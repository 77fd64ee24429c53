import type { Decimal } from "./decimal.js";
/**
 * Authenticates the connection. Later, it replaces the token. It is the first message of a
 * client.
 */
export type AuthToken = {
    action: "auth_token";
    /** Repeated in the answer. */
    id?: RequestID;
    /** The access token of POST /auth/token. */
    token: string;
    /** Takes over the connection with this name of the same user. */
    session?: SessionName;
    /**
     * What happens if the client reads too slowly: quotes, books and summaries are conflated, or
     * nothing is.
     */
    slow?: "conflate" | "strict";
};
/** Adds identifiers to the set of subscriptions, or replaces the set. */
export type Subscribe = {
    action: "subscribe";
    /** Repeated in the answer. */
    id?: RequestID;
    /** Identifiers for the channel trades. */
    trades?: InstrumentPattern[];
    /** Identifiers for the channel quotes. */
    quotes?: InstrumentPattern[];
    /** Identifiers for the channel order_book. */
    order_book?: InstrumentPattern[];
    /** Identifiers for the channel status. */
    status?: InstrumentPattern[];
    /** Identifiers for the channel summary. */
    summary?: InstrumentPattern[];
    /** Identifiers for the channel bars. */
    bars?: BarsIdentifier[];
    /** Interval of the bars whose identifiers name none, 1m by default. Only together with bars. */
    interval?: Interval;
    /** Levels of a side of order_book, 0 for all, 5 by default. */
    depth?: Depth;
    /** Least time between two messages of an instrument in quotes and order_book. */
    conflate?: "none" | "100ms" | "250ms" | "1s";
    /** False: no snapshots of quotes, books, statuses and summaries. */
    snapshot?: boolean;
    /** True: the message is the whole set. False: it adds to the set. */
    replace?: boolean;
    /** True: the server sends Alive every 15 s on this connection. False: no longer. */
    alive?: boolean;
    /**
     * What the client has already received. The server sends what follows. Not together with
     * start.
     */
    resume?: {
        /** Epoch of what the client has. */
        epoch: Epoch;
        /** Newest position that the client has, for identifiers without an N. */
        position?: Position;
        /** The newest N that the client has, by identifier of the message. */
        trades?: Record<string, number>;
        /** The newest N that the client has, by identifier of the message. */
        quotes?: Record<string, number>;
        /** The newest N that the client has, by identifier of the message. */
        order_book?: Record<string, number>;
        /** The newest N that the client has, by identifier of the message. */
        status?: Record<string, number>;
        /** The newest N that the client has, by identifier of the message. */
        summary?: Record<string, number>;
        /** The newest N that the client has, by identifier of the message. */
        bars?: Record<string, number>;
    };
    /**
     * Replays trades, statuses and bars from this time on, or from the open of the market today.
     * Not together with resume.
     */
    start?: unknown;
};
/** Removes identifiers from the set, exactly as they were written. Unknown ones are ignored. */
export type Unsubscribe = {
    action: "unsubscribe";
    /** Repeated in the answer. */
    id?: RequestID;
    /** Identifiers for the channel trades. */
    trades?: InstrumentPattern[];
    /** Identifiers for the channel quotes. */
    quotes?: InstrumentPattern[];
    /** Identifiers for the channel order_book. */
    order_book?: InstrumentPattern[];
    /** Identifiers for the channel status. */
    status?: InstrumentPattern[];
    /** Identifiers for the channel summary. */
    summary?: InstrumentPattern[];
    /** Identifiers for the channel bars. */
    bars?: BarsIdentifier[];
    /** Interval of the bars whose identifiers name none, 1m by default. Only together with bars. */
    interval?: Interval;
};
/** Requests the whole set of subscriptions. */
export type Subscriptions = {
    action: "subscriptions";
    /** Repeated in the answer. */
    id?: RequestID;
};
/** Requests new snapshots of subscribed books, quotes, statuses and summaries. */
export type Resync = {
    action: "resync";
    /** Repeated in the answer. */
    id?: RequestID;
    /** Identifiers for the channel quotes. */
    quotes?: InstrumentPattern[];
    /** Identifiers for the channel order_book. */
    order_book?: InstrumentPattern[];
    /** Identifiers for the channel status. */
    status?: InstrumentPattern[];
    /** Identifiers for the channel summary. */
    summary?: InstrumentPattern[];
};
/** Requests a pong. */
export type Ping = {
    action: "ping";
    /** Repeated in the answer. */
    id?: RequestID;
};
/** Answers all pings of the server before it. It never counts towards the rate limit. */
export type Pong = {
    action: "pong";
    /** Ignored: a pong has no answer. */
    id?: unknown;
};
/** Requests a fault of the connection or of the market, on development gateways only. */
export type SimRequest = {
    action: "sim";
    /** Repeated in the answer. */
    id?: RequestID;
    /** The fault. */
    fault: "gap" | "stall" | "slow_down" | "bad_checksum" | "token_expiry" | "disconnect" | "restart" | "drain" | "halt" | "auction" | "open" | "continuous" | "correction" | "cancel" | "bust" | "burst" | "crossed_book" | "crossed" | "close_market" | "close" | "clock_skew" | "feed_gap" | "feed_stall" | "sequence_reset" | "one_sided" | "jump" | "listing" | "list" | "speed" | "kill_leader" | "kill-leader" | (string & {});
    /** The instrument of the fault, for faults that take one. */
    instrument?: InstrumentID;
    /**
     * True: the other connections of the user have the fault, and not this one. Only for faults
     * of the connection.
     */
    others?: boolean;
    /**
     * With speed: seconds that pass on the market per second. If absent, the answer has the
     * current number.
     */
    speed?: Decimal;
};
/**
 * Answer to auth_token: the connection is authenticated. It begins with type, code and msg in
 * this order.
 */
export type Success = {
    type: "Success";
    code: 200;
    msg: "Connected";
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** Present if the request named the session. */
    session?: SessionName;
    /** Version of the gateway. */
    version: string;
    /** The gateway's clock. */
    time: Time;
    /** Seconds until the token expires. */
    expires_in: number;
    /** Heartbeat of the connection. */
    heartbeat: {
        /** Seconds between pings of the gateway. */
        interval: number;
        /** Seconds within which a pong must arrive. */
        timeout: number;
    };
    /** Limits of the connection. */
    limits: {
        /** Identifiers in the set of subscriptions. */
        subscriptions: number;
        /** Messages of the client a second. */
        messages_per_second: number;
        /** Units of work of the user's messages that recover in a second. */
        work_per_second: number;
        /** Units of work that the user's messages may cost at once. */
        work: number;
        /** Bytes of a message of the client. */
        message_bytes: number;
        /** Bytes of the longest message of the gateway. */
        max_message_bytes: number;
        /** Connections of the user at the same time. */
        connections: number;
        /** Greatest depth of order books, 0 for all levels. Absent: no order books. */
        max_depth?: Depth;
    };
    /** The connection was authenticated before. Absent otherwise. */
    reauth?: true;
};
/**
 * Answer to subscribe, unsubscribe, subscriptions and resync. The server also sends it if the
 * set changes for another reason.
 */
export type Subscription = {
    type: "Subscription";
    code: 200;
    /** What was done: Subscribed, Unsubscribed, Resynced, Subscriptions, Rights changed or Epoch. */
    msg: string;
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** Epoch of the sequence numbers. */
    epoch: Epoch;
    /** Point in the stream up to which the client has everything. Absent while it is unknown. */
    position?: Position;
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern trades.
     */
    trades?: InstrumentPattern[];
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern quotes.
     */
    quotes?: InstrumentPattern[];
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern order_book.
     */
    order_book?: InstrumentPattern[];
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern status.
     */
    status?: InstrumentPattern[];
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern summary.
     */
    summary?: InstrumentPattern[];
    /**
     * Accepted identifiers of the request as the client wrote them, or those that the set has.
     * Absent: the request did not concern bars.
     */
    bars?: BarsIdentifier[];
    /** Instruments that the set covers now, by channel. Present with the lists. */
    count?: {
        trades?: number;
        quotes?: number;
        order_book?: number;
        status?: number;
        summary?: number;
        bars?: number;
    };
    /** Interval of the listed bars whose identifiers name none. Absent without such bars. */
    interval?: Interval;
    /** Identifiers that were refused. Absent: none. */
    rejected?: Rejection[];
    /** Identifiers that the server removed from the set. Absent: none. */
    removed?: Removal[];
    /** Identifiers whose data have another delay from now on. Absent: none. */
    moved?: Move[];
    /**
     * The N up to which a resume or start replays, or the current N of what was subscribed
     * before. Absent: nothing is resumed.
     */
    resumed?: SequencesByChannel;
    /** Missed messages that are not replayed, by channel and identifier. Absent: none. */
    lost?: {
        trades?: LostMap;
        quotes?: LostMap;
        order_book?: LostMap;
        status?: LostMap;
        summary?: LostMap;
        bars?: LostMap;
    };
};
/** The replay of a subscribe with resume or start has ended. Live messages follow. */
export type CaughtUp = {
    type: "CaughtUp";
    code: 200;
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** Epoch of the sequence numbers. */
    epoch: Epoch;
    /** Point in the stream up to which the client has everything. Absent while it is unknown. */
    position?: Position;
    /** The N up to which messages were replayed. Absent: none were. */
    resumed?: SequencesByChannel;
};
/**
 * Mark that the stream works although instruments are quiet, every 15 s after a subscribe with
 * alive. It never overtakes data.
 */
export type Alive = {
    type: "Alive";
    /** Epoch of the sequence numbers. */
    epoch: Epoch;
    /** Point in the stream up to which the client has everything. Absent while it is unknown. */
    position?: Position;
    /** The newest N of instruments that were quiet since the last mark, at most 500. */
    last: SequencesByChannel;
};
/** The token expires soon. Refresh it over REST, or send auth_token with a new one. */
export type TokenExpiring = {
    type: "Warning";
    code: 200;
    reason: "token_expiring";
    /** The warning, for people. */
    msg: string;
    /** Seconds until the token expires. */
    expires_in: number;
};
/** The client reads too slowly. It is closed with slow_client if that continues. */
export type SlowClient = {
    type: "Warning";
    code: 200;
    reason: "slow_client";
    /** The warning, for people. */
    msg: string;
    /** Milliseconds that the client is behind. */
    behind_ms: number;
    /** Messages that wait for the client. */
    queued: number;
};
/** The server is about to close the connection with shutting_down. Data continue until then. */
export type ShuttingDown = {
    type: "Warning";
    code: 200;
    reason: "shutting_down";
    /** The warning, for people. */
    msg: string;
    /** Milliseconds until the connection is closed, when the client should reconnect. */
    reconnect_in_ms: number;
};
/**
 * A request failed, or the connection is about to be closed. The code of the close frame is
 * then 4000 + code and its text is reason.
 */
export type Error = {
    type: "Error";
    /** Code of the reason, as in HTTP. */
    code: 400 | 401 | 403 | 404 | 408 | 409 | 413 | 422 | 429 | 500 | 503 | 504 | 507;
    /** Stable word to branch on. New words may be added. */
    reason: "bad_json" | "bad_field" | "bad_instrument" | "invalid_token" | "token_expired" | "token_revoked" | "address_not_allowed" | "forbidden" | "not_entitled" | "unknown_channel" | "subscription_limit" | "unknown_instrument" | "range_too_large" | "unsupported_option" | "rate_limited" | "connection_limit" | "too_many_failures" | "internal" | "unavailable" | "overloaded" | "shutting_down" | "bad_message" | "unknown_action" | "not_authenticated" | "subject_mismatch" | "auth_timeout" | "replaced" | "message_too_big" | "pong_timeout" | "slow_client" | (string & {});
    /** What is wrong, for people. */
    msg: string;
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** True: the same request may succeed later. */
    retry: boolean;
    /** Seconds after which to retry. Absent: unknown. */
    retry_after?: number;
    /** What to do, for people. Absent: the server has no suggestion. */
    hint?: string;
    /** Every identifier of the request, if all are refused. */
    rejected?: Rejection[];
    /**
     * The N that the client will have received, of at most 1,000 instruments with waiting
     * messages. Present with slow_client.
     */
    last?: SequencesByChannel;
};
/** Answer to sim: the fault follows. */
export type Sim = {
    type: "Sim";
    code: 200;
    /** What will happen, for people. */
    msg: string;
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** Name of the fault. */
    fault: "gap" | "stall" | "slow_down" | "bad_checksum" | "token_expiry" | "disconnect" | "restart" | "halt" | "auction" | "open" | "correction" | "cancel" | "burst" | "crossed_book" | "close_market" | "clock_skew" | "feed_gap" | "feed_stall" | "sequence_reset" | "one_sided" | "jump" | "listing" | "speed" | "kill_leader" | (string & {});
    /** With speed: seconds that pass on the market per second. */
    speed?: Decimal;
};
/** Heartbeat of the server, to be answered with pong. It always has exactly these bytes. */
export type ServerPing = {
    action: "ping";
};
/** Answer to a ping of the client. */
export type ServerPong = {
    action: "pong";
    /** The id of the request. Absent if it had none. */
    id?: RequestID;
    /** The gateway's clock. */
    time: Time;
};
/** A trade. */
export type Trade = {
    type: "T";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** Price. */
    P: Price;
    /** Size. */
    Z: Size;
    /** The market's id of the trade. */
    X?: string;
    /** Aggressor: B is the buyer, S the seller. Absent: unknown. */
    G?: "B" | "S";
    /** Words of the market about the trade. */
    C?: string[];
};
/** A trade is cancelled. */
export type Cancel = {
    type: "X";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The market's id of the trade. */
    X?: string;
    /** Price of the cancelled trade. */
    P: Price;
    /** Size of the cancelled trade. */
    Z: Size;
    /** Aggressor: B is the buyer, S the seller. Absent: unknown. */
    G?: "B" | "S";
    /** Words of the market about the trade. */
    C?: string[];
    /** N of the trade. Absent: the trade is older than the epoch. */
    XN?: Sequence;
};
/** A trade is corrected. */
export type Correction = {
    type: "C";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The market's id of the trade. */
    X?: string;
    /** New price. */
    P: Price;
    /** New size. */
    Z: Size;
    /** Old price. */
    XP: Price;
    /** Old size. */
    XZ: Size;
    /** Aggressor: B is the buyer, S the seller. Absent: unknown. */
    G?: "B" | "S";
    /** Words of the market about the trade. */
    C?: string[];
    /** N of the trade. Absent: the trade is older than the epoch. */
    XN?: Sequence;
};
/** The whole best bid and offer. The members of an empty side are absent. */
export type Quote = {
    type: "Q";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The message is a snapshot, for a new subscriber or after a gap. */
    R?: true;
    /** Best bid. */
    BP?: Price;
    /** Size of the best bid. */
    BZ?: Size;
    /** Best ask. */
    AP?: Price;
    /** Size of the best ask. */
    AZ?: Size;
    /** Orders at the best bid. */
    BC?: number;
    /** Orders at the best ask. */
    AC?: number;
};
/** An order book, which replaces the one that the client has. */
export type BookSnapshot = {
    type: "O";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The message is a snapshot, for a new subscriber or after a gap. */
    R: true;
    DL: Depth;
    /** Bids, best first. */
    B: BookLevel[];
    /** Asks, best first. */
    A: BookLevel[];
    /** CRC-32 (IEEE) of the book after this message. */
    K: number;
};
/** Changes of the order book of the message whose N is L. */
export type BookUpdate = {
    type: "O";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** N of the message that this one changes. */
    L: Sequence;
    /** Changed bids, best first. Absent: none. */
    B?: BookLevel[];
    /** Changed asks, best first. Absent: none. */
    A?: BookLevel[];
    /** CRC-32 (IEEE) of the book after this message. */
    K: number;
};
/** Trading status of an instrument, or of a whole market (*|MARKET|*). */
export type Status = {
    type: "H";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    /** As in other messages; 0 in a state (R) of a market that has had no status. */
    N: number;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The message is a snapshot, for a new subscriber or after a gap. */
    R?: true;
    E: Phase;
    /** Reason, a word of the market. */
    Y?: string;
    /** When the status is expected to change. */
    U?: Time;
};
/** Summary of the trading day so far. */
export type Summary = {
    type: "D";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    /** The message is a snapshot, for a new subscriber or after a gap. */
    R?: true;
    /** First price. Absent without trades, as HI, LO and LA. */
    OP?: Price;
    /** Highest price. */
    HI?: Price;
    /** Lowest price. */
    LO?: Price;
    /** Close of the day before. */
    CL?: Price;
    /** Last price. */
    LA?: Price;
    TV: Volume;
    EV: Turnover;
    /** Number of trades. */
    TC: number;
    /** Average price: EV / TV. Absent without trades. */
    VW?: Price;
    /** Settlement price. */
    SE?: Price;
    /** Open interest. */
    OI?: Size;
};
/** Bar: the trades of an interval. T is its start. */
export type Bar = {
    type: "K";
    S: Symbol;
    I: InstrumentPattern;
    DE?: Delay;
    N: Sequence;
    T: Time;
    /**
     * Nanoseconds from T to publication. Absent if the market provides no time or has a virtual
     * clock, and in delayed data over REST.
     */
    D?: number;
    IV: Interval;
    TD?: TradingDate;
    /** First price. Absent without trades, as HI, LO and CL. */
    OP?: Price;
    /** Highest price. */
    HI?: Price;
    /** Lowest price. */
    LO?: Price;
    /** Last price. */
    CL?: Price;
    TV: Volume;
    EV: Turnover;
    /** Number of trades. */
    TC: number;
    /** Average price: EV / TV. Absent without trades. */
    VW?: Price;
    /** True: it revises a bar that was sent before. */
    R: boolean;
};
/** Text of up to 36 bytes or an integer. The answer repeats it exactly. */
export type RequestID = string | number;
/** Name of a session of the user. A newer connection with the same name takes over. */
export type SessionName = string;
/**
 * Identifier of an instrument or of several, as in InstrumentPattern. A fourth part names the
 * interval of the bars.
 */
export type BarsIdentifier = string;
/** An identifier as the client wrote it, valid or not. */
export type AnyIdentifier = string;
/** The newest N by identifier. */
export type SequenceMap = Record<string, number>;
/** The newest N of instruments, by channel and identifier. */
export type SequencesByChannel = {
    trades?: SequenceMap;
    quotes?: SequenceMap;
    order_book?: SequenceMap;
    status?: SequenceMap;
    summary?: SequenceMap;
    bars?: SequenceMap;
};
/** Lost messages by identifier. */
export type LostMap = Record<string, LostRange>;
/** Messages that are lost. */
export type LostRange = {
    /** First lost N. Absent: unknown. */
    from?: Sequence;
    /** Last lost N. Absent: unknown. */
    to?: Sequence;
    /** Why they are lost. */
    reason: "forbidden" | "epoch_changed" | "buffer_exceeded" | "ahead";
};
/** An identifier that was refused. */
export type Rejection = {
    channel: Channel;
    instrument: AnyIdentifier;
    /** Code of the reason, as in HTTP. */
    code: 400 | 401 | 403 | 404 | 408 | 409 | 413 | 422 | 429 | 500 | 503 | 504 | 507;
    /** Stable word to branch on. New words may be added. */
    reason: "bad_json" | "bad_field" | "bad_instrument" | "invalid_token" | "token_expired" | "token_revoked" | "address_not_allowed" | "forbidden" | "not_entitled" | "unknown_channel" | "subscription_limit" | "unknown_instrument" | "range_too_large" | "unsupported_option" | "rate_limited" | "connection_limit" | "too_many_failures" | "internal" | "unavailable" | "overloaded" | "shutting_down" | "bad_message" | "unknown_action" | "not_authenticated" | "subject_mismatch" | "auth_timeout" | "replaced" | "message_too_big" | "pong_timeout" | "slow_client" | (string & {});
    /** What is wrong, for people. */
    msg: string;
    /** What to do, for people. Absent: the server has no suggestion. */
    hint?: string;
};
/** An identifier that the server removed from the set. */
export type Removal = {
    channel: Channel;
    instrument: BarsIdentifier;
    /** Stable word to branch on. New words may be added. */
    reason: "bad_json" | "bad_field" | "bad_instrument" | "invalid_token" | "token_expired" | "token_revoked" | "address_not_allowed" | "forbidden" | "not_entitled" | "unknown_channel" | "subscription_limit" | "unknown_instrument" | "range_too_large" | "unsupported_option" | "rate_limited" | "connection_limit" | "too_many_failures" | "internal" | "unavailable" | "overloaded" | "shutting_down" | "bad_message" | "unknown_action" | "not_authenticated" | "subject_mismatch" | "auth_timeout" | "replaced" | "message_too_big" | "pong_timeout" | "slow_client" | (string & {});
};
/** An identifier whose data have another delay from now on. */
export type Move = {
    channel: Channel;
    instrument: BarsIdentifier;
    /** New delay in seconds, 0 for real time. */
    delay: number;
};
/** Identifier of an instrument: SYMBOL|MARKET|TERM. */
export type InstrumentID = string;
/** Identifier of an instrument, or of several: * can replace a whole part. */
export type InstrumentPattern = string;
/** Symbol of an instrument. It is * in the status of a whole market. */
export type Symbol = string;
/** Exact decimal with at most 15 significant digits: no exponent, no trailing zeros. */
export type Price = Decimal;
/** Exact decimal with at most 15 significant digits, not negative. */
export type Size = Decimal;
/** Exact sum of sizes, with at most 15 significant digits. */
export type Volume = Decimal;
/** Exact sum of prices times sizes, with at most 15 significant digits. */
export type Turnover = Decimal;
/** RFC 3339 in UTC with nine fraction digits, so that times sort as text. */
export type Time = string;
/** Date of a trading day, which is a calendar day in the time zone of its market. */
export type TradingDate = string;
/** Opaque name of a series of sequence numbers. */
export type Epoch = string;
/** Opaque name of a point in the whole stream, from which a client can resume. */
export type Position = string;
/** Sequence number of a message in its channel of its instrument, from 1 on within the epoch. */
export type Sequence = number;
/** Delay of the data in seconds. */
export type Delay = number;
/**
 * Trading status. It is unknown until a source that states it has stated one. The words
 * feed_down, feed_up and gap are about the source and not about trading.
 */
export type Phase = "pre_open" | "auction" | "open" | "quoting" | "halt" | "pause" | "suspended" | "pre_close" | "closed" | "post_close" | "feed_down" | "feed_up" | "gap" | "unknown" | (string & {});
/** Length of a bar. */
export type Interval = "1s" | "1m" | "5m" | "15m" | "1h" | "1d";
/** Kind of data that a client subscribes to. */
export type Channel = "trades" | "quotes" | "order_book" | "status" | "summary" | "bars";
/** Depth of an order book in levels, 0 for all levels. */
export type Depth = 0 | 1 | 5 | 10 | 25;
/**
 * Price level: price, size, and the number of orders if the market provides it. A size of 0 in
 * an update removes the level.
 */
export type BookLevel = [Price, Size, number?];
/** Members whose numbers are decimals. */
export declare const decimalMembers: {
    readonly AP: true;
    readonly AZ: true;
    readonly BP: true;
    readonly BZ: true;
    readonly CL: true;
    readonly EV: true;
    readonly HI: true;
    readonly LA: true;
    readonly LO: true;
    readonly OI: true;
    readonly OP: true;
    readonly P: true;
    readonly SE: true;
    readonly TV: true;
    readonly VW: true;
    readonly XP: true;
    readonly XZ: true;
    readonly Z: true;
    readonly speed: true;
};
/** Members with lists of levels, of which the first two numbers are decimals. */
export declare const levelMembers: {
    readonly A: true;
    readonly B: true;
};
