// Mistakes that a new user makes: each error names what is wrong, and what to do. Errors in
// functions of the program end the events, and are not tried again.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import test from "node:test";

import { Client, Decimal } from "@rueda/client";

import { dev } from "./dev.mjs";
import { Gateway, instrument, take } from "./gateway.mjs";

const login = { username: "demo", password: "demo" };
const here = "http://127.0.0.1:9";
const make = (url, options = login) => () => new Client(url, options);
const set = (list) => () => new Client(here, login).subscribe(list);
const range = (r) => () => new Client(here, login).trades(instrument, r);

const mistakes = [
  ["no scheme", make("127.0.0.1:8080"), '"127.0.0.1:8080" is not the URL of a gateway: it begins with neither https:// nor http://'],
  ["another scheme", make("ftp://127.0.0.1"), "neither https:// nor http://"],
  ["no URL", make(undefined), "neither https:// nor http://"],
  ["a wrong port", make("http://127.0.0.1:port"), "its host or port is not valid"],
  ["a login in the URL", make("http://a:b@127.0.0.1"), "pass the user and the password as options"],
  ["a page", make("http://127.0.0.1:8080/client/"), '"http://127.0.0.1:8080/client/" is the URL of a page. Write http://127.0.0.1:8080'],
  ["a page behind a proxy", make("wss://api.example/x/docs/protocol"), "is the URL of a page. Write https://api.example/x"],
  ["a query", make("http://127.0.0.1/?token=x"), "it has a query"],
  ["without TLS", make("http://192.0.2.1"), "use https, or set insecure"],
  ["an option", make(here, { user: "demo", password: "demo" }), "the options of a Client: there is no member user. Write one of username, password"],
  ["options as arguments", make(here, "demo"), 'the options of a Client must be an object such as { username: ... }, not "demo"'],
  ["a session", make(here, { ...login, session: "my bot" }), 'session is "my bot": must be 1 to 36 of A-Z a-z 0-9 . _ -'],
  ["a queue", make(here, { ...login, queue: 0 }), "queue is 0: must be a whole number above 0"],
  ["an overflow", make(here, { ...login, overflow: "forget" }), 'overflow is "forget": must be "conflate", "block" or "drop"'],
  ["a heartbeat", make(here, { ...login, heartbeat: "10s" }), 'heartbeat is "10s": must be a number of ms above 0'],
  ["no username", make(here, { password: "demo" }), "a password without a username"],
  ["a list", set({ trade: [instrument] }), "a set of subscriptions: there is no member trade. Write one of trades, quotes, books"],
  ["a text", set({ trades: instrument }), `"${instrument}" in trades: write a list, ["${instrument}"]`],
  ["no identifier", set({ trades: ["GGAL"] }), '"GGAL" in trades is not of the form SYMBOL|MARKET|TERM'],
  ["a part", set({ books: ["GGAL|BYMA|24 hs"] }), 'in books: "24 hs" is not a term'],
  ["an interval", set({ bars: [`${instrument}|4h`] }), `"${instrument}|4h" in bars: 4h is not one of 1s, 1m, 5m, 15m, 1h, 1d`],
  ["no interval", set({ bars: [instrument] }), `has no interval: write ${instrument}|1m`],
  ["a depth", set({ books: [instrument], depth: 7 }), 'depth is 7: must be 1, 5, 10, 25 or "all"'],
  ["a conflation", set({ quotes: [instrument], conflate: "2s" }), 'conflate is "2s": must be 100ms, 250ms or 1s'],
  ["a list of rows", () => new Client(here, login).trades([instrument]), `["${instrument}"] in trades must be a string such as "GGAL|BYMA|24hs"`],
  ["another object as a checkpoint", () => new Client(here, { ...login, resume: { sum: 1 } }), "resume must be what checkpoint() returned"],
  ["a string as a checkpoint", () => new Client(here, { ...login, resume: "{}" }), "resume must be what checkpoint() returned"],
  ["a sum with a number", () => Decimal.parse("0.1").add(1), '1 is not a Decimal: write Decimal.parse("1")'],
  ["a difference with a string", () => Decimal.parse("0.1").sub("2.5"), '"2.5" is not a Decimal: write Decimal.parse("2.5")'],
  ["a product with a number", () => Decimal.parse("0.1").mul(3), 'write Decimal.parse("3")'],
  ["a comparison with nothing", () => Decimal.parse("0.1").compare(undefined), "undefined is not a Decimal"],
  ["an equation with a number", () => Decimal.parse("1").equals(1), 'write Decimal.parse("1")'],
  ["a member of a range", range({ from: "7d" }), "a range: there is no member from. Write one of start, end"],
  ["no range", range("7d"), 'a range must be an object such as { start: ... }, not "7d"'],
  ["no time", range({ end: "7 d" }), 'end of a range: "7 d" is not a time: write a Date, 2026-11-22'],
  ["a number", range({ start: 1795185000 }), "start of a range: 1795185000 is not a time"],
  ["no date", range({ start: new Date(NaN) }), "start of a range: Invalid Date is not a time"],
  ["a filter", () => new Client(here, login).instruments({ symbol: "GGAL" }), "a filter: there is no member symbol. Write one of market, term, kind, text"],
];

for (const [name, make, want] of mistakes) {
  test(`a mistake: ${name}`, () => assert.throws(make, (err) => err instanceof TypeError && err.message.includes(want) || assert.fail(err.message)));
}

test("asking for a book before the subscription is not a mistake", () => {
  assert.equal(new Client(here, login).book(instrument), undefined);
});

test("times of a range", async (t) => {
  const gateway = await Gateway.start(t);
  const client = new Client(gateway.url, login);
  const asked = async (start) => {
    for await (const _ of client.trades(instrument, { start }));
    return gateway.requests.at(-1).query.start;
  };
  assert.equal(await asked("2026-11-22"), "2026-11-22");
  assert.equal(await asked("2026-11-22T10:00"), "2026-11-22T10:00:00Z");
  assert.equal(await asked("2026-11-22 10:00:01.5"), "2026-11-22T10:00:01.5Z");
  assert.equal(await asked("2026-11-22T10:00:00.123456789Z"), "2026-11-22T10:00:00.123456789Z");
  assert.equal(await asked("2026-11-22T10:00-03:00"), "2026-11-22T10:00:00-03:00");
  assert.equal(await asked(new Date(Date.UTC(2026, 10, 22, 10))), "2026-11-22T10:00:00.000Z");
  const ago = Date.now() - Date.parse(await asked("7d"));
  assert.ok(Math.abs(ago - 7 * 86_400_000) < 5000, `${ago}`);
});

// first returns the first error of a loop over events.
async function first(url, options, list = { trades: [instrument] }) {
  const client = new Client(url, options);
  client.subscribe(list);
  const stop = AbortSignal.timeout(20_000);
  try {
    for await (const ev of client.events(stop)) {
      if (ev.type === "state" && ev.error) return ev.error.message;
      if (ev.type === "rejected") return `${ev.reason} ${ev.instrument}: ${ev.hint}`;
    }
  } catch (err) {
    return err.message;
  }
  return "nothing";
}

async function deadURL() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}`;
}

test("mistakes that the network shows", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const url = await dev(t);
  const dead = await deadURL();
  const port = dead.slice("http://".length);
  for (const [name, got, want] of [
    ["a dead port", first(dead, login), `the connection broke: ${dead}: connect ECONNREFUSED ${port}. Is the gateway running there?`],
    ["https without TLS", first(url.replace("http", "https"), login), `the server does not use TLS. For a gateway without TLS, write ${url}`],
    ["a port that fetch blocks", first("http://127.0.0.1:6000", login), "http://127.0.0.1:6000: fetch failed: bad port. Browsers and fetch block this port"],
    ["a wrong password", first(url, { ...login, password: "x" }), "invalid_credentials: "],
    ["no password", first(url, {}), "there is no password and no stored token"],
    ["an unknown instrument", first(url, login, { trades: ["GGLA|BYMA|24hs"] }), "unknown_instrument GGLA|BYMA|24hs: "],
  ]) {
    const text = await got;
    assert.ok(text.includes(want), `${name}: ${text}`);
  }
  const rows = new Client(url, login).trades(instrument, { start: "2026-11-20", end: "2026-11-20" });
  await assert.rejects(rows.next(), /end must be after start/);
  const unknown = new Client(url, login).trades("GGLA|BYMA|24hs");
  await assert.rejects(unknown.next(), {
    message: "unknown_instrument: Unknown instrument: instrument GGLA|BYMA|24hs is not listed. Did you mean GGAL|BYMA|24hs?",
    msg: "Unknown instrument", hint: "Did you mean GGAL|BYMA|24hs?", details: ["instrument GGLA|BYMA|24hs is not listed"],
  });
});

// untilWait resolves when the client waits for another attempt, and rejects if it makes none.
const untilWait = async (url, options) => {
  const events = new Client(url, options).events();
  await take(events, (ev) => ev.state === "waiting");
  await events.return();
};

test("a mistake of the program ends the events, and is not tried again", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.refuse = () => ({ code: 403, reason: "mfa_required" });
  const mistake = new TypeError("my mistake");
  const fail = () => { throw mistake; };
  for (const options of [
    { ...login, fetch: fail },
    { ...login, otp: fail },
    { tokens: { load: async () => fail(), save: async () => undefined } },
  ]) {
    await assert.rejects(untilWait(gateway.url, options), mistake);
  }
  const throws = (error) => ({ ...login, fetch: async () => { throw error; } });
  for (const code of ["ERR_INVALID_ARG_TYPE", "ENOENT", "UND_ERR_INVALID_ARG"]) {
    const mine = Object.assign(new Error("mine"), { code, syscall: "open" });
    await assert.rejects(untilWait(gateway.url, throws(new TypeError("fetch failed", { cause: mine }))), { cause: mine });
  }
  for (const error of [{ code: "ECONNRESET" }, { code: "UND_ERR_SOCKET" }, { code: "CERT_HAS_EXPIRED" }, { code: "EPERM", syscall: "connect" }]) {
    const cause = new AggregateError([Object.assign(new Error("of the network"), error)]);
    await untilWait(gateway.url, throws(new TypeError("fetch failed", { cause })));
  }
  gateway.refuse = undefined;
  await assert.rejects(untilWait(gateway.url, { ...login, WebSocket: class { constructor() { fail(); } } }), mistake);
});

test("only what may succeed later is tried again", async (t) => {
  const gateway = await Gateway.start(t);
  for (const [code, reason, again] of [
    [401, "invalid_credentials", false], [403, "forbidden", false], [404, "", false], [404, "not_found", false], [302, "", false],
    [409, "new_word", false], [408, "timeout", true], [429, "rate_limited", true], [500, "internal", true], [502, "", true],
    [503, "unavailable", true], [401, "invalid_token", true], [401, "token_expired", true],
  ]) {
    gateway.refuse = () => ({ code, reason });
    const waits = untilWait(gateway.url, login);
    if (again) await waits;
    else await assert.rejects(waits, { code, reason });
  }
  gateway.refuse = undefined;
  gateway.message = (c, m) => m.action === "auth_token" && (c.send({ type: "Error", code: 400, reason: "bad_field", msg: "session is wrong", retry: false }), true);
  await assert.rejects(untilWait(gateway.url, login), { reason: "bad_field" });
});
