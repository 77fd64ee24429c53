// Prints the best bid and offer of instruments, and what happens to the stream.
//
//   node examples/ticker.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs' ...
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { Client } from "@rueda/client";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", ...instruments] = process.argv.slice(2);
if (instruments.length === 0) instruments.push("GGAL|BYMA|24hs");

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const client = new Client(url, { username, password });
client.subscribe({ quotes: instruments, conflate: "100ms" });

const show = (level) => (level ? `${level.size} at ${level.price}` : "none");

for await (const ev of client.events(stop.signal)) {
  if (ev.type === "quote") console.log(ev.instrument, "bid", show(ev.bid), "ask", show(ev.ask));
  if (ev.type === "rejected") console.log("refused", ev.instrument, ev.reason, ev.hint ?? "");
  if (ev.type === "state") console.log("stream", ev.state, ev.error?.message ?? "");
}
