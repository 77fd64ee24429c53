// Answers that no gateway sends: each is an error of this package, or is understood. With RUEDA_SOAK
// there are 100,000 of them.
import assert from "node:assert/strict";
import test from "node:test";

import { Client, ConnectionError, Decimal, ProtocolError, RuedaError } from "@rueda/client";

import { ms } from "../dist/time.js";
import { instrument, Gateway, take } from "./gateway.mjs";

const share = process.env.RUEDA_SOAK ? 1 : 40;
const at = "2000-01-01T00:00:00.000000000Z";

const hostile = [
  ..."-1 0 1 0.5 1e300 -1e300 1e-300 1e999999999 -1.5e999 9999999999 9223372037 9223372036854775807".split(" "),
  ..."9223372036854775808 18446744073709551616 -9223372036854775808 NaN Infinity null true false".split(" "),
  ..."[] {} [[]] [null] [[1,2],[3]]".split(" "),
  ...['{"a":1}', "9".repeat(5000), "0." + "9".repeat(5000), "[".repeat(100_000), `"${"x".repeat(100_000)}"`],
  ...['""', '"text"', '"-1"', '"1e300"', '"\\ud800"', '"*|*|*"', '"feed_down"', '"unavailable"', '"replaced"', '"internal"', '"__proto__"'],
  ...['"9999-99-99T99:99:99.999999999Z"', '"2031-01-01T00:00:00Z"', '"\\u001b]0;owned\\u0007"', '"\\u0000\\r\\n\\u009b"', '"AL30|BYMA|CI"'],
];
const value = /"(?:[^"\\]|\\.)*":?|-?\d+(?:\.\d+)?|true|false|null/g;
const group = /[[{][^[\]{}]*[\]}]/g; // without another one inside

// random returns numbers that a seed determines (mulberry32).
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

// malform replaces a value, removes a member, or damages characters.
function malform(r, text) {
  const any = (list) => list[Math.floor(r() * list.length)];
  for (let i = r() < 0.5 ? 1 : 2; i > 0; i--) {
    const found = any([...text.matchAll(r() < 0.2 ? group : value)]);
    if (!found) break;
    const by = found[0].endsWith(":") ? '"x":' : any(hostile);
    text = text.slice(0, found.index) + by + text.slice(found.index + found[0].length);
  }
  if (r() < 0.12 && text) {
    const i = Math.floor(r() * text.length);
    text = text.slice(0, i) + any(["\0", "\x1b", '"', "[", "}", "\xff"]) + text.slice(i + 1);
    if (r() < 0.5) text = text.slice(0, Math.floor(r() * text.length));
  }
  return text;
}

const row = (members) => ({ S: "GGAL", I: instrument, T: at, ...members });
const figures = { OP: 1, HI: 2, LO: 1, CL: 2, TV: 10, EV: 20, TC: 2, VW: 1.5 };
const rows = [
  row({ type: "T", N: 1, D: 5, P: 7050.5, Z: 1, X: "a", G: "B", C: ["odd_lot"] }),
  row({ type: "C", N: 2, P: 7050.5, Z: 1, XN: 1, XP: 7051, XZ: 2 }),
  row({ type: "Q", N: 3, BP: 7049, BZ: 1, BC: 1, AP: 7050, AZ: 2, AC: 2 }),
  row({ type: "O", N: 4, R: true, DL: 5, B: [[7049, 1, 1]], A: [[7050.5, 2, 1]], K: 1 }),
  row({ type: "O", N: 5, L: 4, B: [[7049, 0]], A: [], K: 1 }),
  row({ type: "H", N: 6, E: "open", Y: "x", U: at }),
  row({ type: "D", N: 7, LA: 2, SE: 1, OI: 4, ...figures }),
  row({ type: "K", N: 8, IV: "1m", TD: "2000-01-01", ...figures }),
];
const refused = { channel: "trades", instrument, reason: "forbidden", msg: "No", hint: "x" };
const subscription = { type: "Subscription", code: 200, id: 1, epoch: "e1", position: "e1:1" };
const lost = { from: 1, to: 4, reason: "expired" };
const success = { type: "Success", code: 200, heartbeat: { interval: 20, timeout: 30 }, limits: { message_bytes: 65536 } };
const messages = [
  ...rows, success, subscription, { action: "ping" }, { action: "pong", time: at },
  { ...subscription, lost: { trades: { [instrument]: lost } }, resumed: { trades: { [instrument]: 3 } } },
  { ...subscription, rejected: [refused], removed: [refused], moved: [{ ...refused, delay: 9 }] },
  { type: "CaughtUp", id: 1, epoch: "e1", position: "e1:9" },
  { type: "Alive", epoch: "e1", position: "e1:5", last: { trades: { [instrument]: 4 }, bars: { [`${instrument}|1m`]: 2 } } },
  { type: "Warning", reason: "token_expiring", msg: "Soon", expires_in: 60 },
  { type: "Warning", reason: "shutting_down", msg: "Soon", reconnect_in_ms: 500 },
  { type: "Error", code: 429, reason: "rate_limited", msg: "Wait", retry: true, retry_after: 1, id: 1 },
  { type: "Error", code: 404, reason: "unknown_instrument", msg: "No", hint: "x", id: 2 },
].map((m) => JSON.stringify(m));
const account = { account_id: "1", number: "1", type: "x", status: "x", currency: "ARS", is_default: true };
const listed = { instrument, symbol: "x", market: "x", term: "x", tick: [[0, 0.5]], channels: ["x"] };
const tokens = { access_token: "a", expires_in: 86400, refresh_token: "r", refresh_expires_in: 2592000, scope: "marketdata:read marketdata:history" };
const page = { lost: [{ ...lost, start: at, end: at }], epoch: "e1" };
const answers = {
  "/auth/token": tokens, "/auth/revoke": {}, "/broker/accounts": { accounts: [account] }, "/market/time": { time: at },
  "/market/instruments": { instruments: [listed] }, "/market/book": rows[3], "/market/trades": { trades: rows.slice(0, 2), ...page },
  "/market/quotes": { quotes: [rows[2]], ...page }, "/market/statuses": { statuses: [rows[5]], ...page }, "/market/bars": { bars: [rows[7]], ...page },
};

// judge checks that a program that catches RuedaError goes on, and can print the error.
function judge(err) {
  assert.ok(err instanceof RuedaError, err);
  const text = err.message + (err.hint ?? "") + (err.requestId ?? "") + err.reason;
  assert.ok(!/\p{C}/u.test(text) && text.length < 5000, JSON.stringify(text.slice(0, 300)));
  assert.ok(err.retryAfter >= 0 && err.retryAfter <= 3_600_000);
}

function report(t, count, calls, failed, what, before) {
  const grown = (process.memoryUsage().rss - before) / 2 ** 20;
  t.diagnostic(`${count} malformed ${what}, ${calls} calls, ${failed} errors, +${Math.round(grown)} MiB`);
  assert.ok(failed > 0 && failed < calls);
  assert.ok(grown < 400, `+${grown} MiB`);
}

const later = { ...ms };
test.afterEach(() => Object.assign(ms, later));

test("malformed answers of REST", async (t) => {
  const r = random(share);
  const before = process.memoryUsage().rss;
  let [count, calls, failed] = [0, 0, 0];
  ms.maxWait = -1; // a refusal is not requested again
  const fetch = async (address) => {
    let [text, status] = [JSON.stringify({ success: true, data: answers[new URL(address).pathname] }), 200];
    if (r() < 0.1) {
      status = [302, 400, 401, 403, 429, 500, 503, 599][Math.floor(r() * 8)];
      text = JSON.stringify({ success: false, error: { code: status, reason: "rate_limited", msg: "Wait", hint: "x", request_id: "1" } });
    }
    if (r() < 0.75) {
      text = malform(r, text);
      count++;
    }
    if (r() < 0.01) throw new TypeError("fetch failed", { cause: Object.assign(new Error("reset\x1b"), { code: "ECONNRESET" }) });
    return new Response(text, { status, headers: { "Retry-After": ["1", "-1", "1e300", "NaN", "x", ""][Math.floor(r() * 6)] } });
  };
  const call = async (work) => {
    calls++;
    try {
      if (work instanceof Promise) await work;
      else for await (const each of work) String(each.price ?? each.close ?? "");
    } catch (err) {
      failed++;
      judge(err);
    }
  };
  while (count < 60_000 / share) {
    const store = { load: async () => undefined, save: async (saved) => { store.saved = saved ?? store.saved; } };
    const client = new Client("http://127.0.0.1:1", { username: "ana", password: "canary", fetch, tokens: store });
    const began = Date.now();
    await call(client.login());
    for (const end of [store.saved?.expires, store.saved?.refresh_expires]) {
      if (end !== undefined) assert.ok(Date.parse(end) >= began - 1000 && Date.parse(end) - Date.now() <= 10 * 365 * 86_400_000 + 1000, end);
    }
    await call(client.get("/market/time"));
    await call(client.accounts());
    await call(client.instruments());
    await call(client.bookAt(instrument));
    const silent = { requireComplete: true };
    for (const list of [client.trades(instrument, silent), client.quotes(instrument, silent), client.statuses(instrument, silent), client.bars(instrument, "1m", silent)]) {
      await call(list);
    }
    const history = client.trades(instrument);
    await call(history.lost());
    await call(history);
    await call(client.logout());
  }
  report(t, count, calls, failed, "answers", before);
});

test("malformed messages of the stream", async (t) => {
  const r = random(share + 1);
  const before = process.memoryUsage().rss;
  let [count, calls, failed] = [0, 0, 0];
  Object.assign(ms, { firstBackoff: 0, maxBackoff: 0, maxRequested: 1, unavailable: 1, removePause: 1 });
  const fetch = async (address) => {
    const text = JSON.stringify({ success: true, data: answers[new URL(address).pathname] });
    return new Response(r() < 0.1 ? malform(r, text) : text);
  };
  class Socket {
    constructor() {
      calls++;
      setImmediate(() => this.run());
    }
    run() {
      this.onopen?.();
      const send = (text) => this.onmessage?.({ data: text });
      if (r() < 0.9) send(JSON.stringify(success));
      for (let i = Math.ceil(r() * 50); i > 0 && this.onmessage; i--) {
        let text = messages[Math.floor(r() * messages.length)];
        if (r() < 0.75) {
          text = malform(r, text);
          count++;
        }
        send(text);
      }
      setImmediate(() => this.onclose?.({ code: 4000 + Math.floor(r() * 600), reason: "\x1b]0;owned\x07" }));
    }
    send(text) {
      JSON.parse(text);
    }
    close() {}
  }
  const set = { trades: [instrument], quotes: [instrument], books: [instrument], status: ["*|BYMA|*"], summary: [instrument], bars: [`${instrument}|1m`] };
  const client = new Client("http://127.0.0.1:1", { username: "ana", password: "canary", fetch, WebSocket: Socket });
  client.subscribe(set);
  while (count < 40_000 / share) {
    try {
      for await (const e of client.events()) {
        if (e.type === "state" && e.error) {
          failed++;
          judge(e.error);
        }
        if (e.type === "trade") assert.ok(e.price instanceof Decimal && Number.isSafeInteger(e.n));
        if (count >= 40_000 / share) break;
      }
    } catch (err) {
      judge(err);
    }
  }
  client.health();
  report(t, count, calls + 1, Math.min(failed, calls), "messages", before);
});

test("an answer without end is an error after 64 MiB", async () => {
  let [sent, canceled] = [0, false];
  const fetch = async () =>
    new Response(new ReadableStream({
      pull(c) {
        c.enqueue(new Uint8Array(1 << 20).fill(32));
        sent++;
      },
      cancel() {
        canceled = true;
      },
    }));
  await assert.rejects(new Client("http://127.0.0.1:1", { username: "ana", password: "canary", fetch }).login(), ProtocolError);
  assert.ok(sent > 64 && sent < 70 && canceled, `${sent} MiB`);
});

test("control characters of a gateway do not reach an error", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.refuse = () => ({ code: 403, reason: "forbidden\x1b]0;owned\x07" });
  await assert.rejects(new Client(gateway.url, { username: "ana", password: "canary" }).login(), (err) => {
    assert.equal(err.message, "forbidden\ufffd]0;owned\ufffd: No");
    return err instanceof RuedaError;
  });
  const fetch = async () => { throw Object.assign(new Error("reset"), { code: "ECONNRESET" }); };
  await assert.rejects(new Client("http://127.0.0.1:1", { username: "ana", password: "canary", fetch }).login(), ConnectionError);
});

test("tokens that live no time are renewed twice a second at most", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.life = -1;
  const client = new Client(gateway.url, { username: "ana", password: "canary" });
  client.subscribe({ trades: [instrument] });
  const events = client.events();
  await take(events, (e) => e.state === "live");
  await new Promise((done) => setTimeout(done, 2500));
  await events.return();
  assert.ok(gateway.logins >= 4 && gateway.logins <= 7, `${gateway.logins} logins`);
});
