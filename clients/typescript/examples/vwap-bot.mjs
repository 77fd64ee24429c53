// Keeps the average price by volume. It counts each trade once since its start, across restarts of
// the gateway, and corrects what the market cancels or corrects. If trades are lost, it says so and
// begins again.
//
//   node examples/vwap-bot.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs'
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { Client, Decimal } from "@rueda/client";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", instrument = "GGAL|BYMA|24hs"] = process.argv.slice(2);

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const client = new Client(url, { username, password });
client.subscribe({ trades: [instrument] });

let first = 0; // n of the first trade; cancels of older ones are not counted
let volume = Decimal.zero;
let turnover = Decimal.zero;

function count(price, size) {
  volume = volume.add(size);
  turnover = turnover.add(price.mul(size));
}

function add(trade) {
  first ||= trade.n;
  if (trade.kind === "trade") return count(trade.price, trade.size);
  if (trade.of === undefined || trade.of < first) return;
  if (trade.kind === "cancel") return count(trade.price, trade.size.negate());
  count(trade.oldPrice, trade.oldSize.negate());
  count(trade.price, trade.size);
}

// A Decimal has no division: an average is rounded anyway.
const average = () => (volume.isZero() ? "unknown" : (turnover.toNumber() / volume.toNumber()).toFixed(4));

for await (const ev of client.events(stop.signal)) {
  switch (ev.type) {
    case "trade":
      add(ev);
      console.log(`trade ${ev.n} ${ev.price} x ${ev.size} average ${average()}`);
      break;
    case "state":
      console.log(`stream ${ev.state} ${ev.error?.message ?? ""}`.trim());
      break;
    case "recovered":
      console.log(`recovered ${ev.from} to ${ev.to}`);
      break;
    case "lost":
      console.log(`lost ${ev.from} to ${ev.to} ${ev.reason}`);
      first = 0;
      volume = turnover = Decimal.zero;
      break;
    case "rejected":
      console.log(`rejected ${ev.instrument} ${ev.reason}`);
      stop.abort();
  }
}
