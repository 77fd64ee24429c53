// Time and sales.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { at, clock, group, number, price } from "../num.js";
import { lang } from "../prefs.js";
import { route, setQuery } from "../router.js";
import { state, watch } from "../market.js";
import { phaseName, refusal, words } from "./words.js";

const shown = 80; // rows

export function Tape({ id, meta }) {
  const root = useRef();
  const [paused, setPaused] = useState(false);
  const painter = useRef();
  const { min = "", side = "" } = route.value.query;
  useEffect(() => {
    const p = new Painter(id, meta, root.current);
    painter.current = p;
    return () => p.stop();
  }, [id, meta, lang.value]);
  useEffect(() => painter.current.filter(Number(min) || 0, side, paused), [min, side, paused, id, meta, lang.value]);
  return html`<section class="pane tape" ref=${root} aria-labelledby="tape-title">
    <header><h2 id="tape-title">${t("Trades")}</h2>
      <label><span aria-hidden="true">≥</span><span class="sr">${t("from size")}</span> <input class="num" type="text" inputmode="numeric" size="4" value=${min}
        onInput=${(e) => setQuery({ min: e.target.value.replace(/[^\d.]/g, "") })} /></label>
      <label><span class="sr">${t("Side")}</span><select value=${side} onChange=${(e) => setQuery({ side: e.target.value })}>
        <option value="">${t("both")}</option><option value="buyer">${t("buyers")}</option><option value="seller">${t("sellers")}</option></select></label>
      <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${t("Pause")}</button></header>
    <div class="body" tabindex="0" role="group" aria-labelledby="tape-title"><table aria-live="off">
      <thead><tr><th scope="col">${t("Time")}</th><th scope="col">${t("Price")}</th><th scope="col">${t("Size")}</th><th scope="col">${t("Side")}</th><th scope="col" class="n">N</th></tr></thead>
      <tbody></tbody></table><p class="empty" hidden></p></div>
  </section>`;
}

class Painter {
  #least = 0;
  #side = "";
  #paused = false;
  #newest; // the newest row that was painted
  #filled = 0; // how often older rows were added
  #pool = [];

  constructor(id, meta, root) {
    this.decimals = meta?.price_decimals ?? 0;
    this.tbody = root.querySelector("tbody");
    this.empty = root.querySelector(".empty");
    this.tbody.replaceChildren();
    this.stop = watch(id, (r) => this.paint(r));
  }

  filter(least, side, paused) {
    this.#least = least;
    this.#side = side;
    this.#paused = paused;
    this.#newest = undefined;
    if (this.record && !paused) this.#all();
  }

  #fits(row) {
    if (row.kind !== "trade" && row.kind !== "cancel" && row.kind !== "correction") return true;
    return (this.#least === 0 || row.e.size.toNumber() >= this.#least) && (!this.#side || row.e.aggressor === this.#side);
  }

  paint(r) {
    this.record = r;
    const none = r.trades.length === 0;
    this.empty.hidden = !none;
    if (none) {
      const no = r.refused.get("trades");
      if (this.#pool.length > 0) this.#all();
      this.empty.textContent = no ? t("No right to trades: {0}", refusal(no)) : state.value.name === "waiting" ? t("The connection is lost. Trades come when it is back.")
        : t("No trade since you opened this page.");
    }
    if (this.#paused) return;
    const fresh = [];
    const { trades } = r;
    let i = trades.length - 1;
    for (; i >= 0 && trades[i] !== this.#newest && fresh.length < shown; i--) if (this.#fits(trades[i])) fresh.push(trades[i]);
    const changed = fresh.some((row) => row.kind === "cancel" || row.kind === "correction");
    if (this.#filled !== r.filled || this.#newest === undefined || fresh.length >= shown || changed) return this.#all();
    for (const row of fresh.reverse()) this.#push(row);
    this.#newest = trades.at(-1);
  }

  // all paints every row again.
  #all() {
    const { trades } = this.record;
    const rows = [];
    for (let i = trades.length - 1; i >= 0 && rows.length < shown; i--) if (this.#fits(trades[i])) rows.push(trades[i]);
    while (this.#pool.length > rows.length) this.#pool.pop().remove();
    while (this.#pool.length < rows.length) this.#pool.push(this.tbody.appendChild(newRow()));
    for (const [i, row] of rows.entries()) this.#fill(this.#pool[i], row);
    this.#newest = trades.at(-1);
    this.#filled = this.record.filled;
  }

  // push adds a row at the top, and removes the oldest one.
  #push(row) {
    const tr = this.#pool.length >= shown ? this.#pool.pop() : newRow();
    this.#fill(tr, row);
    this.tbody.prepend(tr);
    this.#pool.unshift(tr);
  }

  #fill(tr, row) {
    const [time, p, size, side, n] = tr.cells;
    const e = row.e;
    tr.className = row.kind;
    time.textContent = e ? at(e.time, true) : clock(row.at, true);
    if (!e) {
      p.colSpan = 4;
      p.textContent = noteText(row);
      for (const cell of [size, side, n]) cell.hidden = true;
      delete tr.dataset.side;
      return;
    }
    p.colSpan = 1;
    for (const cell of [size, side, n]) cell.hidden = false;
    tr.classList.toggle("gone", row.gone);
    tr.classList.toggle("replayed", e.replayed);
    tr.dataset.side = row.kind === "trade" ? (e.aggressor ?? "") : "";
    p.textContent = price(row.fixed?.price ?? e.price, this.decimals);
    size.textContent = group(String(row.fixed?.size ?? e.size));
    side.textContent = row.kind === "cancel" ? t("cancel of {0}", e.of ?? "?") : row.kind === "correction" ? t("correction of {0}", e.of ?? "?")
      : e.aggressor === "buyer" ? `▲ ${t("buy")}` : e.aggressor === "seller" ? `▼ ${t("sell")}` : "";
    n.textContent = number(e.n);
  }
}

function noteText(row) {
  switch (row.kind) {
    case "recovered":
      return row.count === 1 ? t("1 missed trade recovered ({0})", row.from) : t("{0} missed trades recovered ({1} to {2})", row.count, row.from, row.to);
    case "lost":
      return t("Trades lost: {0} to {1} ({2})", row.from ?? "?", row.to ?? "?", words(row.reason));
    case "break":
      return t("Connection lost");
    case "status":
      return `${phaseName(row.phase)}${row.reason ? ` (${words(row.reason)})` : ""}${row.until ? ` ${t("until {0}", at(row.until))}` : ""}`;
  }
  return "";
}

function newRow() {
  const tr = document.createElement("tr");
  for (const c of ["time", "price", "size", "side", "n"]) tr.insertCell().className = `num ${c}`;
  return tr;
}
