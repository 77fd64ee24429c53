// The logins of a user, with their end.
import { html } from "../lib.js";
import { get, may, request } from "../api.js";
import { t } from "../i18n.js";
import { age, moment, number } from "../format.js";
import { go, route } from "../router.js";
import { Failed, Table, attempt, confirmed, say, usePolled } from "../ui.js";

// find returns the id of a user, given the id or, for operators who may read users, the name.
async function find(text) {
  if (!may("identity")) return text;
  const { users } = await get(`/admin/users?name=${encodeURIComponent(text)}`);
  return users[0]?.id ?? text;
}

export function LoginTable({ user }) {
  const { data, failed, again } = usePolled(() => get(`/admin/users/${encodeURIComponent(user)}/sessions`), 5000, [user]);
  const list = data?.sessions ?? [];
  const operate = may("operate");
  const end = async (sid) => {
    if (!(await confirmed(t("End this login?"), t("Its tokens become invalid, and its connections close. The user has to log in again."), t("End login")))) return;
    await attempt(async () => {
      await request("DELETE", `/admin/sessions/${encodeURIComponent(sid)}`);
      say(t("The login has ended"));
    });
    again();
  };
  const endAll = async () => {
    if (!(await confirmed(t("End all logins of this user?"), t("Their tokens become invalid, and their connections close."), t("End all logins")))) return;
    await attempt(async () => {
      const { ended } = await request("DELETE", `/admin/users/${encodeURIComponent(user)}/sessions`);
      say(t("{0} logins have ended", number(ended)));
    });
    again();
  };
  return html`<div><${Failed} error=${failed} />
    <${Table} caption=${t("Logins")} empty=${data ? t("The user has no login") : failed ? t("Nothing to show") : t("Loading")} columns=${[[t("Login")], [t("Begun")], [t("Last tokens"), "right"], [t("Address")], [t("Client")], [t("Connections"), "right"], [""]]}>
      ${list.map((s) => html`<tr key=${s.sid}><th scope="row" class="num">${s.sid}</th><td class="num">${moment(s.created_at)}</td><td class="num right">${age(s.last_used_at)}</td>
        <td class="num">${s.address || "–"}</td><td class="wrap">${s.client || "–"}</td><td class="num right">${number(s.connections)}</td>
        <td>${operate && html`<button class="danger" aria-label=${t("End login {0}", s.sid)} onClick=${() => end(s.sid)}>${t("End")}</button>`}</td></tr>`)}<//>
    ${operate && list.length > 1 && html`<p class="buttons"><button class="danger" onClick=${endAll}>${t("End all logins")}</button></p>`}
  </div>`;
}

export function Logins() {
  const { user = "" } = route.value.query;
  const submit = (e) => {
    e.preventDefault();
    const text = new FormData(e.target).get("user").trim();
    attempt(async () => go("logins", { user: text && (await find(text)) }));
  };
  return html`<section>
    <form class="bar" onSubmit=${submit}>
      <label>${t("User")} <input name="user" key=${user} defaultValue=${user} placeholder=${may("identity") ? t("name or id") : t("id")} autocomplete="off" required /></label>
      <button>${t("Show")}</button>
    </form>
    ${user ? html`<${LoginTable} user=${user} />` : html`<p class="empty">${t("Choose a user. The list of connections links to their logins.")}</p>`}
  </section>`;
}
