import type { Book } from "./book.js";
import type { Event, State } from "./events.js";
import type { Health } from "./health.js";
import type { Checkpoint, Settings } from "./options.js";
import type { Entry, Queue } from "./queue.js";
import type { Rest } from "./rest.js";
import { isChannel, replays, splitSeries, seriesOf, type ItemOptions, type Series } from "./subscriptions.js";
import type { TokenKeeper } from "./tokens.js";

/** Progress in a series. */
export interface Cursor {
  floor: number; // newest n of an earlier subscription, up to which nothing comes again
  n: number; // newest
  known: boolean; // n is known, and the next one must follow it
  first: number; // n at which the replay of the connection begins; 0: unknown
  to: number; // n at which the replay of the connection ends; 0: unknown
  fill: Fill | undefined; // a gap that is being filled
  tried: number; // first n of a gap that history did not fill
  named: boolean; // the next connection names the instrument, to resume after n
}

/** A gap that is being filled, and what came after it. */
export interface Fill {
  from: number;
  to: number;
  held: { n: number; event: Event; snapshot: boolean }[];
}

/** Is called without a connection. */
export const nothing = (): void => undefined;

/** The progress of a stream, and what it has for the program: what is known over all connections. */
export class Engine {
  epoch = "";
  position = "";
  readonly series = new Map<Series, Cursor>();
  readonly #past = new Map<Series, number>(); // newest n of series that the set has no more
  readonly had = new Set<Series>(); // subscribed before, so that the next connection resumes it
  restored = false; // from a checkpoint: the next connection resumes everything
  bound = 0; // of the next wait
  reconnectAt = 0; // as the gateway has asked; 0: it has not
  changed = nothing; // sends a change of the desired set
  #done: Checkpoint = { epoch: "", position: "", sequences: {} };

  constructor(
    readonly options: Settings,
    readonly rest: Rest,
    readonly tokens: TokenKeeper,
    readonly queue: Queue,
    readonly desired: Map<Series, ItemOptions>,
    readonly books: Map<Series, Book>,
    readonly health: Health,
  ) {
    if (options.resume) this.#restore(options.resume);
  }

  cursor(s: Series): Cursor {
    let c = this.series.get(s);
    if (!c) {
      c = { floor: this.#past.get(s) ?? 0, n: 0, known: false, first: 0, to: 0, fill: undefined, tried: 0, named: false };
      this.series.set(s, c);
    }
    return c;
  }

  /**
   * Forgets the progress of a series that the set has no more, except what was delivered: a resume
   * by position may repeat it.
   */
  drop(s: Series): void {
    const c = this.series.get(s);
    this.series.delete(s);
    const n = Math.max(c?.n ?? 0, c?.floor ?? 0);
    if (n > 0 && replays(s)) this.#past.set(s, n);
  }

  /** Queues an event of the client itself. */
  report(event: Event): void {
    this.queue.add({ event });
  }

  /** Reports a state. */
  enter(state: State, url: string, error?: Error, wait?: number): void {
    if (state === this.health.state && !error) return;
    this.health.enter(state, url);
    this.report({ type: "state", state, url, error, wait });
  }

  /** Forgets what ends with a connection. Books are not known until their next snapshot. */
  disconnected(): void {
    for (const c of this.series.values()) {
      c.fill = undefined;
      c.to = 0;
    }
    this.health.disconnected();
    for (const [s, b] of this.books) this.invalidate(s, b, "disconnected");
  }

  /** Makes a book invalid and reports it, if it is valid. */
  invalidate(s: Series, b: Book, reason: string): void {
    if (!b.valid) return;
    b.invalidate();
    this.report({ type: "bookInvalid", instrument: splitSeries(s).instrument, reason });
  }

  /** Begins a new series of numbers. What was missed in the old one is lost. */
  newEpoch(epoch: string): void {
    if (this.epoch) {
      for (const [s, c] of this.series) {
        if (c.known) this.report({ type: "lost", ...splitSeries(s), from: c.n + 1, to: undefined, reason: "epoch_changed" });
      }
      this.series.clear();
      this.#past.clear();
      this.position = "";
    }
    this.epoch = epoch;
    this.queue.add({ mark: { epoch, position: "" } });
  }

  /** Stores a position from which the next connection can resume. */
  moveTo(position: string): void {
    this.position = position || this.position;
    this.queue.add({ mark: { epoch: this.epoch, position: this.position } });
  }

  /** Returns what the program has processed. */
  checkpoint(): Checkpoint {
    return { ...this.#done, sequences: { ...this.#done.sequences } };
  }

  /** Records an entry that the program has processed. */
  processed(e: Entry): void {
    if (e.mark) {
      if (this.#done.epoch !== e.mark.epoch) this.#done = { epoch: e.mark.epoch, position: "", sequences: {} };
      this.#done.position = e.mark.position || this.#done.position;
    } else if (e.event && e.series && e.n && ("trade status bar".includes(e.event.type))) {
      this.#done.sequences[e.series] = e.n;
    }
  }

  // restore sets the progress from a checkpoint.
  #restore(k: Checkpoint): void {
    if (typeof k?.epoch !== "string" || typeof k.position !== "string" || typeof k.sequences !== "object" || k.sequences === null) {
      throw new TypeError("resume must be what checkpoint() returned: it has an epoch, a position and sequences");
    }
    this.epoch = k.epoch;
    this.position = k.position;
    this.restored = k.epoch !== "";
    this.#done = { epoch: k.epoch, position: k.position, sequences: { ...k.sequences } };
    for (const [name, n] of Object.entries(k.sequences)) {
      const space = name.indexOf(" ");
      const channel = name.slice(0, space);
      if (!isChannel(channel)) throw new TypeError(`${JSON.stringify(name)} of the checkpoint does not begin with a channel`);
      const c = this.cursor(seriesOf(channel, name.slice(space + 1)));
      c.n = n;
      c.known = true;
    }
  }
}
