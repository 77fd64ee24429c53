// Open connections, with their end.
import { html } from "../lib.js";
import { get, may, request } from "../api.js";
import { t } from "../i18n.js";
import { age, bytes, number } from "../format.js";
import { go, link, route } from "../router.js";
import { Failed, Table, attempt, confirmed, say, usePolled } from "../ui.js";

const orders = () => [["backlog", t("backlog")], ["age", t("age")], ["user", t("user")], ["bytes", t("output")]];

async function close(c, again) {
  const who = c.username || c.address;
  if (!(await confirmed(t("Close the connection of {0}?", who), t("The client connects again and resumes. A row of the audit log has your name."), t("Close connection")))) return;
  await attempt(async () => {
    await request("DELETE", `/admin/connections/${encodeURIComponent(c.id)}`);
    say(t("The connection of {0} is closed", who));
  });
  again();
}

async function closeAll(user, again) {
  if (!(await confirmed(t("Close all connections of {0}?", user), t("The client connects again and resumes. A row of the audit log has your name."), t("Close all"), user))) return;
  await attempt(async () => {
    const { closed } = await request("DELETE", `/admin/connections?user=${encodeURIComponent(user)}`);
    say(t("{0} connections are closed", number(closed)));
  });
  again();
}

export function Connections() {
  const { sort = "backlog", user = "" } = route.value.query;
  const path = `/admin/connections?limit=200&sort=${encodeURIComponent(sort)}${user ? `&user=${encodeURIComponent(user)}` : ""}`;
  const { data, failed, again } = usePolled(() => get(path), 2000, [path]);
  const list = data?.connections ?? [];
  const operate = may("operate");
  return html`<section>
    <form class="bar" onSubmit=${(e) => {
      e.preventDefault();
      go("connections", { sort, user: new FormData(e.target).get("user").trim() });
    }}>
      <label>${t("User")} <input name="user" key=${user} defaultValue=${user} placeholder=${t("name or id")} autocomplete="off" /></label>
      <label>${t("Order")} <select value=${sort} onChange=${(e) => go("connections", { sort: e.target.value, user })}>${orders().map(([value, name]) => html`<option value=${value} selected=${value === sort}>${name}</option>`)}</select></label>
      <button>${t("Show")}</button>
      ${user && html`<button type="button" onClick=${() => go("connections", { sort })}>${t("All users")}</button>`}
      ${user && operate && list.length > 0 && html`<button type="button" class="danger" onClick=${() => closeAll(user, again)}>${t("Close all of this user")}</button>`}
      <span class="note">${data && t("{0} shown, {1} match, {2} open", number(list.length), number(data.matching), number(data.open))}</span>
    </form>
    <${Failed} error=${failed} />
    ${data?.stale_shards.length > 0 && html`<p class="failed" role="alert">${t("Some connections are missing: shards {0} do not answer", data.stale_shards.join(" "))}</p>`}
    <${Table} caption=${t("Connections")} empty=${data ? t("No connection is open") : failed ? t("Nothing to show") : t("Loading")} columns=${[
      [t("Id")], [t("User")], [t("Session")], [t("Address")], [t("Via")], [t("State")], [t("Age"), "right"], [t("Subscriptions"), "right"], [t("Backlog"), "right"], [t("Output"), "right"], [""],
    ]}>${list.map((c) => html`<tr key=${c.id} class=${c.slow ? "slow" : ""}>
      <th scope="row" class="num">${c.id}</th>
      <td>${c.user ? html`<a href=${link("logins", { user: c.user })}>${c.username || c.user}</a>` : "–"}</td>
      <td>${c.session || "–"}</td><td class="num">${c.address || "–"}</td><td>${c.transport}</td>
      <td>${c.state}${c.slow ? html` <b class="bad">${t("slow")}</b>` : ""}</td>
      <td class="num right">${age(c.since)}</td><td class="num right">${number(c.subscriptions)}</td>
      <td class="num right">${bytes(c.backlog_bytes)}</td><td class="num right">${bytes(c.sent_bytes)}</td>
      <td>${operate && html`<button class="danger" aria-label=${t("Close connection {0}", c.id)} onClick=${() => close(c, again)}>${t("Close")}</button>`}</td>
    </tr>`)}<//>
    ${!operate && html`<p class="note">${t("Closing needs the role {0}.", "operate")}</p>`}
  </section>`;
}
