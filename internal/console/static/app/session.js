// Signing in. The access token is in memory only. The refresh token is in a cookie that no script
// can read: the gateway takes it at console/session, and nowhere else.
import { signal } from "./lib.js";
import { keep, stored } from "./prefs.js";
import { Tap } from "./wire.js";
import { Client } from "../../client/index.js";

// The address of the gateway: that of the page without console/.
export const base = new URL("../..", import.meta.url).href.replace(/\/$/, "");

// signedIn is "unknown" until the cookie was tried, then "no" or "yes".
export const signedIn = signal("unknown");

// user is what the person typed as name. It is shown, and nothing else.
export const user = signal(stored("user"));

// scopes are what the login may do.
export const scopes = signal([]);

// about is what the gateway says of itself. hint has the name and password of a demonstration.
export const about = signal({ dev: false, version: "", hint: undefined });

// ended is why the last login has ended, as a reason word.
export const ended = signal("");

let access = "";
let client;

// token returns the newest access token.
export const token = () => access;

// gateway returns the client. There is one while somebody is signed in.
export const gateway = () => client;

// Failure is an answer with an error of the gateway.
export class Failure extends Error {
  constructor(status, error) {
    super(error?.msg ?? `HTTP ${status}`);
    this.status = status;
    this.reason = error?.reason ?? "";
    this.hint = error?.hint ?? "";
  }
}

// session requests the session of the console. The header cannot be sent from another site.
function session(method, path, body, signal) {
  return fetch(`${base}/console/session${path}`, {
    method, signal, credentials: "same-origin", cache: "no-store",
    headers: { "X-Rueda-Console": "1", ...(body && { "Content-Type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
}

async function dataOf(answer) {
  let body;
  try {
    body = await answer.json();
  } catch {
    throw new Failure(answer.status);
  }
  if (!answer.ok || !body.success) throw new Failure(answer.status, body.error);
  return body.data;
}

// accept keeps what an answer with tokens says.
function accept(data) {
  access = data.access_token;
  scopes.value = (data.scope ?? "").split(" ");
  if (data.session) keep("session", data.session);
  return data;
}

// through is the fetch of the client. Requests for tokens go to the session of the console, which
// has the refresh token.
async function through(address, init) {
  const { pathname } = new URL(address);
  if (pathname.endsWith("/auth/token")) {
    const answer = await session("POST", "/refresh", { session: stored("session") }, init.signal);
    if (!answer.ok) return answer;
    const data = accept(await dataOf(answer));
    return new Response(JSON.stringify({ success: true, data: { ...data, refresh_token: "cookie" } }));
  }
  if (pathname.endsWith("/auth/revoke")) return session("DELETE", "");
  return fetch(address, init);
}

// open makes the client of a login.
function open(data) {
  const soon = (seconds) => new Date(Date.now() + seconds * 1000).toISOString();
  const tokens = {
    access_token: data.access_token, expires: soon(data.expires_in),
    refresh_token: "cookie", refresh_expires: soon(data.refresh_expires_in), scope: data.scope,
  };
  client = new Client(base, {
    WebSocket: Tap, fetch: through, insecure: location.protocol === "http:",
    tokens: { load: async () => tokens, save: async () => undefined },
  });
  ended.value = "";
  signedIn.value = "yes";
}

// signIn logs in with a password. It throws a Failure.
export async function signIn(username, password, otp) {
  const answer = await session("POST", "", { username, password, ...(otp && { otp }) });
  const data = accept(await dataOf(answer));
  user.value = username;
  keep("user", username);
  open(data);
}

// resume continues the login of the cookie, if there is one.
export async function resume() {
  if (!stored("session")) {
    signedIn.value = "no";
    return;
  }
  try {
    const answer = await session("POST", "/refresh", { session: stored("session") });
    open(accept(await dataOf(answer)));
  } catch (err) {
    if (err.status === 401) keep("session", "");
    else ended.value = err.reason || "unreachable";
    signedIn.value = "no";
  }
}

// over ends the login in this page, because the gateway has ended it.
export function over(reason) {
  access = "";
  client = undefined;
  if (reason === "invalid_refresh_token" || reason === "token_revoked") keep("session", "");
  scopes.value = [];
  ended.value = reason;
  signedIn.value = "no";
}

// signOut ends the login and deletes the cookie.
export async function signOut() {
  await session("DELETE", "").catch(() => undefined);
  keep("session", "");
  over("");
}

// ask reads the public description of the gateway.
export async function ask() {
  try {
    about.value = { dev: false, version: "", hint: undefined, ...(await dataOf(await fetch(`${base}/console/config`))) };
  } catch {
    // An older gateway, or none at the moment.
  }
}

// download requests a path with the access token, and saves the answer as a file. It throws a
// Failure.
export async function download(path, name, accept) {
  const headers = { Authorization: `Bearer ${access}`, ...(accept && { Accept: accept }) };
  const answer = await fetch(base + path, { headers });
  if (!answer.ok) await dataOf(answer);
  save(await answer.blob(), name);
}

// save saves a Blob as a file.
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const a = document.createElement("a");
  a.href = address;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
