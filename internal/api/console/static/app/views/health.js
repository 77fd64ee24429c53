// The connection: its states, times, rates and gaps.
import { html, signal, useEffect, useRef } from "../lib.js";
import { t } from "../i18n.js";
import { bytes, clock, duration, number } from "../num.js";
import { dark, lang } from "../prefs.js";
import { frameStats } from "../frame.js";
import { save } from "../session.js";
import { feeds, incidents, newest, second, series, states, totals } from "../health.js";
import { markets, slow, state } from "../market.js";
import { counted, trip } from "../wire.js";
import { gateway } from "../session.js";
import { stateName } from "./pulse.js";
import { kindName, phaseName, story } from "./words.js";

const plots = () => [
  { key: "rtt", title: t("Round trip"), unit: "ms", lines: [["rtt", t("round trip"), "accent"]] },
  { key: "oneway", title: t("Latency to this page"), unit: "ms", lines: [["low", "p50", "bid"], ["high", "p95", "ask"]] },
  { key: "rate", title: t("Messages"), unit: t("per second"), lines: [["rate", t("messages"), "accent"]] },
  { key: "kilobytes", title: t("Bytes"), unit: t("kB per second"), lines: [["kilobytes", t("kilobytes"), "accent"]] },
  { key: "ages", title: t("Age"), unit: "s", lines: [["link", t("connection"), "bid"], ["stream", t("market data"), "ask"]] },
  { key: "queued", title: t("Queue of the page"), unit: t("events"), lines: [["queued", t("waiting"), "accent"]] },
  { key: "merged", title: t("Conflated quotes"), unit: "%", lines: [["merged", t("replaced by newer ones"), "accent"]] },
];

export function Health() {
  return html`<section class="health" aria-labelledby="health-title">
    <div class="bar"><h1 id="health-title">${t("Connection")}</h1><button onClick=${bundle}>${t("Save a report")}</button></div>
    <${Now} />
    <${Timeline} />
    <div class="plots">${plots().map((p) => html`<${PlotView} key=${p.key} plot=${p} dark=${dark.value} lang=${lang.value} />`)}</div>
    <div class="two"><${Feeds} /><${Incidents} /></div>
  </section>`;
}

function Fact({ name, value, more, bad }) {
  return html`<div class=${bad ? "bad" : ""}><dt>${name}</dt><dd class="num">${value}</dd>${more && html`<dd class="more">${more}</dd>`}</div>`;
}

function Now() {
  second.value;
  const { name, since } = state.value;
  const { gaps, recovered, lost, connects } = totals.value;
  const frame = frameStats();
  return html`<dl class="facts">
    <${Fact} name=${t("Stream")} value=${stateName(name)} more=${t("for {0}", duration(Date.now() - since))} bad=${name === "waiting" || name === "closed"} />
    <${Fact} name=${t("Round trip")} value=${`${number(trip.rtt, 1)} ms`} more=${t("clocks differ by {0} ms", trip.offset === undefined ? "–" : number(trip.offset, 1))} />
    <${Fact} name=${t("Latency to this page")} value=${newest("low") === undefined ? "–" : `${number(newest("low"), 1)} ms`} more=${newest("low") === undefined ? t("not measured") : t("95 of 100 within {0} ms", number(newest("high"), 1))} />
    <${Fact} name=${t("Messages")} value=${number(counted.in)} more=${bytes(counted.bytes)} />
    <${Fact} name=${t("Gaps")} value=${number(gaps)} more=${t("{0} recovered, {1} lost", recovered, lost)} bad=${lost > 0} />
    <${Fact} name=${t("Connections")} value=${number(connects)} more=${connects > 1 ? connects === 2 ? t("1 reconnect") : t("{0} reconnects", connects - 1) : t("no reconnect")} />
    <${Fact} name=${t("Slow reader")} value=${slow.value ? clock(slow.value.at) : t("no")} more=${t("warning of the gateway")} bad=${slow.value && Date.now() - slow.value.at < 60_000} />
    <${Fact} name=${t("Work in a frame")} value=${`${number(frame.median, 2)} ms`} more=${t("at most {0} ms", number(frame.most, 1))} />
  </dl>`;
}

// Timeline shows the states of the last 15 minutes as a strip.
function Timeline() {
  second.value;
  const end = Date.now();
  const span = 15 * 60_000;
  const list = states.value;
  const parts = list.map((s, i) => ({ ...s, to: list[i + 1]?.at ?? end })).filter((s) => s.to > end - span);
  const strip = useRef();
  useEffect(() => {
    // Widths are set here, because the policy of the page allows no style in HTML.
    [...strip.current.children].forEach((el, i) => {
      const from = Math.max(parts[i].at, end - span);
      el.style.left = `${((from - (end - span)) / span) * 100}%`;
      el.style.width = `${Math.max(((parts[i].to - from) / span) * 100, 0.3)}%`;
    });
  });
  const said = parts.slice(-6).map((s) => `${clock(s.at)} ${stateName(s.state)}${s.error ? `: ${s.error}` : ""}`).join("; ");
  return html`<figure class="timeline"><figcaption>${t("State in the last 15 minutes")}</figcaption>
    <div class="strip" role="img" aria-label=${said} ref=${strip}>${parts.map((s) => html`<i key=${s.at + s.state} class=${s.state} title=${`${clock(s.at)} ${stateName(s.state)}${s.error ? `: ${s.error}` : ""}`}></i>`)}</div></figure>`;
}

const ready = signal(undefined);

// loadPlot loads uPlot, which is a script and not a module.
function loadPlot() {
  ready.value ??= new Promise((resolve, reject) => {
    const css = document.createElement("link");
    css.rel = "stylesheet";
    css.href = new URL("../../vendor/uplot-1.6.32.css", import.meta.url).href;
    const script = document.createElement("script");
    script.src = new URL("../../vendor/uplot-1.6.32.js", import.meta.url).href;
    script.onload = () => resolve(globalThis.uPlot);
    script.onerror = () => reject(new Error("uPlot"));
    document.head.append(css, script);
  });
  return ready.value;
}

function PlotView({ plot }) {
  const box = useRef();
  useEffect(() => {
    let u;
    let stop = () => undefined;
    let over = false;
    loadPlot().then((uPlot) => {
      if (over || !box.current) return;
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(`--${name}`).trim();
      const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}`, size: 42 };
      const el = box.current;
      const data = () => [series.at, ...plot.lines.map(([name]) => series[name])];
      const size = () => ({ width: Math.max(el.clientWidth, 160), height: 120 });
      u = new uPlot({
        ...size(), legend: { show: false }, cursor: { y: false }, padding: [8, 24, 0, 0],
        scales: { x: { range: (_, low, high) => [Math.min(low, high - 60), high] }, y: { range: (_, low, high) => [Math.min(low ?? 0, 0), Math.max(high ?? 0, 1) * 1.1] } },
        axes: [{ ...axis, size: 26, values: (_, list) => list.map((s) => (list.at(-1) - list[0] < 240 ? clock(s * 1000) : clock(s * 1000).slice(0, 5))), space: 80 }, { ...axis, values: (_, list) => list.map((v) => number(v, v < 10 && v % 1 ? 1 : 0)), space: 26 }],
        series: [{}, ...plot.lines.map(([, label, c]) => ({ label, stroke: colour(c), width: 1.5, points: { show: false }, spanGaps: false }))],
      }, data(), el);
      const seen = new ResizeObserver(() => u.setSize(size()));
      seen.observe(el);
      const unsubscribe = second.subscribe(() => document.visibilityState === "visible" && u.setData(data()));
      stop = () => {
        seen.disconnect();
        unsubscribe();
      };
    }, () => undefined);
    return () => {
      over = true;
      stop();
      u?.destroy();
    };
  }, [plot.key, dark.value, lang.value]);
  second.value;
  const digits = plot.unit === "ms" || plot.unit === "s" ? 1 : 0;
  return html`<figure class="plot"><figcaption>${plot.title} <small>${plot.unit}</small>
    <span class="now">${plot.lines.map(([name, label, c]) => html`<span key=${name} class=${c}>${plot.lines.length > 1 ? `${label} ` : ""}<b class="num">${number(newest(name) ?? undefined, digits)}</b></span>`)}</span></figcaption>
    ${nothing(plot) && html`<p class="empty">${t("Nothing has been measured yet.")}</p>`}
    <div ref=${box} role="img" aria-label=${`${plot.title}: ${plot.lines.map(([name, label]) => `${label} ${number(newest(name) ?? undefined, digits)} ${plot.unit}`).join(", ")}`}></div></figure>`;
}

// nothing says that a plot has no point.
const nothing = (plot) => plot.lines.every(([name]) => series[name].every((v) => v === null));

function Feeds() {
  second.value;
  const names = [...new Set([...feeds.keys(), ...markets.value.keys()])].sort();
  return html`<section class="block"><h2>${t("Markets")}</h2>
    ${names.length === 0 ? html`<p class="empty">${t("No market data yet. Open the market or an instrument.")}</p>` : html`
    <table><thead><tr><th scope="col">${t("Market")}</th><th scope="col">${t("Phase")}</th><th scope="col">${t("Feed")}</th><th scope="col">${t("Newest message")}</th></tr></thead>
    <tbody>${names.map((name) => {
      const m = markets.value.get(name);
      return html`<tr key=${name}><th scope="row">${name}</th><td>${m ? phaseName(m.phase) : ""}</td><td class=${m?.down ? "bad" : ""}>${m?.down ? t("interrupted") : t("works")}</td>
        <td class="num">${feeds.has(name) ? t("{0} ago", duration(Date.now() - feeds.get(name))) : ""}</td></tr>`;
    })}</tbody></table>`}</section>`;
}

function Incidents() {
  const list = incidents.value;
  return html`<section class="block"><h2>${t("What happened")}</h2>
    ${list.length === 0 ? html`<p class="empty">${t("Nothing since you opened this page.")}</p>` : html`
    <table class="incidents"><thead><tr><th scope="col">${t("Time")}</th><th scope="col">${t("Event")}</th><th scope="col">${t("Details")}</th></tr></thead>
    <tbody>${list.slice(0, 60).map((i) => html`<tr key=${i.id} class=${i.kind}><td class="num">${clock(i.at)}</td><td>${kindName(i.kind)}</td>
      <td>${story(i)}</td></tr>`)}</tbody></table>`}</section>`;
}

// bundle saves what is measured, for a report to the operator. It has no token and no message.
function bundle() {
  const report = {
    at: new Date().toISOString(), page: location.href, browser: navigator.userAgent, state: state.value.name, roundTrip: trip.rtt, clockOffset: trip.offset,
    totals: totals.value, states: states.value, incidents: incidents.value, messages: Object.fromEntries(counted.byType), frame: frameStats(),
    health: gateway()?.health(), series,
  };
  save(new Blob([JSON.stringify(report, null, 1)], { type: "application/json" }), "rueda-connection.json");
}
