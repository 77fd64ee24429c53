// The rows of a ladder: an order book by price, in equal steps. Prices and sizes are whole units,
// so that nothing is rounded.

export const multiples = [1, 2, 5, 10, 20, 50, 100];

// below returns the greatest multiple of a step that is not above a value.
export function below(value, step) {
  const rest = value % step;
  return value - (rest < 0n ? rest + step : rest);
}

export function above(value, step) {
  const low = below(value, step);
  return low === value ? value : low + step;
}

// tickAt returns the price step at a price, from the pairs [from, step] of the catalogue.
export function tickAt(ticks, price, scale) {
  let step;
  for (const [from, s] of ticks ?? []) if (step === undefined || from.unitsAt(scale) <= price) step = s.unitsAt(scale);
  return step && step > 0n ? step : 1n;
}

// scaleOf returns how many decimals units need for all prices of a catalogue entry and a book.
export function scaleOf(least, ...lists) {
  let scale = least;
  for (const list of lists) for (const d of list) if (d && d.scale > scale) scale = d.scale;
  return scale;
}

// rowsOf returns count rows, the highest price first. The row in the middle has the price anchor.
// Bids are collected at the next lower step, asks at the next higher one.
export function rowsOf(bids, asks, { scale, sizes, step, anchor, count }) {
  const top = anchor + BigInt(count >> 1) * step;
  const rows = [];
  for (let i = 0; i < count; i++) rows.push({ price: top - BigInt(i) * step, bid: 0n, ask: 0n, bidSum: 0n, askSum: 0n });
  const last = count - 1;
  let sum = 0n;
  let bidBefore = 0n; // above the rows
  for (const level of bids) {
    const i = Number((top - below(level.price.unitsAt(scale), step)) / step);
    if (i > last) break;
    const size = level.size.unitsAt(sizes);
    sum += size;
    if (i < 0) {
      bidBefore = sum;
      continue;
    }
    rows[i].bid += size;
    rows[i].bidSum = sum;
  }
  const bidTotal = sum;
  sum = 0n;
  let askBefore = 0n; // below the rows
  for (const level of asks) {
    const i = Number((top - above(level.price.unitsAt(scale), step)) / step);
    if (i < 0) break;
    const size = level.size.unitsAt(sizes);
    sum += size;
    if (i > last) {
      askBefore = sum;
      continue;
    }
    rows[i].ask += size;
    rows[i].askSum = sum;
  }
  fill(rows, { bid: bids[0]?.price.unitsAt(scale), ask: asks[0]?.price.unitsAt(scale), bidBefore, askBefore });
  return { rows, bidTotal, askTotal: sum };
}

// fill gives rows without a level the sum of the better ones.
function fill(rows, { bid, ask, bidBefore, askBefore }) {
  let sum = bidBefore;
  for (const row of rows) {
    if (bid === undefined || row.price > bid) continue;
    if (row.bid > 0n) sum = row.bidSum;
    else row.bidSum = sum;
  }
  sum = askBefore;
  for (const row of rows.toReversed()) {
    if (ask === undefined || row.price < ask) continue;
    if (row.ask > 0n) sum = row.askSum;
    else row.askSum = sum;
  }
}

// middle returns the price around which a ladder is shown, undefined for an empty book.
export function middle(bids, asks, scale, last) {
  const bid = bids[0]?.price.unitsAt(scale);
  const ask = asks[0]?.price.unitsAt(scale);
  if (bid !== undefined && ask !== undefined) return (bid + ask) / 2n;
  return bid ?? ask ?? last?.unitsAt(scale);
}
