// The client that `rueda conformance client` tests: it prints what it receives as JSON lines.
//
//   npm ci && npm run build
//   rueda conformance client -- node examples/conformance.mjs

import { join } from "node:path";

import { Client } from "@rueda/client";
import { FileStore } from "@rueda/client/node";

const { RUEDA_URL, RUEDA_USERNAME, RUEDA_PASSWORD, RUEDA_INSTRUMENTS, RUEDA_SESSION, RUEDA_FOLDER } = process.env;

if (!RUEDA_URL) {
  console.error("usage: rueda conformance client -- node examples/conformance.mjs");
  process.exit(2);
}

const stop = new AbortController();
process.stdin.on("end", () => stop.abort()).resume(); // the suite has seen enough

const client = new Client(RUEDA_URL.split(","), {
  username: RUEDA_USERNAME,
  password: RUEDA_PASSWORD,
  session: RUEDA_SESSION,
  tokens: new FileStore(join(RUEDA_FOLDER, "tokens.json")),
});
const instruments = RUEDA_INSTRUMENTS.split(",");
client.subscribe({ trades: instruments, books: instruments });

const print = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const levels = (list) => list.map(({ price, size }) => [price, size]); // a Decimal is a text in JSON

try {
  for await (const ev of client.events(stop.signal)) {
    const { instrument, n } = ev;
    switch (ev.type) {
      case "trade":
        print({ event: "trade", instrument, n, price: ev.price, size: ev.size, replayed: ev.replayed });
        break;
      case "book": {
        const book = client.book(instrument);
        if (book) print({ event: "book", instrument, n: book.n, bids: levels(book.bids(5)), asks: levels(book.asks(5)) });
        break; // otherwise bookInvalid follows
      }
      case "bookInvalid":
        print({ event: "invalid", instrument, reason: ev.reason });
        break;
      case "lost":
        if (ev.channel === "trades") print({ event: "lost", instrument, from: ev.from, to: ev.to, reason: ev.reason });
        break;
      case "recovered":
        if (ev.channel === "trades") print({ event: "recovered", instrument, from: ev.from, to: ev.to });
        break;
      case "rejected":
        print({ event: "rejected", instrument, reason: ev.reason });
        break;
      case "state":
        console.error(ev.state, ev.url, ev.error?.message ?? ""); // for people
    }
  }
} catch (err) {
  print({ event: "end", reason: err.reason });
}
process.exit();
