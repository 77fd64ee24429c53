// The line in the header that says whether what is shown is true: stream, market, rate, gaps.
import { html } from "../lib.js";
import { t } from "../i18n.js";
import { duration, number } from "../num.js";
import { link } from "../router.js";
import { newest, second, totals } from "../health.js";
import { markets, state } from "../market.js";
import { trip } from "../wire.js";
import { phaseName } from "./words.js";

export function stateName(name) {
  const names = {
    idle: t("offline"), connecting: t("connecting"), authenticating: t("signing in"), syncing: t("catching up"), live: t("live"),
    waiting: t("connection lost"), closed: t("closed"),
  };
  return names[name] ?? name;
}

export function Pulse() {
  second.value;
  const { name, since, wait } = state.value;
  const left = wait === undefined ? undefined : wait - (Date.now() - since);
  const { gaps, lost } = totals.value;
  const list = [...markets.value].slice(0, 2);
  return html`<div class="pulse">
    <a class=${`state ${name}`} href=${link("health")}>
      <span role="status"><i aria-hidden="true"></i>${stateName(name)}</span>${name === "waiting" && left > 0 ? html` <span class="num">${duration(left)}</span>` : ""}${
        name === "live" && trip.rtt !== undefined ? html` <span class="num">${number(trip.rtt, 1)} ms</span>` : ""}
    </a>
    ${list.map(([market, m]) => html`<span key=${market} class=${`market ${m.down ? "bad" : m.phase}`}>${market} ${m.down ? t("feed down") : phaseName(m.phase)}</span>`)}
    <span class="num rate">${number(newest("rate") ?? 0)}<small>${t("msg/s")}</small></span>
    <a class=${`num gaps ${lost > 0 ? "bad" : ""}`} href=${link("health")}>${number(gaps)}<small>${gaps === 1 ? t("gap") : t("gaps")}</small></a>
  </div>`;
}
