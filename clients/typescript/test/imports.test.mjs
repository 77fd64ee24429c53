import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";

const source = new URL("../src/", import.meta.url);
const imports = (name) => [...readFileSync(new URL(name, source), "utf8").matchAll(/ from "\.\/(\w+)\.js"/g)].map((m) => `${m[1]}.ts`);

test("the modules import each other without a circle, also for types alone", () => {
  assert.ok(imports("link.ts").includes("errors.ts"));
  const done = new Set();
  const visit = (name, path) => {
    assert.ok(!path.includes(name), [...path, name].join(" -> "));
    if (!done.has(name)) for (const next of imports(name)) visit(next, [...path, name]);
    done.add(name);
  };
  for (const name of readdirSync(source)) visit(name, []);
});
