import assert from "node:assert/strict";
import test from "node:test";
import { inspect } from "node:util";

import { Decimal, read } from "@rueda/client";

test("decimals keep their digits", () => {
  for (const [text, want] of [
    ["7049.50", "7049.5"], ["1e3", "1000"], ["1e-8", "0.00000001"], ["-0", "0"], ["0.10", "0.1"], ["-0.5", "-0.5"], ["123456789012345", "123456789012345"],
    ["12345678901234567890.12345678901234567890", "12345678901234567890.1234567890123456789"], ["1.5e-2", "0.015"],
  ]) {
    assert.equal(String(Decimal.parse(text)), want);
  }
  for (const bad of ["", "1.", ".5", "1e", "0x1", "1e9999", "NaN", " 1", "1".repeat(401)]) assert.throws(() => Decimal.parse(bad), SyntaxError, bad);
});

test("decimals calculate exactly", () => {
  const d = Decimal.parse;
  assert.equal(String(d("0.1").add(d("0.2"))), "0.3");
  assert.equal(String(d("1").sub(d("0.9"))), "0.1");
  assert.equal(String(d("-1.5").mul(d("0.02"))), "-0.03");
  assert.ok(d("10").compare(d("9.99")) > 0);
  assert.ok(d("-10").compare(d("9.99")) < 0);
  assert.equal(d("9.5").compare(d("9.50")), 0);
  assert.equal(d("0.1").toNumber(), 0.1);
  assert.equal(d("7049.5").unitsAt(2), 704950n);
  assert.equal(JSON.stringify({ price: d("7049.5") }), '{"price":"7049.5"}');
  assert.throws(() => d("1") < d("2"), TypeError);
  assert.throws(() => d("1") + d("2"), TypeError);
  assert.equal(`${d("1.5")}`, "1.5");
  assert.equal(inspect({ price: d("7049.50") }), "{ price: 7049.5 }"); // as console.log does
});

test("messages are read exactly", () => {
  const m = read('{"type":"T","S":"X","I":"X|M|CI","N":7,"P":12345678901234.567,"Z":0.00000001,"C":["a\\"b","\\u00e9"]}');
  assert.equal(String(m.P), "12345678901234.567"); // 17 digits
  assert.equal(String(m.Z), "0.00000001");
  assert.equal(m.N, 7);
  assert.deepEqual(m.C, ['a"b', "é"]);
  const book = read('{"B":[[100.10,2e1,3],[-0,0]],"A":[],"future":{"a":[1,null,true,false]}}');
  assert.deepEqual(book.B.map(([p, z, n]) => [String(p), String(z), n]), [["100.1", "20", 3], ["0", "0", undefined]]);
  assert.deepEqual(book.future, { a: [1, null, true, false] });
});

test("everything else is read as JSON.parse does", () => {
  const texts = [
    "1", "-1.5e3", '"a"', "[]", "{}", " [ 1 , 2 ] ", '{"a":{"b":[{}]}}', '{"__proto__":1}', '"\\ud83d\\ude00"', "true", '{"a":1,"a":2}', '"\\\\"', '{"x":"\\""}',
    "", "{", "[1,]", '{"a"}', '{"a":}', '{a:1}', "01", "1.", "-", "+1", ".5", "1e", "nul", "[1 2]", '"\n"', '"a', '"\\x"', "1 2", "[", '{"a":1,}', "NaN", "\u00a01", '"\\',
  ];
  for (const text of texts) {
    let want, got;
    try {
      want = JSON.parse(text);
    } catch {
      assert.throws(() => read(text), SyntaxError, JSON.stringify(text));
      continue;
    }
    got = read(text);
    assert.deepEqual(got, want, text);
  }
  assert.throws(() => read("[".repeat(1e6)), SyntaxError);
});

test("the fallback and the fast paths of the reader agree with JSON.parse on mutated messages", () => {
  const message = '{"type":"O","S":"GGAL","I":"GGAL|BYMA|24hs","N":5012,"T":"2026-11-20T14:30:00.700000000Z","D":130900,"L":5011,"B":[[7049.5,280,3]],"A":[[7050,0]],"K":3526765731}';
  let seed = 1;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const letters = '{}[]",:0123456789.-+eEtrufalsn\\ \u0001x';
  for (let i = 0; i < 20_000; i++) {
    const at = random(message.length);
    const text = message.slice(0, at) + letters[random(letters.length)] + message.slice(at + random(3));
    let want, got;
    try { want = JSON.parse(text); } catch { want = undefined; }
    try { got = read(text); } catch (err) { assert.ok(err instanceof SyntaxError); got = undefined; }
    if (got !== undefined || want !== undefined) assert.deepEqual(numbers(got), numbers(want), text);
  }
});

// numbers returns a value without Decimals and without -0.
function numbers(v) {
  if (v instanceof Decimal) return v.toNumber();
  if (Array.isArray(v)) return v.map(numbers);
  if (v && typeof v === "object") return Object.fromEntries(Object.entries(v).map(([name, x]) => [name, numbers(x)]));
  return Object.is(v, -0) ? 0 : v;
}
