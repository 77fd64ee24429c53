// Prints the bars of an instrument: those of the journal, and then each new one. A bar that is
// revised replaces the one of the same time.
//
//   node examples/candles.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs' 1m
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { Client } from "@rueda/client";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", instrument = "GGAL|BYMA|24hs", interval = "1m"] = process.argv.slice(2);

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const client = new Client(url, { username, password });
client.subscribe({ bars: [`${instrument}|${interval}`] });

const candles = new Map(); // by time
let newest = 0;

function add(bar, from) {
  if (bar.n <= newest) return; // the journal and the stream both have it
  newest = bar.n;
  candles.set(bar.time, bar);
  const { time, open, high, low, close, volume, revision } = bar;
  console.log(from, time.slice(0, 19), `O ${open} H ${high} L ${low} C ${close} V ${volume}`, revision ? "revised" : "");
}

for await (const ev of client.events(stop.signal)) {
  if (ev.type === "state" && ev.state === "live" && newest === 0) {
    for await (const bar of client.bars(instrument, interval)) add(bar, "stored");
  }
  if (ev.type === "bar") add(ev, "live");
}
