import { BehindError, ConnectionError, RuedaError, printable } from "./errors.js";
import { rowsOf } from "./history.js";
import { isPattern, matches, replays, splitSeries } from "./subscriptions.js";
import { text, whole } from "./values.js";
// Limits of a gap that is filled from history.
const maxFill = 1_000_000;
const maxHeld = 100_000; // messages that came meanwhile
/** The series of a connection whose numbers have no gaps: each message once, and in order. */
export class Sequences {
    link;
    replaying = 0; // resumes that are not complete
    constructor(link) {
        this.link = link;
    }
    /** Queues market data. If there is no space, the connection ends, and the next one resumes. */
    push(s, n, event) {
        if (this.link.over)
            return false;
        const ok = this.link.engine.queue.data(s, n, event);
        if (!ok)
            this.link.end(new BehindError());
        return ok;
    }
    /** Handles an event of a series without gaps. */
    numbered(s, x) {
        const { engine, sets } = this.link;
        const c = engine.cursor(s);
        if (x.n <= c.floor && !x.snapshot)
            return;
        if (c.fill) {
            if (c.fill.held.length === maxHeld)
                this.link.end(new ConnectionError("messages are missing"));
            else
                c.fill.held.push(x);
        }
        else if (c.known && x.n <= c.n) {
            if (x.snapshot)
                this.push(s, 0, x.event); // the state, not a new event
        }
        else if (!c.known || x.n === c.n + 1 || (s.startsWith("status ") && !sets.covered(s))) {
            this.#deliver(s, c, x);
        }
        else if (x.snapshot) {
            engine.report({ type: "lost", ...splitSeries(s), from: c.n + 1, to: x.n - 1, reason: "not_replayed" });
            this.#deliver(s, c, x);
        }
        else {
            this.#gap(s, c, x.n - 1);
            // It waits for the fill, or follows what is lost.
            if (!this.link.over)
                this.numbered(s, x);
        }
    }
    #deliver(s, c, x) {
        // What is subscribed by name is resumed if its number was known, or if the answer says so.
        const resumed = c.first > 0 || c.to > 0 || !this.link.sets.sent.has(s);
        const again = this.replaying > 0 && resumed && (c.to === 0 || x.n <= c.to);
        if (again)
            x.event.replayed = true;
        if (!this.push(s, x.n, x.event))
            return; // comes again
        if (again)
            c.first ||= x.n;
        c.n = x.n;
        c.known = true;
    }
    // gap begins to fill a gap up to a number. Without the right to history, or if history does not
    // have it, the connection ends, and the next one resumes after the newest number.
    #gap(s, c, to) {
        const from = c.n + 1;
        if (c.tried === from) {
            const sent = this.link.sets.sent.get(s);
            if (!sent?.rejected && !sent?.resumed)
                return this.#resumeFrom(c); // it is not resumed yet
            // Neither history nor a resume has it.
            this.link.engine.report({ type: "lost", ...splitSeries(s), from, to, reason: "missing" });
            c.n = to;
            return;
        }
        if (!this.link.scope.includes("marketdata:history") || to - from >= maxFill)
            return this.#resumeFrom(c);
        c.fill = { from, to, held: [] };
        void this.#fill(s, c, from, to);
    }
    // resumeFrom ends the connection, and the next one resumes. tried is false if history was not read.
    #resumeFrom(c, tried = true) {
        if (tried)
            c.tried = c.n + 1;
        c.named = true;
        this.link.end(new ConnectionError("messages are missing"));
    }
    async #fill(s, c, from, to) {
        const { engine } = this.link;
        const rows = [];
        let known = true;
        try {
            const range = { epoch: engine.epoch, after: from - 1, limit: to - from + 1 };
            for await (const row of rowsOf(engine.rest, engine.tokens, s, range, "nothing", this.link.abort.signal))
                rows.push(row);
        }
        catch (err) {
            known = err instanceof RuedaError && err.code > 0; // otherwise the connection broke; what is missing is resumed
        }
        if (this.link.over || engine.series.get(s) !== c || !c.fill)
            return; // unsubscribed meanwhile
        const { held } = c.fill;
        c.fill = undefined;
        for (const event of rows) {
            if (event.n !== c.n + 1 || event.n > to)
                continue;
            event.replayed = true;
            if (!this.push(s, event.n, event))
                return;
            c.n = event.n;
        }
        if (c.n >= from)
            engine.report({ type: "recovered", ...splitSeries(s), from, to: c.n, history: true });
        if (c.n < to)
            return this.#resumeFrom(c, known);
        for (const x of held) {
            if (this.link.over)
                return;
            this.numbered(s, x);
        }
    }
    /** Records the ranges of a Subscription: what will be replayed, and what cannot be. */
    ranges(m) {
        for (const [channel, lost] of Object.entries(m.lost ?? {})) {
            for (const [id, range] of Object.entries(lost))
                this.#lost(`${channel} ${id}`, range);
        }
        for (const [channel, resumed] of Object.entries(m.resumed ?? {})) {
            for (const [id, n] of Object.entries(resumed)) {
                const { engine, sets } = this.link;
                const s = `${channel} ${id}`;
                // Of a series in the set, nothing may have been received so far.
                const c = sets.sent.has(s) && !isPattern(s) ? engine.cursor(s) : engine.series.get(s);
                if (c && whole(n) > c.n)
                    c.to = n;
            }
        }
    }
    // lost reports messages that the gateway cannot replay. With a new epoch, that was done already. A
    // pattern stands for all its series.
    #lost(s, r) {
        const { engine } = this.link;
        const reason = printable(r.reason);
        if (r.from !== undefined)
            whole(r.from);
        if (r.to !== undefined)
            whole(r.to);
        if (!isPattern(s) || (s.startsWith("status ") && engine.series.has(s))) {
            const c = engine.series.get(s);
            if (!c)
                return;
            this.#recovered(s, c, c.n);
            const from = Math.max(r.from ?? 0, c.n + 1);
            if (c.known && from <= (r.to ?? from))
                engine.report({ type: "lost", ...splitSeries(s), from, to: r.to, reason });
            c.n = Math.max(r.to ?? 0, c.n);
            c.first = c.n > 0 ? c.n + 1 : 0;
            c.known = (r.to ?? 0) > 0;
            c.named = false;
            return;
        }
        for (const [series, c] of engine.series) {
            if (!c.known || !matches(s, series))
                continue;
            engine.report({ type: "lost", ...splitSeries(series), from: c.n + 1, to: undefined, reason });
            c.known = false;
        }
    }
    /** Ends the replay of a resume. After the last one, what was missed has been delivered. */
    caughtUp(position) {
        if (--this.replaying > 0)
            return;
        this.replaying = 0;
        const { engine } = this.link;
        for (const [s, c] of engine.series) {
            if (this.link.over)
                return;
            if (!c.fill && c.known && c.n < c.to) {
                this.#gap(s, c, c.to);
                continue;
            }
            this.#recovered(s, c, c.to || c.n);
            c.first = c.to = 0;
            c.named = false;
        }
        if (this.link.over)
            return;
        if (position)
            engine.moveTo(position);
        this.link.settle();
        this.link.sets.reconcile();
    }
    // recovered reports what a replay has delivered of a series, up to N to.
    #recovered(s, c, to) {
        if (c.first > 0 && to >= c.first && !c.fill && replays(s)) {
            this.link.engine.report({ type: "recovered", ...splitSeries(s), from: c.first, to, history: false });
        }
    }
    /** Handles an Alive mark. It shows messages that were lost without a later one. */
    alive(m, at) {
        const { engine, sets } = this.link;
        for (const [channel, last] of Object.entries(m.last)) {
            for (const [id, n] of Object.entries(last)) {
                if (this.link.over)
                    return;
                whole(n);
                const s = `${channel} ${id}`;
                engine.health.note(channel === "bars" ? id.slice(0, id.lastIndexOf("|")) : id, at);
                if (!replays(s) || !sets.covered(s))
                    continue;
                const c = engine.cursor(s);
                if (!c.known) {
                    c.n = n;
                    c.known = true;
                }
                else if (n > c.n && !c.fill && this.replaying === 0) {
                    this.#gap(s, c, n);
                }
            }
        }
        if (m.position && this.replaying === 0 && !this.link.over)
            engine.moveTo(text(m.position));
    }
}
