// Reads the metrics once a second while somebody is signed in and the page is visible, and keeps
// what the plots show.
import { batch, effect, signal } from "./lib.js";
import { operator, page } from "./api.js";
import { parse, quantile, rate, sum } from "./metrics.js";

const interval = 1000; // ms
const kept = 600; // points of a plot
const latencyPages = 5; // over which quantiles count

// now is the newest page: {at, samples}; null: none.
export const now = signal(null);

// trouble is the error of the newest request; null: it had none.
export const trouble = signal(null);

// paused says that the page is hidden.
export const paused = signal(document.hidden);

// points grows by one with each page.
export const points = signal(0);

// series has the values of the plots, with undefined where there is none.
export const series = {
  time: [], messages: [], deliveries: [], bytes: [], live: [], requests: [],
  median: [], high: [], commit: [], request: [],
};

let pages = [];

function add(latest) {
  const before = pages.at(-1);
  const far = pages[Math.max(0, pages.length - latencyPages)];
  const ms = (name, q) => {
    const v = quantile(far, latest, name, q);
    return v === undefined ? undefined : v * 1000;
  };
  const point = {
    time: latest.at / 1000,
    messages: rate(before, latest, "rueda_messages_total"),
    deliveries: rate(before, latest, "rueda_deliveries_total"),
    bytes: rate(before, latest, "rueda_sent_bytes_total"),
    requests: rate(before, latest, "rueda_requests_total"),
    live: sum(latest.samples, "rueda_connections", { state: "live" }),
    median: ms("rueda_delivery_seconds", 0.5),
    high: ms("rueda_delivery_seconds", 0.99),
    commit: ms("rueda_commit_seconds", 0.99),
    request: ms("rueda_request_seconds", 0.99),
  };
  for (const [name, value] of Object.entries(point)) {
    const list = series[name];
    list.push(value);
    if (list.length > kept) list.shift();
  }
  pages.push(latest);
  if (pages.length > latencyPages) pages.shift();
  batch(() => {
    now.value = latest;
    trouble.value = null;
    points.value++;
  });
}

// newest returns the newest value of a series.
export const newest = (name) => series[name].at(-1);

let timer = 0;
let busy = false;

async function read() {
  if (busy || document.hidden || !operator.value) return;
  busy = true;
  try {
    const text = await page();
    if (operator.value) add({ at: Date.now(), samples: parse(text) });
  } catch (err) {
    trouble.value = err;
  } finally {
    busy = false;
  }
}

effect(() => {
  clearInterval(timer);
  if (!operator.value) {
    for (const list of Object.values(series)) list.length = 0;
    pages = [];
    now.value = null;
    return;
  }
  timer = setInterval(read, interval);
  read();
});

document.addEventListener("visibilitychange", () => {
  paused.value = document.hidden;
  if (!document.hidden) read();
});
