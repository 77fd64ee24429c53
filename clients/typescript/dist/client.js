import { Book } from "./book.js";
import { Connector } from "./connect.js";
import { Engine } from "./engine.js";
import { ProtocolError } from "./errors.js";
import { eventOf } from "./events.js";
import { Health } from "./health.js";
import { listOf, rowsOf } from "./history.js";
import { parseURL, settingsOf } from "./options.js";
import { Queue } from "./queue.js";
import { Rest } from "./rest.js";
import { itemsOf, seriesOf, setOf } from "./subscriptions.js";
import { momentOf } from "./time.js";
import { TokenKeeper } from "./tokens.js";
import { checkMembers } from "./values.js";
/** A user's access to a gateway. It connects to nothing before its first use. */
export class Client {
    #rest;
    #tokens;
    #queue;
    #engine;
    #health = new Health();
    #desired = new Map();
    #books = new Map();
    #requireComplete;
    #running = false;
    #current; // in progress
    /** Takes one or more URLs such as https://api.broker.example. Throws a TypeError. */
    constructor(urls, options = {}) {
        const settings = settingsOf(options);
        const list = (Array.isArray(urls) ? urls : [urls]).map((url) => parseURL(url, options.insecure ?? false));
        if (list.length === 0)
            throw new TypeError("no URL");
        this.#requireComplete = options.requireComplete ?? false;
        this.#rest = new Rest(list, options.fetch ?? globalThis.fetch.bind(globalThis));
        this.#queue = new Queue(options.queue ?? 8192, options.overflow ?? "conflate");
        const warn = (reason, err) => {
            this.#engine.report({ type: "notice", reason, msg: err instanceof Error ? err.message : String(err), hint: undefined });
        };
        this.#tokens = new TokenKeeper(this.#rest, settings, warn);
        this.#engine = new Engine(settings, this.#rest, this.#tokens, this.#queue, this.#desired, this.#books, this.#health);
    }
    /**
     * Connects the stream and iterates over its events until the signal is aborted or the loop is
     * left. A later call continues where this one stopped. Throws a RuedaError if the gateway refuses
     * the client for good.
     */
    async *events(signal) {
        if (this.#running)
            throw new TypeError("another loop reads the events of this client: make another client for a second loop");
        this.#running = true;
        this.#processed();
        const stop = new AbortController();
        const abort = () => stop.abort();
        if (signal?.aborted)
            abort();
        signal?.addEventListener("abort", abort, { once: true });
        const end = { over: false };
        const finished = new AbortController(); // of run, or by the program
        stop.signal.addEventListener("abort", () => finished.abort(), { once: true });
        const run = new Connector(this.#engine)
            .run(stop.signal)
            .catch((err) => (end.error = err))
            .finally(() => {
            end.over = true;
            finished.abort();
        });
        try {
            while (!stop.signal.aborted) {
                const e = (this.#current = this.#take());
                if (e) {
                    if (e.event)
                        yield e.event;
                    this.#processed();
                }
                else if (end.over) {
                    break;
                }
                else {
                    await this.#queue.ready(finished.signal);
                }
            }
        }
        finally {
            stop.abort();
            signal?.removeEventListener("abort", abort);
            await run;
            this.#running = false;
        }
        if (end.error !== undefined)
            throw end.error;
    }
    // processed marks the entry in progress as processed.
    #processed() {
        if (this.#current)
            this.#engine.processed(this.#current);
        this.#current = undefined;
    }
    // take takes the next entry of the queue. A merged book gets its levels.
    #take() {
        for (;;) {
            const e = this.#queue.take();
            if (!e?.merged)
                return e;
            const u = e.event;
            const b = this.#books.get(e.series);
            if (!b?.valid || b.n !== u.n)
                continue; // the queue has a bookInvalid after it
            return { ...e, event: { ...u, snapshot: true, depth: b.depth, previous: 0, bids: b.bids(), asks: b.asks() } };
        }
    }
    /**
     * Adds to the set of subscriptions, and replaces the options of those that it has. The stream
     * follows as soon as it is connected. Throws a TypeError, and then changes nothing.
     */
    subscribe(set) {
        for (const [s, options] of itemsOf(set))
            this.#desired.set(s, options);
        this.#engine.changed();
    }
    /**
     * Removes from the set exactly these identifiers. Events that the gateway has already sent may
     * still come.
     */
    unsubscribe(set) {
        for (const s of itemsOf(set).keys())
            this.#desired.delete(s);
        this.#engine.changed();
    }
    /** Returns the set, sorted, without its options. */
    subscriptions() {
        return setOf(this.#desired.keys());
    }
    /**
     * Returns the book of an instrument to which the set subscribes, as new as what the client has
     * received. It changes with the next update. Returns undefined if the book is not known at
     * present or not in the set, because a page may be painted before it subscribes.
     */
    book(instrument) {
        const b = this.#books.get(seriesOf("order_book", instrument));
        return b?.valid ? b : undefined;
    }
    /** Returns what is alive. */
    health() {
        return this.#health.report(this.#books, this.#queue.count);
    }
    /**
     * Returns what the body of the loop over events has processed, without the event in progress. An
     * event is in progress until the loop asks for the next one. After a break, that is when the
     * program calls events again. See Options.resume.
     */
    checkpoint() {
        return this.#engine.checkpoint();
    }
    /** Makes sure that there is a valid login. Other methods do that themselves. */
    async login() {
        await this.#tokens.get();
    }
    /**
     * Ends the login with its tokens, and so the streams that use it. It is the login of the store if
     * the client has not used it yet.
     */
    logout() {
        return this.#tokens.end();
    }
    /** Requests a path of REST, such as /market/status, and returns the data of the answer. */
    get(path, query = {}) {
        return this.#rest.call({ method: "GET", path, query }, this.#tokens);
    }
    /**
     * Requests a path of REST, such as /market/export, and returns the answer. Its body is not read yet,
     * and may be of any length. The module for Node.js writes exports to files.
     */
    open(path, query = {}, signal) {
        return this.#rest.open({ method: "GET", path, query, signal }, this.#tokens);
    }
    /** Iterates over stored trades, cancels and corrections. */
    trades(instrument, range = {}) {
        return this.#rows(seriesOf("trades", instrument), range);
    }
    /** Iterates over stored quotes. */
    quotes(instrument, range = {}) {
        return this.#rows(seriesOf("quotes", instrument), range);
    }
    /** Iterates over stored statuses. */
    statuses(instrument, range = {}) {
        return this.#rows(seriesOf("status", instrument), range);
    }
    /** Iterates over stored bars, including revisions. */
    bars(instrument, interval, range = {}) {
        return this.#rows(seriesOf("bars", `${instrument}|${interval}`), range);
    }
    #rows(s, range) {
        const ifLost = (range.requireComplete ?? this.#requireComplete) ? "throw" : "warn";
        return rowsOf(this.#rest, this.#tokens, s, range, ifLost);
    }
    /** Iterates over the instruments of the catalogue. text is a part of symbol, name or ISIN. */
    instruments(filter = {}) {
        checkMembers("a filter", filter, ["market", "term", "kind", "text"]);
        const { text, ...query } = filter;
        return listOf(this.#rest, this.#tokens, "/market/instruments", "instruments", { ...query, ...(text !== undefined && { q: text }) });
    }
    /** Iterates over the accounts of the user. */
    accounts() {
        return listOf(this.#rest, this.#tokens, "/broker/accounts", "accounts", {});
    }
    /** Returns the book of an instrument from REST: now, or at a time, as in Range, that the journal has. */
    async bookAt(instrument, options = {}) {
        checkMembers("the options of bookAt", options, ["depth", "at"]);
        const data = (await this.get("/market/book", { instrument, ...options, at: momentOf("at", options.at) }));
        const book = new Book();
        const event = eventOf(data, Date.now());
        if (event?.type !== "book" || book.apply(event))
            throw new ProtocolError("the answer has no valid book");
        return book;
    }
}
