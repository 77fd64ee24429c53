import type { Overflow } from "./queue.js";
import type { TokenStore } from "./store.js";
import { checkMembers } from "./values.js";

/**
 * What a program has processed. Stored as JSON, it lets a later run of the program continue without
 * a loss: see Options.resume.
 */
export interface Checkpoint {
  epoch: string;
  position: string;
  /** Newest n by series: "trades GGAL|BYMA|24hs". */
  sequences: Record<string, number>;
}

/** A constructor of WebSockets, as browsers and Node 22 have it. */
export type WebSocketConstructor = new (url: string) => WebSocketLike;

/** The part of a WebSocket that the client uses. */
export interface WebSocketLike {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number, reason?: string): void;
}

/** Options of a Client. */
export interface Options {
  /** Name of the user, for a login. */
  username?: string;
  /** Password of the user, for a login. */
  password?: string;
  /** Returns a one-time password when a login needs one. Without it such logins fail. */
  otp?: () => string | Promise<string>;
  /**
   * Keeps the tokens between runs of the program, as FileStore of @rueda/client/node does. By
   * default they are in memory. With stored tokens, no password is needed.
   */
  tokens?: TokenStore;
  /**
   * Name of the connection, of 1 to 36 of A-Z a-z 0-9 . _ -. A client that connects takes over the
   * connection with its name. By default a random one.
   */
  session?: string;
  /** Asks the gateway to close a connection that reads too slowly, instead of conflating. */
  strict?: boolean;
  /** How many events may wait for the program. By default 8,192. */
  queue?: number;
  /** What happens to more. By default "conflate". */
  overflow?: Overflow;
  /**
   * How long the connection may be silent, in ms. The client then sends a ping, and reconnects if
   * nothing arrives in the same time again. By default half of the gateway's interval of pings.
   */
  heartbeat?: number;
  /** Allows http:// to other machines, which sends passwords and tokens unencrypted. */
  insecure?: boolean;
  /** Continues where an earlier client stopped. By default only new data comes. */
  resume?: Checkpoint | undefined;
  /** True: rows of history that are lost are an IncompleteError. By default the client warns. */
  requireComplete?: boolean;
  /** By default that of the platform or, in Node.js before version 22, of package ws. */
  WebSocket?: WebSocketConstructor;
  /** By default that of the platform. */
  fetch?: typeof fetch;
}

/** Options that were checked, with what the platform has. */
export type Settings = Options & { session: string; WebSocket: WebSocketConstructor };

const names = [
  "username", "password", "otp", "tokens", "session", "strict", "queue", "overflow", "heartbeat", "insecure", "resume", "requireComplete",
  "WebSocket", "fetch",
] satisfies (keyof Options)[];

// settingsOf checks options and completes them. Throws a TypeError.
export function settingsOf(options: Options): Settings {
  checkMembers("the options of a Client", options, names);
  const { username, password, session = `ts-${randomName()}`, queue = 1, overflow = "block", heartbeat = 1 } = options;
  const refuse = (name: string, right: string): never => {
    throw new TypeError(`${name} is ${JSON.stringify(options[name as keyof Options])}: must be ${right}`);
  };
  if (!/^[A-Za-z0-9._-]{1,36}$/.test(session)) refuse("session", "1 to 36 of A-Z a-z 0-9 . _ -");
  if (!Number.isInteger(queue) || queue < 1) refuse("queue", "a whole number above 0");
  if (!["conflate", "block", "drop"].includes(overflow)) refuse("overflow", '"conflate", "block" or "drop"');
  if (typeof heartbeat !== "number" || !(heartbeat > 0)) refuse("heartbeat", "a number of ms above 0");
  if (password && !username) throw new TypeError("a password without a username");
  const WebSocket = options.WebSocket ?? (globalThis.WebSocket as unknown as WebSocketConstructor | undefined) ?? packageWS();
  if (!WebSocket) throw new TypeError("this platform has no WebSocket, as Node.js before version 22: npm install ws, or pass the option WebSocket");
  return { ...options, session, WebSocket };
}

// packageWS returns the WebSocket of package ws, undefined if it is not installed. It is loaded at
// run time and only in Node.js, so that bundlers for browsers do not look for it.
function packageWS(): WebSocketConstructor | undefined {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: "module"): { createRequire(from: string): (name: string) => unknown } } };
  try {
    return process?.getBuiltinModule?.("module").createRequire(import.meta.url)("ws") as WebSocketConstructor | undefined;
  } catch {
    return undefined;
  }
}

function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((b) => "abcdefghijklmnopqrstuvwxyz234567"[b & 31]).join("");
}

// parseURL checks the address of a gateway or of its stream, and returns it without a slash.
export function parseURL(text: string, insecure: boolean): string {
  const refuse = (why: string): never => {
    throw new TypeError(`${JSON.stringify(text)} is not the URL of a gateway: ${why}`);
  };
  if (typeof text !== "string" || !/^(http|ws)s?:\/\//i.test(text)) return refuse("it begins with neither https:// nor http://");
  let u: URL;
  try {
    u = new URL(text.replace(/^ws(s?):/i, "http$1:"));
  } catch {
    return refuse("its host or port is not valid");
  }
  if (u.username || u.password) return refuse("pass the user and the password as options");
  if (u.search) return refuse("it has a query");
  if (u.protocol === "http:" && !insecure && !isLoopback(u.hostname)) {
    throw new TypeError(`${text} would send the password unencrypted: use https, or set insecure`);
  }
  const path = u.pathname.replace(/\/+$/, "").replace(/\/stream$/, "").replace(/\/+$/, ""); // of a proxy
  const page = path.search(/\/(client|console|docs)(\/|$)/);
  if (page >= 0) throw new TypeError(`${JSON.stringify(text)} is the URL of a page. Write ${u.origin}${path.slice(0, page)}`);
  return u.origin + path;
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
