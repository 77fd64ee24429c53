import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

import { reference, undocumented, unlisted } from "../scripts/reference.mjs";

test("REFERENCE.md is what the comments say, and it is complete", async () => {
  const text = await readFile(new URL("../REFERENCE.md", import.meta.url), "utf8");
  assert.equal(text, reference(), "run: node scripts/reference.mjs > REFERENCE.md");
  assert.deepEqual(unlisted(), []);
  assert.deepEqual(undocumented(), []);
});
