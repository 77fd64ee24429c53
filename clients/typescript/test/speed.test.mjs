import assert from "node:assert/strict";
import test from "node:test";

import { measure } from "./speed.mjs";

test("messages are read at half of the rate of JSON.parse alone", (t) => {
  const best = measure();
  const ratio = best.read / best["JSON.parse"];
  t.diagnostic(`figure: ${Math.round(best.read)} messages/s, ${ratio.toFixed(2)} of JSON.parse`);
  assert.ok(ratio > 0.4, `${ratio}`); // with room for a machine that does other things
});
