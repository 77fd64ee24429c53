// The watchlist.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { paint, skip } from "../frame.js";
import { duration, group, percent, price, short, signed } from "../num.js";
import { keep, lang, stored } from "../prefs.js";
import { go, isInstrument, link, route, setQuery } from "../router.js";
import { about } from "../session.js";
import { first, known, record, state, want, watch } from "../market.js";
import { calm, phaseName, words } from "./words.js";
import { Search } from "./search.js";

const columns = ["last", "change", "bidsize", "bid", "ask", "asksize", "spread", "volume", "spark", "age"];

function listed() {
  const text = route.value.query.list ?? stored("list");
  return text ? text.split(",").filter(isInstrument) : [];
}

export function Watch() {
  const ids = listed();
  const key = ids.join(",");
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (ids.length === 0 && route.value.query.list === undefined) {
      some();
    }
  }, [key]);
  useEffect(() => {
    want("watch", { quotes: ids, trades: ids, summary: ids, status: ids });
    return () => want("watch", undefined);
  }, [key]);
  const [quotesOnly, setQuotesOnly] = useState(false);
  useEffect(() => {
    setQuotesOnly(false);
    return ids[0] && watch(ids[0], (r) => setQuotesOnly(r.refused.has("trades")));
  }, [ids[0]]);
  const change = (list) => {
    keep("list", list.join(","));
    setQuery({ list: list.join(",") });
  };
  const some = () => first(8).then((list) => (setFailed(false), change(list)), () => setFailed(true));
  const names = {
    last: t("Last"), change: t("Change"), bidsize: t("Size"), bid: t("Bid"), ask: t("Offer"), asksize: t("Size"), spread: t("Spread"),
    volume: t("Volume"), spark: t("Trend"), age: t("Age"),
  };
  return html`<section class="watch" aria-labelledby="watch-title">
    <div class="bar"><h1 id="watch-title">${t("Market")}</h1>
      <${Search} label=${t("Add an instrument")} choose=${(id) => change(ids.includes(id) ? ids : [...ids, id])} />
      ${about.value.dev && html`<p class="hint-dev">${t("This is a simulated market.")} <a href=${link("sim")}>${t("Cause a gap or a halt, and watch what happens")}</a></p>`}
      <p class="count">${ids.length === 1 ? t("1 instrument") : t("{0} instruments", ids.length)}</p></div>
    ${quotesOnly && html`<p class="notice">${t("This user has no right to trades: last prices, changes and volumes are missing.")}</p>`}
    ${ids.length === 0 ? html`<p class="empty">${failed ? t("The catalogue cannot be read. Find an instrument by name to begin.") : t("Find an instrument to begin.")}
      <button onClick=${some}>${t("Show some instruments")}</button></p>` : html`
    <div class="scroller" tabindex="0" role="group" aria-labelledby="watch-title"><table class="quotes" onKeyDown=${move}>
      <thead><tr><th scope="col">${t("Instrument")}</th>${columns.map((c) => html`<th key=${c} scope="col" class=${c}>${names[c]}</th>`)}<th><span class="sr">${t("Remove")}</span></th></tr></thead>
      <tbody>${ids.map((id) => html`<${Row} key=${id} id=${id} lang=${lang.value} remove=${() => change(ids.filter((other) => other !== id))} />`)}</tbody>
    </table></div>`}
  </section>`;
}

// move goes from row to row with the keys.
function move(e) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
  const row = e.target.closest("tr");
  if (!step || !row) return;
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  if (!next) return;
  e.preventDefault();
  next.querySelector("a").focus();
}

function Row({ id, remove }) {
  const tr = useRef();
  useEffect(() => rowView(id, tr.current), [id, lang.value]);
  const r = record(id);
  return html`<tr ref=${tr} data-id=${id} onClick=${(e) => e.target.closest("a, button") || go("i", id)}>
    <th scope="row"><a href=${link("i", id)}>${r.symbol}<span class="term"> ${r.term}</span></a></th>
    ${columns.map((c) => html`<td key=${c} class=${`num ${c}`} data-label=${c}></td>`)}
    <td class="remove"><button class="quiet" onClick=${remove} aria-label=${t("Remove {0}", id)}>×</button></td>
  </tr>`;
}

// rowView paints a row when its instrument changes, without the framework. It returns how to stop.
function rowView(id, tr) {
  const cell = {};
  for (const c of columns) cell[c] = tr.querySelector(`.${c}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  cell.spark.replaceChildren(svg);
  const had = {};
  const put = (c, text) => {
    if (had[c] === text) return;
    had[c] = text;
    cell[c].textContent = text;
  };
  const r = record(id);
  let tick = r.tick;
  let drawn = 0;
  const draw = () => {
    const d = known(id)?.price_decimals ?? 0;
    const q = r.quote;
    put("last", price(r.last, d));
    const change = percent(r.summary?.previousClose ?? r.summary?.open, r.last);
    put("change", change === undefined ? "" : `${signed(change)} %`);
    cell.change.dataset.sign = String(Math.sign(change ?? 0));
    put("bid", price(q?.bid?.price, d));
    put("bidsize", q?.bid ? group(String(q.bid.size)) : "");
    put("ask", price(q?.ask?.price, d));
    put("asksize", q?.ask ? group(String(q.ask.size)) : "");
    put("spread", q?.bid && q.ask ? price(q.ask.price.sub(q.bid.price), d) : "");
    put("volume", short(r.summary?.volume));
    const refused = r.refused.get("quotes");
    const note = refused ? words(refused.reason) : calm(r.phase) ? "" : phaseName(r.phase);
    tr.classList.toggle("halted", note !== "");
    if (note) put("age", note);
    if (r.tick !== tick) {
      tick = r.tick;
      flash(cell.last, r.side);
    }
    if (r.spark.length > 1 && performance.now() - drawn > 500) {
      drawn = performance.now();
      line.setAttribute("points", points(r.spark));
      svg.dataset.sign = String(Math.sign(r.spark.at(-1) - r.spark[Math.max(r.spark.length - 120, 0)]));
    }
  };
  const ages = () => {
    if (tr.classList.contains("halted")) return;
    const age = r.seen ? Date.now() - r.seen : undefined;
    put("age", age === undefined ? "" : age < 1000 ? t("now") : duration(age));
    tr.classList.toggle("stale", state.value.name !== "live" || r.stale === "feed_down");
  };
  const timer = setInterval(() => paint(ages), 1000);
  const stop = watch(id, draw);
  paint(ages);
  return () => {
    stop();
    skip(ages);
    clearInterval(timer);
  };
}

const calmly = matchMedia("(prefers-reduced-motion: reduce)");

// flash marks a new last price for a moment.
function flash(td, side) {
  if (calmly.matches) return;
  td.dataset.tick = side > 0 ? "up" : side < 0 ? "down" : "same";
  td.getAnimations().forEach((a) => a.cancel());
  td.animate([{ backgroundColor: `var(--${side > 0 ? "up" : side < 0 ? "down" : "same"}-flash)` }, { backgroundColor: "transparent" }], 450);
}

function points(list) {
  const shown = list.slice(-120);
  const low = Math.min(...shown);
  const span = Math.max(...shown) - low || 1;
  return shown.map((p, i) => `${((i / (shown.length - 1)) * 100).toFixed(1)},${(22 - ((p - low) / span) * 20).toFixed(1)}`).join(" ");
}
