import { now } from "./time.js";
/** The state from which a HealthReport is made. */
export class Health {
    state = "idle";
    link;
    data;
    roundTrip;
    clockOffset;
    #url = "";
    #since = now();
    #down = new Set();
    #instruments = new Map();
    enter(state, url) {
        this.state = state;
        this.#url = url;
        this.#since = now();
    }
    disconnected() {
        this.link = this.data = undefined;
    }
    /** Records that an instrument is alive. */
    note(instrument, at) {
        const seen = this.#instruments.get(instrument);
        if (seen)
            seen.at = at;
        else if (!instrument.startsWith("*|"))
            this.#instruments.set(instrument, { at, phase: undefined });
    }
    /** Records a status of an instrument or of a market. */
    status(s) {
        const market = s.instrument.startsWith("*|") ? s.instrument.split("|")[1] : undefined;
        if (market !== undefined) {
            if (s.phase === "feed_down")
                this.#down.add(market);
            if (s.phase === "feed_up")
                this.#down.delete(market);
            return;
        }
        const seen = this.#instruments.get(s.instrument);
        if (seen && !["feed_down", "feed_up", "gap"].includes(s.phase))
            seen.phase = s.phase;
    }
    report(books, queued) {
        const at = now();
        const age = (t) => (t === undefined ? undefined : at - t);
        const instruments = {};
        for (const [id, seen] of this.#instruments) {
            instruments[id] = { age: at - seen.at, phase: seen.phase, book: books.get(`order_book ${id}`)?.valid ?? false };
        }
        const { state, roundTrip, clockOffset } = this;
        return {
            state, url: this.#url, stateAge: at - this.#since, link: age(this.link), stream: age(this.data),
            down: [...this.#down].sort(), instruments, roundTrip, clockOffset, queued,
        };
    }
}
