// The keys that sign access tokens.
import { html } from "../lib.js";
import { get, may, request } from "../api.js";
import { t } from "../i18n.js";
import { moment, stateName } from "../format.js";
import { Failed, Table, attempt, confirmed, say, usePolled } from "../ui.js";

export function Keys() {
  const { data, failed, again } = usePolled(() => get("/admin/keys"), 10_000, []);
  const operate = may("operate");
  const rotate = async (body, title, text, action, word) => {
    if (!(await confirmed(title, text, action, word))) return;
    await attempt(async () => {
      const { changes = [] } = await request("POST", "/admin/keys", body);
      say(changes.map((c) => `${c.kid}: ${stateName(c.state)}`).join(", ") || t("Nothing has changed"));
    });
    again();
  };
  return html`<section><${Failed} error=${failed} />
    ${operate && html`<div class="bar">
      <button onClick=${() => rotate({}, t("Publish the next key?"), t("It signs when services have read it."), t("Publish"))}>${t("Publish the next key")}</button>
      <button class="danger" onClick=${() => rotate({ now: true }, t("Sign with the next key now?"), t("Services that have not read it refuse new tokens for some minutes."), t("Sign now"))}>${t("Sign with the next key now")}</button>
    </div>`}
    <${Table} caption=${t("Keys")} empty=${data ? t("There is no key") : failed ? t("Nothing to show") : t("Loading")} columns=${[[t("Key")], [t("Algorithm")], [t("State")], [t("Since")], [t("Until")], [""]]}>
      ${(data?.keys ?? []).map((k) => html`<tr key=${k.kid}><th scope="row" class="num wrap">${k.kid}</th><td>${k.alg || "–"}</td><td>${stateName(k.state)}</td>
        <td class="num">${moment(k.since)}</td><td class="num">${k.until ? moment(k.until) : "–"}</td>
        <td>${operate && k.state !== "revoked" && k.state !== "signing" && html`<button class="danger" aria-label=${t("Revoke key {0}", k.kid)}
          onClick=${() => rotate({ revoke: k.kid }, t("Revoke the key {0}?", k.kid), t("All its access tokens become invalid at once."), t("Revoke"), k.kid)}>${t("Revoke")}</button>`}</td></tr>`)}<//>
  </section>`;
}
