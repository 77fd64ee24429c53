// The feeds, and when they published last.
import { html } from "../lib.js";
import { get } from "../api.js";
import { t } from "../i18n.js";
import { age, number } from "../format.js";
import { rate } from "../metrics.js";
import { now } from "../poll.js";
import { Failed, Table, usePolled } from "../ui.js";

let before = null;
let shown = null;

// perSecond returns the events of a feed in a second.
function perSecond(feed) {
  if (now.value !== shown) {
    before = shown;
    shown = now.value;
  }
  return before && shown ? rate(before, shown, "rueda_feed_events_total", { feed }) : undefined;
}

export function Feeds() {
  const { data, failed } = usePolled(() => get("/admin/feeds"), 1000, []);
  const list = data?.feeds ?? [];
  return html`<section><${Failed} error=${failed} />
    <${Table} caption=${t("Feeds")} empty=${data ? t("There is no feed") : failed ? t("Nothing to show") : t("Loading")} columns=${[
      [t("Feed")], [t("State")], [t("Newest event"), "right"], [t("Events in a second"), "right"], [t("Events"), "right"], [t("Refused"), "right"], [t("Failures"), "right"], [t("Looked wrong")],
    ]}>${list.map((f) => html`<tr key=${f.name}>
      <th scope="row">${f.name}</th><td><b class=${f.up ? "good" : "bad"}>${f.up ? t("up") : t("down")}</b></td>
      <td class="num right">${f.newest_at ? age(f.newest_at) : "–"}</td><td class="num right">${number(perSecond(f.name), 0)}</td>
      <td class="num right">${number(f.events)}</td><td class=${`num right ${f.refused > 0 ? "bad" : ""}`}>${number(f.refused)}</td>
      <td class=${`num right ${f.failures > 0 ? "bad" : ""}`}>${number(f.failures)}</td>
      <td>${Object.entries(f.suspect).filter(([, n]) => n > 0).map(([kind, n]) => `${kind} ${number(n)}`).join(", ") || "–"}</td>
    </tr>`)}<//>
  </section>`;
}
