// The simulated market of a development gateway: its speed, the phase of trading, and faults, as
// buttons. What follows from each is said in words next to them.
import { html, signal, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { clock, group } from "../num.js";
import { isInstrument, link, route, setQuery } from "../router.js";
import { about, scopes } from "../session.js";
import { incidents, totals } from "../health.js";
import { details, record, state, want, watch } from "../market.js";
import { frames, listeners, sendLive } from "../wire.js";
import { Search } from "./search.js";
import { stateName } from "./pulse.js";
import { Tape } from "./tape.js";
import { kindName, phaseName, story } from "./words.js";

const own = () => [
  ["gap", t("Leave out a trade"), t("The next trade does not arrive. The page sees that a number is missing and asks for it.")],
  ["stall", t("Silence for 30 s"), t("Nothing arrives, then a gap. Watch the ages on the page Connection.")],
  ["slow_down", t("Slow line"), t("2 KiB per second for 30 s. Quotes and books are conflated, trades are not.")],
  ["bad_checksum", t("Wrong checksum"), t("The next update of a book has a wrong checksum. The page discards the book and asks for a new one.")],
  ["token_expiry", t("Expire the token"), t("The access token ends in 1 s. The page gets another one.")],
  ["disconnect", t("Cut the connection"), t("A TCP reset in 1 s. The page connects again and resumes: no trade is lost.")],
  ["restart", t("Restart the server"), t("The gateway announces a shutdown and disconnects after 3 s.")],
];

// phases has for each phase its fault, its name and what it does.
const phases = () => [
  ["open", "open", t("Continuous"), t("Continuous trading begins now. A halt, an auction or a closed market ends.")],
  ["auction", "auction", t("Auction"), t("Orders rest without matching for 20 s. Then they trade at one price.")],
  ["halt", "halt", t("Halt"), t("Trading of the instrument stops for 10 s.")],
  ["closed", "close_market", t("Close the market"), t("Closed for 30 s.")],
];

const market = () => [
  ["correction", t("Correct a trade"), t("The newest trade is corrected.")],
  ["cancel", t("Cancel a trade"), t("The newest trade is cancelled.")],
  ["burst", t("Burst"), t("A thousand orders in one instant.")],
  ["crossed_book", t("Crossed book"), t("Bid above offer for 1 s.")],
  ["clock_skew", t("Clock 5 s ahead"), t("Times of events are ahead for 10 s.")],
  ["feed_gap", t("Gap in the feed"), t("Two seconds of events are lost before the gateway.")],
  ["feed_stall", t("Silent feed"), t("The instrument has no events for 10 s, and nothing announces that.")],
  ["sequence_reset", t("Feed starts again"), t("The numbers of the feed begin again, and the book is sent again.")],
  ["one_sided", t("No sellers"), t("One side of the book is empty for 10 s.")],
  ["jump", t("Price jump"), t("Twenty standard deviations of a minute.")],
  ["listing", t("New instrument"), t("An instrument is listed and trades.")],
];

const speeds = [0.2, 1, 5, 20, 100];

// wordsOf returns the name of a fault and what it does.
function wordsOf({ fault, speed }) {
  if (fault === "speed") return { name: t("Speed"), what: t("The market runs at {0} times its usual speed.", group(String(speed ?? ""))) };
  const [, name, what] = [...own(), ...market(), ...phases().map(([, ...rest]) => rest)].find(([word]) => word === fault) ?? ["", fault, ""];
  return { name, what };
}

// answers to what this page has requested, the newest first.
const answers = signal([]);

const answered = (a) => {
  answers.value = [a, ...answers.value.slice(0, 39)];
};

// useAnswers returns a function that requests a fault. heard gets each answer.
function useAnswers(heard) {
  const count = useRef(0);
  const asked = useRef(new Map());
  useEffect(() => {
    let at = frames().at(-1)?.seq ?? 0;
    const look = () => {
      const all = frames();
      let i = all.length;
      while (i > 0 && all[i - 1].seq > at) i--;
      at = all.at(-1)?.seq ?? at;
      for (const f of all.slice(i)) {
        if (f.dir !== "in" || !f.text.includes('"sim-')) continue;
        const m = JSON.parse(f.text);
        const request = asked.current.get(m.id);
        asked.current.delete(m.id);
        if (!request) continue;
        const ok = m.type === "Sim";
        heard(request, m);
        if (!request.quiet) answered({ id: m.id, at: f.at, ...request, ok, msg: m.msg + (m.hint ? `. ${m.hint}` : "") });
      }
    };
    listeners.add(look);
    return () => listeners.delete(look);
  }, []);
  const send = (request, more) => {
    const id = `sim-${++count.current}-${Date.now()}`;
    asked.current.set(id, request);
    const { fault, speed } = request;
    const sent = sendLive(JSON.stringify({ action: "sim", fault, id, ...(speed && { speed }), ...more }));
    if (!sent && !request.quiet) answered({ id, at: Date.now(), ...request, ok: false });
  };
  return send;
}

export function Simulator() {
  const asksFor = route.value.query.instrument ?? "";
  const id = isInstrument(asksFor) ? asksFor : "FAKE|SIM|CI";
  const [meta, setMeta] = useState(undefined);
  const [trading, setTrading] = useState(false); // before the first trade, a missing one cannot be seen
  const [phase, setPhase] = useState("");
  const [refused, setRefused] = useState(false); // the user has no right to trades
  const [speed, setSpeed] = useState(undefined); // null: it cannot change
  useEffect(() => {
    let current = true;
    details(id).then((d) => current && setMeta(d), () => undefined);
    want("simulator", { trades: [id], quotes: [id], books: [id], status: [id], history: 30 });
    setTrading(false);
    const { tick } = record(id);
    const stop = watch(id, (r) => {
      if (r.tick !== tick) setTrading(true);
      setPhase(r.phase);
      setRefused(r.refused.has("trades"));
    });
    return () => {
      current = false;
      stop();
      want("simulator", undefined);
    };
  }, [id]);
  const send = useAnswers((request, m) => {
    if (request.fault === "speed" && m.type === "Sim") setSpeed(m.speed ?? null);
    if (request.quiet && m.type !== "Sim") setSpeed(null);
  });
  const admin = scopes.value.includes("admin");
  const live = state.value.name === "live";
  useEffect(() => {
    if (live && admin && about.value.dev) send({ fault: "speed", quiet: true });
  }, [live, admin, about.value.dev]);
  const trigger = (fault, ofInstrument) => send({ fault }, ofInstrument && { instrument: id });
  const button = (fault, name, what, off, ofInstrument) => html`<div key=${fault}>
    <button onClick=${() => trigger(fault, ofInstrument)} disabled=${off} data-fault=${fault} aria-describedby=${`about-${fault}`}>${name}</button><p id=${`about-${fault}`}>${what}</p></div>`;
  const { recovered, lost, connects } = totals.value;
  return html`<section class="sim" aria-labelledby="sim-title">
    <div class="bar"><h1 id="sim-title">${t("Simulator")}</h1><p class="count">${t("Break it, and see what a good client does.")}</p></div>
    ${!about.value.dev && html`<p class="notice">${t("This gateway is not a development gateway. It refuses faults.")}</p>`}
    <p class="facts-line" role="status">${t("Stream")}: <b>${stateName(state.value.name)}</b> · ${t("recovered")}: <b class="num">${recovered}</b> · ${t("lost")}: <b class="num">${lost}</b> · ${t("connections")}: <b class="num">${connects}</b> · <a href=${link("health")}>${t("Details")}</a></p>
    <div class="two wide"><div>
      <h2>${t("Faults of this page's connection")}</h2>
      <div class="faults">${own().map(([fault, name, what]) => button(fault, name, what, fault === "gap" && !trading, fault === "gap" || fault === "bad_checksum"))}</div>
      ${!admin && html`<p class="notice">${t("Speed, phase and faults of the market need the scope admin.")}</p>`}
      <h2>${t("Speed of the market")}</h2>
      ${speed === null ? html`<p class="notice">${t("The speed of this market cannot change.")}</p>` : html`<${Speed} now=${speed} off=${!admin} set=${(value) => send({ fault: "speed", speed: value })} />`}
      <h2>${t("Phase of trading")} <span class="subject">${id}${phase ? `: ${phaseName(phase)}` : ""}</span></h2>
      <${Search} label=${t("Another instrument")} choose=${(other) => setQuery({ instrument: other })} />
      <div class="faults phases">${phases().map(([word, fault, name, what]) => button(fault, name, what, !admin || !phase || (phase === "open") === (word === "open"), true))}</div>
      <h2>${t("Faults of the market")} <span class="subject">${id}</span></h2>
      <div class="faults">${market().map(([fault, name, what]) => button(fault, name, what, !admin, true))}</div>
    </div>
    <div class="seen"><${Story} refused=${refused} /><${Tape} id=${id} meta=${meta} /></div></div>
  </section>`;
}

// Speed has a button for some speeds. The current one is pressed.
function Speed({ now, off, set }) {
  return html`<p class="speed"><span class="choice" role="group" aria-label=${t("Speed of the market")}>${speeds.map((value) => html`<button key=${value} data-speed=${value} aria-pressed=${now === value}
      disabled=${off || now === undefined} onClick=${() => set(value)}>${group(String(value))}×</button>`)}</span>
    <span class="what">${now === undefined ? "" : now === 1 ? t("Usual speed.") : t("The market runs at {0} times its usual speed.", group(String(now)))}</span></p>`;
}

// Story has what was requested and what happened, the newest first.
function Story({ refused }) {
  const list = [...answers.value.map((l) => ({ ...l, asked: true })), ...incidents.value.slice(0, 40)].sort((a, b) => b.at - a.at).slice(0, 30);
  return html`<section class="block story" aria-labelledby="story-title"><h2 id="story-title">${t("What happened")}</h2>
    ${list.length === 0 ? html`<p class="empty">${refused ? t("Nothing yet. This user has no right to trades, so press “Cut the connection” and read here what the page notices and does.")
      : t("Nothing yet. Press a button, such as “Leave out a trade”, and read here what the page notices and does.")}</p>` : html`
    <ol class="answers" role="log" aria-labelledby="story-title" tabindex="0">${list.map((l) => (l.asked ? html`<li key=${l.id} class=${l.ok ? "asked" : "asked bad"}><span class="num">${clock(l.at)}</span> <b>${wordsOf(l).name}</b> ${l.ok ? wordsOf(l).what : l.msg ? t("The gateway refuses: {0}", l.msg) : t("There is no connection at the moment.")}</li>`
      : html`<li key=${l.id} class=${l.kind}><span class="num">${clock(l.at)}</span> <b>${kindName(l.kind)}</b> ${story(l)}</li>`))}</ol>`}</section>`;
}
