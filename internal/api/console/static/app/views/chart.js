// Candles with volume, and the phases of trading behind them.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { group } from "../num.js";
import { dark, lang } from "../prefs.js";
import { route, setQuery } from "../router.js";
import { gateway } from "../session.js";
import { watch } from "../market.js";
import { calm, failure, phaseName } from "./words.js";

export const intervals = { "1s": 1, "1m": 60, "5m": 300, "15m": 900, "1h": 3600, "1d": 86400 };

export function Chart({ id, meta }) {
  const box = useRef();
  const [state, setState] = useState("loading");
  const [legend, setLegend] = useState(undefined);
  const asked = route.value.query.bar ?? "1m";
  const bar = Object.hasOwn(intervals, asked) ? asked : "1m";
  useEffect(() => {
    let plot;
    let over = false;
    setState("loading");
    open(id, bar, meta, box.current, setLegend).then(
      (p) => {
        if (over) return p.stop();
        plot = p;
        setState(p.problem);
      },
      (err) => over || setState(failure(err)),
    );
    return () => {
      over = true;
      plot?.stop();
    };
  }, [id, bar, meta, dark.value, lang.value]);
  return html`<section class="pane chart" aria-labelledby="chart-title">
    <header><h2 id="chart-title">${t("Candles")}</h2>
      <span class="choice" role="group" aria-label=${t("Interval")}>${Object.keys(intervals).map((name) => html`<button key=${name} aria-pressed=${name === bar}
        onClick=${() => setQuery({ bar: name === "1m" ? "" : name })}>${name}</button>`)}</span>
      <p class="legend num" aria-live="off">${legend && html`${legend.time} <span>${t("O")} ${legend.open}</span> <span>${t("H")} ${legend.high}</span> <span>${t("L")} ${legend.low}</span> <span>${t("C")} ${legend.close}</span> <span>${t("Vol")} ${legend.volume}</span>`}</p></header>
    <div class="body" ref=${box} role="img" aria-label=${t("Candles of {0}, {1}", id, bar)}></div>
    ${state !== "" && html`<p class="empty">${state === "loading" ? t("Loading …") : state}</p>`}
    <footer class="credit">${t("Charts by")} <a href="https://www.tradingview.com/" rel="noreferrer" target="_blank">TradingView Lightweight Charts™</a></footer>
  </section>`;
}

const zone = (seconds) => seconds - new Date(seconds * 1000).getTimezoneOffset() * 60;

const two = (n) => String(n).padStart(2, "0");

// labelOf formats a time of the axis, which is already in the zone of the browser.
function labelOf(seconds, bar) {
  const d = new Date(seconds * 1000);
  const date = `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`;
  if (bar === "1d") return date;
  const time = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
  return bar === "1s" ? `${time}:${two(d.getUTCSeconds())}` : `${date} ${time}`;
}

// open reads the bars that there are, draws them, and continues with what comes.
async function open(id, bar, meta, box, legend) {
  const client = gateway();
  const limit = 400;
  const newest = { newestFirst: true, limit };
  const [charts, bars, statuses] = await Promise.all([
    import("../../vendor/lightweight-charts-5.2.1.js"), collect(client.bars(id, bar, newest)), collect(client.statuses(id, { newestFirst: true, limit: 200 })),
  ]);
  return new Plot(charts, { id, bar, decimals: meta?.price_decimals ?? 2, bars, statuses, box, legend });
}

// collect returns rows of history, oldest first, and why there are none.
async function collect(rows) {
  const list = [];
  try {
    for await (const row of rows) list.push(row);
  } catch (err) {
    return { list: list.reverse(), problem: err.reason === "forbidden" ? t("History needs the right marketdata:history. Candles begin now.") : failure(err) };
  }
  return { list: list.reverse(), problem: "" };
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { text: of("muted"), line: of("line"), up: of("up"), down: of("down"), upVolume: of("up-soft"), downVolume: of("down-soft"), halt: of("halt"), accent: of("accent"), sans: of("sans") };
}

class Plot {
  #forming; // the candle of trades after the newest bar
  #volumes = new Map();
  #newestTrade;
  #newestBar;
  #closedUntil = 0; // end of the newest bar, in s

  constructor(charts, o) {
    Object.assign(this, o);
    this.seconds = intervals[o.bar];
    this.problem = o.bars.problem;
    const c = (this.colours = colours());
    this.chart = charts.createChart(o.box, {
      autoSize: true,
      layout: { background: { type: "solid", color: "transparent" }, textColor: c.text, fontFamily: c.sans, fontSize: 11, attributionLogo: false },
      grid: { vertLines: { color: c.line }, horzLines: { color: c.line } },
      rightPriceScale: { borderVisible: false, scaleMargins: { top: 0.06, bottom: 0.24 } },
      timeScale: { borderVisible: false, timeVisible: o.bar !== "1d", secondsVisible: o.bar === "1s", rightOffset: 4, barSpacing: 9 },
      crosshair: { mode: 0 },
      localization: { priceFormatter: (p) => group(p.toFixed(o.decimals)), timeFormatter: (s) => labelOf(s, o.bar), locale: lang.value },
    });
    this.candles = this.chart.addSeries(charts.CandlestickSeries, {
      upColor: c.up, downColor: c.down, wickUpColor: c.up, wickDownColor: c.down, borderVisible: false,
      priceFormat: { type: "price", precision: o.decimals, minMove: 10 ** -o.decimals },
    });
    this.volume = this.chart.addSeries(charts.HistogramSeries, { priceScaleId: "volume", priceFormat: { type: "volume" }, lastValueVisible: false, priceLineVisible: false });
    this.chart.priceScale("volume").applyOptions({ scaleMargins: { top: 0.82, bottom: 0 } });
    this.phases = new Phases(this.chart, o.statuses.list, c.halt);
    this.candles.attachPrimitive(this.phases);
    this.#load(o.bars.list);
    this.chart.subscribeCrosshairMove((p) => this.#point(p));
    const stop = watch(o.id, (r) => this.paint(r));
    this.stop = () => {
      stop();
      this.chart.remove();
    };
  }

  #load(list) {
    const byTime = new Map(); // a revision replaces the bar
    for (const b of list) if (b.open && b.close) byTime.set(placeOf(b), b);
    const bars = [...byTime].sort(([a], [b]) => a - b);
    this.candles.setData(bars.map(([time, b]) => candle(time, b)));
    this.volume.setData(bars.map(([time, b]) => this.#bar(time, b.volume.toNumber(), b.close.toNumber() >= b.open.toNumber())));
    const last = bars.at(-1);
    if (last) this.#closedUntil = Date.parse(last[1].time) / 1000 + this.seconds;
  }

  #bar(time, value, up) {
    this.#volumes.set(time, value);
    return { time, value, color: up ? this.colours.upVolume : this.colours.downVolume };
  }

  paint(r) {
    const bars = after(r.bars, this.#newestBar).filter((b) => b.interval === this.bar && b.open && b.close);
    this.#newestBar = r.bars.at(-1);
    for (const b of bars) {
      const time = Date.parse(b.time) / 1000;
      this.#update(candle(placeOf(b), b), b.volume.toNumber());
      this.#closedUntil = Math.max(this.#closedUntil, time + this.seconds);
      if (this.#forming && this.#forming.start <= time) this.#forming = undefined;
    }
    const rows = after(r.trades, this.#newestTrade);
    this.#newestTrade = r.trades.at(-1);
    let changed = false;
    for (const row of rows) {
      if (row.kind === "status") this.phases.add(row);
      if (row.kind === "trade" && this.bar !== "1d") changed = this.#trade(row.e) || changed;
    }
    const f = this.#forming;
    if (changed && f) this.#update({ time: zone(f.start), open: f.open, high: f.high, low: f.low, close: f.close }, f.volume);
  }

  // trade adds a trade to the candle that is being made. It returns false if a bar has it already.
  #trade(e) {
    const s = Date.parse(e.time) / 1000;
    const start = Math.floor(s / this.seconds) * this.seconds;
    if (start < this.#closedUntil) return false;
    const p = e.price.toNumber();
    if (!this.#forming || this.#forming.start !== start) {
      if (this.#forming && start < this.#forming.start) return false;
      this.#forming = { start, open: p, high: p, low: p, close: p, volume: 0 };
    }
    const f = this.#forming;
    f.high = Math.max(f.high, p);
    f.low = Math.min(f.low, p);
    f.close = p;
    f.volume += e.size.toNumber();
    return true;
  }

  #update(c, volume) {
    try {
      const old = c.time < (this.newestTime ?? 0);
      this.candles.update(c, old);
      this.volume.update(this.#bar(c.time, volume, c.close >= c.open), old);
      this.newestTime = Math.max(this.newestTime ?? 0, c.time);
    } catch {
      // A revision of a bar that is not on the chart.
    }
  }

  #point(p) {
    const d = p.time === undefined ? undefined : p.seriesData.get(this.candles);
    if (!d) return this.legend(undefined);
    const text = (v) => group(v.toFixed(this.decimals));
    this.legend({ time: labelOf(p.time, this.bar), open: text(d.open), high: text(d.high), low: text(d.low), close: text(d.close), volume: group(String(this.#volumes.get(p.time) ?? "")) });
  }
}

// placeOf returns where a bar is on the axis: the one of a day is at its trading date.
const placeOf = (b) => (b.interval === "1d" && b.tradingDate ? Date.parse(b.tradingDate) / 1000 : zone(Date.parse(b.time) / 1000));

const candle = (time, b) => ({ time, open: b.open.toNumber(), high: b.high.toNumber(), low: b.low.toNumber(), close: b.close.toNumber() });

// after returns the elements that follow one of a list.
function after(list, known) {
  const i = known === undefined ? -1 : list.lastIndexOf(known);
  return i < 0 ? list.slice() : list.slice(i + 1);
}

// Phases paints the times without continuous trading behind the candles.
class Phases {
  #list = []; // {from, phase}, in order

  constructor(chart, statuses, colour) {
    this.chart = chart;
    this.colour = colour;
    for (const s of statuses) this.add({ phase: s.phase, at: Date.parse(s.time) });
  }

  add({ phase, at }) {
    if (["feed_up", "feed_down", "gap"].includes(phase)) return;
    if (this.#list.some((p) => p.at === at && p.phase === phase)) return;
    this.#list.push({ phase, at, from: zone(at / 1000) });
    this.#list.sort((a, b) => a.at - b.at);
    this.request?.();
  }

  attached({ requestUpdate }) {
    this.request = requestUpdate;
  }

  updateAllViews() {}

  paneViews() {
    return [{ zOrder: () => "bottom", renderer: () => ({ draw: (target) => target.useBitmapCoordinateSpace((s) => this.#draw(s)) }) }];
  }

  #draw({ context, bitmapSize, horizontalPixelRatio: ratio }) {
    const scale = this.chart.timeScale();
    const visible = scale.getVisibleRange();
    if (!visible) return;
    for (const [i, p] of this.#list.entries()) {
      if (calm(p.phase) || p.phase === "unknown") continue;
      const to = this.#list[i + 1]?.from ?? visible.to;
      if (to < visible.from || p.from > visible.to) continue;
      const x1 = this.#x(scale, Math.max(p.from, visible.from), 0);
      const x2 = this.#x(scale, Math.min(to, visible.to), scale.width());
      context.fillStyle = this.colour;
      context.fillRect(x1 * ratio, 0, Math.max((x2 - x1) * ratio, 2 * ratio), bitmapSize.height);
      if ((x2 - x1) > 40) {
        context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--muted");
        context.font = `${11 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
        context.fillText(phaseName(p.phase), (x1 + 4) * ratio, 14 * ratio);
      }
    }
  }

  // x returns where a time is, also between two bars.
  #x(scale, time, otherwise) {
    const exact = scale.timeToCoordinate(time);
    if (exact !== null) return exact;
    const index = scale.timeToIndex(time, true);
    return (index === null ? null : scale.logicalToCoordinate(index)) ?? otherwise;
  }
}
