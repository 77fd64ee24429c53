import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { dev, mortal, run } from "./dev.mjs";

const examples = fileURLToPath(new URL("../examples", import.meta.url));
const instrument = "GGAL|BYMA|24hs";
const has = (pattern, count = 1) => (lines) => lines.filter((line) => pattern.test(line)).length >= count;

test("the examples run against rueda dev", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const url = await dev(t);
  const folder = await mkdtemp(join(tmpdir(), "examples-"));
  t.after(() => rm(folder, { recursive: true }));
  const example = (name, more, enough) => run(folder, join(examples, name), [url, "demo", "demo", instrument, ...more], enough);

  await t.test("ticker", () => example("ticker.mjs", ["NOPE|BYMA|CI"], (lines) => has(/^GGAL\S+ bid \d+ at [\d.]+ ask \d+ at [\d.]+$/)(lines) && has(/^refused NOPE/)(lines)));

  await t.test("order book", async () => {
    const lines = await example("order-book.mjs", [], has(/^book \d+$/, 5));
    const end = lines.findIndex((line) => line.startsWith("book "));
    const asks = lines.slice(0, end).filter((line) => line.startsWith(" ".repeat(24))).map((line) => Number(line.trim().split(/ +/)[0]));
    assert.ok(asks.length > 0);
    assert.deepEqual(asks, asks.toSorted((a, b) => b - a));
  });

  await t.test("candles", async () => {
    const lines = await example("candles.mjs", ["1s"], (all) => has(/^stored/)(all) && has(/^live .* O [\d.]+ H [\d.]+ L [\d.]+ C [\d.]+ V \d+/, 3)(all));
    assert.equal(new Set(lines).size, lines.length);
  });

  await t.test("recorder, and its second run", async () => {
    const file = join(folder, "trades.jsonl");
    for (const count of [2, 3]) await example("recorder.mjs", [file], has(/^trade \d+$/, count));
    const rows = (await readFile(file, "utf8")).trim().split("\n").map(JSON.parse);
    assert.ok(rows.length > 30, `${rows.length}`);
    rows.forEach((row, i) => assert.equal(row.n, rows[0].n + i, `row ${i}`));
    const stored = [];
    const { Client } = await import("@rueda/client");
    const client = new Client(url, { username: "demo", password: "demo" });
    for await (const trade of client.trades(instrument, { after: rows[0].n - 1, limit: rows.length })) stored.push([trade.n, String(trade.price), String(trade.size)]);
    assert.deepEqual(rows.map((row) => [row.n, row.price, row.size]), stored);
  });

  await t.test("paper-trading bot", async () => {
    const lines = await example("paper-bot.mjs", [], has(/^sell 10 at [\d.]+ result -?[\d.]+$/, 2));
    let cash = 0;
    for (const line of lines) {
      const [, word, price] = /^(buy|sell) 10 at (\S+)/.exec(line) ?? [];
      if (word) cash += (word === "buy" ? -10 : 10) * Number(price);
    }
    assert.equal(Number(/cash (\S+)/.exec(lines.at(-1))[1]), cash);
  });
});

test("without arguments, the examples use rueda dev", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "arguments-"));
  t.after(() => rm(folder, { recursive: true }));
  const names = (await readdir(examples)).filter((name) => name !== "conformance.mjs");
  assert.ok(names.length > 5);
  const first = "data:text/javascript,globalThis.fetch = (url) => { console.log(url); process.exit(); }"; // the first request
  for (const name of names) {
    const { stdout } = await promisify(execFile)(process.execPath, ["--import", first, join(examples, name)], { cwd: folder });
    assert.match(stdout, /^http:\/\/127\.0\.0\.1:8080\/auth\/token$/m, name);
  }
  await assert.rejects(promisify(execFile)(process.execPath, [join(examples, "conformance.mjs")], { env: {} }), /usage: rueda conformance client -- node/);
});

test("the program of README that stores a sum is killed, and has the right sum", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const url = await dev(t);
  const folder = await mkdtemp(join(examples, "..", "test-restarts-")); // in the package, which it imports
  t.after(() => rm(folder, { recursive: true }));
  const readme = await readFile(join(examples, "../README.md"), "utf8");
  const program = [...readme.matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]).find((text) => text.includes("volume.json"));
  const endless = program.replaceAll("http://127.0.0.1:8080", url).replace(/^ +if .* break;.*\n/m, "");
  assert.doesNotMatch(endless, /break/);
  await writeFile(join(folder, "volume.mjs"), endless);
  const rows = [];
  for (let runs = 0; runs < 4; runs++) {
    const bot = spawn(process.execPath, ["volume.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
    const exit = once(bot, "exit");
    let seen = 0;
    for await (const line of createInterface({ input: bot.stdout })) {
      const [, n, , volume] = line.split(" ");
      rows.push({ n: Number(n), volume });
      if (++seen === 7) bot.kill("SIGKILL");
    }
    await exit;
  }
  const [first, last] = [rows[0].n, rows.at(-1).n];
  const { Client, Decimal } = await import("@rueda/client");
  let volume = Decimal.zero;
  const client = new Client(url, { username: "demo", password: "demo" });
  for await (const trade of client.trades(instrument, { after: first - 1, limit: last - first + 1 })) volume = volume.add(trade.size);
  assert.ok(last - first > 15);
  assert.equal(rows.at(-1).volume, String(volume));
});

test("the bot of README has each trade once, although the gateway is killed", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "killed-"));
  t.after(() => rm(folder, { recursive: true }));
  const { url, kill } = await mortal(t, join(folder, "data"));
  const count = (lines) => lines.filter((line) => line.startsWith("trade ")).length;
  let kills = 0;
  let next = 10;
  const kill3 = (lines) => {
    if (kills < 3 && count(lines) >= next) {
      kills++;
      next = Infinity; // until it is there again
      kill().then(() => (next = count(lines) + 10), assert.fail);
    }
    return kills === 3 && count(lines) >= next;
  };
  const lines = await run(folder, join(examples, "vwap-bot.mjs"), [url, "demo", "demo", instrument], kill3);
  assert.deepEqual(lines.filter((line) => line.startsWith("lost")), []);
  assert.ok(lines.filter((line) => line.startsWith("stream waiting")).length >= 3, lines.join("\n"));
  const rows = lines.filter((line) => line.startsWith("trade ")).map((line) => line.split(" "));
  const stored = [];
  const { Client, Decimal } = await import("@rueda/client");
  let volume = Decimal.zero;
  let turnover = Decimal.zero;
  const client = new Client(url, { username: "demo", password: "demo" });
  for await (const trade of client.trades(instrument, { after: Number(rows[0][1]) - 1, limit: rows.length })) {
    stored.push(`${trade.n} ${trade.price} x ${trade.size}`);
    assert.equal(trade.kind, "trade");
    volume = volume.add(trade.size);
    turnover = turnover.add(trade.price.mul(trade.size));
  }
  assert.deepEqual(rows.map((row) => row.slice(1, 5).join(" ")), stored);
  assert.equal(rows.at(-1).at(-1), (turnover.toNumber() / volume.toNumber()).toFixed(4));
});
