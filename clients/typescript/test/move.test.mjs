// A gateway that is restarted and moved to other addresses.

import assert from "node:assert/strict";
import dns from "node:dns";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { Client } from "@rueda/client";

import { mortal } from "./dev.mjs";

const instrument = "GGAL|BYMA|24hs";
const name = "api.broker.test";
const dead = "127.0.0.9";
const places = ["127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3"];

// resolve makes a name have several addresses.
function resolve(t, addresses) {
  const { lookup } = dns;
  t.after(() => (dns.lookup = lookup));
  dns.lookup = (host, options, callback) => {
    if (host !== name) return lookup(host, options, callback);
    addresses.asked++;
    const all = addresses.list.map((address) => ({ address, family: 4 }));
    setImmediate(() => (options.all ? callback(null, all) : callback(null, all[0].address, 4)));
  };
}

for (const by of ["list", "name"]) {
  test(`no trade is lost when a gateway moves, by a ${by}`, { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "moved-"));
    t.after(() => rm(folder, { recursive: true }));
    const { url, kill } = await mortal(t, join(folder, "data"));
    const { port } = new URL(url);
    const addresses = { list: [dead, places[0]], asked: 0 };
    resolve(t, addresses);
    const urls = by === "name" ? [`http://${name}:${port}`] : [...new Set(places)].map((host) => `http://${host}:${port}`);
    const client = new Client(urls, { username: "demo", password: "demo", insecure: true });
    client.subscribe({ trades: [instrument] });
    const numbers = [];
    let place = 0;
    let live = false;
    let next = 5;
    for await (const ev of client.events()) {
      assert.notEqual(ev.type, "lost");
      if (ev.type === "state" && ev.state === "live") live = true;
      if (ev.type === "trade") numbers.push(ev.n);
      if (!live || numbers.length < next) continue;
      if (++place === places.length) break;
      addresses.list = [dead, places[place]];
      await kill("SIGTERM", `${places[place]}:${port}`);
      live = false;
      next = numbers.length + 5;
    }
    assert.deepEqual(numbers, numbers.map((_, i) => numbers[0] + i));
    assert.equal(addresses.asked > 0, by === "name");
    if (by === "list") assert.equal(client.health().url, urls.at(-1));
  });
}
