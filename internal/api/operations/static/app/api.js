// Requests to the listener for administrators. The operator's token is in the storage of this tab,
// which ends with the tab, and is sent only to the origin of the page.
import { signal } from "./lib.js";
import { t } from "./i18n.js";

const storage = "rueda.operator";
const ranks = { read: 1, operate: 2, identity: 3 };

// operator is who signed in: {name, role}; null: nobody.
export const operator = signal(null);

// ended is why the page has signed out, as a text of the gateway.
export const ended = signal("");

let token = "";

// Failure is an answer with an error of the gateway.
export class Failure extends Error {
  constructor(status, error) {
    super(error?.msg || `HTTP ${status}`);
    this.status = status;
    this.reason = error?.reason ?? "";
    this.hint = error?.hint ?? "";
  }
}

// may says whether the role of the operator allows what needs a role.
export const may = (role) => (ranks[operator.value?.role] ?? 0) >= ranks[role];

function stored() {
  try {
    return sessionStorage.getItem(storage) ?? "";
  } catch {
    return "";
  }
}

function keep(value) {
  try {
    if (value) sessionStorage.setItem(storage, value);
    else sessionStorage.removeItem(storage);
  } catch {
    // It lasts until the page is loaded again.
  }
}

async function send(method, path, body) {
  try {
    return await fetch(path, {
      method, cache: "no-store", credentials: "omit", redirect: "error",
      headers: { Authorization: `Bearer ${token}`, ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
  } catch {
    throw new Failure(0); // the texts of browsers are neither in the reader's language nor of use
  }
}

// textOf returns what an error says in the language of the page. What a gateway says is in English.
export const textOf = (err) => (err.status === 0 ? t("The gateway does not answer.") : err.message);

async function failureOf(answer) {
  let error;
  try {
    error = (await answer.json()).error;
  } catch {
    // It is not an answer of a gateway.
  }
  const failure = new Failure(answer.status, error);
  if (answer.status === 401) signOut(failure.message);
  return failure;
}

// request sends a request and returns its data. It throws a Failure, with status 0 without an answer.
export async function request(method, path, body) {
  const answer = await send(method, path, body);
  if (!answer.ok) throw await failureOf(answer);
  return (await answer.json()).data;
}

export const get = (path) => request("GET", path);

// page returns the text of the metrics.
export async function page() {
  const answer = await send("GET", "/metrics");
  if (!answer.ok) throw await failureOf(answer);
  return answer.text();
}

// signIn accepts a token if the gateway does. It throws a Failure.
export async function signIn(text) {
  token = text;
  try {
    operator.value = await get("/admin/operator");
  } catch (err) {
    token = "";
    throw err;
  }
  ended.value = "";
  keep(text);
}

// resume continues after the page was loaded again.
export async function resume() {
  const text = stored();
  if (!text) return;
  try {
    await signIn(text);
  } catch (err) {
    if (err.status === 401) keep("");
    ended.value = textOf(err);
  }
}

// signOut forgets the token.
export function signOut(why = "") {
  token = "";
  keep("");
  ended.value = why;
  operator.value = null;
}
