import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));

// RUEDA is the program of the gateway, which make clients-typescript builds.
test("the types of messages are those of the AsyncAPI document", { skip: !process.env.RUEDA && "RUEDA is not set" }, () => {
  const folder = mkdtempSync(join(tmpdir(), "asyncapi-"));
  try {
    writeFileSync(join(folder, "asyncapi.json"), execFileSync(process.env.RUEDA, ["schema", "asyncapi"], { maxBuffer: 1 << 26 }));
    const want = execFileSync(process.execPath, [join(here, "scripts/messages.mjs"), join(folder, "asyncapi.json")], { encoding: "utf8" });
    assert.equal(readFileSync(join(here, "src/messages.ts"), "utf8"), want, "generate src/messages.ts again: see scripts/messages.mjs");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
