import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { Client, IncompleteError } from "@rueda/client";

import { replay } from "./dev.mjs";
import { Gateway, instrument, take, tradeOf } from "./gateway.mjs";
import { days, perDay, record } from "./recording.mjs";

const at = "2026-11-20T14:30:00.000000000Z";
const kept = "2026-11-08T14:00:00.000000000Z";
const notKept = { from: 3, to: 7, end: kept, reason: "buffer_exceeded" };
const damaged = { from: 11, to: 12, start: at, end: at, reason: "buffer_exceeded" };
const series = { type: "lost", channel: "trades", instrument };
const lost = [{ ...series, start: undefined, ...notKept }, { ...series, ...damaged }];
const text =
  `trades ${instrument}: history is incomplete: lost rows from N 3 to N 7 before ${kept} (buffer_exceeded). ` +
  "The method lost has all ranges. requireComplete makes it an error";

// twoPages returns rows 8 to 10 and 13. Those before 8 are no longer kept, and 11 and 12 are damaged.
const twoPages = ({ query }) =>
  query.cursor ? { trades: [tradeOf(13)], lost: [damaged] } : { trades: [8, 9, 10].map(tradeOf), next_cursor: "second", lost: [notKept] };

async function start(t, page, options = {}) {
  const gateway = await Gateway.start(t);
  gateway.page = (r) => (r.path === "/auth/token" ? {} : page(r));
  const warn = t.mock.method(console, "warn", () => undefined);
  const client = new Client(gateway.url, { username: "demo", password: "demo", ...options });
  const pages = () => gateway.requests.filter((r) => r.path.startsWith("/market/"));
  const warned = () => warn.mock.calls.map((c) => c.arguments[0]);
  return { gateway, client, pages, warned };
}

const numbers = async (rows) => {
  const list = [];
  for await (const row of rows) list.push(row.n);
  return list;
};

test("lost is known before the first row, and later pages add to it", async (t) => {
  const { client, pages, warned } = await start(t, twoPages);
  const rows = client.trades(instrument, { after: 2 });
  assert.equal(pages().length, 0);
  assert.deepEqual(await rows.lost(), lost.slice(0, 1));
  assert.equal(pages().length, 1);
  for (const n of [8, 9, 10]) assert.equal((await rows.next()).value.n, n);
  assert.equal(pages().length, 1);
  assert.deepEqual(await rows.lost(), lost.slice(0, 1));
  assert.deepEqual(await numbers(rows), [13]);
  assert.deepEqual(await rows.lost(), lost);
  assert.deepEqual(pages().map((r) => r.query.cursor), [undefined, "second"]);
  assert.deepEqual(warned(), []);
});

test("a page with more lost ranges than a call can have arguments", async (t) => {
  const many = Array.from({ length: 300_000 }, (_, i) => ({ from: 2 * i + 1, to: 2 * i + 1, reason: "buffer_exceeded" }));
  const { client } = await start(t, () => ({ trades: [tradeOf(600_001)], lost: many }));
  const rows = client.trades(instrument);
  assert.equal((await rows.lost()).length, many.length);
  assert.deepEqual(await numbers(rows), [600_001]);
});

test("a program that does not ask is warned once a call", async (t) => {
  const { client, warned } = await start(t, twoPages);
  assert.deepEqual(await numbers(client.trades(instrument)), [8, 9, 10, 13]);
  assert.deepEqual(warned(), [text]);
  for await (const _ of client.trades(instrument)) break;
  assert.deepEqual(warned(), [text, text]);
});

test("an empty answer does not look as if nothing had been traded", async (t) => {
  const { client, warned } = await start(t, () => ({ trades: [], lost: [notKept] }));
  assert.deepEqual(await numbers(client.trades(instrument)), []);
  assert.deepEqual(warned(), [text]);
  assert.deepEqual(await client.trades(instrument).lost(), lost.slice(0, 1));
  await assert.rejects(numbers(client.trades(instrument, { requireComplete: true })), IncompleteError);
});

test("each call has the series of the stream in what is lost", async (t) => {
  const { client, warned } = await start(t, () => ({ quotes: [], statuses: [], bars: [], lost: [{ reason: "new" }, { from: 1, reason: "new" }] }));
  for (const [rows, channel, id] of [
    [client.quotes(instrument), "quotes", instrument],
    [client.statuses(instrument), "status", instrument],
    [client.bars(instrument, "5m"), "bars", `${instrument}|5m`],
  ]) {
    assert.deepEqual(await numbers(rows), []);
    assert.match(warned().at(-1), new RegExp(`^${channel} ${id.replaceAll("|", ".")}: history is incomplete: lost rows \\(new\\), and 1 more\\. `));
    const unknown = { type: "lost", channel, instrument: id, to: undefined, start: undefined, end: undefined, reason: "new" };
    assert.deepEqual(await rows.lost(), [{ ...unknown, from: undefined }, { ...unknown, from: 1 }]);
  }
  assert.equal(warned().length, 3);
});

test("complete history is not reported", async (t) => {
  const { client, warned } = await start(t, () => ({ trades: [tradeOf(1)] }), { requireComplete: true });
  const rows = client.trades(instrument);
  assert.deepEqual([await numbers(rows), await rows.lost(), warned()], [[1], [], []]);
});

test("requireComplete makes it an error before the first row of the page", async (t) => {
  const { gateway, client, warned } = await start(t, twoPages, { requireComplete: true });
  const other = new Client(gateway.url, { username: "demo", password: "demo" });
  for (const rows of [client.trades(instrument), other.trades(instrument, { requireComplete: true })]) {
    assert.deepEqual(await rows.lost(), lost.slice(0, 1));
    await assert.rejects(rows.next(), (err) => err instanceof IncompleteError && err.message === text.slice(0, text.indexOf(". The")) && err.lost.length === 1);
  }
  assert.deepEqual(await numbers(client.trades(instrument, { requireComplete: false })), [8, 9, 10, 13]);
  assert.deepEqual(warned(), [text]);
  gateway.page = (r) => (r.query.cursor || r.path === "/auth/token" ? twoPages(r) : { ...twoPages(r), lost: undefined });
  const rows = client.trades(instrument);
  for (const n of [8, 9, 10]) assert.equal((await rows.next()).value.n, n);
  await assert.rejects(rows.next(), IncompleteError);
});

test("lost tries again after an error, and a limit of 0 reads nothing", async (t) => {
  const { gateway, client, pages } = await start(t, twoPages);
  gateway.refuse = (r) => r.path === "/market/trades" && { code: 500, reason: "internal" };
  const rows = client.trades(instrument);
  await assert.rejects(rows.lost(), { reason: "internal" });
  gateway.refuse = undefined;
  assert.deepEqual(await rows.lost(), lost.slice(0, 1));
  assert.deepEqual(await numbers(rows), [8, 9, 10, 13]);
  const before = pages().length;
  const none = client.trades(instrument, { limit: 0 });
  assert.deepEqual([await none.lost(), await numbers(none), pages().length], [[], [], before]);
});

test("a gap of the stream is filled without a warning or an error", async (t) => {
  const { gateway, client, warned } = await start(t, () => ({ trades: [3, 4].map(tradeOf), lost: [notKept] }), { requireComplete: true });
  gateway.opened = (c) => c.trades(1, 2, 5, 6);
  client.subscribe({ trades: [instrument] });
  const events = client.events();
  const list = await take(events, (e) => e.type === "trade" && e.n === 6);
  assert.deepEqual(list.filter((e) => e.type === "trade").map((e) => e.n), [1, 2, 3, 4, 5, 6]);
  assert.deepEqual(warned(), []);
  await events.return();
});

test("a journal without its first day and a segment says what is lost", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "history-"));
  t.after(() => rm(folder, { recursive: true }));
  const [file, other, data] = ["days.jsonl", "other.jsonl", "data"].map((name) => join(folder, name));
  const id = "MINE|TEST|CI";
  await record(file, id);
  await record(other, "OTHR|TEST|CI");
  const login = { username: "demo", password: "demo" };
  const first = await replay(t, data, file);
  const before = new Client(first.url, login);
  while ((await numbers(before.trades(id))).length < days.length * perDay) await new Promise((resolve) => setTimeout(resolve, 100));
  await first.stop();

  await rm(join(data, "journal", days[0]), { recursive: true });
  const segments = (await readdir(join(data, "journal", days[2]))).filter((name) => name.includes(".seg"));
  assert.ok(segments.length > 0);
  for (const name of segments) await rm(join(data, "journal", days[2], name));

  const { url } = await replay(t, data, other);
  const client = new Client(url, login);
  const warn = t.mock.method(console, "warn", () => undefined);
  const series = { type: "lost", channel: "trades", instrument: id, reason: "buffer_exceeded" };
  const notKept = { ...series, from: 1, to: 40, start: undefined, end: "2026-11-03T14:30:00.000000000Z" };
  const damaged = { ...series, from: 81, to: 120, start: "2026-11-03T15:09:00.000000000Z", end: "2026-11-05T14:30:00.000000000Z" };
  for (const [range, want] of [
    [{}, [damaged]],
    [{ after: 0 }, [notKept, damaged]],
    [{ after: 2 }, [{ ...notKept, from: 3 }, damaged]],
    [{ after: 2, newestFirst: true }, [{ ...notKept, from: 3 }, damaged]],
    [{ start: days[0] }, [notKept, damaged]],
    [{ start: days[0], end: days[1] }, [notKept]],
  ]) {
    const rows = client.trades(id, range);
    assert.deepEqual(await rows.lost(), want, JSON.stringify(range));
    assert.equal((await numbers(rows)).length, range.end ? 0 : 120);
    assert.equal(warn.mock.callCount(), 0);
    await numbers(client.trades(id, range));
    assert.equal(warn.mock.callCount(), 1);
    warn.mock.resetCalls();
    await assert.rejects(numbers(client.trades(id, { ...range, requireComplete: true })), IncompleteError);
  }
  assert.equal((await numbers(client.trades(id, { after: 120, requireComplete: true }))).length, 80);
  assert.deepEqual((await client.bars(id, "1m", { after: 0 }).lost()).map((v) => v.instrument), [`${id}|1m`, `${id}|1m`]);
});
