// The parts of the documentation that need a script: signing in, sending requests and messages,
// copying programs, and search while typing. Every page is complete without it.
import { connect } from "./live.js";
import { signIn, signOut, signedIn, token, tail, userName, onChange } from "./login.js";
import { t } from "./phrases.js";
import { indent, make, mask } from "./text.js";

const kept = {
  get: (name) => { try { return localStorage.getItem(`rueda.${name}`) ?? ""; } catch { return ""; } },
  set: (name, value) => { try { localStorage.setItem(`rueda.${name}`, value); } catch { /* lasts as long as the page */ } },
};

const theme = kept.get("theme");
if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;

// Signing in.

const tools = document.querySelector(".tools");
const account = make("button", { type: "button", className: "account" });
const dialog = make("dialog", { className: "login" });
tools.append(account);
document.body.append(dialog);

function field(label, name, attributes) {
  const input = make("input", { name, required: true, ...attributes });
  return make("label", {}, label, input);
}

function buildLogin() {
  const form = make("form", { method: "dialog" });
  const otp = field(t("One-time password"), "otp", { inputMode: "numeric", autocomplete: "one-time-code", required: false });
  otp.hidden = true;
  const said = make("p", { className: "said" });
  said.setAttribute("role", "alert");
  const cancel = make("button", { type: "button" }, t("Cancel"));
  cancel.addEventListener("click", () => dialog.close());
  form.append(
    make("h2", { id: "login-title" }, t("Sign in")),
    make("p", { className: "hint" }, t("The token stays in this page. It is not shown and not stored.")),
    field(t("User"), "username", { autocomplete: "username", value: userName() }),
    field(t("Password"), "password", { type: "password", autocomplete: "current-password" }),
    otp, said,
    make("p", { className: "actions" }, make("button", {}, t("Sign in")), cancel),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "";
    try {
      await signIn(form.username.value, form.password.value, form.otp.value);
      form.reset();
      dialog.close();
    } catch (error) {
      if (error.reason === "mfa_required") {
        otp.hidden = false;
        form.otp.required = true;
        form.otp.focus();
      }
      said.textContent = error.message;
    }
  });
  dialog.setAttribute("aria-labelledby", "login-title");
  dialog.replaceChildren(form);
}

export function askLogin() {
  buildLogin();
  dialog.showModal();
}

account.addEventListener("click", () => (signedIn() ? leave() : askLogin()));

// leave signs out. What the button says of a failure stays until the next change.
function leave() {
  signOut().catch((error) => (account.textContent = `${t("Still signed in")}: ${error.message}`));
}

function showAccount() {
  account.textContent = signedIn() ? `${t("Sign out")} ${userName()}`.trim() : t("Sign in");
  for (const span of document.querySelectorAll('[data-fill="token"]')) {
    span.textContent = signedIn() ? `••••${tail()}` : "YOUR_TOKEN";
  }
}
onChange(showAccount);
showAccount();

for (const [kind, value] of [["origin", location.origin], ["socket", location.origin.replace(/^http/, "ws")]]) {
  for (const span of document.querySelectorAll(`[data-fill="${kind}"]`)) span.textContent = value;
}

// The menu begins at the current page, where it scrolls by itself.

const menu = document.querySelector(".menu");
const here = menu?.querySelector("[aria-current]");
if (here && here.offsetTop > menu.clientHeight - 40) menu.scrollTop = here.offsetTop - menu.clientHeight / 2;

// Copying. A copied program has the whole token.

for (const pre of document.querySelectorAll("pre")) {
  if (pre.classList.contains("answer")) continue;
  const button = make("button", { type: "button", className: "copy" }, t("Copy"));
  button.addEventListener("click", async () => {
    const copy = pre.cloneNode(true);
    copy.querySelector(".copy")?.remove();
    if (signedIn() && copy.querySelector('[data-fill="token"]')) {
      const access = await token().catch(() => "");
      for (const span of copy.querySelectorAll('[data-fill="token"]')) span.textContent = access || "YOUR_TOKEN";
    }
    await navigator.clipboard.writeText(copy.textContent);
    button.textContent = t("Copied");
    setTimeout(() => (button.textContent = t("Copy")), 1500);
  });
  pre.append(button);
}

// Programs: one language at a time, as tabs. The choice is kept.

for (const box of document.querySelectorAll(".programs")) {
  const panels = [...box.querySelectorAll(".program")];
  const list = make("div", { className: "tabs" });
  list.setAttribute("role", "tablist");
  const tabs = panels.map((panel, i) => {
    const tab = make("button", { type: "button", id: `tab-${i}` }, panel.querySelector("h3").textContent);
    tab.setAttribute("role", "tab");
    panel.id = `panel-${i}`;
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    panel.querySelector("h3").hidden = true;
    return tab;
  });
  const choose = (at, focus) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === at));
      tab.tabIndex = i === at ? 0 : -1;
      panels[i].hidden = i !== at;
    });
    if (focus) tabs[at].focus();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => {
      choose(i);
      kept.set("language", panels[i].dataset.language);
    });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) choose((i + step + tabs.length) % tabs.length, true);
    });
  });
  list.append(...tabs);
  box.querySelector("h2").after(list);
  choose(Math.max(0, panels.findIndex((p) => p.dataset.language === kept.get("language"))));
}

// Sending a request.

const mostShown = 64 * 1024;

function addressOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("[data-in]")) {
    if (input.dataset.in === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.append(input.name, input.value);
  }
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `${path}?${text}` : path;
}

async function send(form, signal, show) {
  const headers = {};
  if ("token" in form.dataset) headers.Authorization = `Bearer ${await token()}`;
  if (form.dataset.media) headers["Content-Type"] = form.dataset.media;
  if ("stream" in form.dataset) headers.Accept = "application/x-ndjson";
  const before = performance.now();
  const answer = await fetch(addressOf(form), {
    method: form.dataset.method, headers, signal, body: form.dataset.media && form.body.value, cache: "no-store", credentials: "omit",
  });
  const took = () => `${Math.round(performance.now() - before)} ms`;
  const type = answer.headers.get("Content-Type") ?? "";
  const head = `${answer.status} ${answer.statusText} · ${type.split(";")[0]}`;
  if ("stream" in form.dataset && answer.ok) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text = (text + value).slice(-mostShown);
      show(head, mask(text));
    }
  }
  if (!/json|text|csv/.test(type)) {
    const file = await answer.blob();
    const a = make("a", { href: URL.createObjectURL(file), download: "answer" }, t("Save the file"));
    show(`${head} · ${took()}`, `${file.size} bytes `, a);
    return;
  }
  let text = await answer.text();
  const summary = `${head} · ${text.length} bytes · ${took()}`;
  if (/\bjson$/.test(type.split(";")[0])) {
    // Numbers keep their digits: the text is indented, not read and written.
    text = indent(text);
  }
  text = mask(text);
  show(summary, text.length > mostShown ? `${text.slice(0, mostShown)}\n…` : text);
}

// needsLogin says that there is no token, and opens the sign-in.
function needsLogin(form) {
  if (!("token" in form.dataset || form.classList.contains("live")) || signedIn()) return false;
  askLogin();
  return true;
}

for (const form of document.querySelectorAll("form.send")) {
  const said = form.querySelector("output");
  const shown = form.querySelector(".answer");
  const stop = form.querySelector(".stop");
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (needsLogin(form)) return;
    const abort = new AbortController();
    stop.onclick = () => abort.abort();
    stop.hidden = !("stream" in form.dataset);
    said.textContent = t("Sending…");
    try {
      await send(form, abort.signal, (head, ...content) => {
        said.textContent = head;
        shown.hidden = false;
        shown.replaceChildren(...content);
        if ("stream" in form.dataset) shown.scrollTop = shown.scrollHeight;
      });
    } catch (error) {
      said.textContent = error.name === "AbortError" ? t("Stopped") : error.message;
    }
    stop.hidden = true;
  });
}

for (const form of document.querySelectorAll("form.live")) connect(form, needsLogin);

// Search while typing: the first results of the search page, below the field.

const find = document.querySelector(".find");
const list = make("div", { className: "found", hidden: true });
find.append(list);
let asked;
find.q.addEventListener("input", () => {
  clearTimeout(asked);
  const q = find.q.value.trim();
  if (q.length < 2) {
    list.hidden = true;
    return;
  }
  asked = setTimeout(async () => {
    const answer = await fetch(`${find.action}?q=${encodeURIComponent(q)}`).catch(() => undefined);
    if (!answer?.ok || q !== find.q.value.trim()) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const links = [...page.querySelectorAll("#results a")].slice(0, 8);
    list.replaceChildren(...links);
    list.hidden = links.length === 0;
  }, 120);
});
find.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  if (event.key === "Escape") {
    list.hidden = true;
    find.q.focus();
  } else if (event.key === "ArrowDown" && !list.hidden && at + 1 < links.length) {
    event.preventDefault();
    links[at + 1].focus();
  } else if (event.key === "ArrowUp" && at >= 0) {
    event.preventDefault();
    (links[at - 1] ?? find.q).focus();
  }
});
find.addEventListener("focusout", (event) => {
  if (!find.contains(event.relatedTarget)) list.hidden = true;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName)) {
    event.preventDefault();
    find.q.focus();
  }
});
