import { Book } from "./book.js";
import { ConnectionError, RuedaError, closeError, closes, printable } from "./errors.js";
import { eventOf } from "./events.js";
import { read } from "./json.js";
import { Sequences } from "./sequences.js";
import { Sets } from "./sets.js";
import { identifierOf, matches } from "./subscriptions.js";
import { ms, now } from "./time.js";
import { bounded, text } from "./values.js";
// How often deadlines are checked. A check that is late by more than this much says that the program
// or the machine stood still, and not the gateway.
const tick = 200;
const lateness = 1000;
const defaultHeartbeat = 10_000;
/** One connection. */
export class Link {
    engine;
    url;
    sets;
    sequences;
    scope;
    access;
    ready = false; // authenticated
    over = false;
    abort = new AbortController(); // of what works for the connection
    #ws;
    #finish = () => undefined;
    #last; // which explains the close that follows
    #cause = ""; // what the platform says about a broken connection
    #began = now();
    #arrived = now(); // newest frame
    #data = now(); // newest message of the stream
    #pinged = 0; // 0: no ping without an answer
    #pingedAt = 0; // the newest ping, for the round trip
    #renewing = false;
    #checked = now();
    #heartbeat;
    constructor(engine, url, login) {
        this.engine = engine;
        this.url = url;
        this.access = login.access;
        this.scope = login.scope;
        this.sets = new Sets(this);
        this.sequences = new Sequences(this);
        this.#heartbeat = engine.options.heartbeat ?? defaultHeartbeat;
    }
    /** Authenticates and handles messages until the connection ends. Returns what ended it. */
    run(signal) {
        return new Promise((resolve) => {
            const ws = new this.engine.options.WebSocket(`${this.url.replace(/^http/, "ws")}/stream`);
            this.#ws = ws;
            const timer = setInterval(() => this.#check(), tick);
            const stop = () => this.end(new ConnectionError("stopped"));
            this.#finish = (err) => {
                clearInterval(timer);
                signal.removeEventListener("abort", stop);
                ws.onopen = ws.onmessage = ws.onclose = null;
                ws.onerror = () => undefined;
                this.abort.abort();
                resolve(err);
            };
            signal.addEventListener("abort", stop, { once: true });
            ws.onopen = () => this.#opened();
            ws.onmessage = (event) => this.#frame(event.data);
            // A close follows, except in some versions of Node.
            ws.onerror = (event) => {
                this.#cause = causeOf(event);
                setTimeout(() => this.end(this.#broken()), tick);
            };
            ws.onclose = (event) => {
                const err = closeError(event.code, event.reason, this.#last);
                this.end(event.code === 1006 && err.code === 0 ? this.#broken() : err);
            };
            if (signal.aborted)
                stop();
        });
    }
    /** Ends the connection. The first call says why. */
    end(err) {
        if (this.over)
            return;
        this.over = true;
        try {
            this.#ws?.close();
        }
        catch {
            // It is closed already.
        }
        this.#finish(err);
    }
    #broken() {
        return new ConnectionError(["the connection broke", this.#cause].filter(Boolean).join(": "));
    }
    send(message) {
        if (!this.over)
            this.#ws?.send(JSON.stringify(message));
    }
    #opened() {
        this.#arrived = now();
        this.engine.enter("authenticating", this.url);
        const { session, strict } = this.engine.options;
        this.send({ action: "auth_token", token: this.access, session, slow: strict ? "strict" : "conflate" });
    }
    // check acts on what is due.
    #check() {
        const at = now();
        const late = at - this.#checked - tick;
        this.#checked = at;
        if (late > lateness) {
            // Frames may wait for the program. They come before the next check.
            this.#began += late;
            this.#arrived += late;
            this.#data += late;
            if (this.#pinged)
                this.#pinged += late;
            return;
        }
        if (!this.ready) {
            if (at - this.#began >= ms.dial)
                this.end(new ConnectionError("no answer"));
            return;
        }
        if (this.#pinged && at - this.#pinged >= this.#heartbeat)
            return this.end(new ConnectionError("the connection is silent"));
        if (this.sets.sent.size > 0 && at - this.#data >= ms.streamSilence)
            return this.end(new ConnectionError("the stream is silent"));
        if (!this.#pinged && at - this.#arrived >= this.#heartbeat) {
            this.#pinged = this.#pingedAt = at;
            this.send({ action: "ping" });
        }
        this.sets.due(at);
        if (!this.#renewing && this.engine.tokens.untilRenewal() <= 0)
            void this.#renew();
    }
    // renew renews the tokens, and then authenticates the connection again.
    async #renew() {
        this.#renewing = true;
        try {
            const login = await this.engine.tokens.get(this.abort.signal);
            if (login.access !== this.access) {
                this.access = login.access;
                this.send({ action: "auth_token", token: login.access });
            }
        }
        catch (err) {
            this.end(err);
        }
        finally {
            this.#renewing = false;
        }
    }
    #frame(data) {
        if (this.over)
            return;
        try {
            if (typeof data !== "string")
                throw new SyntaxError("a message is binary");
            this.#receive(read(data));
        }
        catch (err) {
            this.end(new ConnectionError(`message not understood: ${err.message}`, { cause: err }));
        }
    }
    #receive(m) {
        const at = now();
        this.#arrived = this.engine.health.link = at;
        this.#pinged = 0;
        if ("action" in m) {
            if (m.action === "ping")
                this.send({ action: "pong" });
            else if (m.action === "pong")
                this.#pong(m, at);
            return;
        }
        switch (m.type) {
            case "Success":
                return this.#success(m);
            case "Subscription":
                this.#streamed(at);
                return this.sets.acknowledged(m);
            case "CaughtUp":
                this.#streamed(at);
                return this.sequences.caughtUp(text(m.position ?? ""));
            case "Alive":
                this.#streamed(at);
                return this.sequences.alive(m, at);
            case "Warning":
                return this.#warning(m);
            case "Error":
                return this.#refused(m);
        }
        const event = eventOf(m, Date.now());
        if (event) {
            this.#streamed(at);
            this.engine.health.note(event.instrument, at);
            this.#event(event);
        }
    }
    #streamed(at) {
        this.#data = this.engine.health.data = at;
    }
    #event(event) {
        switch (event.type) {
            case "quote":
            case "summary":
                return this.#state(event.type === "quote" ? `quotes ${event.instrument}` : `summary ${event.instrument}`, event);
            case "book":
                return this.#book(event);
            case "trade":
                return this.sequences.numbered(`trades ${event.instrument}`, { n: event.n, event, snapshot: false });
            case "bar":
                return this.sequences.numbered(`bars ${event.instrument}|${event.interval}`, { n: event.n, event, snapshot: false });
            case "status":
                this.#status(event);
                return this.sequences.numbered(`status ${event.instrument}`, { n: event.n, event, snapshot: event.snapshot });
        }
    }
    // state handles a quote or a summary, of which only the newest matters.
    #state(s, event) {
        const cursor = this.engine.cursor(s);
        if (!event.snapshot && event.n <= cursor.n)
            return;
        cursor.n = event.n;
        this.sequences.push(s, event.n, event);
    }
    #book(u) {
        const s = `order_book ${u.instrument}`;
        let book = this.engine.books.get(s);
        if (!book)
            this.engine.books.set(s, (book = new Book()));
        const fault = book.apply(u);
        if (!fault) {
            this.sequences.push(s, u.n, u);
            return;
        }
        if (fault !== "invalid")
            this.engine.report({ type: "bookInvalid", instrument: u.instrument, reason: fault });
        this.sets.resync(s);
    }
    // status records a status. While a feed is interrupted, its books are not known.
    #status(s) {
        this.engine.health.status(s);
        if (s.phase !== "feed_down")
            return;
        const which = `order_book ${s.instrument}`;
        for (const [series, book] of this.engine.books) {
            if (matches(which, series))
                this.engine.invalidate(series, book, s.phase);
        }
    }
    #pong(m, at) {
        const sent = Date.parse(m.time);
        if (!this.#pingedAt || Number.isNaN(sent))
            return;
        const trip = at - this.#pingedAt;
        this.engine.health.roundTrip = trip;
        this.engine.health.clockOffset = sent - (Date.now() - trip / 2);
    }
    #success(m) {
        if (this.ready)
            return; // a re-authentication
        this.ready = true;
        const half = bounded(m.heartbeat?.interval * 500, defaultHeartbeat);
        if (this.engine.options.heartbeat === undefined && half > 0)
            this.#heartbeat = Math.max(half, ms.minHeartbeat);
        this.#data = now();
        this.sets.limit(bounded(m.limits?.message_bytes, Infinity));
        this.sets.prune();
        for (const c of this.engine.series.values())
            c.first = c.n > 0 ? c.n + 1 : 0;
        this.engine.enter("syncing", this.url);
        this.sets.reconcile();
        this.settle();
    }
    /** Enters live when nothing is missing any more. */
    settle() {
        if (this.over || this.sets.waits() || this.sequences.replaying > 0)
            return;
        this.engine.bound = 0;
        this.engine.enter("live", this.url);
    }
    #warning(m) {
        if (m.reason === "shutting_down")
            this.engine.reconnectAt = now() + bounded(m.reconnect_in_ms, ms.maxRequested);
        if (m.reason === "token_expiring")
            this.engine.tokens.renewWithin(bounded(m.expires_in * 800, ms.maxLife));
        this.engine.report({ type: "notice", reason: printable(m.reason), msg: printable(m.msg), hint: undefined });
    }
    // refused handles an Error. One without an answer to a request explains the close that follows.
    #refused(m) {
        const { code, msg, hint, retry_after = 0 } = m;
        const reason = text(m.reason);
        const retry = m.retry === true;
        this.#last = new RuedaError({ code: bounded(code, 999), reason, msg, ...(hint && { hint }), retryAfter: bounded(retry_after * 1000, ms.maxRequested), retry });
        if (m.id !== undefined && reason === "internal")
            return this.end(new ConnectionError("the gateway could not complete a resume"));
        if (this.sets.refused(m, this.#last.retryAfter))
            return;
        if (closes(reason))
            return; // the close follows
        if (!this.ready)
            return this.end(this.#last); // in place of a Success
        this.engine.report({ type: "notice", reason: this.#last.reason, msg: printable(msg), hint: this.#last.hint });
    }
    /** Reports a refused identifier. */
    reject(r, removed) {
        const channel = printable(r.channel);
        const instrument = printable(r.instrument);
        const msg = printable(r.msg) || undefined;
        const hint = printable(r.hint) || undefined;
        this.engine.report({ type: "rejected", channel, instrument, reason: printable(r.reason), msg, hint, removed });
    }
    /** Reports the refusal of a whole request for one series. */
    rejectSeries(s, m) {
        const { reason, msg, hint } = m;
        this.reject({ channel: s.slice(0, s.indexOf(" ")), instrument: identifierOf(s), reason, msg, ...(hint && { hint }) }, false);
    }
}
// causeOf returns what the platform says about a connection that broke. Node 22 names no cause.
function causeOf(event) {
    const text = printable(event.message);
    return text.startsWith("Received network error") ? "the WebSocket could not connect. Is the gateway running there?" : text;
}
