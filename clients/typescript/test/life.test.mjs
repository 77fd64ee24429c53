// Tests of times that are long. They make them short.

import assert from "node:assert/strict";
import test from "node:test";

import { Client } from "@rueda/client";

import { ms } from "../dist/time.js";
import { Gateway, brief, instrument, take } from "./gateway.mjs";

Object.assign(ms, { streamSilence: 500, unavailable: 50, resyncAgain: 50 });

async function start(t, options = {}, set = { trades: [instrument] }) {
  const gateway = await Gateway.start(t);
  const client = new Client(gateway.url, { username: "demo", password: "demo", ...options });
  client.subscribe(set);
  const events = client.events();
  t.after(() => events.return().catch(() => undefined));
  return { gateway, client, events };
}

const isTrade = (n) => (e) => e.type === "trade" && e.n === n;
const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));

test("a stream without data and marks is replaced, although the connection answers", async (t) => {
  const { gateway, events } = await start(t, { heartbeat: 100 });
  gateway.opened = (c, m, count) => count === 2 && c.trades(1);
  const list = await take(events, isTrade(1));
  assert.equal(list.find((e) => e.state === "waiting").error.message, `${gateway.url}: the stream is silent`);
  assert.ok(gateway.connections[0].find("ping").length > 1);
});

test("an error of a gateway that has ended asks whether it runs", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c) => {
    gateway.server.close();
    c.ws.terminate();
    gateway.server.closeAllConnections();
  };
  await take(events, (e) => e.state === "waiting" && e.error.message.endsWith("Is the gateway running there?"));
});

test("a program that stands still does not lose its connection", async (t) => {
  const { gateway, events } = await start(t, { heartbeat: 100 });
  gateway.opened = (c) => {
    c.trades(1);
    c.timer = setTimeout(() => c.trades(2), 1800);
  };
  await take(events, isTrade(1));
  await wait(250); // a ping is on its way
  const until = Date.now() + 1700;
  while (Date.now() < until);
  await take(events, isTrade(2));
  assert.equal(gateway.connections.length, 1);
});

test("an interrupted feed makes its books invalid, and health shows it", async (t) => {
  const { gateway, client, events } = await start(t, {}, { books: [instrument], status: [instrument] });
  const status = (I, N, E) => ({ type: "H", S: I.split("|")[0], I, N, T: "", E });
  gateway.opened = (c) => {
    c.send({ type: "O", S: "GGAL", I: instrument, N: 1, T: "", R: true, DL: 5, B: [[7049.5, 300, 4], [7049, 150, 2]], A: [[7050, 1200, 9], [7050.5, 80, 1]], K: 4051739875 });
    c.send(status(instrument, 1, "open"), status("*|BYMA|*", 1, "feed_down"));
  };
  await take(events, (e) => e.type === "bookInvalid" && e.reason === "feed_down");
  let h = client.health();
  assert.deepEqual([h.down, h.instruments[instrument].phase, h.instruments[instrument].book], [["BYMA"], "open", false]);
  assert.ok(h.link < 400 && h.stream < 400);
  gateway.connections[0].send(status("*|BYMA|*", 2, "feed_up"));
  await take(events, (e) => e.phase === "feed_up");
  h = client.health();
  assert.deepEqual(h.down, []);
  gateway.connections[0].ws.terminate();
  await take(events, (e) => e.state === "waiting");
  assert.equal(client.health().link, undefined);
});

test("what is unavailable for the moment is requested again", async (t) => {
  const { gateway, events } = await start(t);
  let count = 0;
  gateway.message = (c, m) => {
    if (m.action !== "subscribe" || ++count > 2) return false;
    const rejected = [{ channel: "trades", instrument, code: 503, reason: "unavailable", msg: "Later" }];
    if (count === 1) c.send({ type: "Error", code: 503, reason: "unavailable", msg: "Later", id: m.id, retry: true, rejected });
    else c.send({ type: "Subscription", code: 200, msg: "Subscribed", id: m.id, epoch: "e1", rejected });
    return true;
  };
  gateway.opened = (c) => c.trades(1);
  const list = await take(events, isTrade(1));
  assert.deepEqual(brief(list), ["rejected -", "rejected -", "1"]);
  assert.equal(gateway.connections.length, 1);
});

test("an earlier connection of the client may take over the session, another program may not", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c, m, count) => {
    if (count === 1) return c.ws.terminate();
    c.ws.close(4409, "replaced");
  };
  await assert.rejects(take(events, () => false), { reason: "replaced" });
  assert.equal(gateway.connections.length, 3);
});

test("a request that is limited is repeated as the gateway asks", async (t) => {
  const { gateway, events } = await start(t);
  let count = 0;
  const times = [];
  gateway.message = (c, m) => {
    if (m.action !== "subscribe") return false;
    times.push(Date.now());
    if (++count > 1) return false;
    c.send({ type: "Error", code: 429, reason: "rate_limited", msg: "Wait", id: m.id, retry: true, retry_after: 1 });
    return true;
  };
  gateway.opened = (c) => c.trades(1);
  await take(events, isTrade(1));
  assert.ok(times[1] - times[0] >= 990, `${times[1] - times[0]} ms`);
});

test("a large set is spread over messages that the gateway accepts", async (t) => {
  const trades = Array.from({ length: 700 }, (_, i) => `S${i}|BYMA|CI`);
  const { gateway, events } = await start(t, {}, { trades });
  await take(events, (e) => e.state === "live");
  assert.deepEqual(gateway.connections[0].find("subscribe").map((m) => m.trades.length), [300, 300, 100]);
});

test("lost rights and other delays are reported", async (t) => {
  const { gateway, events } = await start(t);
  gateway.opened = (c) => {
    const moved = [{ channel: "trades", instrument, delay: 900 }];
    const removed = [{ channel: "trades", instrument, reason: "not_entitled" }];
    c.send({ type: "Subscription", code: 200, msg: "Rights changed", epoch: "e1", moved }, { type: "Subscription", code: 200, msg: "Rights changed", epoch: "e1", removed });
  };
  const list = await take(events, (e) => e.type === "rejected");
  assert.deepEqual(list.filter((e) => e.type === "delayed").map((e) => e.delay), [900]);
  assert.deepEqual([list.at(-1).removed, list.at(-1).reason], [true, "not_entitled"]);
});

test("while a renewal fails, the token is used as long as it is valid", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.life = 2;
  const client = new Client(gateway.url, { username: "demo", password: "demo" });
  await client.login();
  gateway.refuse = (r) => (r.path === "/auth/token" ? { code: 503, reason: "unavailable" } : undefined);
  await wait(1750);
  await client.get("/market/time");
  await wait(1200);
  await assert.rejects(client.get("/market/time"), { reason: "unavailable" });
});
