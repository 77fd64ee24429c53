// Node.js 20 has no WebSocket. With package ws a program is the same there, and without it the client
// says what to install.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Gateway, instrument } from "./gateway.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const node20 = join(here, "node_modules/node20/bin/node");
const exec = promisify(execFile);

test("a program on Node 20 needs package ws", async (t) => {
  const gateway = await Gateway.start(t);
  gateway.opened = (c) => c.trades(1);
  const folder = await mkdtemp(join(tmpdir(), "node20-"));
  t.after(() => rm(folder, { recursive: true }));
  const client = join(folder, "node_modules/@rueda/client");
  for (const part of ["package.json", "dist"]) await cp(join(here, part), join(client, part), { recursive: true });
  await writeFile(join(folder, "bot.mjs"), `
import { Client } from "@rueda/client";
const client = new Client(${JSON.stringify(gateway.url)}, { username: "demo", password: "demo" });
client.subscribe({ trades: [${JSON.stringify(instrument)}] });
for await (const ev of client.events()) {
  if (ev.type !== "trade") continue;
  console.log(process.version, String(ev.price));
  break;
}
`);
  const run = () => exec(node20, ["bot.mjs"], { cwd: folder, timeout: 20_000 });
  await assert.rejects(run(), (err) => err.code === 1 && err.stderr.includes("TypeError: this platform has no WebSocket, as Node.js before version 22: npm install ws"));
  await cp(join(here, "node_modules/ws"), join(folder, "node_modules/ws"), { recursive: true });
  const { stdout } = await run();
  assert.match(stdout, /^v20\.\S+ 7051\n$/);
});
