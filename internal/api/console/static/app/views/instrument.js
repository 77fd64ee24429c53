// An instrument: candles, ladder, time and sales.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { at, day, group, percent, price, short, signed } from "../num.js";
import { lang } from "../prefs.js";
import { go, isInstrument, link, route } from "../router.js";
import { details, state, want, watch } from "../market.js";
import { calm, phaseName, words } from "./words.js";
import { Chart, intervals } from "./chart.js";
import { LadderView } from "./ladder.js";
import { Search } from "./search.js";
import { Tape } from "./tape.js";

const depths = ["all", 25, 10, 5, 1];

export function Instrument({ id }) {
  const [found, setFound] = useState(isInstrument(id) ? undefined : null);
  const [depth, setDepth] = useState(0);
  useEffect(() => {
    if (found === null) return undefined;
    let current = true;
    details(id).then((d) => current && setFound(d ?? null), () => current && setFound({ failed: true }));
    return () => (current = false);
  }, [id]);
  useEffect(() => {
    if (found === null) return undefined;
    const asked = route.value.query.bar;
    const bar = Object.hasOwn(intervals, asked) ? asked : "1m";
    want("instrument", {
      books: [id], depth: depths[depth], quotes: [id], trades: [id], summary: [id], status: [id], bars: [`${id}|${bar}`], history: 80,
    });
    // Without the right to whole books, fewer levels may be allowed.
    const stop = watch(id, (r) => {
      const no = r.refused.get("order_book");
      if (!no || depth === depths.length - 1) return;
      r.refused.delete("order_book");
      setDepth(depth + 1);
    });
    return () => {
      stop();
      want("instrument", undefined);
    };
  }, [id, depth, found === null, route.value.query.bar]);
  if (found === null) {
    return html`<section class="missing"><h1>${id}</h1><p>${t("This instrument is not in the catalogue.")}</p>
      <${Search} label=${t("Find an instrument")} choose=${(other) => go("i", other)} /><p><a href=${link("watch")}>${t("Market")}</a></p></section>`;
  }
  const meta = found && !found.failed ? found : undefined;
  return html`<article class="instrument" aria-labelledby="symbol">
    <${Head} id=${id} meta=${meta} lang=${lang.value} />
    <div class="panes">
      <${Chart} id=${id} meta=${meta} />
      <${LadderView} id=${id} meta=${meta} />
      <${Tape} id=${id} meta=${meta} />
    </div>
  </article>`;
}

function Head({ id, meta }) {
  const [symbol, market, term] = id.split("|");
  const head = useRef();
  useEffect(() => headView(id, head.current, meta?.price_decimals ?? 0), [id, meta, lang.value, state.value.name]);
  const terms = meta?.terms ?? [term];
  return html`<header class="head" ref=${head}>
    <div class="title"><h1 id="symbol">${symbol}</h1>
      <span class="terms" role="group" aria-label=${t("Settlement")}>${terms.map((other) => html`<a key=${other} href=${link("i", `${symbol}|${market}|${other}`, route.value.query)}
        aria-current=${other === term ? "true" : undefined}>${other}</a>`)}</span>
      <span class="name">${meta ? `${meta.name} · ${market} · ${meta.currency}` : market}</span>
      <${Search} label=${t("Find an instrument")} choose=${(other) => go("i", other, route.value.query)} /></div>
    <div class="figures">
      <p class="last num"><output name="last" aria-live="off"></output><span data-f="arrow" aria-hidden="true"></span></p>
      <p class="change num" data-f="change"></p>
      <dl>${[["open", t("Open")], ["high", t("High")], ["low", t("Low")], ["close", t("Previous close")], ["volume", t("Volume")], ["turnover", t("Turnover")], ["trades", t("Trades")], ["time", t("Last trade")]]
        .map(([f, name]) => html`<div key=${f}><dt>${name}</dt><dd class="num" data-f=${f}></dd></div>`)}</dl>
    </div>
    <p class="phase" role="status" data-f="phase" hidden></p>
  </header>`;
}

// headView paints the figures. It returns how to stop.
function headView(id, head, decimals) {
  const f = {};
  for (const el of head.querySelectorAll("[data-f]")) f[el.dataset.f] = el;
  const last = head.querySelector("output");
  const put = (el, text) => el.textContent === text || (el.textContent = text);
  return watch(id, (r) => {
    const s = r.summary;
    put(last, price(r.last, decimals));
    put(f.arrow, r.side > 0 ? "▲" : r.side < 0 ? "▼" : "");
    head.dataset.side = String(r.side || 0);
    const from = s?.previousClose ?? s?.open;
    const change = percent(from, r.last);
    put(f.change, change === undefined ? "" : `${signed(change)} %  ${r.last.compare(from) > 0 ? "+" : ""}${price(r.last.sub(from), decimals)}`);
    f.change.dataset.sign = String(Math.sign(change ?? 0));
    put(f.open, price(s?.open, decimals));
    put(f.high, price(s?.high, decimals));
    put(f.low, price(s?.low, decimals));
    put(f.close, price(s?.previousClose, decimals));
    put(f.volume, short(s?.volume));
    put(f.turnover, short(s?.turnover));
    put(f.trades, s ? group(String(s.trades)) : "");
    const newest = r.trades.findLast((row) => row.kind === "trade");
    put(f.time, newest ? at(newest.e.time, true) : "");
    const text = phaseText(r);
    put(f.phase, text);
    f.phase.hidden = text === "";
    f.phase.dataset.phase = r.stale === "feed_down" ? "feed_down" : r.phase;
  });
}

function phaseText(r) {
  if (r.stale === "feed_down") return t("The feed of this instrument is interrupted. What you see may be old.");
  let text = "";
  if (!calm(r.phase)) {
    text = phaseName(r.phase);
    text = text[0].toUpperCase() + text.slice(1);
    if (r.since) text += ` ${t("since {0}", at(r.since))}`;
    if (r.reason) text += ` (${words(r.reason)})`;
    if (r.until) text += `, ${t("until {0}", sameDay(r.until) ? at(r.until) : day(r.until))}`;
    text += ".";
  }
  if (r.delay > 0) text += ` ${t("Delayed by {0} s.", r.delay)}`;
  return text.trim();
}

const sameDay = (time) => new Date(time).toDateString() === new Date().toDateString();
