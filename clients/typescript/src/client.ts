import { Book } from "./book.js";
import { Connector } from "./connect.js";
import type { Decimal } from "./decimal.js";
import { Engine } from "./engine.js";
import { ProtocolError } from "./errors.js";
import { eventOf, type Bar, type BookUpdate, type DataMessage, type Event, type Quote, type Status, type Trade } from "./events.js";
import { Health, type HealthReport } from "./health.js";
import { listOf, rowsOf, type Range, type Rows } from "./history.js";
import type * as wire from "./messages.js";
import { parseURL, settingsOf, type Checkpoint, type Options } from "./options.js";
import { Queue, type Entry } from "./queue.js";
import { Rest } from "./rest.js";
import { itemsOf, seriesOf, setOf, type ItemOptions, type Series, type Subscriptions } from "./subscriptions.js";
import { momentOf } from "./time.js";
import { TokenKeeper } from "./tokens.js";
import { checkMembers } from "./values.js";

/** An instrument of the catalogue. */
export interface Instrument {
  instrument: string;
  symbol: string;
  market: string;
  term: string;
  name: string;
  kind: string;
  isin?: string;
  currency: string;
  multiplier?: Decimal;
  price_decimals: number;
  size_decimals: number;
  /** Pairs of a price and the step from there on. */
  tick?: [Decimal, Decimal][];
  lot?: Decimal;
  min_size?: Decimal;
  status?: string;
  channels: string[];
}

/** An account of the user. */
export interface Account {
  account_id: string;
  number: string;
  name?: string;
  type: string;
  status: string;
  currency: string;
  currencies?: string[];
  roles?: string[];
  permissions?: string[];
  is_default: boolean;
  created_at?: string;
}

/** A user's access to a gateway. It connects to nothing before its first use. */
export class Client {
  readonly #rest: Rest;
  readonly #tokens: TokenKeeper;
  readonly #queue: Queue;
  readonly #engine: Engine;
  readonly #health = new Health();
  readonly #desired = new Map<Series, ItemOptions>();
  readonly #books = new Map<Series, Book>();
  readonly #requireComplete: boolean;
  #running = false;
  #current: Entry | undefined; // in progress

  /** Takes one or more URLs such as https://api.broker.example. Throws a TypeError. */
  constructor(urls: string | string[], options: Options = {}) {
    const settings = settingsOf(options);
    const list = (Array.isArray(urls) ? urls : [urls]).map((url) => parseURL(url, options.insecure ?? false));
    if (list.length === 0) throw new TypeError("no URL");
    this.#requireComplete = options.requireComplete ?? false;
    this.#rest = new Rest(list, options.fetch ?? globalThis.fetch.bind(globalThis));
    this.#queue = new Queue(options.queue ?? 8192, options.overflow ?? "conflate");
    const warn = (reason: string, err: unknown): void => {
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
  async *events(signal?: AbortSignal): AsyncGenerator<Event, void, void> {
    if (this.#running) throw new TypeError("another loop reads the events of this client: make another client for a second loop");
    this.#running = true;
    this.#processed();
    const stop = new AbortController();
    const abort = (): void => stop.abort();
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    const end: { error?: unknown; over: boolean } = { over: false };
    const finished = new AbortController(); // of run, or by the program
    stop.signal.addEventListener("abort", () => finished.abort(), { once: true });
    const run = new Connector(this.#engine)
      .run(stop.signal)
      .catch((err: unknown) => (end.error = err))
      .finally(() => {
        end.over = true;
        finished.abort();
      });
    try {
      while (!stop.signal.aborted) {
        const e = (this.#current = this.#take());
        if (e) {
          if (e.event) yield e.event;
          this.#processed();
        } else if (end.over) {
          break;
        } else {
          await this.#queue.ready(finished.signal);
        }
      }
    } finally {
      stop.abort();
      signal?.removeEventListener("abort", abort);
      await run;
      this.#running = false;
    }
    if (end.error !== undefined) throw end.error;
  }

  // processed marks the entry in progress as processed.
  #processed(): void {
    if (this.#current) this.#engine.processed(this.#current);
    this.#current = undefined;
  }

  // take takes the next entry of the queue. A merged book gets its levels.
  #take(): Entry | undefined {
    for (;;) {
      const e = this.#queue.take();
      if (!e?.merged) return e;
      const u = e.event as BookUpdate;
      const b = this.#books.get(e.series!);
      if (!b?.valid || b.n !== u.n) continue; // the queue has a bookInvalid after it
      return { ...e, event: { ...u, snapshot: true, depth: b.depth, previous: 0, bids: b.bids(), asks: b.asks() } };
    }
  }

  /**
   * Adds to the set of subscriptions, and replaces the options of those that it has. The stream
   * follows as soon as it is connected. Throws a TypeError, and then changes nothing.
   */
  subscribe(set: Subscriptions): void {
    for (const [s, options] of itemsOf(set)) this.#desired.set(s, options);
    this.#engine.changed();
  }

  /**
   * Removes from the set exactly these identifiers. Events that the gateway has already sent may
   * still come.
   */
  unsubscribe(set: Subscriptions): void {
    for (const s of itemsOf(set).keys()) this.#desired.delete(s);
    this.#engine.changed();
  }

  /** Returns the set, sorted, without its options. */
  subscriptions(): Subscriptions {
    return setOf(this.#desired.keys());
  }

  /**
   * Returns the book of an instrument to which the set subscribes, as new as what the client has
   * received. It changes with the next update. Returns undefined if the book is not known at
   * present or not in the set, because a page may be painted before it subscribes.
   */
  book(instrument: string): Book | undefined {
    const b = this.#books.get(seriesOf("order_book", instrument));
    return b?.valid ? b : undefined;
  }

  /** Returns what is alive. */
  health(): HealthReport {
    return this.#health.report(this.#books, this.#queue.count);
  }

  /**
   * Returns what the body of the loop over events has processed, without the event in progress. An
   * event is in progress until the loop asks for the next one. After a break, that is when the
   * program calls events again. See Options.resume.
   */
  checkpoint(): Checkpoint {
    return this.#engine.checkpoint();
  }

  /** Makes sure that there is a valid login. Other methods do that themselves. */
  async login(): Promise<void> {
    await this.#tokens.get();
  }

  /**
   * Ends the login with its tokens, and so the streams that use it. It is the login of the store if
   * the client has not used it yet.
   */
  logout(): Promise<void> {
    return this.#tokens.end();
  }

  /** Requests a path of REST, such as /market/status, and returns the data of the answer. */
  get(path: string, query: Record<string, string | number | undefined> = {}): Promise<unknown> {
    return this.#rest.call({ method: "GET", path, query }, this.#tokens);
  }

  /**
   * Requests a path of REST, such as /market/export, and returns the answer. Its body is not read yet,
   * and may be of any length. The module for Node.js writes exports to files.
   */
  open(path: string, query: Record<string, string | number | undefined> = {}, signal?: AbortSignal): Promise<Response> {
    return this.#rest.open({ method: "GET", path, query, signal }, this.#tokens);
  }

  /** Iterates over stored trades, cancels and corrections. */
  trades(instrument: string, range: Range = {}): Rows<Trade> {
    return this.#rows(seriesOf("trades", instrument), range);
  }

  /** Iterates over stored quotes. */
  quotes(instrument: string, range: Range = {}): Rows<Quote> {
    return this.#rows(seriesOf("quotes", instrument), range);
  }

  /** Iterates over stored statuses. */
  statuses(instrument: string, range: Range = {}): Rows<Status> {
    return this.#rows(seriesOf("status", instrument), range);
  }

  /** Iterates over stored bars, including revisions. */
  bars(instrument: string, interval: wire.Interval, range: Range = {}): Rows<Bar> {
    return this.#rows(seriesOf("bars", `${instrument}|${interval}`), range);
  }

  #rows<T>(s: Series, range: Range): Rows<T> {
    const ifLost = (range.requireComplete ?? this.#requireComplete) ? "throw" : "warn";
    return rowsOf(this.#rest, this.#tokens, s, range, ifLost) as unknown as Rows<T>;
  }

  /** Iterates over the instruments of the catalogue. text is a part of symbol, name or ISIN. */
  instruments(filter: { market?: string; term?: string; kind?: string; text?: string } = {}): AsyncGenerator<Instrument, void, void> {
    checkMembers("a filter", filter, ["market", "term", "kind", "text"]);
    const { text, ...query } = filter;
    return listOf(this.#rest, this.#tokens, "/market/instruments", "instruments", { ...query, ...(text !== undefined && { q: text }) });
  }

  /** Iterates over the accounts of the user. */
  accounts(): AsyncGenerator<Account, void, void> {
    return listOf(this.#rest, this.#tokens, "/broker/accounts", "accounts", {});
  }

  /** Returns the book of an instrument from REST: now, or at a time, as in Range, that the journal has. */
  async bookAt(instrument: string, options: { depth?: number; at?: string | Date } = {}): Promise<Book> {
    checkMembers("the options of bookAt", options, ["depth", "at"]);
    const data = (await this.get("/market/book", { instrument, ...options, at: momentOf("at", options.at) })) as DataMessage;
    const book = new Book();
    const event = eventOf(data, Date.now());
    if (event?.type !== "book" || book.apply(event)) throw new ProtocolError("the answer has no valid book");
    return book;
  }
}
