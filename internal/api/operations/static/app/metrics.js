// The page of metrics: its samples, and what two pages together say about the time between them.

const line = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const label = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// parse returns the samples by name: lists of {labels, value}.
export function parse(text) {
  const found = new Map();
  for (const row of text.split("\n")) {
    if (!row.startsWith("rueda_") && !row.startsWith("process_")) continue;
    const m = line.exec(row);
    if (!m) continue;
    const labels = {};
    for (const [, name, value] of (m[2] ?? "").matchAll(label)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    const list = found.get(m[1]);
    if (list) list.push({ labels, value: Number(m[3]) });
    else found.set(m[1], [{ labels, value: Number(m[3]) }]);
  }
  return found;
}

const matches = (labels, wanted) => Object.entries(wanted).every(([name, value]) => labels[name] === value);

// sum returns the sum of a metric over the samples with some labels; undefined: there are none.
export function sum(samples, name, wanted = {}) {
  const list = (samples?.get(name) ?? []).filter((s) => matches(s.labels, wanted));
  return list.length ? list.reduce((total, s) => total + s.value, 0) : undefined;
}

// values returns the values of a metric by one of its labels.
export function values(samples, name, by) {
  return new Map((samples?.get(name) ?? []).map((s) => [s.labels[by], s.value]));
}

// rate returns how much a counter has grown in a second between two pages. A gateway that was
// restarted counts from 0 again.
export function rate(before, after, name, wanted) {
  const a = sum(before?.samples, name, wanted);
  const b = sum(after?.samples, name, wanted);
  const seconds = (after?.at - before?.at) / 1000;
  if (a === undefined || b === undefined || !(seconds > 0)) return undefined;
  return Math.max(0, b < a ? b : b - a) / seconds;
}

// quantile returns a quantile of what a histogram has counted between two pages, in its unit. The
// value lies inside a bucket, and is interpolated there. undefined: nothing was counted.
export function quantile(before, after, name, q) {
  if (!before) return undefined;
  const counts = new Map();
  const add = (page, sign) => {
    for (const s of page?.samples.get(`${name}_bucket`) ?? []) {
      const bound = s.labels.le === "+Inf" ? Infinity : Number(s.labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * s.value);
    }
  };
  add(after, 1);
  if ((sum(before?.samples, `${name}_count`) ?? 0) <= (sum(after?.samples, `${name}_count`) ?? 0)) add(before, -1);
  const bounds = [...counts.keys()].sort((a, b) => a - b);
  const total = counts.get(Infinity) ?? 0;
  if (!(total > 0)) return undefined;
  const rank = q * total;
  let low = 0;
  let below = 0;
  for (const bound of bounds) {
    const upTo = counts.get(bound);
    if (upTo >= rank) return bound === Infinity ? low : low + ((bound - low) * (rank - below)) / Math.max(1e-12, upTo - below);
    low = bound;
    below = upTo;
  }
  return low;
}
