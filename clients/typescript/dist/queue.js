import { splitSeries, replays } from "./subscriptions.js";
/** Events that the program has not taken. */
export class Queue {
    most;
    policy;
    /** Number of waiting events. */
    count = 0;
    #waiting = [];
    #head = 0;
    #newest = new Map();
    #dropped = new Map();
    #ready;
    #space;
    constructor(most, policy) {
        this.most = most;
        this.policy = policy;
    }
    #conflates(s) {
        return this.policy !== "block" && !replays(s);
    }
    /** Adds market data. Returns false if the queue is full, and the event was not added. */
    data(s, n, event) {
        let merged = false;
        if (this.#conflates(s)) {
            const old = this.#newest.get(s);
            if (old) {
                old.event = undefined;
                this.count--;
                merged = event.type === "book";
            }
        }
        else if (this.count >= this.most) {
            if (this.policy !== "drop")
                return false;
            const d = this.#dropped.get(s);
            if (d)
                d.to = n;
            else
                this.#dropped.set(s, { from: n, to: n });
            return true;
        }
        const d = this.#dropped.get(s);
        if (d) {
            this.#dropped.delete(s);
            this.add({ event: overflow(s, d) });
        }
        const entry = { event, series: s, n, merged };
        if (this.#conflates(s))
            this.#newest.set(s, entry);
        this.add(entry);
        return true;
    }
    /** Adds an entry, whether or not there is space. */
    add(e) {
        const kept = this.#waiting.length - this.#head;
        if ((this.#head > 1024 && this.#head > kept) || kept > 2 * this.count + 1024) {
            this.#waiting = this.#waiting.slice(this.#head).filter((w) => w.event || w.mark);
            this.#head = 0;
        }
        // Of marks that follow each other only the newest matters.
        const last = this.#waiting.at(-1);
        if (e.mark && last?.mark && this.#head < this.#waiting.length)
            last.mark = e.mark;
        else
            this.#waiting.push(e);
        if (e.event)
            this.count++;
        this.#ready?.();
    }
    /** Removes the next entry. */
    take() {
        while (this.#head < this.#waiting.length) {
            const e = this.#waiting[this.#head];
            this.#waiting[this.#head++] = {};
            if (e.mark)
                return e;
            if (!e.event)
                continue;
            this.count--;
            if (e.series !== undefined && this.#newest.get(e.series) === e)
                this.#newest.delete(e.series);
            if (this.count <= this.most / 2)
                this.#space?.();
            return e;
        }
        for (const [s, d] of this.#dropped) {
            this.#dropped.delete(s);
            return { event: overflow(s, d) };
        }
        return undefined;
    }
    /** Resolves when there may be an entry, or the signal is aborted. */
    ready(signal) {
        return once(signal, this.#head < this.#waiting.length, (done) => (this.#ready = done));
    }
    /** Resolves when half of the queue is free, or the signal is aborted. */
    space(signal) {
        return once(signal, this.count <= this.most / 2, (done) => (this.#space = done));
    }
}
function once(signal, now, register) {
    if (now || signal.aborted)
        return Promise.resolve();
    return new Promise((resolve) => {
        const done = () => {
            register(undefined);
            signal.removeEventListener("abort", done);
            resolve();
        };
        signal.addEventListener("abort", done, { once: true });
        register(done);
    });
}
function overflow(s, range) {
    return { type: "lost", ...splitSeries(s), ...range, reason: "overflow" };
}
