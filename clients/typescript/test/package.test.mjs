import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { dev, run } from "./dev.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const exec = promisify(execFile);

const use = `
import { Client, Decimal, IncompleteError, RuedaError, type Event, type Lost, type Rows, type Trade } from "@rueda/client";
import { FileStore } from "@rueda/client/node";

const client = new Client(["https://a.example", "https://b.example"], { tokens: new FileStore("tokens.json"), overflow: "drop" });
export async function volume(signal: AbortSignal): Promise<Decimal> {
  let sum = Decimal.zero;
  try {
    for await (const ev: Event of client.events(signal)) if (ev.type === "trade") sum = sum.add(sizeOf(ev));
  } catch (err) {
    if (err instanceof RuedaError) console.error(err.reason, err.retryAfter);
  }
  return sum;
}
const old: AsyncGenerator<Trade, void, void> = client.trades("GGAL|BYMA|24hs");
export async function lost(rows: Rows<Trade> = client.trades("GGAL|BYMA|24hs", { requireComplete: true })): Promise<Lost[]> {
  try {
    for await (const trade of rows) sizeOf(trade);
    await old.return();
    return await rows.lost();
  } catch (err) {
    return err instanceof IncompleteError ? err.lost : [{ type: "lost", channel: "trades", instrument: "", from: 1, to: 2, reason: "" }];
  }
}
const sizeOf = (trade: Trade): Decimal => trade.size;
`.replace("ev: Event of", "ev of");

// names returns the names of the files below a folder.
const names = async (folder) =>
  (await readdir(folder, { recursive: true, withFileTypes: true })).filter((f) => f.isFile()).map((f) => relative(folder, join(f.parentPath, f.name))).sort();

test("the client of a gateway works in an empty folder, as README says", { skip: !process.env.RUEDA && "RUEDA is not set" }, async (t) => {
  const url = await dev(t);
  const folder = await mkdtemp(join(tmpdir(), "package-"));
  t.after(() => rm(folder, { recursive: true }));
  const page = await (await fetch(`${url}/client/`)).text();
  const [, path] = /href="(\/client\/rueda-client-[^"]+)"/.exec(page);
  const { version } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
  assert.equal(path, `/client/rueda-client-${version}.tgz`);
  const readme = await readFile(join(here, "README.md"), "utf8");
  assert.ok(readme.includes(`$ npm install http://127.0.0.1:8080${path}\n`));
  await exec("npm", ["init", "-y"], { cwd: folder });
  await exec("npm", ["install", "--no-audit", "--no-fund", url + path], { cwd: folder });
  assert.deepEqual((await readdir(join(folder, "node_modules"))).filter((name) => name[0] !== "."), ["@rueda"]);

  await t.test("it has the files of npm pack", async () => {
    await exec("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: here });
    await exec("tar", ["-xzf", `rueda-client-${version}.tgz`], { cwd: folder });
    const packed = join(folder, "package");
    const installed = join(folder, "node_modules/@rueda/client");
    const files = await names(packed);
    assert.ok(files.includes("dist/index.d.ts"));
    assert.deepEqual(await names(installed), files);
    for (const file of files) assert.equal(await readFile(join(installed, file), "utf8"), await readFile(join(packed, file), "utf8"), file);
  });

  const programs = [...readme.matchAll(/```js\n(.*?)```/gs)].map((m) => m[1]);
  assert.ok(programs.length >= 5);
  for (const [i, program] of programs.entries()) {
    await t.test(`program ${i + 1} of README`, async () => {
      const name = `program-${i}.mjs`;
      await writeFile(join(folder, name), program.replaceAll("http://127.0.0.1:8080", url));
      const lines = await run(folder, name, []);
      for (const [j, want] of [...program.matchAll(/console\.log\(.*\); \/\/ ([^,\n]+)/g)].entries()) assert.equal(lines[j], want[1]);
      if (i === 0) {
        const states = lines.filter((line) => line.startsWith("stream")).map((line) => line.slice(7));
        // The program may have its trades before the stream is live.
        assert.deepEqual(states, ["connecting", "authenticating", "syncing", "live"].slice(0, Math.max(3, states.length)));
        assert.equal(lines.filter((line) => /^trade \d+ [\d.]+ x [\d.]+$/.test(line)).length, 5);
      }
    });
  }

  await t.test("the program in TypeScript is checked, and runs directly", async () => {
    const project = join(folder, "typed");
    await mkdir(join(project, "node_modules"), { recursive: true });
    await symlink(join(folder, "node_modules/@rueda"), join(project, "node_modules/@rueda"));
    await symlink(join(here, "node_modules/@types"), join(project, "node_modules/@types"));
    await writeFile(join(project, "package.json"), "{}");
    await exec("npm", ["pkg", "set", "type=module"], { cwd: project });
    await writeFile(join(project, "tsconfig.json"), /```json\n(.*?)```/s.exec(readme)[1]);
    await writeFile(join(project, "bot.ts"), /```ts\n(.*?)```/s.exec(readme)[1].replaceAll("http://127.0.0.1:8080", url));
    await exec(process.execPath, [join(here, "node_modules/typescript/bin/tsc")], { cwd: project });
    const lines = await run(project, "bot.ts", []);
    assert.match(lines.join("\n"), /^1 [\d.]+\n2 [\d.]+\n3 [\d.]+$/);
  });

  await t.test("its types are strict", async () => {
    const tsc = async (text) => {
      await writeFile(join(folder, "use.mts"), text);
      const types = join(here, "node_modules/@types");
      await exec(process.execPath, [join(here, "node_modules/typescript/bin/tsc"), "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--typeRoots", types, "--types", "node", "use.mts"], { cwd: folder });
    };
    await tsc(use);
    await assert.rejects(tsc(use.replace("trade.size", "trade.price.toNumber()")), /./);
    await assert.rejects(tsc(use.replace('"drop"', '"forget"')), /./);
  });
});
