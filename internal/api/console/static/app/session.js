// Signing in. The access token is in memory only. The refresh token is in a cookie that no script
// can read: the gateway takes it at console/session, and nowhere else.
import { signal } from "./lib.js";
import { unused } from "./idle.js";
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
export const about = signal({ dev: false, hint: undefined });

// ended is why the last login has ended, as a reason word.
export const ended = signal("");

let access = "";
let client;
let idle = Infinity; // after so many milliseconds without input, the login ends

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
    headers: {
      "X-Rueda-Console": "1", ...(body && { "Content-Type": "application/json" }),
      ...(method === "DELETE" && access && { Authorization: `Bearer ${access}` }),
    },
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
  idle = data.idle_timeout * 1000 || Infinity;
  if (data.session) keep("session", data.session);
  return data;
}

// through is the fetch of the client. Requests for tokens go to the session of the console, which
// has the refresh token.
async function through(address, init) {
  const { pathname } = new URL(address);
  if (pathname.endsWith("/auth/token")) {
    if (unused() >= idle) return new Response("{}", { status: 503 }); // nobody uses the page
    const answer = await session("POST", "/refresh", { session: stored("session") }, init.signal);
    if (!answer.ok) return answer;
    const data = await dataOf(answer).then(accept, () => undefined);
    if (!data) return new Response("{}", { status: 502 }); // it was cut off
    return new Response(JSON.stringify({ success: true, data: { ...data, refresh_token: "cookie" } }));
  }
  if (pathname.endsWith("/auth/revoke")) return session("DELETE", "", { session: stored("session") });
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

// post sends a request without a token and a cookie, and returns its data. It throws a Failure.
async function post(path, body) {
  return dataOf(await fetch(base + path, {
    method: "POST", credentials: "omit", cache: "no-store", headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  }));
}

// changePassword sets the password of a user who may not sign in with the present one. The login of
// the answer ends, because it has no cookie. It throws a Failure.
export async function changePassword(username, password, otp, next) {
  const { refresh_token: token } = await post("/auth/password", { username, password, new_password: next, ...(otp && { otp }) });
  await post("/auth/revoke", { token });
}

// endSession ends another login of the user, which needs the password. It throws a Failure.
export const endSession = (sid, password, otp) =>
  post("/auth/sessions", { username: user.value, password, sid, ...(otp && { otp }) });

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

// end ends the login at the gateway, which deletes the cookie. It throws if the gateway has not done
// so.
async function end() {
  const name = stored("session");
  await dataOf(await session("DELETE", "", { session: name }));
  if (stored("session") === name) keep("session", ""); // else somebody has signed in again
}

// signOut ends the login. It throws if the gateway has not ended it.
export async function signOut() {
  await end();
  over("");
}

// A login that nobody uses ends, and its tokens soon after it if the gateway cannot be reached.
setInterval(async () => {
  if (signedIn.value !== "yes" || unused() < idle) return;
  const ending = end();
  over("idle");
  await ending.catch(() => undefined);
}, 15_000);

// ask reads the public description of the gateway.
export async function ask() {
  try {
    about.value = { dev: false, hint: undefined, ...(await dataOf(await fetch(`${base}/console/config`))) };
  } catch {
    // An older gateway, or none at the moment.
  }
}

// download requests a path with the access token, and saves the answer as a file. It returns the
// ranges that the file lacks, as its header lists them, and throws a Failure.
export async function download(path, name, accept) {
  const headers = { Authorization: `Bearer ${access}`, ...(accept && { Accept: accept }) };
  const answer = await fetch(base + path, { headers });
  if (!answer.ok) await dataOf(answer);
  save(await answer.blob(), name);
  return JSON.parse(answer.headers.get("Rueda-Lost") ?? "[]");
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
