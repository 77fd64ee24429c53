import assert from "node:assert/strict";
import test from "node:test";
import WS from "ws";

import { Client, Decimal } from "@rueda/client";

import { Gateway, brief, instrument, take, tradeOf } from "./gateway.mjs";

const login = { username: "demo", password: "demo" };

// start returns a gateway and the events of a client of it, which ends with the test.
async function start(t, { urls, ...options } = {}, set = { trades: [instrument] }) {
  const gateway = await Gateway.start(t);
  const client = new Client(urls?.(gateway) ?? gateway.url, { ...login, ...options });
  client.subscribe(set);
  const stop = new AbortController();
  const events = client.events(stop.signal);
  t.after(async () => {
    stop.abort();
    await events.return().catch(() => undefined);
  });
  return { gateway, client, events, stop };
}

const isTrade = (n) => (e) => e.type === "trade" && e.n === n;
const isLive = (e) => e.type === "state" && e.state === "live";

test("trades arrive with exact figures", async (t) => {
  const { gateway, events, client } = await start(t);
  gateway.opened = (c) => c.ws.send(JSON.stringify({ ...tradeOf(1), P: 0 }).replace('"P":0', '"P":12345678901234.567'));
  const list = await take(events, isTrade(1));
  const trade = list.at(-1);
  assert.equal(String(trade.price), "12345678901234.567");
  assert.ok(trade.size instanceof Decimal);
  assert.deepEqual(list.filter((e) => e.type === "state").map((e) => e.state), ["connecting", "authenticating", "syncing", "live"]);
  assert.deepEqual(client.subscriptions(), { trades: [instrument] });
  assert.equal(client.health().state, "live");
  assert.ok(client.health().instruments[instrument].age < 5000);
});

test("the WebSocket of package ws works too", async (t) => {
  const { gateway, events } = await start(t, { WebSocket: WS });
  gateway.opened = (c) => c.trades(1);
  await take(events, isTrade(1));
});

test("a gap is filled from history, in order", async (t) => {
  const { gateway, events } = await start(t);
  gateway.rows = () => [tradeOf(3), tradeOf(4), tradeOf(5), tradeOf(6)];
  gateway.opened = (c) => c.trades(1, 2, 5, 6);
  const list = await take(events, isTrade(6));
  assert.deepEqual(brief(list), ["1", "2", "3r", "4r", "recovered 3-4", "5", "6"]);
  const r = gateway.requests.find((q) => q.path === "/market/trades");
  assert.deepEqual(r.query, { instrument, after_sequence: "2", epoch: "e1", limit: "2" });
  assert.equal(gateway.connections.length, 1);
});

test("messages that come again are delivered once", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c, m, count) => {
    if (count === 1) c.trades(1, 2, 2, 1, 3);
    else c.trades(2, 3, 4);
    if (count === 1) setTimeout(() => c.ws.terminate(), 50);
  };
  assert.deepEqual(brief(await take(events, isTrade(4))), ["1", "2", "3", "4r"]);
});

test("nothing is repeated of an instrument that was removed and added again", async (t) => {
  const { gateway, client, events } = await start(t, {}, { trades: [instrument, "AL30|BYMA|CI"] });
  gateway.opened = (c, m, count) => {
    if (count === 2) c.trades(1, 2, 3); // the position may be before what was sent
    else if (m.trades.length === 2) c.trades(1, 2);
    else c.ws.terminate();
  };
  await take(events, isTrade(2));
  client.unsubscribe({ trades: [instrument] });
  while (gateway.connections[0].find("unsubscribe").length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  await new Promise((resolve) => setTimeout(resolve, 100)); // the answer has arrived
  client.subscribe({ trades: [instrument] });
  const list = await take(events, isTrade(3));
  assert.deepEqual(list.filter((e) => e.type === "trade").map((e) => e.n), [3]);
});

test("without history, a gap is resumed on a new connection, and what is missing is lost", async (t) => {
  const { gateway, events } = await start(t);
  gateway.scope = "marketdata:read";
  gateway.opened = (c, m, count) => (count === 1 ? c.trades(1, 2, 5) : c.trades(5, 6));
  const list = await take(events, isTrade(6));
  assert.deepEqual(brief(list), ["1", "2", "lost 3-4", "5r", "6r"]);
  assert.deepEqual(gateway.connections[1].find("subscribe")[0].resume, { epoch: "e1", position: "e1:1", trades: { [instrument]: 2 } });
});

test("lost ranges and new epochs are reported", async (t) => {
  const { gateway, events } = await start(t);
  gateway.message = (c, m) => {
    if (m.action !== "subscribe" || gateway.connections.length === 1) return false;
    const lost = { trades: { [instrument]: { from: 3, to: 8, reason: "buffer_exceeded" } } };
    const first = gateway.connections.length === 2;
    const answer = { type: "Subscription", code: 200, msg: "Subscribed", id: m.id, epoch: gateway.epoch };
    const missing = { trades: { [instrument]: { from: 11, to: 12, reason: "buffer_exceeded" } } };
    c.send({ ...answer, lost });
    if (first) c.trades(9, 10);
    if (first) c.send({ ...answer, id: undefined, msg: "Rows lost", lost: missing });
    c.trades(first ? 13 : 1);
    c.send({ type: "CaughtUp", code: 200, id: m.id, epoch: gateway.epoch });
    setTimeout(() => c.ws.terminate(), 50);
    gateway.epoch = "e2";
    return true;
  };
  gateway.opened = (c) => {
    c.trades(1, 2);
    setTimeout(() => c.ws.terminate(), 50);
  };
  const list = await take(events, (e, all) => isTrade(1)(e) && all.some(isTrade(13)));
  const lost = list.filter((e) => e.type === "lost" || e.type === "recovered").map((e) => [e.from, e.to, e.reason ?? e.type]);
  const recovered = [[9, 10, "recovered"], [11, 12, "buffer_exceeded"], [13, 13, "recovered"]];
  assert.deepEqual(lost, [[3, 8, "buffer_exceeded"], ...recovered, [14, undefined, "epoch_changed"]]);
});

test("a bad checksum makes the book invalid until a snapshot that the client requests", async (t) => {
  const { gateway, events, client } = await start(t, {}, { books: [instrument] });
  const snapshot = { type: "O", S: "GGAL", I: instrument, N: 5011, T: "", R: true, DL: 5, B: [[7049.5, 300, 4], [7049, 150, 2]], A: [[7050, 1200, 9], [7050.5, 80, 1]], K: 4051739875 };
  gateway.opened = (c) => c.send(snapshot, { type: "O", S: "GGAL", I: instrument, N: 5012, T: "", L: 5011, B: [[7049.5, 281, 3]], K: 3526765731 });
  gateway.message = (c, m) => m.action === "resync" && (c.send({ ...snapshot, N: 5013 }), true);
  await take(events, (e) => e.type === "bookInvalid" && e.reason === "checksum");
  assert.equal(client.book(instrument), undefined);
  await take(events, (e) => e.type === "book" && e.n === 5013);
  assert.deepEqual(gateway.connections[0].find("resync").map((m) => m.order_book), [[instrument]]);
  assert.equal(String(client.book(instrument).best().bid.price), "7049.5");
});

test("the set of subscriptions can be edited at any time", async (t) => {
  const { gateway, client, events } = await start(t);
  await take(events, isLive);
  client.subscribe({ quotes: ["*|BYMA|24hs"], books: ["AL30|BYMA|CI"], depth: 10, conflate: "250ms" });
  client.subscribe({ bars: [`${instrument}|5m`] });
  client.unsubscribe({ trades: [instrument] });
  gateway.message = (c, m) => {
    if (m.action === "unsubscribe") setTimeout(() => c.send({ ...tradeOf(1), I: "END|BYMA|CI" }), 20);
    return false;
  };
  await take(events, (e) => e.type === "trade");
  const [c] = gateway.connections;
  const plain = ({ action, id, ...m }) => m;
  assert.deepEqual(c.find("subscribe").slice(1).map(plain), [
    { order_book: ["AL30|BYMA|CI"], depth: 10, conflate: "250ms", alive: true },
    { quotes: ["*|BYMA|24hs"], conflate: "250ms", alive: true },
    { bars: [`${instrument}|5m`], alive: true },
  ].sort((a) => (a.quotes ? -1 : 0)));
  assert.deepEqual(c.find("unsubscribe").map(plain), [{ trades: [instrument] }]);
  assert.throws(() => client.subscribe({ trades: ["GGAL"] }), TypeError);
  assert.throws(() => client.subscribe({ bars: [instrument] }), TypeError);
  assert.throws(() => client.subscribe({ books: [instrument], depth: 7 }), TypeError);
});

test("a pattern of books is the books of listed instruments", async (t) => {
  const { gateway, client, events } = await start(t, {}, { books: ["*|BYMA|*"] });
  const listed = [instrument, "X|BYMA|CI", "Y|OTHER|CI", "INDEX|BYMA|CI"].map((id) => ({ instrument: id, channels: id.startsWith("INDEX") ? ["quotes"] : ["order_book"] }));
  gateway.page = (r) => ({ instruments: listed.filter((i) => i.instrument.includes(`|${r.query.market}|`)) });
  client.subscribe({ books: ["X|BYMA|CI"], depth: 1 });
  await take(events, (e) => e.state === "live");
  const sent = () => gateway.connections.at(-1).find("subscribe").map((m) => [m.order_book, m.depth]);
  assert.deepEqual(sent(), [[["X|BYMA|CI"], 1], [[instrument], 5]]);
  assert.deepEqual(gateway.requests.at(-1).query, { market: "BYMA", limit: "1000" });
  client.unsubscribe({ books: ["X|BYMA|CI"] }); // the pattern has it too
  client.subscribe({ books: ["*|NONE|*"] });
  const list = await take(events, (e) => e.type === "rejected");
  assert.deepEqual([list.at(-1).instrument, list.at(-1).reason], ["*|NONE|*", "unknown_instrument"]);
  assert.deepEqual(sent().at(-1), [["X|BYMA|CI"], 5]);
  gateway.refuse = (r) => (r.path === "/market/instruments" ? { code: 403, reason: "forbidden" } : undefined);
  client.subscribe({ books: ["*|MORE|*"] });
  assert.equal((await take(events, (e) => e.type === "rejected")).at(-1).reason, "forbidden");
  assert.equal(gateway.connections.length, 1);
  gateway.connections[0].ws.terminate(); // and on the next connection
  gateway.refuse = undefined;
  await take(events, (e) => e.state === "waiting");
  await take(events, (e) => e.state === "live");
  assert.deepEqual(sent(), [[[instrument, "X|BYMA|CI"], 5]]);
});

test("a rejected identifier is reported, and the others go on", async (t) => {
  const { gateway, events } = await start(t, {}, { trades: [instrument, "NOPE|BYMA|CI"] });
  gateway.message = (c, m) => {
    if (m.action !== "subscribe") return false;
    const rejected = [{ channel: "trades", instrument: "NOPE|BYMA|CI", code: 404, reason: "unknown_instrument", msg: "Unknown" }];
    c.send({ type: "Subscription", code: 200, msg: "Subscribed", id: m.id, epoch: "e1", rejected });
    c.trades(1);
    return true;
  };
  const list = await take(events, isTrade(1));
  assert.deepEqual(list.filter((e) => e.type === "rejected").map((e) => [e.instrument, e.reason, e.removed]), [["NOPE|BYMA|CI", "unknown_instrument", false]]);
});

for (const [code, reason] of [[401, "token_revoked"], [409, "replaced"], [403, "address_not_allowed"]]) {
  test(`${reason} ends the stream for good`, async (t) => {
    const { gateway, events } = await start(t);
    gateway.opened = (c) => {
      c.send({ type: "Error", code, reason, msg: "No", retry: false });
      c.ws.close(4000 + code, reason);
    };
    await assert.rejects(take(events, () => false), (err) => err.reason === reason && err.closed);
    await new Promise((resolve) => setTimeout(resolve, 700));
    assert.equal(gateway.connections.length, 1);
  });
}

test("a wrong password is not tried again", async (t) => {
  const { gateway, events } = await start(t);
  gateway.refuse = () => ({ code: 401, reason: "invalid_credentials" });
  await assert.rejects(take(events, () => false), { reason: "invalid_credentials" });
  assert.equal(gateway.requests.length, 1);
});

test("the hints of the gateway set the wait", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c, m, count) => {
    if (count === 1) {
      c.send({ type: "Warning", code: 200, reason: "shutting_down", msg: "Reconnect", reconnect_in_ms: 400 });
      c.ws.close(4503, "shutting_down");
    } else if (count === 2) {
      c.send({ type: "Error", code: 429, reason: "connection_limit", msg: "No", retry: true, retry_after: 1 });
      c.ws.close(4429, "connection_limit");
    } else c.trades(1);
  };
  const list = await take(events, isTrade(1));
  const waits = list.filter((e) => e.state === "waiting").map((e) => e.wait);
  assert.ok(waits[0] > 300 && waits[0] <= 400, `${waits}`);
  assert.ok(waits[1] >= 1000 && waits[1] <= 1500, `${waits}`);
});

test("the next URL is used if one cannot be reached", async (t) => {
  const { gateway, events } = await start(t, { urls: (g) => ["http://127.0.0.1:9", g.url] });
  gateway.opened = (c) => c.trades(1);
  const list = await take(events, isTrade(1));
  assert.ok(list.some((e) => e.state === "waiting" && e.url === "http://127.0.0.1:9" && e.wait <= 500));
});

test("a silent connection is noticed and replaced", async (t) => {
  const { gateway, events } = await start(t, { heartbeat: 300 });
  gateway.message = (c, m) => m.action === "ping" && gateway.connections.length === 1;
  gateway.opened = (c, m, count) => count === 2 && c.trades(1);
  const list = await take(events, isTrade(1));
  assert.ok(list.some((e) => e.state === "waiting" && e.error.message === `${gateway.url}: the connection is silent`));
  assert.equal(gateway.connections[0].find("ping").length, 1);
});

test("pings of the gateway are answered", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c) => c.send({ action: "ping" });
  gateway.message = (c, m) => m.action === "pong" && (c.trades(1), true);
  await take(events, isTrade(1));
});

test("Alive marks show what was lost without a later message", async (t) => {
  const { gateway, events } = await start(t);
  gateway.rows = () => [tradeOf(2), tradeOf(3)];
  gateway.opened = (c) => {
    c.trades(1);
    c.send({ type: "Alive", epoch: "e1", position: "e1:9", last: { trades: { [instrument]: 3 } } });
  };
  assert.deepEqual(brief(await take(events, (e) => e.type === "recovered")), ["1", "2r", "3r", "recovered 2-3"]);
});

test("a message that is not JSON breaks the connection, which is made again", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c, m, count) => (count === 1 ? c.ws.send('{"type":"T","N":') : c.trades(1));
  const list = await take(events, isTrade(1));
  assert.match(list.find((e) => e.state === "waiting").error.message, /not JSON at character 16/);
});

test("a program that is too slow loses nothing", async (t) => {
  const { gateway, events } = await start(t, { queue: 10 });
  const all = Array.from({ length: 100 }, (_, i) => i + 1);
  gateway.opened = (c, m) => c.trades(...all.slice(m.resume?.trades[instrument] ?? 0));
  const got = [];
  for await (const e of events) {
    if (e.type === "trade") got.push(e.n);
    if (e.type === "lost") assert.fail("lost");
    if (e.n === 100) break;
    if (got.length % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.deepEqual(got, all);
  assert.ok(gateway.connections.length > 1);
});

test("with overflow drop, the range of dropped trades is reported", async (t) => {
  const { gateway, events } = await start(t, { queue: 10, overflow: "drop" });
  gateway.opened = (c) => c.trades(...Array.from({ length: 50 }, (_, i) => i + 1));
  await events.next();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const list = await take(events, (e) => e.type === "lost");
  const { from, to, reason } = list.at(-1);
  const newest = Math.max(...list.filter((e) => e.type === "trade").map((e) => e.n));
  assert.deepEqual([from, to, reason], [newest + 1, 50, "overflow"]);
  assert.equal(gateway.connections.length, 1);
});

test("a checkpoint continues in a later run", async (t) => {
  const { gateway, events, client } = await start(t);
  gateway.opened = (c, m) => c.trades(...[1, 2, 3, 4].filter((n) => n > (m.resume?.trades[instrument] ?? 0)));
  await take(events, isTrade(3));
  const checkpoint = JSON.parse(JSON.stringify(client.checkpoint()));
  assert.deepEqual(checkpoint, { epoch: "e1", position: "e1:1", sequences: { [`trades ${instrument}`]: 2 } }); // 3 is in progress
  const later = new Client(gateway.url, { ...login, resume: checkpoint });
  later.subscribe({ trades: [instrument] });
  const again = later.events();
  assert.deepEqual(brief(await take(again, isTrade(4))), ["3r", "4r"]);
  await again.return();

  const numbers = () => later.checkpoint().sequences[`trades ${instrument}`];
  assert.equal(numbers(), 3); // the loop was left, and 4 may not be processed
  const stop = new AbortController();
  for await (const _ of later.events(stop.signal)) {
    assert.equal(numbers(), 4); // the next loop has processed it
    stop.abort();
  }
});

test("what was missed of an instrument without a trade so far is marked", async (t) => {
  const { gateway, events } = await start(t, { resume: { epoch: "e1", position: "e1:1", sequences: {} } });
  gateway.message = (c, m) => {
    if (m.action !== "subscribe") return false;
    const { id } = m;
    c.send({ type: "Subscription", code: 200, msg: "Subscribed", id, epoch: "e1", position: "e1:1", resumed: { trades: { [instrument]: 2 } } });
    c.trades(1, 2, 3);
    c.send({ type: "CaughtUp", code: 200, id, epoch: "e1", position: "e1:2" });
    c.trades(4);
    return true;
  };
  assert.deepEqual(brief(await take(events, isTrade(4))), ["1r", "2r", "3", "recovered 1-2", "4"]);
});

test("events can be used once at a time", async (t) => {
  const { client, events } = await start(t);
  await events.next();
  await assert.rejects(client.events().next(), TypeError);
});
