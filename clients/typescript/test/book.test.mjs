import assert from "node:assert/strict";
import test from "node:test";

import { Book, Decimal, crc32 } from "@rueda/client";

const d = Decimal.parse;
const level = (price, size) => ({ price: d(price), size: d(size), orders: undefined });
const header = { type: "book", instrument: "GGAL|BYMA|24hs", time: "", latency: undefined, delay: 0, received: 0, replayed: false };

test("checksums are those of the contract", () => {
  assert.equal(crc32("704950:300;704900:150;|705000:1200;705050:80;|"), 4051739875);
  const book = new Book();
  const first = { ...header, n: 5011, snapshot: true, depth: 5, previous: 0, bids: [level("7049.5", "300"), level("7049", "150")], asks: [level("7050", "1200"), level("7050.5", "80")], checksum: 4051739875 };
  assert.equal(book.apply(first), undefined);
  const next = { ...header, n: 5012, snapshot: false, depth: 0, previous: 5011, bids: [level("7049.5", "280")], asks: [level("7050", "0")], checksum: 3526765731 };
  assert.equal(book.apply(next), undefined);
  assert.deepEqual(book.asks().map((l) => String(l.price)), ["7050.5"]);
  assert.equal(String(book.best().bid.size), "280");
  assert.equal(book.apply(next), "chain");
  assert.deepEqual([book.bids(), book.asks(), book.best().bid], [[], [], undefined]);
  assert.equal(book.apply({ ...next, n: 5013, previous: 5012 }), "invalid");
  assert.equal(book.apply({ ...first, n: 5014, checksum: 1 }), "checksum");
});

// The model of the test keeps a book with integers alone.
class Model {
  bids = new Map();
  asks = new Map();
  side(which) {
    return [...this[which]].sort(([a], [b]) => (which === "bids" ? b - a : a - b));
  }
  checksum() {
    const text = (which) => this.side(which).slice(0, 10).map(([p, z]) => `${p}:${z};`).join("");
    return crc32(`${text("bids")}|${text("asks")}|`);
  }
}

test("100,000 random updates with gaps and bad checksums never show a wrong or crossed book", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  const price = (ticks) => d(`${Math.floor(ticks / 100)}.${String(ticks % 100).padStart(2, "0")}`);
  const list = (changes) => changes.map(([p, z]) => ({ price: price(p), size: d(String(z)), orders: undefined }));
  const model = new Model();
  const book = new Book();
  const count = { gaps: 0, damaged: 0, valid: 0, snapshots: 0 };
  let n = 1;
  let previous = 0;
  const snapshot = () => ({ ...header, n, snapshot: true, depth: 0, previous: 0, bids: list(model.side("bids")), asks: list(model.side("asks")), checksum: model.checksum() });
  for (let i = 0; i < 100_000; i++) {
    const mid = 10_000 + random(200);
    const changes = { bids: [], asks: [] };
    for (const which of ["bids", "asks"]) {
      for (const [p] of model[which]) {
        const crosses = which === "bids" ? p >= mid : p <= mid;
        if (crosses || (model[which].size > 20 && random(4) === 0)) changes[which].push([p, 0]);
      }
      const p = which === "bids" ? mid - 1 - random(40) : mid + 1 + random(40);
      if (!changes[which].some(([q]) => q === p)) changes[which].push([p, 1 + random(500)]);
      for (const [q, z] of changes[which]) z ? model[which].set(q, z) : model[which].delete(q);
    }
    n += 1 + random(3);
    const u = { ...header, n, snapshot: false, depth: 0, previous, bids: list(changes.bids), asks: list(changes.asks), checksum: model.checksum() };
    previous = n;
    const fate = random(50);
    if (fate === 0) {
      count.gaps++; // the update is lost
    } else if (fate === 1 && u.bids.length > 0) {
      count.damaged++;
      // The best bid changes, so that the checksum must notice it.
      const best = model.side("bids")[0];
      u.bids = u.bids.filter((l) => !l.price.equals(price(best[0]))).concat(list([[best[0], best[1] + 1]]));
      const wasValid = book.valid;
      assert.equal(book.apply(u), wasValid ? (book.n === n ? "checksum" : "chain") : "invalid");
    } else if (!book.valid && fate < 10) {
      count.snapshots++;
      assert.equal(book.apply(snapshot()), undefined);
    } else {
      book.apply(u);
    }
    if (!book.valid) {
      assert.equal(book.bids().length + book.asks().length, 0);
      continue;
    }
    if (book.n !== n) continue; // an update was lost, which the next one shows
    count.valid++;
    for (const which of ["bids", "asks"]) {
      const got = book[which]().map((l) => `${l.price.unitsAt(2)}:${l.size}`).join();
      if (got !== model.side(which).map(([p, z]) => `${p}:${z}`).join()) assert.fail(`update ${i}: ${which} are ${got}`);
    }
    const { bid, ask } = book.best();
    if (bid && ask && bid.price.compare(ask.price) >= 0) assert.fail(`update ${i}: crossed`);
  }
  assert.ok(count.gaps > 1000 && count.damaged > 1000 && count.snapshots > 1000 && count.valid > 50_000, JSON.stringify(count));
});

test("a book with more levels than its depth is not valid", () => {
  const book = new Book();
  const bids = [level("2", "1"), level("1", "1")];
  const u = { ...header, n: 1, snapshot: true, depth: 1, previous: 0, bids, asks: [], checksum: crc32("2:1;||") };
  assert.equal(book.apply(u), "checksum");
});
