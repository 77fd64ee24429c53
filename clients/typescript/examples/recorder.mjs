// Writes trades to a file as JSON lines. Started again, it continues after the last one: what
// happened meanwhile is written too, or reported as lost.
//
//   node examples/recorder.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs' trades.jsonl
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";

import { Client } from "@rueda/client";
import { FileStore } from "@rueda/client/node";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", instrument = "GGAL|BYMA|24hs", file = "trades.jsonl"] = process.argv.slice(2);
const state = `${file}.checkpoint`;

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

// The checkpoint has the file's length: what was written after it is written again.
let saved;
try {
  saved = JSON.parse(readFileSync(state, "utf8"));
  writeFileSync(file, readFileSync(file).subarray(0, saved.length));
} catch (err) {
  if (err.code !== "ENOENT") throw err;
}
let length = saved?.length ?? 0;

const client = new Client(url, { username, password, tokens: new FileStore(`${file}.tokens`), ...(saved && { resume: saved.checkpoint }) });
client.subscribe({ trades: [instrument] });

let lines = "";

function save() {
  appendFileSync(file, lines);
  length += Buffer.byteLength(lines);
  lines = "";
  writeFileSync(`${state}.new`, JSON.stringify({ length, checkpoint: client.checkpoint() }));
  renameSync(`${state}.new`, state);
}

let written = Date.now();
for await (const ev of client.events(stop.signal)) {
  if (Date.now() - written > 200) {
    save(); // before this event
    written = Date.now();
  }
  if (ev.type === "trade") {
    lines += JSON.stringify({ n: ev.n, time: ev.time, kind: ev.kind, price: ev.price, size: ev.size }) + "\n";
    if (ev.n % 10 === 0) console.log("trade", ev.n);
  }
  if (ev.type === "lost") {
    lines += JSON.stringify({ lost: [ev.from, ev.to], reason: ev.reason }) + "\n";
    console.log("lost", ev.from, ev.to, ev.reason);
  }
}
save();
console.log("saved", length);
