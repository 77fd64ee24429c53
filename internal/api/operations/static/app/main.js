// The operations page.
import { html, render, signal, useEffect } from "./lib.js";
import { operator, resume, signOut, textOf } from "./api.js";
import { t } from "./i18n.js";
import { age } from "./format.js";
import { link, route } from "./router.js";
import { lang, theme, toggleLang, toggleTheme } from "./prefs.js";
import { now, paused, trouble } from "./poll.js";
import { Dialog, Said } from "./ui.js";
import { SignIn } from "./views/signin.js";
import { Overview } from "./views/overview.js";
import { Connections } from "./views/connections.js";
import { Feeds } from "./views/feeds.js";
import { Users } from "./views/users.js";
import { Logins } from "./views/logins.js";
import { Limits } from "./views/limits.js";
import { Keys } from "./views/keys.js";
import { Audit } from "./views/audit.js";

const views = { overview: Overview, connections: Connections, feeds: Feeds, users: Users, logins: Logins, limits: Limits, keys: Keys, audit: Audit };
const names = () => ({
  overview: t("Overview"), connections: t("Connections"), feeds: t("Feeds"), users: t("Users"), logins: t("Logins"), limits: t("Limits"), keys: t("Keys"), audit: t("Audit log"),
});

const started = signal(false);

function Fresh() {
  const text = paused.value ? t("paused") : trouble.value ? (trouble.value.status === 0 ? t("no answer") : t("error: {0}", textOf(trouble.value))) : now.value ? t("{0} ago", age(now.value.at)) : t("loading");
  return html`<span class=${`fresh ${trouble.value ? "bad" : "good"}`} role="status"><i aria-hidden="true"></i>${text}</span>`;
}

function Page() {
  const { view, query } = route.value;
  const View = views[view] ?? Overview;
  const titles = names();
  useEffect(() => {
    document.title = `${titles[view] ?? ""} · ${t("Rueda operations")}`;
  }, [view, lang.value]);
  if (!started.value) return html`<p class="starting">Rueda</p>`;
  if (!operator.value) return html`<${SignIn} />`;
  return html`<a class="skip" href="#main" onClick=${(e) => {
    e.preventDefault();
    document.getElementById("main").focus();
  }}>${t("Skip to the content")}</a>
    <header class="top"><span class="brand">Rueda <small>${t("operations")}</small></span>
      <nav class="nav" aria-label=${t("Views")}>${Object.entries(titles).map(([name, title]) => html`<a href=${link(name)} aria-current=${name === view ? "page" : undefined}>${title}</a>`)}</nav>
      <${Fresh} />
      <span class="who">${operator.value.name || t("operator")} <small>${operator.value.role}</small></span>
      <button class="quiet" onClick=${toggleLang} aria-label=${t("Language: Spanish")}>${lang.value === "en" ? "es" : "en"}</button>
      <button class="quiet" onClick=${toggleTheme} aria-label=${t("Dark or light")}>${theme.value === "dark" ? "☀" : "☾"}</button>
      <button class="quiet" onClick=${() => signOut()}>${t("Sign out")}</button>
    </header>
    <main id="main" tabindex="-1">${!(view === "users" && query.id) && html`<h1 class="hidden">${titles[view] ?? titles.overview}</h1>`}<${Said} /><${View} /></main><${Dialog} />`;
}

render(html`<${Page} />`, document.getElementById("app"));
resume().finally(() => {
  started.value = true;
});
