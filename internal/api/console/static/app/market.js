// What the page knows of the market: one record an instrument, changed by the events of the client
// and painted once a frame.
import { batch, signal } from "./lib.js";
import { paint } from "./frame.js";
import { about, gateway, over } from "./session.js";
import * as health from "./health.js";

// Trades of an instrument that the page keeps: if its trades are shown, and otherwise.
const mostTrades = 5000;
const fewTrades = 200;
const mostPoints = 120; // of a spark line

// state is that of the stream: connecting, authenticating, syncing, live, waiting, closed, idle.
export const state = signal({ name: "idle", error: undefined, wait: undefined, since: Date.now() });

// markets has the status of each market: phase, reason, until, and down while a feed is interrupted.
export const markets = signal(new Map());

// slow is the newest warning that the page reads too slowly.
export const slow = signal(undefined);

const records = new Map();
const dirty = new Set();

// record returns the record of an instrument, which lasts as long as the login.
export function record(id) {
  let r = records.get(id);
  if (!r) {
    const [symbol, market, term] = id.split("|");
    r = {
      id, symbol, market, term, quote: undefined, summary: undefined, last: undefined, side: "", tick: 0, phase: "", reason: "",
      until: undefined, since: undefined, stale: "", delay: 0, seen: 0, filled: 0, joins: false, refused: new Map(), trades: [], spark: [], bars: [], views: new Set(), most: fewTrades,
    };
    records.set(id, r);
  }
  return r;
}

// watch calls a function in the frame after a change of an instrument. It returns how to stop.
export function watch(id, view) {
  const r = record(id);
  r.views.add(view);
  touch(r);
  return () => r.views.delete(view);
}

function touch(r) {
  dirty.add(r);
  paint(flush);
}

function flush() {
  for (const r of dirty) for (const view of r.views) view(r);
  dirty.clear();
}

// Wishes of the views: what each wants to receive. The set of the client is their union.
const wishes = new Map();
let had = new Map();
let hidden = false;
let settling;

const lists = ["trades", "quotes", "books", "status", "summary", "bars"];

// want sets what a view wants to receive, or nothing. See Subscriptions of the client. The number
// history of a set is that of the stored trades which its instruments begin with.
export function want(view, set) {
  if (set) wishes.set(view, set);
  else wishes.delete(view);
  // One view closes before the next one opens, and may want the same.
  clearTimeout(settling);
  settling = setTimeout(settle, 50);
}

// settle makes the set of the client the union of the wishes. A hidden page does not need what is
// replaced by the next snapshot.
function settle() {
  const client = gateway();
  if (!client) return;
  const next = new Map();
  for (const set of wishes.values()) {
    for (const list of lists) {
      if (hidden && (list === "quotes" || list === "books")) continue;
      for (const id of set[list] ?? []) {
        const depth = list === "books" ? (set.depth ?? "all") : undefined;
        const conflate = list === "quotes" ? set.conflate : undefined;
        next.set(`${list} ${id}`, { list, id, depth, conflate });
      }
    }
  }
  for (const [key, w] of had) if (!next.has(key)) client.unsubscribe({ [w.list]: [w.id] });
  const groups = new Map();
  for (const [key, w] of next) {
    const old = had.get(key);
    if (!old && w.list === "trades") forget(w.id);
    if (old && old.depth === w.depth && old.conflate === w.conflate) continue;
    const name = `${w.depth ?? ""} ${w.conflate ?? ""}`;
    const g = groups.get(name) ?? { ...(w.depth && { depth: w.depth }), ...(w.conflate && { conflate: w.conflate }) };
    (g[w.list] ??= []).push(w.id);
    groups.set(name, g);
  }
  for (const g of groups.values()) client.subscribe(g);
  had = next;
  for (const set of wishes.values()) if (set.history) for (const id of set.trades) begin(record(id), set.history);
}

// begin loads the newest stored trades of an instrument, once. From now on more of them are kept.
function begin(r, count) {
  if (r.most === mostTrades) return;
  Object.assign(r, { most: mostTrades, joins: true });
  stored(r, { newestFirst: true, limit: count });
}

// forget drops the trades of an instrument that was not received for a time: the next ones would
// seem to follow them.
function forget(id) {
  const r = record(id);
  Object.assign(r, { trades: [], spark: [], filled: r.filled + 1, most: fewTrades });
  touch(r);
}

let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  const is = document.visibilityState === "hidden";
  // A short look at another tab changes nothing.
  hiding = setTimeout(() => {
    hidden = is;
    settle();
  }, is ? 3000 : 0);
});

// run takes the events of the client until the login ends.
export async function run() {
  const client = gateway();
  had = new Map();
  records.clear();
  settle();
  try {
    for await (const event of client.events()) {
      if (client !== gateway()) return;
      take(event);
    }
  } catch (err) {
    if (client === gateway()) over(err.reason || "connection");
  }
}

function take(e) {
  switch (e.type) {
    case "trade":
      return trade(e);
    case "quote": {
      const r = seen(e);
      r.quote = e;
      health.quote(e);
      return touch(r);
    }
    case "book": {
      const r = seen(e);
      if (r.stale === "checksum" || r.stale === "chain") health.incident("book_again", { instrument: e.instrument });
      r.stale = "";
      return touch(r);
    }
    case "summary": {
      const r = seen(e);
      r.summary = e;
      if (!r.last) r.last = e.last;
      return touch(r);
    }
    case "bar": {
      const r = seen(e);
      r.bars.push(e);
      if (r.bars.length > 200) r.bars.splice(0, 100);
      return touch(r);
    }
    case "status":
      return status(e);
    case "state":
      return changed(e);
    case "bookInvalid": {
      const r = record(e.instrument);
      r.stale = e.reason;
      if (e.reason !== "disconnected") health.incident("book", { instrument: e.instrument, reason: e.reason });
      return touch(r);
    }
    case "recovered":
      health.recovered(e);
      return mark(e.instrument, { kind: "recovered", from: e.from, to: e.to, count: e.to - e.from + 1 }, e.channel);
    case "lost":
      health.lost(e);
      return mark(e.instrument, { kind: "lost", from: e.from, to: e.to, reason: e.reason }, e.channel);
    case "rejected": {
      const r = record(e.instrument.split("|").slice(0, 3).join("|"));
      r.refused.set(e.channel, e);
      return touch(r);
    }
    case "delayed": {
      if (e.instrument.includes("*")) return;
      const r = record(e.instrument);
      r.delay = e.delay;
      return touch(r);
    }
    case "notice":
      if (e.reason === "slow_client") slow.value = { at: Date.now() };
      return health.incident("notice", { reason: e.reason, msg: e.msg ?? "" });
  }
}

// seen records that an instrument has data.
function seen(e) {
  const r = record(e.instrument);
  r.seen = e.received;
  r.delay = e.delay;
  health.market(e);
  return r;
}

function trade(e) {
  const r = seen(e);
  if (e.kind === "trade") {
    r.side = r.last ? Math.sign(e.price.compare(r.last)) : 0;
    if (!e.replayed) r.tick++;
    r.last = e.price;
    r.trades.push({ kind: "trade", e, gone: false, fixed: undefined, live: true });
    const p = e.price.toNumber();
    r.spark.push(p);
    if (r.spark.length > 2 * mostPoints) r.spark.splice(0, r.spark.length - mostPoints);
  } else {
    apply(r.trades, e);
    r.trades.push({ kind: e.kind, e, gone: false, fixed: undefined, live: true });
  }
  if (r.joins) join(r);
  if (r.trades.length > r.most * 1.1) r.trades.splice(0, r.trades.length - r.most);
  touch(r);
}

// mark adds a line about the stream to the trades of an instrument.
function mark(id, row, channel) {
  if (channel !== "trades" || id.includes("*")) return;
  const r = record(id);
  r.trades.push({ ...row, at: Date.now() });
  touch(r);
}

// stored adds trades from history that the list does not have yet, in the order of their numbers.
async function stored(r, query) {
  const rows = [];
  const list = r.trades;
  try {
    for await (const e of gateway().trades(r.id, query)) rows.push(e);
  } catch {
    if (r.trades === list) r.most = fewTrades; // the next view tries again
    return; // without the right to history, trades begin now
  }
  if (r.trades !== list || rows.length === 0) return; // they were dropped meanwhile
  const has = new Set(list.map((row) => row.e?.n));
  const older = rows.filter((e) => !has.has(e.n)).map((e) => ({ kind: e.kind, e, gone: false, fixed: undefined }));
  older.sort((a, b) => a.e.n - b.e.n);
  while (older.length > 0) {
    const at = list.findLastIndex((row) => row.e?.n < older[0].e.n) + 1;
    const next = list.slice(at).find((row) => row.e)?.e.n;
    const many = older.findIndex((row) => row.e.n > next);
    list.splice(at, 0, ...older.splice(0, many < 0 ? older.length : many));
  }
  for (const row of list) {
    if (row.kind === "cancel" || row.kind === "correction") apply(list, row.e);
  }
  if (r.joins) join(r);
  r.filled++;
  if (!r.last) r.last = list.findLast((row) => row.kind === "trade")?.e.price;
  touch(r);
}

// apply marks the trade that a cancel or a correction is about.
function apply(list, e) {
  const old = e.of === undefined ? undefined : list.findLast((row) => row.kind === "trade" && row.e.n === e.of);
  if (old && e.kind === "cancel") old.gone = true;
  if (old && e.kind === "correction") old.fixed = e;
}

// join loads the trades between the stored ones and the first one that has arrived, once. They were
// published after the answer of history, and before the subscription.
function join(r) {
  const live = r.trades.findIndex((row) => row.live);
  if (live < 0) return;
  const before = r.trades.slice(0, live).findLast((row) => row.e);
  if (!before) return;
  r.joins = false;
  const missing = r.trades[live].e.n - before.e.n - 1;
  if (missing > 0) stored(r, { after: before.e.n, limit: missing });
}

function status(e) {
  const [symbol, market] = e.instrument.split("|");
  if (symbol === "*") {
    const next = new Map(markets.value);
    const m = next.get(market) ?? { phase: "", reason: undefined, until: undefined, down: false };
    if (e.phase === "feed_down" || e.phase === "feed_up") {
      next.set(market, { ...m, down: e.phase === "feed_down" });
      if (!e.snapshot) health.incident(e.phase, { market });
    } else {
      next.set(market, { ...m, phase: e.phase, reason: e.reason, until: e.until });
      if (!e.snapshot) health.incident("phase", { market, phase: e.phase });
    }
    markets.value = next;
    for (const r of records.values()) if (r.market === market) touch(r);
    return;
  }
  const r = seen(e);
  if (e.phase === "feed_down") r.stale = "feed_down";
  else if (e.phase === "gap") health.incident("feed_gap", { instrument: e.instrument });
  else if (e.phase !== "feed_up") Object.assign(r, { phase: e.phase, reason: e.reason ?? "", until: e.until, since: e.time });
  if (!e.snapshot) r.trades.push({ kind: "status", phase: e.phase, reason: e.reason, until: e.until, at: Date.parse(e.time) });
  touch(r);
}

function changed(e) {
  batch(() => {
    state.value = { name: e.state, error: e.error, wait: e.wait, since: Date.now() };
  });
  health.entered(e);
  if (e.state === "waiting" || e.state === "live") {
    for (const r of records.values()) {
      if (r.trades.length > 0 && r.trades.at(-1).kind !== "break" && e.state === "waiting") r.trades.push({ kind: "break", at: Date.now() });
      touch(r);
    }
  }
}

// catalogue has the instruments that were asked for.
const catalogue = new Map();
const searches = new Map();

// find returns at most 20 instruments of which a text is a part of symbol, name or ISIN.
export async function find(text) {
  const client = gateway();
  const key = text.trim().toLowerCase();
  if (!client || !key) return [];
  let hit = searches.get(key);
  if (!hit) {
    hit = client.get("/market/instruments", { q: key, limit: 20 }).then((data) => data.instruments);
    hit.catch(() => searches.delete(key));
    searches.set(key, hit);
  }
  const list = await hit;
  for (const i of list) catalogue.set(i.instrument, i);
  // What begins with the text comes first.
  const rank = (i) => (i.symbol.toLowerCase() === key ? 0 : i.symbol.toLowerCase().startsWith(key) ? 1 : 2);
  return [...list].sort((a, b) => rank(a) - rank(b) || (a.instrument < b.instrument ? -1 : 1));
}

// details returns an instrument of the catalogue, and its other terms, undefined if there is none.
export async function details(id) {
  const [symbol, market] = id.split("|");
  const list = (await gateway().get("/market/instruments", { q: symbol, market, limit: 100 })).instruments;
  for (const i of list) catalogue.set(i.instrument, i);
  const found = list.find((i) => i.instrument === id);
  return found && { ...found, terms: list.filter((i) => i.symbol === symbol).map((i) => i.term) };
}

// known returns an instrument that was asked for before.
export const known = (id) => catalogue.get(id);

// first returns some instruments of the catalogue, for a watchlist that is empty.
export async function first(count) {
  const list = (await gateway().get("/market/instruments", { limit: 100 })).instruments;
  for (const i of list) catalogue.set(i.instrument, i);
  const active = list.filter((i) => i.term === "24hs" || about.value.dev === false);
  return (active.length > 0 ? active : list).slice(0, count).map((i) => i.instrument);
}
