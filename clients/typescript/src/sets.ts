import { RuedaError, mayHelp, printable } from "./errors.js";
import { listOf } from "./history.js";
import type { Connection } from "./connection.js";
import type * as wire from "./messages.js";
import { channelOf, identifierOf, isPattern, matches, replays, type ItemOptions, type Series } from "./subscriptions.js";
import { ms, now } from "./time.js";
import { bounded, list, text } from "./values.js";

const maxItems = 300; // in a message
const maxItemBytes = 200; // of an item, with its place in resume

/** An item of the set at the gateway. */
interface Subscribed extends ItemOptions {
  rejected?: boolean;
  /** The gateway has accepted to resume it. */
  resumed?: boolean;
}

/** A request without an answer. */
interface Ask {
  items: Series[];
  remove?: boolean;
  resume?: boolean;
}

/** The set of subscriptions of a connection, which follows the set that the program wants. */
export class Sets {
  readonly sent = new Map<Series, Subscribed>(); // what the gateway was asked for
  #asks = new Map<number, Ask>();
  #lastID = 0;
  #most = maxItems;
  #removed = 0; // newest message that removed identifiers
  #paused = 0; // the set is not changed before
  #again = 0; // when to compare the sets again; 0: not needed
  #resynced = new Map<Series, number>();
  #listed = new Map<Series, Series[]>(); // books of patterns
  #listing = false;

  constructor(private readonly link: Connection) {}

  /** Sets how long messages may be. */
  limit(bytes: number): void {
    if (bytes > 0) this.#most = Math.min(maxItems, Math.max(Math.floor(bytes / maxItemBytes), 1));
  }

  /** Reports whether a request has no answer yet, or instruments are being listed. */
  waits(): boolean {
    return this.#asks.size > 0 || this.#listing;
  }

  /** Compares the sets again if that is due. */
  due(at: number): void {
    if (!this.#again || at < this.#again) return;
    this.#again = 0;
    this.reconcile();
  }

  /** Asks the gateway for what the program wants and does not have, and to stop the rest. */
  reconcile(): void {
    const { engine } = this.link;
    const at = now();
    if (!this.link.ready || this.link.over) return;
    if (at < this.#paused) {
      this.#again = this.#paused;
      return;
    }
    const want = new Map(engine.desired);
    if (want.size > 0) for (const [s, c] of engine.series) if (c.named && !want.has(s)) want.set(s, {});
    this.#expand(want);
    const remove = [...this.sent.keys()].filter((s) => !want.has(s)).sort();
    // A removal would end a replay. CaughtUp comes back here.
    if (remove.length > 0 && this.link.sequences.replaying === 0) {
      if (at - this.#removed < ms.removePause) {
        this.#again = this.#removed + ms.removePause;
      } else {
        this.#removed = at;
        for (const part of chunks(remove, this.#most)) this.#unsubscribe(part);
      }
    }
    this.#add(want);
  }

  // expand replaces patterns of books by the instruments that are listed, because a gateway sends
  // books of single instruments only. It lists those of patterns that are new on the connection.
  #expand(want: Map<Series, ItemOptions>): void {
    const patterns = [...want].filter(([s]) => channelOf(s) === "order_book" && isPattern(s));
    const missing = patterns.map(([s]) => s).filter((s) => !this.#listed.has(s));
    if (missing.length > 0 && !this.#listing) {
      this.#listing = true;
      this.#list(missing).catch((err: unknown) => this.link.end(err as Error));
    }
    for (const [pattern, options] of patterns) {
      want.delete(pattern);
      for (const s of this.#listed.get(pattern) ?? []) if (!want.has(s)) want.set(s, options);
    }
  }

  // list lists the instruments of patterns of books, and subscribes to them.
  async #list(patterns: Series[]): Promise<void> {
    const { engine } = this.link;
    for (const pattern of patterns) {
      const instrument = identifierOf(pattern);
      const found: Series[] = [];
      let refused = { reason: "unknown_instrument", msg: "No listed instrument with a book matches", hint: "" };
      try {
        const [, market, term] = instrument.split("|").map((part) => (part === "*" ? undefined : part));
        const query = { market, term, limit: "1000" };
        for await (const i of listOf<{ instrument: string; channels: string[] }>(engine.rest, engine.tokens, "/market/instruments", "instruments", query, this.link.abort.signal)) {
          const s: Series = `order_book ${text(i.instrument)}`;
          if (matches(pattern, s) && list(i.channels).includes("order_book")) found.push(s);
        }
      } catch (err) {
        if (!(err instanceof RuedaError) || mayHelp(err)) throw err;
        refused = { reason: err.reason, msg: err.msg, hint: err.hint ?? "" };
      }
      if (this.link.over) return;
      this.#listed.set(pattern, found);
      if (found.length === 0) this.link.reject({ channel: "order_book", instrument, ...refused }, false);
    }
    this.#listing = false;
    this.reconcile();
    this.link.settle();
  }

  // add subscribes to the items that the gateway does not have, or with other options.
  #add(want: Map<Series, ItemOptions>): void {
    const { engine } = this.link;
    const groups = new Map<string, { options: ItemOptions; resume: boolean; items: Series[] }>();
    for (const [s, options] of want) {
      const sent = this.sent.get(s);
      if (sent && sent.depth === options.depth && sent.conflate === options.conflate) continue;
      const resume = engine.had.has(s) || engine.restored || (engine.series.get(s)?.named ?? false);
      const key = `${options.depth ?? ""} ${options.conflate ?? ""} ${resume}`;
      const group = groups.get(key) ?? { options, resume, items: [] };
      group.items.push(s);
      groups.set(key, group);
    }
    engine.restored = false;
    for (const g of groups.values()) {
      for (const part of chunks(g.items.sort(), this.#most)) this.#subscribe(part, g.options, g.resume);
    }
  }

  #subscribe(items: Series[], options: ItemOptions, mayResume: boolean): void {
    const { engine, sequences } = this.link;
    const m: Record<string, unknown> = { action: "subscribe", ...lists(items), ...options, alive: true };
    const r: Record<string, unknown> & { numbers: boolean } = { numbers: false };
    for (const s of items) {
      this.sent.set(s, { ...options });
      const c = engine.series.get(s);
      if (!replays(s) || !c?.known || isPattern(s)) continue;
      ((r[channelOf(s)] ??= {}) as Record<string, number>)[identifierOf(s)] = c.n;
      r.numbers = true;
    }
    const { numbers, ...known } = r;
    const resume = mayResume && items.some(replays) && engine.epoch !== "" && (engine.position !== "" || numbers);
    if (resume) {
      m.resume = { epoch: engine.epoch, ...(engine.position && { position: engine.position }), ...known };
      sequences.replaying++;
    }
    this.#ask(m, { items, resume });
  }

  #unsubscribe(items: Series[]): void {
    for (const s of items) {
      this.sent.delete(s);
      this.link.engine.had.delete(s);
    }
    this.#ask({ action: "unsubscribe", ...lists(items) }, { items, remove: true });
  }

  #ask(message: Record<string, unknown>, ask: Ask): void {
    this.#asks.set(++this.#lastID, ask);
    this.link.send({ ...message, id: this.#lastID });
  }

  /** Requests a new snapshot of a book. */
  resync(s: Series): void {
    const at = now();
    if (at - (this.#resynced.get(s) ?? -Infinity) < ms.resyncAgain) return;
    this.#resynced.set(s, at);
    const items = this.sent.has(s) ? [s] : [...this.sent.keys()].filter((sent) => matches(sent, s));
    if (items.length > 0) this.#ask({ action: "resync", ...lists(items) }, { items: [] });
  }

  #answered(id: string | number | undefined): Ask | undefined {
    const ask = this.#asks.get(id as number);
    this.#asks.delete(id as number);
    return ask;
  }

  /** Handles a Subscription. */
  acknowledged(m: wire.Subscription): void {
    const { engine, sequences } = this.link;
    const ask = this.#answered(m.id);
    if (text(m.epoch) !== engine.epoch) engine.newEpoch(m.epoch);
    if (sequences.replaying === 0 && m.position) engine.moveTo(text(m.position));
    this.#reject(m.rejected ?? [], false);
    this.#reject(m.removed ?? [], true);
    for (const { channel, instrument, delay } of m.moved ?? []) {
      engine.report({ type: "delayed", channel: printable(channel), instrument: printable(instrument), delay: bounded(delay, ms.maxLife / 1000) });
    }
    sequences.ranges(m);
    for (const s of ask?.items ?? []) {
      const sent = this.sent.get(s);
      if (ask?.remove) this.#forget(s);
      else if (sent && !sent.rejected) {
        engine.had.add(s);
        sent.resumed = ask?.resume ?? false;
      }
    }
    this.link.settle();
  }

  #reject(list: (wire.Rejection | wire.Removal)[], removed: boolean): void {
    for (const r of list) {
      this.link.reject(r, removed);
      const s: Series = `${r.channel as wire.Channel} ${r.instrument}`;
      const sent = this.sent.get(s);
      if (!sent) continue;
      if (r.reason === "unavailable") {
        // for the moment
        this.sent.delete(s);
        this.#pause(ms.unavailable);
      } else {
        sent.rejected = true;
      }
    }
  }

  #pause(wait: number): void {
    this.#paused = this.#again = now() + wait;
  }

  /** Handles an Error. Returns false if it answers no request. */
  refused(m: wire.Error, retryAfter: number): boolean {
    const ask = m.id === undefined ? undefined : this.#answered(m.id);
    if (!ask) return false;
    if (m.retry && !m.rejected) {
      for (const s of ask.items) {
        if (ask.remove) this.sent.set(s, {});
        else this.sent.delete(s);
      }
      this.#pause(Math.max(retryAfter, 1000));
      if (ask.resume) this.link.sequences.replaying--;
      return true;
    }
    this.#reject(m.rejected ?? [], false);
    for (const s of ask.items) {
      const sent = this.sent.get(s);
      if (!sent || sent.rejected || m.rejected) continue;
      sent.rejected = true;
      this.link.rejectSeries(s, m);
    }
    if (ask.resume) this.link.sequences.caughtUp("");
    else this.link.settle();
    return true;
  }

  /** Reports whether an item of the set includes a series. The item except does not count. */
  covered(s: Series, except?: Series): boolean {
    for (const [item, sent] of this.sent) {
      if (item !== except && !sent.rejected && matches(item, s)) return true;
    }
    return false;
  }

  /**
   * Forgets, at the beginning of a connection, what the program has removed from the set since the
   * last one.
   */
  prune(): void {
    const { engine } = this.link;
    if (engine.restored) return; // the set may not be complete yet
    const wanted = (s: Series): boolean => this.#wanted(s);
    for (const s of engine.had) if (!engine.desired.has(s)) engine.had.delete(s);
    for (const s of engine.series.keys()) if (!wanted(s)) engine.drop(s);
    for (const s of engine.books.keys()) if (!wanted(s)) engine.books.delete(s);
  }

  // wanted reports whether the desired set includes a series.
  #wanted(s: Series): boolean {
    const { desired } = this.link.engine;
    return desired.has(s) || [...desired.keys()].some((item) => matches(item, s));
  }

  // forget drops the progress of what an item covered alone.
  #forget(item: Series): void {
    const { engine } = this.link;
    // What is wanted may wait for a limit, and is resumed then.
    for (const s of engine.series.keys()) if (matches(item, s) && !this.covered(s, item) && !this.#wanted(s)) engine.drop(s);
    for (const s of engine.books.keys()) if (matches(item, s) && !this.covered(s, item)) engine.books.delete(s);
  }
}

// lists returns the identifiers of items by channel, as a message has them.
function lists(items: Series[]): Record<string, string[]> {
  const by: Record<string, string[]> = {};
  for (const s of items) (by[channelOf(s)] ??= []).push(identifierOf(s));
  return by;
}

function chunks<T>(list: T[], most: number): T[][] {
  const parts: T[][] = [];
  for (let i = 0; i < list.length; i += most) parts.push(list.slice(i, i + most));
  return parts;
}
