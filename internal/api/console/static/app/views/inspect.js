// The messages of the sockets as they are, with what they mean, and a field that sends others.
import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { paint, skip } from "../frame.js";
import { bytes, clock } from "../num.js";
import { lang } from "../prefs.js";
import { route, setQuery } from "../router.js";
import { base, save, token } from "../session.js";
import { clear, frames, listeners, mask, Second, sendLive, typeOf } from "../wire.js";
import { actions, load, problems, resolve, schemaOf } from "../schema.js";
import { words } from "./words.js";

const shown = 120; // rows

export function Inspect() {
  const { type = "", text = "" } = route.value.query;
  const [paused, setPaused] = useState(false);
  const [chosen, setChosen] = useState(undefined);
  const [doc, setDoc] = useState(undefined);
  const body = useRef();
  const list = useRef();
  useEffect(() => {
    load().then(setDoc, () => undefined);
  }, []);
  useEffect(() => {
    const p = new Painter(body.current, setChosen);
    list.current = p;
    return () => p.stop();
  }, [lang.value]);
  useEffect(() => list.current.filter(type, text.toLowerCase(), paused), [type, text, paused, lang.value]);
  const keep = () => save(new Blob([frames().filter((f) => f.dir !== "note").map((f) => JSON.stringify({ at: new Date(f.at).toISOString(), conn: f.conn, dir: f.dir, text: mask(f.text) })).join("\n")], { type: "application/x-ndjson" }), "rueda-messages.jsonl");
  return html`<section class="inspect" aria-labelledby="inspect-title">
    <div class="bar"><h1 id="inspect-title">${t("Messages")}</h1>
      <label>${t("Type")} <select value=${type} onChange=${(e) => setQuery({ type: e.target.value })}>
        <option value="">${t("all")}</option>${["T", "X", "C", "Q", "O", "H", "D", "K", "Subscription", "Alive", "Warning", "Error", "ping", "pong", "sent"].map((n) => html`<option key=${n} value=${n}>${n === "sent" ? t("what this page sends") : n}</option>`)}</select></label>
      <label>${t("contains")} <input type="search" size="14" value=${text} onInput=${(e) => setQuery({ text: e.target.value })} /></label>
      <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${t("Pause")}</button>
      <button onClick=${() => (clear(), setChosen(undefined))}>${t("Clear")}</button>
      <button onClick=${keep}>${t("Save as .jsonl")}</button></div>
    <div class="split">
      <div class="log" tabindex="0" role="group" aria-labelledby="inspect-title" onKeyDown=${move}><table>
        <thead><tr><th scope="col"><span class="sr">${t("Direction")}</span></th><th scope="col">${t("Time")}</th><th scope="col">${t("Bytes")}</th><th scope="col">${t("Type")}</th><th scope="col">${t("Message")}</th></tr></thead>
        <tbody ref=${body}></tbody></table><p class="empty" hidden>${t("No message matches.")} <button onClick=${() => setQuery({ type: "", text: "" })}>${t("Show all")}</button></p></div>
      <${Detail} frame=${chosen} doc=${doc} />
    </div>
    <${Send} doc=${doc} />
  </section>`;
}

function move(e) {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
  const row = e.target.closest("tr");
  const next = row && (step > 0 ? row.nextElementSibling : step < 0 ? row.previousElementSibling : undefined);
  if (!next) return;
  e.preventDefault();
  next.querySelector("button").focus();
}

class Painter {
  #type = "";
  #text = "";
  #paused = false;
  #pool = [];
  #draw = () => this.paint();
  #heard = () => this.#paused || paint(this.#draw);

  constructor(tbody, choose) {
    this.tbody = tbody;
    this.choose = choose;
    tbody.replaceChildren();
    listeners.add(this.#heard);
    paint(this.#draw);
  }

  stop() {
    listeners.delete(this.#heard);
    skip(this.#draw);
  }

  filter(type, text, paused) {
    this.#type = type;
    this.#text = text;
    this.#paused = paused;
    if (!paused) paint(this.#draw);
  }

  #fits(f) {
    if (this.#type === "sent" ? f.dir !== "out" : this.#type !== "" && typeOf(f.text) !== this.#type) return false;
    return this.#text === "" || f.text.toLowerCase().includes(this.#text);
  }

  paint() {
    const all = frames();
    const rows = [];
    for (let i = all.length - 1; i >= 0 && rows.length < shown; i--) if (this.#fits(all[i])) rows.push(all[i]);
    // Rows that are shown already move down; the oldest ones become the new ones.
    this.tbody.parentNode.nextElementSibling.hidden = rows.length > 0;
    const known = this.#pool[0]?.frame;
    let fresh = known ? rows.indexOf(known) : -1;
    if (fresh < 0 || this.#pool.length !== Math.min(rows.length, this.#pool.length)) fresh = rows.length;
    for (let i = fresh - 1; i >= 0 && fresh < rows.length; i--) {
      const row = this.#pool.length >= shown ? this.#pool.pop() : newRow(this);
      fill(row, rows[i]);
      this.tbody.prepend(row.tr);
      this.#pool.unshift(row);
    }
    if (fresh < rows.length && this.#pool.length === rows.length) return;
    while (this.#pool.length > rows.length) this.#pool.pop().tr.remove();
    while (this.#pool.length < rows.length) {
      const row = newRow(this);
      this.tbody.append(row.tr);
      this.#pool.push(row);
    }
    for (const [i, f] of rows.entries()) if (this.#pool[i].frame !== f) fill(this.#pool[i], f);
  }
}

function newRow(painter) {
  const tr = document.createElement("tr");
  for (const c of ["dir", "num time", "num size", "type", "text"]) tr.insertCell().className = c;
  const button = tr.cells[4].appendChild(document.createElement("button"));
  button.className = "raw";
  const row = { tr, button, frame: undefined };
  tr.onclick = () => painter.choose(row.frame);
  return row;
}

function fill(row, f) {
  row.frame = f;
  const [dir, time, size, type] = row.tr.cells;
  row.tr.className = `${f.dir} c${f.conn}`;
  dir.textContent = f.dir === "in" ? "←" : f.dir === "out" ? "→" : "·";
  dir.title = f.dir === "in" ? t("received") : f.dir === "out" ? t("sent") : t("socket");
  time.textContent = clock(f.at, true);
  size.textContent = f.dir === "note" ? "" : String(f.text.length);
  type.textContent = f.dir === "note" ? t("socket") : typeOf(f.text);
  row.button.textContent = f.text.length > 400 ? `${f.text.slice(0, 400)}…` : f.text;
}

// Detail shows a message with the meaning of each member.
function Detail({ frame, doc }) {
  const parsed = useMemo(() => {
    try {
      return frame && JSON.parse(frame.text);
    } catch {
      return undefined;
    }
  }, [frame]);
  if (!frame) return html`<section class="detail" aria-label=${t("Message")}><p class="empty">${t("Choose a message to see what its members mean.")}</p></section>`;
  const found = parsed && doc ? schemaOf(doc, parsed) : undefined;
  return html`<section class="detail" aria-label=${t("Message")}>
    <h2>${found ? words(found.name.replace(/([a-z])([A-Z])/g, "$1 $2")) : typeOf(frame.text)} <small class="num">${clock(frame.at, true)} · ${bytes(frame.text.length)} · ${frame.conn === "1" ? t("connection of the console") : t("second connection")}</small></h2>
    ${found?.schema.description && html`<p lang="en">${found.schema.description}</p>`}
    ${parsed && typeof parsed === "object" ? html`<dl>${Object.keys(parsed).map((name) => {
      const s = found && doc ? resolve(doc, found.schema.properties[name]) : {};
      return html`<div key=${name}><dt>${name}</dt><dd><code>${rawOf(frame.text, name, parsed[name])}</code>${s.description && html`<span lang="en">${s.description}</span>`}</dd></div>`;
    })}</dl>` : html`<pre>${frame.text}</pre>`}
  </section>`;
}

// rawOf returns the value of a member with the digits of the message.
function rawOf(text, name, value) {
  if (typeof value !== "number") return JSON.stringify(value);
  return new RegExp(`"${name}":(-?[\\d.]+)`).exec(text)?.[1] ?? String(value);
}

// Send sends a message on a connection of its own, or on that of the console.
function Send({ doc }) {
  const [text, setText] = useState('{"action":"subscriptions","id":1}');
  const [where, setWhere] = useState("second");
  const [said, setSaid] = useState("");
  const second = useRef();
  useEffect(() => () => second.current?.close(), []);
  const list = doc ? actions(doc) : [];
  let message;
  let wrong = [];
  try {
    message = JSON.parse(text);
    if (doc) wrong = problems(doc, message, t);
  } catch (err) {
    wrong = [t("This is not JSON: {0}", err.message)];
  }
  const chosen = list.find((a) => a.action === message?.action);
  const submit = (e) => {
    e.preventDefault();
    const line = text.replace(/\s*\n\s*/g, " ").trim();
    let sent;
    if (where === "first") {
      sent = sendLive(line);
    } else {
      if (!second.current?.send(line)) {
        second.current = new Second(`${base.replace(/^http/, "ws")}/stream`, token());
        second.current.send(line);
      }
      sent = true;
    }
    setSaid(sent ? t("Sent at {0}.", clock(Date.now(), true)) : t("There is no connection at the moment."));
  };
  const keys = (e) => {
    if (e.key === "Enter" && !e.shiftKey) submit(e);
  };
  return html`<form class="send" onSubmit=${submit} aria-label=${t("Send a message")}>
    <div class="row"><label>${t("Action")} <select value=${message?.action ?? ""} onChange=${(e) => setText(exampleOf(doc, e.target.value))}>
        <option value="" disabled>…</option>${list.map((a) => html`<option key=${a.action} value=${a.action}>${a.action}</option>`)}</select></label>
      <label>${t("on")} <select value=${where} onChange=${(e) => setWhere(e.target.value)}><option value="second">${t("a second connection")}</option><option value="first">${t("the connection of the console")}</option></select></label>
      <span class=${wrong.length > 0 ? "wrong" : "right"} role="status">${wrong.length > 0 ? wrong.join(" ") : doc ? t("fits the schema") : ""}</span></div>
    <div class="row"><textarea aria-label=${t("Message to send")} rows="2" spellcheck="false" value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${keys}></textarea>
      <button class="primary">${t("Send")}</button></div>
    ${chosen && html`<p class="members">${Object.entries(chosen.schema.properties).map(([name, s]) => html`<span key=${name} title=${resolve(doc, s).description ?? ""}>${name}${chosen.schema.required?.includes(name) ? "*" : ""}</span>`)}</p>`}
    <p role="status" class="said">${said}</p>
  </form>`;
}

// exampleOf returns an example of the document for an action.
function exampleOf(doc, action) {
  for (const m of Object.values(doc.components.messages)) {
    const example = m.examples?.find((e) => e.payload?.action === action)?.payload;
    if (example) return JSON.stringify(example);
  }
  return JSON.stringify({ action });
}
