import assert from "node:assert/strict";
import test from "node:test";

import { Queue } from "../dist/queue.js";

const a = "trades A|M|CI";
const quotes = "quotes A|M|CI";
const books = "order_book A|M|CI";
const trade = (n) => ({ type: "trade", n });
const quote = (n) => ({ type: "quote", n });
const names = (q) => {
  const list = [];
  for (let e = q.take(); e; e = q.take()) {
    list.push(e.mark ? `mark ${e.mark.position}` : e.event.type === "lost" ? `lost ${e.event.from}-${e.event.to}` : `${e.event.type} ${e.event.n}${e.merged ? " merged" : ""}`);
  }
  return list;
};

test("conflate replaces waiting states, and refuses trades when it is full", () => {
  const q = new Queue(3, "conflate");
  assert.ok(q.data(quotes, 1, quote(1)));
  assert.ok(q.data(a, 1, trade(1)));
  assert.ok(q.data(quotes, 2, quote(2)));
  assert.ok(q.data(books, 1, { type: "book", n: 1 }));
  assert.ok(q.data(books, 2, { type: "book", n: 2 }));
  assert.equal(q.data(a, 2, trade(2)), false);
  assert.equal(q.count, 3);
  assert.deepEqual(names(q), ["trade 1", "quote 2", "book 2 merged"]);
  assert.ok(q.data(books, 3, { type: "book", n: 3 }));
  assert.deepEqual(names(q), ["book 3"]); // taken before: nothing to merge
});

test("block keeps every event", () => {
  const q = new Queue(2, "block");
  assert.ok(q.data(quotes, 1, quote(1)));
  assert.ok(q.data(quotes, 2, quote(2)));
  assert.equal(q.data(quotes, 3, quote(3)), false);
  assert.deepEqual(names(q), ["quote 1", "quote 2"]);
});

test("drop reports ranges before the trade that follows, or at the end", () => {
  const q = new Queue(2, "drop");
  for (const n of [1, 2, 3, 4]) assert.ok(q.data(a, n, trade(n)));
  assert.equal(q.take().event.n, 1);
  assert.equal(q.take().event.n, 2);
  assert.ok(q.data(a, 5, trade(5)));
  assert.deepEqual(names(q), ["lost 3-4", "trade 5"]);
  for (const n of [6, 7, 8]) q.data(a, n, trade(n));
  assert.deepEqual(names(q), ["trade 6", "trade 7", "lost 8-8"]);
});

test("marks keep their place, and a long row of replaced states needs little memory", () => {
  const q = new Queue(10, "conflate");
  q.data(a, 1, trade(1));
  q.add({ mark: { epoch: "e", position: "p1" } });
  q.add({ mark: { epoch: "e", position: "p2" } });
  for (let n = 1; n <= 10_000; n++) q.data(quotes, n, quote(n));
  q.data(a, 2, trade(2));
  assert.deepEqual(names(q), ["trade 1", "mark p2", "quote 10000", "trade 2"]);
});

test("space and ready resolve", async () => {
  const q = new Queue(4, "conflate");
  const { signal } = new AbortController();
  for (const n of [1, 2, 3, 4]) q.data(a, n, trade(n));
  let free = false;
  const space = q.space(signal).then(() => (free = true));
  q.take();
  await Promise.resolve();
  assert.equal(free, false);
  q.take();
  await space;
  names(q);
  const ready = q.ready(signal);
  q.data(a, 5, trade(5));
  await ready;
});
