// Measures how fast messages are read with exact decimals, next to JSON.parse alone, which reads them
// as floating point numbers. It alternates between both and prints the best round of each.
//
//   node test/speed.mjs

import { performance } from "node:perf_hooks";

import { read } from "@rueda/client";

const header = (type, n) => `"type":"${type}","S":"GGAL","I":"GGAL|BYMA|24hs","N":${n},"T":"2026-11-20T14:30:00.${String(n).padStart(9, "0")}Z","D":184200`;
const level = (p, i) => `[${p - i * 0.5},${100 + i * 7},${i + 1}]`;
const side = (p, sign) => `[${Array.from({ length: 5 }, (_, i) => level(p, sign * i)).join()}]`;

/** Messages as a gateway writes them, in the proportion of a busy market. */
export function messages(count) {
  const list = [];
  for (let n = 1; n <= count; n++) {
    const p = 7000 + (n % 500) / 2;
    switch (n % 10) {
      case 0: list.push(`{${header("T", n)},"P":${p},"Z":${n % 900},"X":"${n}","G":"B"}`); break;
      case 1: list.push(`{${header("O", n)},"R":true,"DL":5,"B":${side(p, 1)},"A":${side(p + 0.5, -1)},"K":4051739875}`); break;
      case 2: case 3: case 4: list.push(`{${header("Q", n)},"BP":${p},"BZ":${n % 900},"AP":${p + 0.5},"AZ":1200,"BC":4,"AC":9}`); break;
      default: list.push(`{${header("O", n)},"L":${n - 1},"B":[[${p},${n % 900},3]],"A":[[${p + 0.5},0]],"K":3526765731}`);
    }
  }
  return list;
}

/** Returns messages per second of each reader. */
export function measure(rounds = 12, count = 20_000) {
  const readers = { "JSON.parse": JSON.parse, "read": read };
  const list = messages(count);
  const best = {};
  let sum = 0;
  for (let i = 0; i < rounds; i++) {
    for (const [name, reader] of Object.entries(readers)) {
      const began = performance.now();
      for (const text of list) sum += reader(text).N;
      const rate = (count / (performance.now() - began)) * 1000;
      best[name] = Math.max(best[name] ?? 0, rate);
    }
  }
  if (sum === 0) throw new Error("nothing was read");
  return best;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const best = measure();
  for (const [name, rate] of Object.entries(best)) console.log(`${name.padEnd(12)} ${Math.round(rate).toLocaleString("en")} messages/s`);
  console.log(`ratio        ${(best.read / best["JSON.parse"]).toFixed(2)}`);
}
