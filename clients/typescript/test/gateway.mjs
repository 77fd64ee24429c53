// A gateway whose answers a test scripts.

import { once } from "node:events";
import { createServer } from "node:http";

import { WebSocketServer } from "ws";

export const instrument = "GGAL|BYMA|24hs";

export class Gateway {
  connections = []; // each with the messages of the client
  requests = []; // of REST
  life = 3600; // of access tokens, in s
  scope = "marketdata:read marketdata:history";
  epoch = "e1";
  logins = 0;
  refuse; // returns {code, reason} to refuse a request, undefined otherwise
  rows = () => []; // of history
  page = () => ({}); // its other members
  opened = () => undefined; // called with a connection after its first Subscription
  message = () => false; // called with each message; true: it was handled

  static async start(t) {
    const g = new Gateway();
    g.server = createServer((req, res) => g.#request(req, res));
    g.sockets = new WebSocketServer({ server: g.server, path: "/stream" });
    g.sockets.on("connection", (ws) => g.#connection(ws));
    g.server.listen(0, "127.0.0.1");
    await once(g.server, "listening");
    g.url = `http://127.0.0.1:${g.server.address().port}`;
    t.after(() => {
      for (const ws of g.sockets.clients) ws.terminate();
      g.server.close();
      g.server.closeAllConnections();
    });
    return g;
  }

  async #request(req, res) {
    let text = "";
    for await (const part of req) text += part;
    const url = new URL(req.url, this.url);
    const r = { path: url.pathname, query: Object.fromEntries(url.searchParams), body: text && JSON.parse(text) };
    this.requests.push(r);
    const refused = this.refuse?.(r);
    if (refused) {
      res.writeHead(refused.code, { "Retry-After": refused.wait ?? 0 });
      return res.end(JSON.stringify({ success: false, error: { code: refused.code, reason: refused.reason, msg: "No" } }));
    }
    let data = { trades: this.rows(r), epoch: this.epoch, ...this.page(r) };
    if (r.path === "/auth/token") {
      const n = ++this.logins;
      data = { access_token: `access-${n}`, expires_in: this.life, refresh_token: `refresh-${n}`, refresh_expires_in: 86400, scope: this.scope };
    }
    res.end(JSON.stringify({ success: true, data }));
  }

  #connection(ws) {
    const c = {
      messages: [],
      ws,
      send: (...list) => list.forEach((m) => ws.send(JSON.stringify(m))),
      trades: (...list) => list.forEach((n) => ws.send(JSON.stringify(tradeOf(n)))),
      find: (action) => c.messages.filter((m) => m.action === action),
    };
    this.connections.push(c);
    ws.on("error", () => undefined);
    ws.on("message", (text) => {
      const m = JSON.parse(text);
      c.messages.push(m);
      if (!this.message(c, m)) this.answer(c, m);
    });
  }

  answer(c, m) {
    const { id } = m;
    switch (m.action) {
      case "auth_token":
        return c.send({ type: "Success", code: 200, msg: "Connected", version: "0", time: new Date().toISOString(), expires_in: this.life, heartbeat: { interval: 20, timeout: 30 }, limits: { subscriptions: 2000, messages_per_second: 20, message_bytes: 65536, connections: 8 } });
      case "ping":
        return c.send({ action: "pong", time: new Date().toISOString() });
      case "subscribe":
      case "unsubscribe":
      case "resync": {
        c.send({ type: "Subscription", code: 200, msg: "Subscribed", id, epoch: this.epoch, position: `${this.epoch}:1` });
        if (m.action === "subscribe") this.opened(c, m, this.connections.length);
        if (m.resume) c.send({ type: "CaughtUp", code: 200, id, epoch: this.epoch, position: `${this.epoch}:2` });
      }
    }
  }
}

export const tradeOf = (n) => ({ type: "T", S: "GGAL", I: instrument, N: n, T: "2026-11-20T14:30:00.123456789Z", P: 7050 + n, Z: 1 });

// take collects events until one satisfies a condition.
export async function take(events, done) {
  const list = [];
  for (;;) {
    const { value, done: over } = await events.next();
    if (over) throw new Error(`the events ended: ${JSON.stringify(list)}`);
    list.push(value);
    if (done(value, list)) return list;
  }
}

export const brief = (list) => list.filter((e) => e.type !== "state").map((e) => (e.type === "trade" ? `${e.n}${e.replayed ? "r" : ""}` : e.type === "notice" ? e.reason : `${e.type} ${e.from ?? ""}-${e.to ?? ""}`));
