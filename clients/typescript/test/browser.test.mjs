import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { dev } from "./dev.mjs";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const instrument = "GGAL|BYMA|24hs";

// The page follows an instrument over a reset of its connection, and reports what it got.
const page = (gateway) => `<!doctype html><title>Rueda</title>
<script type="importmap">{"imports":{"@rueda/client":"/dist/index.js"}}</script>
<script type="module">
  import { Client, Decimal } from "@rueda/client";
  const report = (result) => fetch("/result", { method: "POST", body: JSON.stringify(result) });
  try {
    const client = new Client(${JSON.stringify(gateway)}, { username: "demo", password: "demo" });
    client.subscribe({ trades: [${JSON.stringify(instrument)}], books: [${JSON.stringify(instrument)}] });
    const result = { trades: [], states: [], lost: 0, crossed: 0, books: 0, exact: true };
    for await (const ev of client.events()) {
      if (ev.type === "state") result.states.push(ev.state);
      if (ev.type === "lost") result.lost++;
      if (ev.type === "book" && client.book(ev.instrument)) {
        const { bid, ask } = client.book(ev.instrument).best();
        result.books++;
        if (bid && ask && bid.price.compare(ask.price) >= 0) result.crossed++;
      }
      if (ev.type === "trade") {
        result.exact &&= ev.price instanceof Decimal;
        result.trades.push([ev.n, ev.price, ev.size]);
        if (result.trades.length === 20) await fetch("/reset", { method: "POST" });
        if (result.trades.length >= 60 && result.states.filter((s) => s === "live").length >= 2) break;
      }
    }
    await report(result);
  } catch (err) {
    await report({ error: String(err?.stack ?? err) });
  }
</script>`;

function browser() {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    try {
      return execFileSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).trim();
    } catch {
      // the next one
    }
  }
  return undefined;
}

const program = browser();
const missing = !process.env.RUEDA ? "RUEDA is not set" : !program ? "chromium is not installed" : false;

test("nothing that the tests need is missing", { skip: !process.env.RUEDA_REQUIRE_ALL && "RUEDA_REQUIRE_ALL is not set" }, () => {
  assert.equal(missing, false);
});

test("a page in Chromium follows the market over a reset", { skip: missing }, async (t) => {
  let gateway = "";
  let done;
  const result = new Promise((resolve) => (done = resolve));
  const server = createServer(async (req, res) => {
    const js = /^\/dist\/(\w+\.js)$/.exec(req.url)?.[1];
    if (js) return res.setHeader("Content-Type", "text/javascript").end(await readFile(join(dist, js)));
    if (req.url === "/") return res.setHeader("Content-Type", "text/html").end(page(gateway));
    let text = "";
    for await (const part of req) text += part;
    if (req.url === "/result") done(JSON.parse(text));
    if (req.url === "/reset") execFileSync(process.env.RUEDA, ["trigger", "--url", gateway, "disconnect"]);
    res.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${server.address().port}`;
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  gateway = await dev(t, "--origin", origin);

  const profile = await mkdtemp(join(tmpdir(), "chromium-"));
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  const p = spawn(program, [...flags, `--user-data-dir=${profile}`, `${origin}/`], { stdio: "ignore", detached: true });
  t.after(async () => {
    const exit = once(p, "exit");
    process.kill(-p.pid, "SIGKILL"); // the group of the browser, which this test has started
    await exit;
    await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  });
  const late = new Promise((_, reject) => setTimeout(reject, 90_000, new Error("the page reports nothing")).unref());
  const { error, trades, states, lost, crossed, books, exact } = await Promise.race([result, late]);
  assert.equal(error, undefined);
  assert.ok(exact && trades.length >= 60 && books > 0, `${trades.length} trades, ${books} books`);
  assert.deepEqual([lost, crossed], [0, 0]);
  trades.forEach(([n], i) => assert.equal(n, trades[0][0] + i));
  assert.ok(states.includes("waiting"), `${states}`);
});
