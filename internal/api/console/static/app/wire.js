// What passes over the sockets of the page, for the inspector and the plots. Tokens are masked
// before anything is kept.
import { signal } from "./lib.js";

const most = 4000; // messages that are kept
const mostBytes = 8e6;

// Frame is {seq, conn, dir, at, text}. dir is "in", "out" or "note". at is in ms since the epoch.
const kept = [];
let size = 0;
let seq = 0;

// counted has the numbers of messages and bytes so far.
export const counted = { in: 0, out: 0, bytes: 0, byType: new Map() };

// version changes when there are new messages.
export const listeners = new Set();

// trips has the newest round trip, in ms, and the clock of the gateway minus that of this machine.
export const trip = { rtt: undefined, offset: undefined, at: 0 };

// connected says whether the socket of the console is open.
export const connected = signal(false);

// now is the time of this machine in ms with fractions, which does not jump.
export const now = () => performance.timeOrigin + performance.now();

const jwt = /eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]+/g;
const secretMember = /("(?:token|access_token|refresh_token|password|new_password|otp|secret)"\s*:\s*")((?:[^"\\]|\\.)*)(")/g;

// mask hides tokens and passwords in a text, except for the last characters of a token.
export function mask(text) {
  return text
    .replace(secretMember, (_, head, value, tail) => `${head}${hidden(value)}${tail}`)
    .replace(jwt, (value) => hidden(value));
}

const hidden = (value) => `••••${value.length > 40 ? value.slice(-4) : ""}`;

// typeOf returns the type or action of a message, without parsing it.
export function typeOf(text) {
  const m = /^\{"(?:type|action)":"([A-Za-z_]+)"/.exec(text);
  if (m) return m[1];
  return /"(?:type|action)"\s*:\s*"([A-Za-z_]+)"/.exec(text.slice(0, 400))?.[1] ?? "?";
}

// note keeps a message. Only what the page sends can have a token, and it is masked here.
function note(conn, dir, text) {
  const safe = dir === "in" ? text : mask(text);
  kept.push({ seq: ++seq, conn, dir, at: now(), text: safe });
  size += safe.length;
  if (dir === "in") {
    counted.in++;
    counted.bytes += text.length;
    const type = text.charCodeAt(2) === 116 ? text.slice(9, text.indexOf('"', 9)) : "action";
    counted.byType.set(type, (counted.byType.get(type) ?? 0) + 1);
  } else if (dir === "out") {
    counted.out++;
  }
  if (kept.length > most + 500 || size > mostBytes) trim();
  for (const f of listeners) f();
}

function trim() {
  let drop = Math.max(kept.length - most, 0);
  let total = size;
  for (let i = 0; i < drop; i++) total -= kept[i].text.length;
  while (total > mostBytes / 2 && drop < kept.length) total -= kept[drop++].text.length;
  kept.splice(0, drop);
  size = total;
}

// frames returns the messages that are kept, oldest first.
export const frames = () => kept;

export function clear() {
  kept.length = 0;
  size = 0;
  for (const f of listeners) f();
}

const pingPrefix = "console-";
let live; // the open socket of the console

// Tap is the WebSocket of the client, with its messages noted.
export class Tap extends WebSocket {
  #pings = new Map();

  constructor(url) {
    super(url);
    this.addEventListener("open", () => {
      live = this;
      note("1", "note", "open");
      connected.value = true;
    });
    this.addEventListener("message", (e) => {
      if (typeof e.data !== "string") return;
      note("1", "in", e.data);
      if (e.data.startsWith('{"action":"pong"') && e.data.includes(pingPrefix)) {
        e.stopImmediatePropagation(); // it answers the page, and not the client
        this.#pong(e.data);
      }
    });
    this.addEventListener("close", (e) => {
      if (live === this) live = undefined;
      note("1", "note", `close ${e.code} ${e.reason}`.trim());
      connected.value = live !== undefined;
    });
  }

  send(text) {
    note("1", "out", text);
    super.send(text);
  }

  // ping measures the round trip.
  ping() {
    if (this.readyState !== WebSocket.OPEN) return;
    const id = `${pingPrefix}${++seq}`;
    if (this.#pings.size > 8) this.#pings.clear();
    this.#pings.set(id, now());
    this.send(JSON.stringify({ action: "ping", id }));
  }

  #pong(text) {
    const m = JSON.parse(text);
    const sent = this.#pings.get(m.id);
    if (sent === undefined) return;
    this.#pings.delete(m.id);
    const at = now();
    trip.rtt = at - sent;
    trip.offset = Date.parse(m.time) - (at - trip.rtt / 2);
    trip.at = at;
  }
}

// sendLive sends a text on the socket of the console. It returns false if there is none.
export function sendLive(text) {
  if (!live) return false;
  live.send(text);
  return true;
}

export function ping() {
  live?.ping();
}

// Second is a connection of its own for the send box, so that tries do not disturb the console.
export class Second {
  #ws;
  #waiting = [];
  #ready = false;

  constructor(url, token) {
    const ws = new WebSocket(url);
    this.#ws = ws;
    ws.onopen = () => {
      note("2", "note", "open");
      this.#send({ action: "auth_token", token });
    };
    ws.onmessage = (e) => {
      note("2", "in", String(e.data));
      if (e.data === '{"action":"ping"}') this.#send({ action: "pong" });
      if (!this.#ready && e.data.startsWith('{"type":"Success"')) {
        this.#ready = true;
        for (const text of this.#waiting.splice(0)) this.send(text);
      }
    };
    ws.onclose = (e) => note("2", "note", `close ${e.code} ${e.reason}`.trim());
  }

  #send(message) {
    const text = JSON.stringify(message);
    note("2", "out", text);
    this.#ws.send(text);
  }

  // send sends a text as soon as the connection is authenticated. It returns false if it has ended.
  send(text) {
    if (this.#ws.readyState > WebSocket.OPEN) return false;
    if (!this.#ready) {
      this.#waiting.push(text);
      return true;
    }
    note("2", "out", text);
    this.#ws.send(text);
    return true;
  }

  close() {
    this.#ws.close();
  }
}
