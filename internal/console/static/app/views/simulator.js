// The simulated market of a development gateway: faults as buttons.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { clock } from "../num.js";
import { isInstrument, link, route, setQuery } from "../router.js";
import { about, scopes } from "../session.js";
import { incidents, totals } from "../health.js";
import { details, earlier, record, state, want, watch } from "../market.js";
import { frames, listeners, sendLive } from "../wire.js";
import { Search } from "./search.js";
import { stateName } from "./pulse.js";
import { Tape } from "./tape.js";

const own = () => [
  ["gap", t("Leave out a trade"), t("The next trade does not arrive. The page sees that a number is missing and asks for it.")],
  ["stall", t("Silence for 30 s"), t("Nothing arrives, then a gap. Watch the ages on the page Connection.")],
  ["slow_down", t("Slow line"), t("2 KiB per second for 30 s. Quotes and books are conflated, trades are not.")],
  ["bad_checksum", t("Wrong checksum"), t("The next update of a book has a wrong checksum. The page discards the book and asks for a new one.")],
  ["token_expiry", t("Expire the token"), t("The access token ends in 1 s. The page gets another one.")],
  ["disconnect", t("Cut the connection"), t("A TCP reset in 1 s. The page connects again and resumes: no trade is lost.")],
  ["restart", t("Restart the server"), t("The gateway announces a shutdown and disconnects after 3 s.")],
];

const market = () => [
  ["halt", t("Halt"), t("Trading of the instrument stops for 10 s.")],
  ["correction", t("Correct a trade"), t("The newest trade is corrected.")],
  ["cancel", t("Cancel a trade"), t("The newest trade is cancelled.")],
  ["burst", t("Burst"), t("A thousand orders in one instant.")],
  ["crossed_book", t("Crossed book"), t("Bid above offer for 1 s.")],
  ["close_market", t("Close the market"), t("Closed for 30 s.")],
  ["clock_skew", t("Clock 5 s ahead"), t("Times of events are ahead for 10 s.")],
  ["feed_gap", t("Gap in the feed"), t("Two seconds of events are lost before the gateway.")],
  ["feed_stall", t("Silent feed"), t("The instrument has no events for 10 s, and nothing announces that.")],
  ["sequence_reset", t("Feed starts again"), t("The numbers of the feed begin again, and the book is sent again.")],
  ["one_sided", t("No sellers"), t("One side of the book is empty for 10 s.")],
  ["jump", t("Jump of the price"), t("Twenty standard deviations of a minute.")],
  ["listing", t("New instrument"), t("An instrument is listed and trades.")],
];

export function Simulator() {
  const asksFor = route.value.query.instrument ?? "";
  const id = isInstrument(asksFor) ? asksFor : "FAKE|SIM|CI";
  const [log, setLog] = useState([]);
  const [meta, setMeta] = useState(undefined);
  const [trading, setTrading] = useState(false); // before the first trade, a missing one cannot be seen
  useEffect(() => {
    let current = true;
    details(id).then((d) => current && setMeta(d), () => undefined);
    want("simulator", { trades: [id], quotes: [id], books: [id], status: [id] });
    earlier(id, 30);
    setTrading(false);
    const { tick } = record(id);
    const stop = watch(id, (r) => r.tick !== tick && setTrading(true));
    return () => {
      current = false;
      stop();
      want("simulator", undefined);
    };
  }, [id]);
  const count = useRef(0);
  const asked = useRef(new Map());
  useEffect(() => {
    let at = frames().at(-1)?.seq ?? 0;
    const heard = () => {
      const all = frames();
      let i = all.length;
      while (i > 0 && all[i - 1].seq > at) i--;
      at = all.at(-1)?.seq ?? at;
      for (const f of all.slice(i)) {
        if (f.dir !== "in" || !f.text.includes('"sim-')) continue;
        const m = JSON.parse(f.text);
        const fault = asked.current.get(m.id);
        if (fault) setLog((old) => [{ at: f.at, fault, ok: m.type === "Sim", text: m.msg + (m.hint ? ` ${m.hint}` : "") }, ...old.slice(0, 19)]);
      }
    };
    listeners.add(heard);
    return () => listeners.delete(heard);
  }, []);
  const trigger = (fault, ofMarket) => {
    const request = `sim-${++count.current}-${Date.now()}`;
    asked.current.set(request, fault);
    const needs = ofMarket || fault === "gap" || fault === "bad_checksum";
    const sent = sendLive(JSON.stringify({ action: "sim", fault, id: request, ...(needs && { instrument: id }) }));
    if (!sent) setLog((old) => [{ at: Date.now(), fault, ok: false, text: t("There is no connection at the moment.") }, ...old]);
  };
  const admin = scopes.value.includes("admin");
  const buttons = (list, ofMarket) => html`<div class="faults">${list.map(([fault, name, what]) => html`<div key=${fault}>
    <button onClick=${() => trigger(fault, ofMarket)} disabled=${(ofMarket && !admin) || (fault === "gap" && !trading)} data-fault=${fault} aria-describedby=${`about-${fault}`}>${name}</button><p id=${`about-${fault}`}>${what}</p></div>`)}</div>`;
  const { recovered, lost, connects } = totals.value;
  return html`<section class="sim" aria-labelledby="sim-title">
    <div class="bar"><h1 id="sim-title">${t("Simulator")}</h1><p class="count">${t("Break it, and see what a good client does.")}</p></div>
    ${!about.value.dev && html`<p class="notice">${t("This gateway is not a development gateway. It refuses faults.")}</p>`}
    <p class="facts-line" role="status">${t("Stream")}: <b>${stateName(state.value.name)}</b> · ${t("recovered")}: <b class="num">${recovered}</b> · ${t("lost")}: <b class="num">${lost}</b> · ${t("connections")}: <b class="num">${connects}</b> · <a href=${link("health")}>${t("Connection")}</a></p>
    <div class="two wide"><div>
      <h2>${t("Of this page's connection")}</h2>${buttons(own(), false)}
      <h2>${t("Of the market")} <span class="subject">${id}</span></h2><${Search} label=${t("Another instrument")} choose=${(other) => setQuery({ instrument: other })} />
      ${!admin && html`<p class="notice">${t("Faults of the market need the scope admin.")}</p>`}${buttons(market(), true)}
    </div>
    <div><${Tape} id=${id} meta=${meta} />
      <section class="block"><h2>${t("Answers")}</h2>${log.length === 0 ? html`<p class="empty">${t("None yet.")}</p>` : html`<ol class="answers">${log.map((l) => html`<li key=${l.at} class=${l.ok ? "" : "bad"}><span class="num">${clock(l.at)}</span> <b>${l.fault}</b> ${l.text}</li>`)}</ol>`}</section>
      <section class="block"><h2>${t("What happened")}</h2>${incidents.value.length === 0 ? html`<p class="empty">${t("Nothing since you opened this page.")}</p>` : html`<ol class="answers">${incidents.value.slice(0, 12).map((i) => html`<li key=${i.at + i.what + i.more}><span class="num">${clock(i.at)}</span> <b>${i.kind.replaceAll("_", " ")}</b> ${i.what} ${i.more}</li>`)}</ol>`}</section></div></div>
  </section>`;
}
