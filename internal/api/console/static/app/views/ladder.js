// The ladder of an instrument.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { price, units } from "../num.js";
import { lang } from "../prefs.js";
import { route, setQuery } from "../router.js";
import { gateway } from "../session.js";
import { state, watch } from "../market.js";
import { below, middle, multiples, rowsOf, scaleOf, tickAt } from "../ladder.js";
import { refusal } from "./words.js";

export function LadderView({ id, meta }) {
  const root = useRef();
  const painter = useRef();
  const [following, setFollowing] = useState(true);
  const asked = Number(route.value.query.group ?? 1);
  const multiple = multiples.includes(asked) ? asked : 1;
  useEffect(() => {
    const p = new Painter(id, meta, root.current, setFollowing);
    painter.current = p;
    p.multiple = multiple;
    return () => p.stop();
  }, [id, meta, lang.value]);
  useEffect(() => painter.current.regroup(multiple), [multiple]);
  const step = (by) => {
    const next = multiples[multiples.indexOf(multiple) + by];
    if (next) setQuery({ group: next === 1 ? "" : next });
  };
  const keys = (e) => {
    const act = {
      "+": () => step(1), "-": () => step(-1), c: () => painter.current.centre(), ArrowUp: () => painter.current.scroll(1),
      ArrowDown: () => painter.current.scroll(-1), PageUp: () => painter.current.scroll(10), PageDown: () => painter.current.scroll(-10),
    }[e.key];
    if (!act || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    act();
  };
  return html`<section class="pane ladder" ref=${root} aria-labelledby="ladder-title">
    <header><h2 id="ladder-title">${t("Order book")}</h2>
      <span class="valid" role="status" data-f="valid"></span>
      <span class="stepper" role="group" aria-label=${t("Price step of the ladder")}>
        <button onClick=${() => step(-1)} disabled=${multiple === multiples[0]} aria-label=${t("Finer")}>−</button>
        <output class="num" data-f="step" aria-label=${t("Price step")}></output>
        <button onClick=${() => step(1)} disabled=${multiple === multiples.at(-1)} aria-label=${t("Coarser")}>+</button></span>
      <button class="centre" aria-pressed=${following} onClick=${() => painter.current.centre()}>${t("Centre")}</button>
    </header>
    <div class="body" tabindex="0" role="group" aria-labelledby="ladder-title" onKeyDown=${keys} data-f="body">
      <table aria-live="off"><thead><tr><th scope="col">${t("Sum")}</th><th scope="col">${t("Bid size")}</th><th scope="col">${t("Price")}</th>
        <th scope="col">${t("Offer size")}</th><th scope="col">${t("Sum")}</th></tr></thead><tbody></tbody></table>
      <p class="veil" data-f="veil" hidden></p>
    </div>
    <footer><span>${t("Spread")} <b class="num" data-f="spread"></b></span>
      <span class="balance" data-f="balance" role="img" hidden><i></i></span><span class="num share" data-f="share"></span></footer>
  </section>`;
}

const rowHeight = 21;

class Painter {
  multiple = 1;
  #rows = []; // {tr, price, bid, ask, bidSum, askSum, had}
  #anchor; // price in the middle, in units
  #follow = true;
  #inside = false;
  #most = { size: 0, sum: 0 };
  #texts = new Map();
  #cleanup = [];

  constructor(id, meta, root, following) {
    this.id = id;
    this.meta = meta;
    this.following = following;
    this.table = root.querySelector("table");
    this.tbody = root.querySelector("tbody");
    this.f = {};
    for (const el of root.querySelectorAll("[data-f]")) this.f[el.dataset.f] = el;
    this.tbody.replaceChildren();
    const { body } = this.f;
    const on = (type, f, options) => {
      body.addEventListener(type, f, options);
      this.#cleanup.push(() => body.removeEventListener(type, f, options));
    };
    on("pointerenter", (e) => (this.#inside = e.pointerType === "mouse"));
    on("pointerleave", () => (this.#inside = false));
    on("wheel", (e) => {
      if (e.ctrlKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return;
      e.preventDefault();
      this.scroll(e.deltaY < 0 ? 3 : -3);
    }, { passive: false });
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(body);
    this.#cleanup.push(() => sizes.disconnect());
    this.#resize();
    this.#cleanup.push(watch(id, (r) => this.paint(r)));
  }

  stop() {
    for (const f of this.#cleanup) f();
  }

  regroup(multiple) {
    if (this.multiple === multiple) return;
    this.multiple = multiple;
    this.#most = { size: 0, sum: 0 };
    this.#anchor = undefined;
    if (this.record) this.paint(this.record);
  }

  // centre follows the market again.
  centre() {
    this.#follow = true;
    this.#anchor = undefined;
    this.following(true);
    if (this.record) this.paint(this.record);
  }

  // scroll moves the ladder by rows, up for positive ones, and stays there.
  scroll(rows) {
    if (this.#anchor === undefined) return;
    this.#anchor += BigInt(rows) * this.step;
    this.#follow = false;
    this.following(false);
    this.paint(this.record);
  }

  #resize() {
    const space = this.f.body.clientHeight - this.table.tHead.offsetHeight;
    let count = Math.max(Math.floor(space / rowHeight), 11);
    if (count % 2 === 0) count--;
    if (count === this.#rows.length) return;
    while (this.#rows.length > count) this.#rows.pop().tr.remove();
    while (this.#rows.length < count) this.#rows.push(newRow(this.tbody));
    if (this.record) this.paint(this.record);
  }

  #text(value, scale, decimals) {
    const key = `${value}`;
    let text = this.#texts.get(key);
    if (text === undefined) {
      if (this.#texts.size > 4000) this.#texts.clear();
      this.#texts.set(key, (text = units(value, scale, decimals)));
    }
    return text;
  }

  paint(r) {
    this.record = r;
    const book = gateway()?.book(this.id);
    this.#state(r, book);
    if (!book) return;
    const bids = book.bids();
    const asks = book.asks();
    const decimals = this.meta?.price_decimals ?? 2;
    const scale = scaleOf(decimals, (this.meta?.tick ?? []).flat(), bids.slice(0, 60).map((l) => l.price), asks.slice(0, 60).map((l) => l.price), [r.last]);
    if (scale !== this.scale) this.#texts.clear();
    this.scale = scale;
    const sizes = scaleOf(this.meta?.size_decimals ?? 0, bids.map((l) => l.size), asks.map((l) => l.size));
    const mid = middle(bids, asks, scale, r.last);
    if (mid === undefined) return this.#blank(r, book);
    const tick = tickAt(this.meta?.tick, mid, scale);
    const step = tick * BigInt(this.multiple);
    const count = this.#rows.length;
    if (step !== this.step) this.#anchor = undefined;
    this.step = step;
    if (this.#anchor === undefined || (this.#follow && far(mid - this.#anchor, step, this.#inside ? count / 2 - 2 : count / 5))) {
      this.#anchor = below(mid, step);
    }
    const l = rowsOf(bids, asks, { scale, sizes, step, anchor: this.#anchor, count });
    this.#draw(l, r, { scale, sizes, decimals, step });
    this.#foot(l, bids, asks, decimals);
    this.table.dataset.n = String(book.n);
  }

  #state(r, book) {
    const { valid, veil } = this.f;
    const text = book ? t("verified") : "";
    if (valid.textContent !== text) valid.textContent = text;
    valid.title = book ? t("Checksum and order of updates are right. Update {0}.", book.n) : "";
    this.table.dataset.valid = String(Boolean(book));
    const no = r.refused.get("order_book");
    let why = "";
    if (!book) {
      if (no) why = t("No right to this order book: {0}", refusal(no));
      else if (r.stale === "checksum" || r.stale === "chain") why = t("An update did not fit. A new book was requested.");
      else if (r.stale === "feed_down") why = t("The feed is interrupted. This book may be old.");
      else if (r.stale === "disconnected") why = t("The connection is lost. This book is old.");
      else if (state.value.name === "waiting") why = t("The connection is lost. The book comes when it is back.");
      else why = t("Waiting for the book …");
    }
    veil.hidden = why === "";
    if (veil.textContent !== why) veil.textContent = why;
  }

  #blank(r, book) {
    for (const row of this.#rows) {
      row.had = {};
      for (const c of ["bidSum", "bid", "price", "ask", "askSum"]) put(row, c, "");
      bar(row, "bid", 0, 0);
      bar(row, "ask", 0, 0);
    }
    this.table.dataset.n = String(book.n);
  }

  #draw({ rows }, r, { scale, sizes, decimals, step }) {
    let most = 0n;
    let mostSum = 0n;
    for (const row of rows) {
      if (row.bid > most) most = row.bid;
      if (row.ask > most) most = row.ask;
      if (row.bidSum > mostSum) mostSum = row.bidSum;
      if (row.askSum > mostSum) mostSum = row.askSum;
    }
    // The scale of the bars grows at once and shrinks slowly, so that they can be compared.
    this.#most.size = Math.max(Number(most), this.#most.size * 0.985);
    this.#most.sum = Math.max(Number(mostSum), this.#most.sum * 0.985);
    const last = r.last?.unitsAt(Math.max(scale, r.last.scale));
    const decimalsShown = decimals;
    for (let i = 0; i < rows.length; i++) {
      const to = this.#rows[i];
      const row = rows[i];
      put(to, "price", this.#text(row.price, scale, decimalsShown));
      for (const name of ["bid", "ask", "bidSum", "askSum"]) putSize(to, name, row[name], sizes);
      bar(to, "bid", share(row.bid, this.#most.size), share(row.bidSum, this.#most.sum));
      bar(to, "ask", share(row.ask, this.#most.size), share(row.askSum, this.#most.sum));
      const here = last !== undefined && last >= row.price && last < row.price + step;
      const mark = here ? (r.side > 0 ? "up" : r.side < 0 ? "down" : "same") : "";
      if (to.had.mark !== mark) {
        to.had.mark = mark;
        to.tr.dataset.last = mark;
      }
      const kind = row.bidSum && row.askSum ? "both" : row.bidSum ? "bids" : row.askSum ? "asks" : "between";
      if (to.had.kind !== kind) {
        to.had.kind = kind;
        to.tr.className = kind;
      }
    }
  }

  #foot({ bidTotal, askTotal }, bids, asks, decimals) {
    const put = (el, text) => el.textContent === text || (el.textContent = text);
    const { spread, balance, share, step } = this.f;
    put(spread, bids[0] && asks[0] ? price(asks[0].price.sub(bids[0].price), decimals) : "–");
    put(step, units(this.step, this.scale, Math.min(decimals, this.scale)));
    const total = Number(bidTotal + askTotal);
    balance.hidden = total === 0;
    const part = total > 0 ? Math.round((Number(bidTotal) / total) * 100) : 50;
    const text = total > 0 ? t("bids {0} %", part) : "";
    put(share, text);
    if (balance.ariaLabel !== text) balance.ariaLabel = text;
    balance.style.setProperty("--part", `${part}%`);
  }
}

const far = (distance, step, rows) => (distance < 0n ? -distance : distance) > step * BigInt(Math.max(Math.floor(rows), 1));

const share = (value, most) => (value && most > 0 ? Math.max(Math.round((Number(value) / most) * 100), 1) : 0);

function newRow(tbody) {
  const tr = tbody.insertRow();
  const row = { tr, had: {} };
  for (const name of ["bidSum", "bid", "price", "ask", "askSum"]) {
    const cell = tr.appendChild(document.createElement(name === "price" ? "th" : "td"));
    if (name === "price") cell.scope = "row";
    cell.className = `num ${name}`;
    row[name] = cell;
  }
  return row;
}

function put(row, name, text) {
  if (row.had[name] === text) return;
  row.had[name] = text;
  row[name].textContent = text;
}

// putSize formats a size only if it is another one.
function putSize(row, name, value, scale) {
  const key = `${name}-units`;
  const scales = `${name}-scale`;
  if (row.had[key] === value && row.had[scales] === scale) return;
  row.had[key] = value;
  row.had[scales] = scale;
  put(row, name, value ? units(value, scale) : "");
}

function bar(row, side, size, sum) {
  const key = `${side}-bar`;
  const value = size * 1000 + sum;
  if (row.had[key] === value) return;
  row.had[key] = value;
  row.tr.style.setProperty(`--${side}-size`, `${size}%`);
  row.tr.style.setProperty(`--${side}-total`, `${sum}%`);
}
