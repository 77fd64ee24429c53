// Prints the five best levels of a book after each change.
//
//   node examples/order-book.mjs http://127.0.0.1:8080 demo demo 'GGAL|BYMA|24hs'
//
// Without arguments it follows GGAL|BYMA|24hs of rueda dev.

import { Client } from "@rueda/client";

const [url = "http://127.0.0.1:8080", username = "demo", password = "demo", instrument = "GGAL|BYMA|24hs"] = process.argv.slice(2);

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

const client = new Client(url, { username, password });
client.subscribe({ books: [instrument], depth: 5, conflate: "250ms" });

for await (const ev of client.events(stop.signal)) {
  if (ev.type === "bookInvalid") console.log("the book is not known:", ev.reason);
  if (ev.type !== "book") continue;
  const book = client.book(instrument);
  if (!book) continue; // bookInvalid follows
  for (const { price, size } of book.asks(5).reverse()) console.log(`${" ".repeat(24)}${String(price).padStart(12)} ${size}`);
  for (const { price, size } of book.bids(5)) console.log(`${String(size).padStart(11)} ${String(price).padStart(12)}`);
  console.log("book", book.n);
}
