// The login of the reader. The access token is only in the memory of the page. If the gateway has a
// console, its session keeps the reader signed in from page to page; otherwise each page asks again.
const withConsole = "console" in document.body.dataset;

let access = "";
let ends = 0; // when access expires, in milliseconds
let user = stored("user");
let session = withConsole ? stored("session") : "";
const listeners = [];

function stored(name) {
  try {
    return localStorage.getItem(`rueda.${name}`) ?? "";
  } catch {
    return "";
  }
}

function keep(name, value) {
  try {
    if (value) localStorage.setItem(`rueda.${name}`, value);
    else localStorage.removeItem(`rueda.${name}`);
  } catch {
    // It lasts as long as the page.
  }
}

export const onChange = (listener) => listeners.push(listener);
const changed = () => listeners.forEach((listener) => listener());

// signedIn says whether there is a token, or a session that gives one.
export const signedIn = () => access !== "" || session !== "";

// tail returns the end of the token, for showing that there is one.
export const tail = () => access.slice(-4);

export const userName = () => user;

const post = (path, body, headers) => request("POST", path, body, headers);

async function request(method, path, body, headers) {
  const answer = await fetch(path, {
    method, credentials: "same-origin", cache: "no-store", headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await answer.json().catch(() => ({}));
  if (!answer.ok || !text.success) {
    throw Object.assign(new Error(text.error?.msg ?? `HTTP ${answer.status}`), { status: answer.status, reason: text.error?.reason ?? "" });
  }
  return text.data;
}

const ours = { "X-Rueda-Console": "1" };

function accept(data) {
  access = data.access_token;
  ends = Date.now() + data.expires_in * 1000 - 60_000;
  if (data.session) keep("session", (session = data.session));
  changed();
}

// signIn logs in with a password. Its error has the reason of the gateway.
export async function signIn(username, password, otp) {
  const body = { username, password, ...(otp && { otp }) };
  const data = withConsole
    ? await post("/console/session", body, ours)
    : await post("/auth/token", { grant_type: "password", ...body });
  keep("user", (user = username));
  accept(data);
}

// token returns an access token, or throws if the reader has to sign in.
export async function token() {
  if (access !== "" && Date.now() < ends) return access;
  if (session === "") throw new Error("sign in first");
  try {
    accept(await post("/console/session/refresh", { session }, ours));
  } catch (error) {
    if (error.status === 401) forget();
    throw error;
  }
  return access;
}

function forget() {
  access = "";
  keep("session", (session = ""));
  changed();
}

// signOut ends the login. It throws if the gateway has not ended it. The page then keeps it, unless
// the browser has no token of it any more.
export async function signOut() {
  try {
    if (session !== "") {
      await request("DELETE", "/console/session", { session }, { ...ours, ...(access && { Authorization: `Bearer ${access}` }) });
    } else if (access) await post("/auth/revoke", { token: access });
  } catch (error) {
    if (error.status === 409) forget();
    throw error;
  }
  forget();
}
