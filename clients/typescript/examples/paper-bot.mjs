// Trades on paper: it buys when the average of the last 5 trades rises above that of the last 20, and
// sells when it falls below. It pays the ask and gets the bid. No order is sent.
//
//   node examples/paper-bot.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs'
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { Client, Decimal } from "@rueda/client";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", instrument = "GGAL|BYMA|24hs"] = process.argv.slice(2);
const size = Decimal.parse("10");

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const client = new Client(url, { username, password });
client.subscribe({ trades: [instrument], books: [instrument], status: [instrument] });

let position = Decimal.zero;
let cash = Decimal.zero;
let halted = false;
let prices = [];

const sum = (list) => list.reduce((a, b) => a.add(b), Decimal.zero);

// isRising compares 4 times the sum of 5 prices with the sum of 20, so that nothing is divided.
const isRising = () => sum(prices.slice(-5)).mul(Decimal.of(4n, 0)).compare(sum(prices)) > 0;

function decide() {
  const { bid, ask } = client.book(instrument)?.best() ?? {};
  if (!bid || !ask || halted || prices.length < 20) return; // the book is not known, or too early
  const rising = isRising();
  if (rising === !position.isZero()) return;
  const price = rising ? ask.price : bid.price;
  const amount = price.mul(size);
  position = rising ? size : Decimal.zero;
  cash = rising ? cash.sub(amount) : cash.add(amount);
  const value = cash.add(position.mul(bid.price));
  console.log(rising ? "buy" : "sell", String(size), "at", String(price), "result", String(value));
}

for await (const ev of client.events(stop.signal)) {
  switch (ev.type) {
    case "trade":
      if (ev.kind !== "trade") break; // a cancel or correction
      prices = [...prices.slice(-19), ev.price];
      if (!ev.replayed) decide(); // a replayed trade is not news
      break;
    case "status":
      halted = ev.phase !== "open" && ev.phase !== "gap" && ev.phase !== "feed_up";
      break;
    case "lost":
      prices = []; // the averages would be wrong
      break;
  }
}
console.log("position", String(position), "cash", String(cash));
