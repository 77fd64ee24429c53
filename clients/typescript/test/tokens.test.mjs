import assert from "node:assert/strict";
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { Client } from "@rueda/client";
import { FileStore } from "@rueda/client/node";

import { Gateway, instrument, take } from "./gateway.mjs";

const login = { username: "demo", password: "demo" };
const grants = (g) => g.requests.filter((r) => r.path === "/auth/token").map((r) => r.body.refresh_token ?? "password");

test("all who need a token share one login", async (t) => {
  const gateway = await Gateway.start(t);
  const client = new Client(gateway.url, login);
  await Promise.all([client.login(), client.get("/market/time"), client.get("/market/time"), client.login()]);
  assert.deepEqual(grants(gateway), ["password"]);
});

test("the token is renewed at 80 % of its life, on the open connection", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.life = 5;
  const client = new Client(gateway.url, login);
  client.subscribe({ trades: [instrument] });
  const events = client.events();
  const began = Date.now();
  gateway.message = (c, m) => {
    if (m.action === "auth_token" && m.token === "access-2") c.trades(1);
    return false;
  };
  await take(events, (e) => e.type === "trade");
  const after = Date.now() - began;
  await events.return();
  assert.ok(after >= 4000 && after < 5000, `${after} ms`);
  assert.deepEqual(grants(gateway), ["password", "refresh-1"]);
  assert.equal(gateway.connections.length, 1);
});

test("logout ends the login of the store, also before its first use and during a renewal", async (t) => {
  const gateway = await Gateway.start(t);
  const revoked = () => gateway.requests.filter((r) => r.path === "/auth/revoke").map((r) => r.body.token);
  const tokens = {
    saved: { access_token: "", expires: "", refresh_token: "stored", refresh_expires: "", scope: "" },
    load: async () => tokens.saved,
    save: async (saved) => { tokens.saved = saved; },
  };
  await new Client(gateway.url, { ...login, tokens }).logout();
  assert.deepEqual(revoked(), ["stored"]);
  assert.equal(tokens.saved, undefined);
  const client = new Client(gateway.url, { ...login, tokens });
  await Promise.all([client.login(), client.logout()]);
  assert.deepEqual(revoked(), ["stored", "refresh-1"]);
  assert.equal(tokens.saved, undefined);
  await client.logout();
  assert.equal(revoked().length, 2);
});

test("a successor that could not be stored is not used", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.life = 0;
  let fails = false;
  const tokens = {
    load: async () => undefined,
    save: async (saved) => {
      if (fails) throw new Error("disk full");
      tokens.saved = saved.refresh_token;
    },
  };
  const client = new Client(gateway.url, { ...login, tokens });
  await client.login();
  fails = true;
  await client.login();
  await client.login();
  assert.deepEqual(grants(gateway), ["password", "refresh-1", "refresh-1"]);
  fails = false;
  await client.login();
  assert.equal(tokens.saved, "refresh-4");
  await client.login();
  assert.equal(grants(gateway).at(-1), "refresh-4");
});

test("stored tokens make the password unnecessary", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "tokens-"));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "tokens.json");
  const gateway = await Gateway.start(t);
  await new Client(gateway.url, { ...login, tokens: new FileStore(file) }).login();
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(folder), ["tokens.json"]);
  const later = new Client(gateway.url, { tokens: new FileStore(file) });
  await later.login();
  assert.deepEqual(grants(gateway), ["password"]);
  await later.logout();
  assert.equal(gateway.requests.at(-1).body.token, "refresh-1");
  await assert.rejects(new Client(gateway.url, { tokens: new FileStore(file) }).login(), { reason: "invalid_credentials" });
});

test("a file of tokens is replaced as a whole, and a damaged one is reported", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "tokens-"));
  t.after(() => rm(folder, { recursive: true }));
  const store = new FileStore(join(folder, "tokens.json"));
  assert.equal(await store.load(), undefined);
  const tokens = { access_token: "a", expires: "", refresh_token: "r", refresh_expires: "", scope: "" };
  await store.save(tokens);
  await store.save({ ...tokens, refresh_token: "s" });
  assert.equal(JSON.parse(await readFile(join(folder, "tokens.json"), "utf8")).refresh_token, "s");
  await assert.rejects(new FileStore(join(folder, "none", "tokens.json")).save(tokens), { code: "ENOENT" });
  await writeFile(join(folder, "tokens.json"), "{");
  await assert.rejects(store.load(), SyntaxError);
  assert.deepEqual(await readdir(folder), ["tokens.json"]);
});

test("a refused refresh token is replaced by a login with the password", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.life = 0;
  const client = new Client(gateway.url, login);
  await client.login();
  gateway.refuse = (r) => (r.body.refresh_token ? { code: 401, reason: "invalid_refresh_token" } : undefined);
  await client.login();
  assert.deepEqual(grants(gateway), ["password", "refresh-1", "password"]);
});

test("a second factor is asked for when it is needed", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.refuse = (r) => (r.body.otp === "123456" ? undefined : { code: 403, reason: "mfa_required" });
  await new Client(gateway.url, { ...login, otp: async () => "123456" }).login();
  await assert.rejects(new Client(gateway.url, login).login(), { reason: "mfa_required", code: 403 });
});

test("requests wait as the gateway asks, and renew a refused token once", async (t) => {
  const gateway = await Gateway.start(t);
  const client = new Client(gateway.url, login);
  const refusals = [{ code: 429, reason: "rate_limited", wait: 1 }, { code: 401, reason: "token_expired" }];
  gateway.refuse = (r) => (r.path === "/market/time" ? refusals.pop() : undefined);
  const began = Date.now();
  await client.get("/market/time");
  assert.ok(Date.now() - began >= 990);
  assert.deepEqual(grants(gateway), ["password", "refresh-1"]);
});

test("a password is not sent unencrypted to another machine", () => {
  for (const url of ["http://api.broker.example", "ftp://127.0.0.1", "https://user@host", "x", "https://h?token=1"]) {
    assert.throws(() => new Client(url, login), TypeError, url);
  }
  new Client(["wss://api.broker.example/stream", "http://127.0.0.1:1", "http://localhost", "http://[::1]:2/"], login);
  new Client("http://api.broker.example", { ...login, insecure: true });
});
