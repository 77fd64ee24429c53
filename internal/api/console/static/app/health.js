// What is measured of the connection, a point each second for the plots, and what happened to it.
import { signal } from "./lib.js";
import { gateway } from "./session.js";
import { counted, now, ping, trip } from "./wire.js";

const span = 900; // seconds

// series has the points, oldest first. A value is null where nothing was measured.
export const series = {
  at: [], rtt: [], low: [], high: [], rate: [], kilobytes: [], link: [], stream: [], queued: [], merged: [],
};

// second changes when there is a new point.
export const second = signal(0);

// incidents are the newest events of the connection: {id, at, kind} and what each kind has. See
// story in views/words.js.
export const incidents = signal([]);

// states is the history of the state of the stream: {at, state, error}.
export const states = signal([]);

// totals counts since the page was opened.
export const totals = signal({ gaps: 0, recovered: 0, lost: 0, connects: 0 });

// feeds has the receive time of the newest message of each market.
export const feeds = new Map();

let seen = 0;
let down = false; // the connection is lost, and that is said

export function incident(kind, more) {
  incidents.value = [{ id: ++seen, at: Date.now(), kind, ...more }, ...incidents.value.slice(0, 199)];
}

export function recovered(e) {
  const count = e.to - e.from + 1;
  const { value } = totals;
  totals.value = { ...value, gaps: value.gaps + 1, recovered: value.recovered + count };
  incident("recovered", { channel: e.channel, instrument: e.instrument, from: e.from, to: e.to });
}

export function lost(e) {
  const { value } = totals;
  const count = e.from !== undefined && e.to !== undefined ? e.to - e.from + 1 : 1;
  totals.value = { ...value, gaps: value.gaps + 1, lost: value.lost + count };
  incident("lost", { channel: e.channel, instrument: e.instrument, from: e.from ?? "?", to: e.to ?? "?", reason: e.reason });
}

export function entered(e) {
  states.value = [...states.value.slice(-199), { at: Date.now(), state: e.state, error: e.error?.message }];
  if (e.state === "live") {
    down = false;
    if (totals.value.connects > 0) incident("back");
    totals.value = { ...totals.value, connects: totals.value.connects + 1 };
  }
  if (e.state === "waiting" && down) return; // another attempt has failed
  down ||= e.state === "waiting";
  if (e.state === "waiting" || e.state === "closed") incident(e.state, { reason: e.error?.reason || "", msg: e.error?.message ?? "" });
}

// Numbers of quotes that did not come, because newer ones replaced them.
const quoteN = new Map();
let came = 0;
let skipped = 0;

export function quote(e) {
  const old = quoteN.get(e.instrument);
  quoteN.set(e.instrument, e.n);
  if (e.snapshot || old === undefined || e.n <= old) return;
  came++;
  skipped += e.n - old - 1;
}

// Times from publication to the page, of some messages of a second.
let delays = [];

export function market(e) {
  const id = e.instrument;
  const from = id.indexOf("|") + 1;
  feeds.set(id.slice(from, id.indexOf("|", from)), e.received);
  if (e.latency === undefined || e.replayed || e.snapshot || delays.length >= 64 || trip.offset === undefined) return;
  delays.push(now() + trip.offset - (Date.parse(e.time) + e.latency / 1e6));
}

let before = { in: 0, bytes: 0, at: now() };
let wasCame = 0;
let wasSkipped = 0;

const rounded = (v) => (v === undefined ? null : Math.round(v * 100) / 100);

function sample() {
  const client = gateway();
  if (!client) return;
  const at = now();
  const h = client.health();
  const seconds = Math.max((at - before.at) / 1000, 0.001);
  delays.sort((a, b) => a - b);
  const pick = (q) => (delays.length === 0 ? undefined : Math.max(delays[Math.floor((delays.length - 1) * q)], 0));
  const quotes = came - wasCame + (skipped - wasSkipped);
  const point = {
    at: at / 1000, rtt: at - trip.at < 3000 ? rounded(trip.rtt) : null, low: rounded(pick(0.5)), high: rounded(pick(0.95)),
    rate: rounded((counted.in - before.in) / seconds), kilobytes: rounded((counted.bytes - before.bytes) / seconds / 1000),
    link: rounded(h.link === undefined ? undefined : h.link / 1000), stream: rounded(h.stream === undefined ? undefined : h.stream / 1000),
    queued: h.queued, merged: quotes === 0 ? null : rounded(((skipped - wasSkipped) / quotes) * 100),
  };
  before = { in: counted.in, bytes: counted.bytes, at };
  [wasCame, wasSkipped, delays] = [came, skipped, []];
  for (const [name, list] of Object.entries(series)) {
    list.push(point[name]);
    if (list.length > span) list.shift();
  }
  second.value++;
  if (second.value % 2 === 0) ping();
}

// begin measures from now on.
export function begin() {
  setInterval(sample, 1000);
}

// newest returns the newest value of a series.
export const newest = (name) => series[name].at(-1) ?? undefined;
