// A recording of five days, for a gateway that replays it.

import { writeFile } from "node:fs/promises";

export const days = ["2026-11-02", "2026-11-03", "2026-11-04", "2026-11-05", "2026-11-06"];
export const perDay = 40;

// record writes a recording with 40 trades on each day, one a minute.
export async function record(file, id) {
  const listed = { instrument: id, currency: "ARS", price_decimals: 2, size_decimals: 0 };
  const head = { rueda: "recording", version: 1, server: "http://127.0.0.1:1", began: `${days[0]}T14:30:00Z`, epoch: "e1", channels: ["trades"], depth: 0, ids: [id], instruments: [listed] };
  const lines = [JSON.stringify(head)];
  for (const [d, day] of days.entries()) {
    for (let i = 0; i < perDay; i++) {
      const ms = Date.parse(`${day}T14:30:00Z`) + i * 60_000;
      const n = d * perDay + i + 1;
      const trade = { type: "T", I: id, N: n, T: `${new Date(ms).toISOString().slice(0, 19)}.000000000Z`, P: 100, Z: n };
      lines.push(`${ms}000000 ${JSON.stringify(trade)}`);
    }
  }
  await writeFile(file, `${lines.join("\n")}\n`);
}
