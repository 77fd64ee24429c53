import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtemp, readFile, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { Client, ConnectionError, IncompleteError, RuedaError } from "@rueda/client";
import { download } from "@rueda/client/node";

import { ms } from "../dist/time.js";
import { replay } from "./dev.mjs";
import { days, record } from "./recording.mjs";

const login = { username: "demo", password: "demo" };
const parts = ["a".repeat(1000), "b".repeat(1000)];

// start starts a server whose exports are cut off after a part, as often as cuts says.
async function start(t, lost = []) {
  const s = { cuts: 0, asked: 0, stall: false };
  const server = createServer(async (req, res) => {
    req.resume();
    if (req.method === "POST") return res.end(JSON.stringify({ success: true, data: { access_token: "a", expires_in: 900, refresh_token: "r", refresh_expires_in: 900 } }));
    s.asked++;
    if (lost.length > 0) res.setHeader("Rueda-Lost", JSON.stringify(lost));
    for (const part of parts) {
      res.write(part);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (s.stall) return;
      if (s.cuts-- > 0) return res.socket.end(); // after the part
    }
    res.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const folder = await mkdtemp(join(tmpdir(), "download-"));
  t.after(async () => {
    server.close();
    server.closeAllConnections();
    await rm(folder, { recursive: true });
  });
  return Object.assign(s, { folder, client: new Client(`http://127.0.0.1:${server.address().port}`, login) });
}

test("a download that is cut off begins again, and one that fails leaves the older file", async (t) => {
  const s = await start(t);
  s.cuts = 2;
  const file = join(s.folder, "day.csv");
  const progress = [];
  assert.deepEqual(await download(s.client, "trades", "2026-11-20", file, { progress: (bytes) => progress.push(bytes) }), []);
  assert.equal(await readFile(file, "utf8"), parts.join(""));
  assert.equal(s.asked, 3);
  assert.deepEqual(progress.slice(-2), [1000, 2000]); // a part before a cut may not arrive
  assert.ok(progress.length > 2 && progress.slice(0, -1).every((bytes) => bytes === 1000), `${progress}`);
  s.cuts = 3;
  await assert.rejects(download(s.client, "trades", "2026-11-20", file), ConnectionError);
  assert.equal(await readFile(file, "utf8"), parts.join(""));
  assert.deepEqual(await readdir(s.folder), ["day.csv"]);
});

test("an answer that stands still is ended, and a signal ends a download", async (t) => {
  const s = await start(t);
  s.stall = true;
  const { answer } = ms;
  ms.answer = 100;
  t.after(() => (ms.answer = answer));
  const file = join(s.folder, "day.csv");
  await assert.rejects(download(s.client, "trades", "2026-11-20", file), { message: "the connection is silent" });
  assert.equal(s.asked, 3);
  const stop = new AbortController();
  await assert.rejects(download(s.client, "trades", "2026-11-20", file, { signal: stop.signal, progress: () => stop.abort() }), { name: "AbortError" });
  assert.equal(s.asked, 4);
  assert.deepEqual(await readdir(s.folder), []);
});

test("rows that a file lacks are returned, with a warning or an error", async (t) => {
  const s = await start(t, [{ instrument: "MINE|TEST|CI", interval: "1m", from: 2, to: 3, reason: "buffer_exceeded" }]);
  const warn = t.mock.method(console, "warn", () => undefined);
  const file = join(s.folder, "day.parquet");
  const lost = { type: "lost", channel: "bars", instrument: "MINE|TEST|CI|1m", from: 2, to: 3, start: undefined, end: undefined, reason: "buffer_exceeded" };
  assert.deepEqual(await download(s.client, "bars", "2026-11-20", file), [lost]);
  assert.match(warn.mock.calls[0].arguments[0], /lost rows from N 2 to N 3/);
  await rm(file);
  await assert.rejects(download(s.client, "bars", "2026-11-20", file, { requireComplete: true }), (err) => err instanceof IncompleteError && err.lost.length === 1);
  assert.deepEqual(await readdir(s.folder), []);
});

test("mistakes are not tried again", async (t) => {
  const s = await start(t);
  const get = (...args) => download(s.client, "trades", "2026-11-20", ...args);
  await assert.rejects(get(join(s.folder, "day.txt")), /.parquet, .csv or .ndjson/);
  await assert.rejects(get(join(s.folder, "day.csv"), { format: "csv" }), /the options of download: there is no member format. Write one of market, progress/);
  await assert.rejects(get(join(s.folder, "none", "day.csv")), { code: "ENOENT" });
  assert.equal(s.asked, 1);
});

test("days of a gateway", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "days-"));
  t.after(() => rm(folder, { recursive: true }));
  await record(join(folder, "days.jsonl"), "MINE|TEST|CI");
  const { url } = await replay(t, join(folder, "data"), join(folder, "days.jsonl"));
  const client = new Client(url, login);
  const file = join(folder, "trades.csv");
  for (const end = Date.now() + 30_000; ; ) {
    try {
      assert.deepEqual(await download(client, "trades", days[1], file, { market: "TEST" }), []);
      break;
    } catch (err) {
      if (err.reason !== "not_found" || Date.now() > end) throw err; // the replay goes on
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  assert.equal((await readFile(file, "utf8")).trim().split("\n").length, 41);
  await assert.rejects(download(client, "ticks", days[1], file), (err) => err instanceof RuedaError && err.message.includes("type must be trades, quotes, bars or depth"));
  await download(client, "depth", days[1], join(folder, "depth.parquet"));
  assert.ok((await stat(join(folder, "depth.parquet"))).size > 100);
});
