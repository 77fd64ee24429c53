import { BehindError, RuedaError, isFinal } from "./errors.js";
import type { Book } from "./book.js";
import type { Event, State } from "./events.js";
import type { Health } from "./health.js";
import { Link } from "./link.js";
import type { Options } from "./options.js";
import type { Entry, Queue } from "./queue.js";
import type { Rest } from "./rest.js";
import { replays, splitSeries, seriesOf, type ItemOptions, type Series } from "./subscriptions.js";
import { ms, now, sleep } from "./time.js";
import type { TokenKeeper } from "./tokens.js";

/**
 * What a program has processed. Stored as JSON, it lets a later run of the program continue without
 * a loss: see Options.resume.
 */
export interface Checkpoint {
  epoch: string;
  position: string;
  /** Newest n by series: "trades GGAL|BYMA|24hs". */
  sequences: Record<string, number>;
}

/** Progress in a series. */
export interface Cursor {
  floor: number; // newest n of an earlier subscription, up to which nothing comes again
  n: number; // newest
  known: boolean; // n is known, and the next one must follow it
  since: number; // n at the beginning of the connection
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

/** Keeps the stream connected, and has what is known over all connections. */
export class Engine {
  epoch = "";
  position = "";
  readonly series = new Map<Series, Cursor>();
  readonly #past = new Map<Series, number>(); // newest n of series that the set has no more
  readonly had = new Set<Series>(); // subscribed before, so that the next connection resumes it
  restored = false; // from a checkpoint: the next connection resumes everything
  bound = 0; // of the next wait
  reconnectAt = 0; // as the gateway has asked; 0: it has not
  #broke = -Infinity; // when a connection ended that the gateway has not closed
  link: Link | undefined;
  #done: Checkpoint = { epoch: "", position: "", sequences: {} };

  constructor(
    readonly options: Options,
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
      c = { floor: this.#past.get(s) ?? 0, n: 0, known: false, since: 0, to: 0, fill: undefined, tried: 0, named: false };
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

  /** Connects again and again until the signal is aborted. Throws if the gateway refuses the client for good. */
  async run(signal: AbortSignal): Promise<void> {
    for (;;) {
      const url = this.rest.url();
      const err = await this.#connect(url, signal);
      this.#disconnected();
      if (signal.aborted) return this.enter("idle", url);
      const own = this.#replacedByOwn(err);
      if (isFinal(err) && !own) {
        this.enter("closed", url, err);
        throw err;
      }
      if (err instanceof BehindError) {
        this.enter("waiting", url, err, 0);
        await this.queue.space(signal);
      } else {
        const wait = this.#pause(err);
        this.enter("waiting", url, err, wait);
        this.rest.next();
        await sleep(wait, signal).catch(() => undefined);
      }
      if (signal.aborted) return this.enter("idle", url);
    }
  }

  // replacedByOwn notes how a connection ended. It reports whether an earlier connection of this
  // client may have taken over the session: it broke off, and the network delivered its token late.
  #replacedByOwn(err: Error): boolean {
    const broke = this.#broke;
    const closed = err instanceof RuedaError && err.closed;
    this.#broke = closed ? -Infinity : now();
    return closed && err.reason === "replaced" && now() - broke < ms.ownDelay;
  }

  // pause returns how long to wait before the next attempt: as the gateway has asked, or a random
  // part of a bound that doubles. So clients of a gateway that was down do not all come at once.
  #pause(err: Error): number {
    const asked = this.reconnectAt - now();
    this.reconnectAt = 0;
    if (asked > 0) return asked;
    this.bound = Math.min(Math.max(2 * this.bound, ms.firstBackoff), ms.maxBackoff);
    return Math.random() * this.bound + (err instanceof RuedaError ? err.retryAfter : 0);
  }

  // connect makes one connection and returns what ended it.
  async #connect(url: string, signal: AbortSignal): Promise<Error> {
    this.enter("connecting", url);
    try {
      const login = await this.tokens.get(signal);
      this.link = new Link(this, url, login);
      const err = await this.link.run(signal);
      if (err instanceof RuedaError && (err.reason === "invalid_token" || err.reason === "token_expired")) {
        this.tokens.invalidate(this.link.access);
      }
      return err;
    } catch (err) {
      return err instanceof Error ? err : new Error(String(err));
    } finally {
      this.link = undefined;
    }
  }

  // disconnected forgets what ends with a connection. Books are not known until their next snapshot.
  #disconnected(): void {
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
    this.epoch = k.epoch;
    this.position = k.position;
    this.restored = k.epoch !== "";
    this.#done = { epoch: k.epoch, position: k.position, sequences: { ...k.sequences } };
    for (const [name, n] of Object.entries(k.sequences)) {
      const space = name.indexOf(" ");
      const c = this.cursor(seriesOf(name.slice(0, space), name.slice(space + 1)));
      c.n = n;
      c.known = true;
    }
  }
}
