import type { Book } from "./book.js";
import type { State, Status } from "./events.js";
import type { Series } from "./subscriptions.js";
import { now } from "./time.js";

/** What is alive: the connection, the stream with its feeds, and each instrument. Ages are in ms. */
export interface HealthReport {
  state: State;
  url: string;
  /** How long the state has lasted. */
  stateAge: number;
  /** Since anything arrived on the connection; undefined: there is none. */
  link: number | undefined;
  /** Since market data or an Alive mark arrived; undefined: nothing yet. */
  stream: number | undefined;
  /** Markets whose feed is interrupted, sorted. */
  down: string[];
  instruments: Record<string, InstrumentHealth>;
  /** Of the newest ping of the client; undefined: unknown. */
  roundTrip: number | undefined;
  /** Clock of the gateway minus that of this machine, to about roundTrip. */
  clockOffset: number | undefined;
  /** Events that the program has not taken. */
  queued: number;
}

/** An instrument of which something was received. */
export interface InstrumentHealth {
  /** Since it was last known to be complete: by a message, or an Alive mark. */
  age: number;
  /** Newest trading status. */
  phase: string | undefined;
  /** Its book is valid. */
  book: boolean;
}

/** The state from which a HealthReport is made. */
export class Health {
  state: State = "idle";
  link: number | undefined;
  data: number | undefined;
  roundTrip: number | undefined;
  clockOffset: number | undefined;
  #url = "";
  #since = now();
  #down = new Set<string>();
  #instruments = new Map<string, { at: number; phase: string | undefined }>();

  enter(state: State, url: string): void {
    this.state = state;
    this.#url = url;
    this.#since = now();
  }

  disconnected(): void {
    this.link = this.data = undefined;
  }

  /** Records that an instrument is alive. */
  note(instrument: string, at: number): void {
    const seen = this.#instruments.get(instrument);
    if (seen) seen.at = at;
    else if (!instrument.startsWith("*|")) this.#instruments.set(instrument, { at, phase: undefined });
  }

  /** Records a status of an instrument or of a market. */
  status(s: Status): void {
    const market = s.instrument.startsWith("*|") ? s.instrument.split("|")[1]! : undefined;
    if (market !== undefined) {
      if (s.phase === "feed_down") this.#down.add(market);
      if (s.phase === "feed_up") this.#down.delete(market);
      return;
    }
    const seen = this.#instruments.get(s.instrument);
    if (seen && !["feed_down", "feed_up", "gap"].includes(s.phase)) seen.phase = s.phase;
  }

  report(books: Map<Series, Book>, queued: number): HealthReport {
    const at = now();
    const age = (t: number | undefined): number | undefined => (t === undefined ? undefined : at - t);
    const instruments: Record<string, InstrumentHealth> = {};
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
