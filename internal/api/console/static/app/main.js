// The console: what is around the views, and the start of the page.
import { html, render, signal, useEffect, useRef } from "./lib.js";
import { t } from "./i18n.js";
import { dark, lang, toggleLang, toggleTheme } from "./prefs.js";
import { go, link, route } from "./router.js";
import { about, ask, resume, signedIn, signOut, user } from "./session.js";
import * as health from "./health.js";
import { run } from "./market.js";
import { failure } from "./views/words.js";
import { Pulse } from "./views/pulse.js";
import { Login } from "./views/login.js";
import { Watch } from "./views/watch.js";
import { Instrument } from "./views/instrument.js";
import { Health } from "./views/health.js";
import { Inspect } from "./views/inspect.js";
import { Accounts } from "./views/accounts.js";
import { History } from "./views/history.js";
import { Simulator } from "./views/simulator.js";

const views = { watch: Watch, i: Instrument, history: History, accounts: Accounts, health: Health, inspect: Inspect, sim: Simulator };

const help = signal(false);

// stays is why the last try to sign out has failed.
const stays = signal(undefined);

async function leave() {
  stays.value = undefined;
  await signOut().catch((err) => (stays.value = err));
}

function pages() {
  const list = [["watch", t("Market")], ["history", t("History")], ["accounts", t("Accounts")], ["health", t("Connection")], ["inspect", t("Messages")]];
  if (about.value.dev) list.push(["sim", t("Simulator")]);
  return list;
}

function Nav() {
  const { view } = route.value;
  return html`<nav class="nav" aria-label=${t("Pages")}>
    ${pages().map(([name, text]) => {
      const here = view === name || (name === "watch" && view === "i");
      return html`<a key=${name} href=${link(name)} aria-current=${here ? "page" : undefined}>${text}</a>`;
    })}
    <a href="../docs">${t("Docs")}</a>
  </nav>`;
}

function Controls() {
  return html`<div class="controls">
    <button class="quiet" onClick=${toggleLang} lang=${lang.value === "en" ? "es" : "en"}
      aria-label=${lang.value === "en" ? "Español" : "English"}>${lang.value === "en" ? "ES" : "EN"}</button>
    <button class="quiet" onClick=${toggleTheme} aria-label=${dark.value ? t("Light theme") : t("Dark theme")}>${dark.value ? "☀" : "☾"}</button>
    ${signedIn.value === "yes" && html`<button class="quiet wide-only" onClick=${() => (help.value = true)} aria-label=${t("Keys")}>?</button>`}
  </div>`;
}

function Help() {
  const ref = useRef();
  useEffect(() => {
    if (help.value) ref.current?.showModal();
    else ref.current?.close();
  });
  const keys = [
    ["/", t("find an instrument")], ["g m", t("Market")], ["g h", t("History")], ["g a", t("Accounts")], ["g c", t("Connection")],
    ["g i", t("Messages")], ["j k", t("next and previous row")], ["+ −", t("coarser and finer ladder")], ["c", t("centre the ladder")],
    ["t", t("other theme")], ["l", t("other language")], ["?", t("this list")],
  ];
  return html`<dialog ref=${ref} class="help" aria-labelledby="help-title" onClose=${() => (help.value = false)}>
    <h2 id="help-title">${t("Keys")}</h2>
    <dl>${keys.map(([k, what]) => html`<div key=${k}><dt>${k.split(" ").map((x) => html`<kbd>${x}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
    <form method="dialog"><button>${t("Done")}</button></form>
  </dialog>`;
}

function Shell() {
  const { view, id } = route.value;
  const View = views[view] ?? Watch;
  const main = useRef();
  const seen = useRef(view);
  useEffect(() => {
    // A new view begins at its heading, for those who cannot see it.
    if (seen.current !== view) main.current?.focus({ preventScroll: true });
    seen.current = view;
    const name = view === "i" ? id.split("|")[0] : (pages().find(([n]) => n === view)?.[1] ?? t("Market"));
    document.title = `${name} · Rueda`;
    document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [view, id, lang.value]);
  return html`<a class="skip" href="#main" onClick=${skipTo}>${t("Skip to content")}</a>
    <header class="top">
      <a class="brand" href=${link("watch")}>Rueda</a>
      <${Nav} />
      <${Pulse} />
      <${Controls} />
      <div class="who"><span class="name" title=${t("Signed in as {0}", user.value)}>${user.value}</span>
        ${stays.value && html`<span class="error" role="alert">${t("You are still signed in: {0}", failure(stays.value))}</span>`}
        <button class="quiet" onClick=${leave}>${t("Sign out")}</button></div>
    </header>
    <main id="main" tabindex="-1" ref=${main}><${View} key=${view + id} id=${id} /></main>
    <${Help} />`;
}

function skipTo(e) {
  e.preventDefault();
  document.getElementById("main").focus();
}

function App() {
  switch (signedIn.value) {
    case "yes":
      return html`<${Shell} />`;
    case "no":
      return html`<${Login} controls=${Controls} />`;
  }
  return html`<p class="starting" role="status">Rueda</p>`;
}

// Keys, where no text is typed.
let prefix = -Infinity; // when g was pressed
addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, select, textarea, dialog")) return;
  if (signedIn.value !== "yes") return;
  const pages = { m: "watch", h: "history", a: "accounts", c: "health", i: "inspect", s: "sim" };
  if (performance.now() - prefix < 1200 && pages[e.key]) {
    prefix = -Infinity;
    e.preventDefault();
    return go(pages[e.key]);
  }
  prefix = e.key === "g" ? performance.now() : -Infinity;
  const actions = { "?": () => (help.value = true), t: toggleTheme, l: toggleLang, "/": find };
  if (!actions[e.key]) return;
  e.preventDefault();
  actions[e.key]();
});

function find() {
  const field = document.querySelector("[data-find]");
  if (field) field.focus();
  else {
    go("watch");
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector("[data-find]")?.focus()));
  }
}

signedIn.subscribe((is) => {
  if (is === "yes") run();
});
health.begin();
render(html`<${App} />`, document.getElementById("app"));
ask();
resume();
