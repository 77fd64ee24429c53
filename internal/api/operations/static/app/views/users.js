// The users of the gateway's own user base, and their rights.
import { html, useEffect, useState } from "../lib.js";
import { get, may, request } from "../api.js";
import { t } from "../i18n.js";
import { moment, number, stateName } from "../format.js";
import { go, link, route } from "../router.js";
import { Failed, Table, attempt, confirmed, say, usePolled } from "../ui.js";
import { LoginTable } from "./logins.js";

function List() {
  const { name = "", cursor = "" } = route.value.query;
  const path = `/admin/users?${new URLSearchParams({ ...(name ? { name } : { limit: "100" }), ...(cursor && { cursor }) })}`;
  const { data, failed } = usePolled(() => get(path), 0, [path]);
  return html`<section>
    <form class="bar" onSubmit=${(e) => {
      e.preventDefault();
      go("users", { name: new FormData(e.target).get("name").trim() });
    }}><label>${t("Name")} <input name="name" key=${name} defaultValue=${name} autocomplete="off" /></label><button>${t("Show")}</button>
      ${(name || cursor) && html`<button type="button" onClick=${() => go("users")}>${t("From the beginning")}</button>`}</form>
    <${Failed} error=${failed} />
    <${Table} caption=${t("Users")} empty=${data ? t("No user matches") : failed ? t("Nothing to show") : t("Loading")} columns=${[[t("Name")], [t("State")], [t("Second factor")], [t("Groups")], [t("Added")], [t("Ends")]]}>
      ${(data?.users ?? []).map((u) => html`<tr key=${u.id}><th scope="row"><a href=${link("users", { id: u.id })}>${u.username}</a></th>
        <td><b class=${u.status === "active" ? "good" : "bad"}>${stateName(u.status)}</b></td><td>${u.second_factor ? t("yes") : u.second_factor_required ? t("required") : t("no")}</td>
        <td>${u.groups.join(", ") || "–"}</td><td class="num">${moment(u.created_at)}</td><td class="num">${u.expires_at ? moment(u.expires_at) : "–"}</td></tr>`)}<//>
    ${data?.next_cursor && html`<p class="buttons"><button onClick=${() => go("users", { cursor: data.next_cursor })}>${t("Next page")}</button></p>`}
  </section>`;
}

// Rights edits the rights of a user as JSON. The change is refused if they have changed meanwhile.
function Rights({ user, changed }) {
  const shown = JSON.stringify(user.rights, null, 2);
  const [text, setText] = useState(shown);
  const [wrong, setWrong] = useState("");
  const save = async (e) => {
    e.preventDefault();
    let rights;
    try {
      rights = JSON.parse(text);
      setWrong("");
    } catch (err) {
      setWrong(err.message);
      return;
    }
    await attempt(async () => {
      changed(await request("POST", `/admin/users/${encodeURIComponent(user.id)}`, { action: "set_rights", rights, expected: user.rights }));
      say(t("The rights are stored"));
    });
  };
  return html`<form onSubmit=${save}><h2 id="rights">${t("Own rights and limits")}</h2>
    <textarea aria-labelledby="rights" spellcheck="false" rows="18" value=${text} onInput=${(e) => setText(e.target.value)}></textarea>
    <p class="failed" role="alert">${wrong}</p>
    <p class="buttons"><button type="button" disabled=${text === shown} onClick=${() => setText(shown)}>${t("Undo")}</button><button class="primary" disabled=${text === shown}>${t("Store rights")}</button></p></form>`;
}

function User({ id }) {
  const path = `/admin/users/${encodeURIComponent(id)}`;
  const { data, failed, again } = usePolled(() => get(path), 0, [path]);
  const [now, setNow] = useState(null);
  useEffect(() => setNow(null), [id]);
  const user = now?.id === id ? now : data;
  const change = async (body, title, text, action) => {
    if (title && !(await confirmed(title, text, action))) return;
    await attempt(async () => {
      setNow(await request("POST", path, body));
      say(t("The user is changed"));
    });
    again();
  };
  if (!user) return html`<section><${Failed} error=${failed} />${!failed && html`<p class="empty">${t("Loading")}</p>`}</section>`;
  const active = user.status !== "disabled";
  return html`<section>
    <p><a href=${link("users")}>${t("All users")}</a></p>
    <h1>${user.username} <small class="num">${user.id}</small></h1>
    <dl class="facts"><dt>${t("State")}</dt><dd><b class=${user.status === "active" ? "good" : "bad"}>${stateName(user.status)}</b></dd>
      <dt>${t("Second factor")}</dt><dd>${user.second_factor ? t("yes") : t("no")}${user.recovery_codes !== undefined ? `, ${t("{0} recovery codes left", number(user.recovery_codes))}` : ""}</dd>
      <dt>${t("Groups")}</dt><dd>${user.groups.join(", ") || "–"}</dd><dt>${t("Networks")}</dt><dd>${user.networks.join(", ") || t("any")}</dd>
      <dt>${t("Added")}</dt><dd>${moment(user.created_at)}</dd><dt>${t("Ends")}</dt><dd>${user.expires_at ? moment(user.expires_at) : t("never")}</dd></dl>
    <div class="bar">
      ${active
        ? html`<button class="danger" onClick=${() => change({ action: "disable" }, t("Disable {0}?", user.username), t("The logins of the user end, and their connections close."), t("Disable"))}>${t("Disable")}</button>`
        : html`<button onClick=${() => change({ action: "enable" })}>${t("Enable")}</button>`}
      ${user.second_factor && html`<button class="danger" onClick=${() => change({ action: "reset_second_factor" }, t("Remove the second factor of {0}?", user.username), t("The password alone is enough then."), t("Remove"))}>${t("Remove second factor")}</button>`}
      <a href=${link("connections", { user: user.id })}>${t("Connections")}</a>
      <a href=${link("audit", { user: user.id })}>${t("Audit log")}</a>
    </div>
    <h2>${t("Logins")}</h2><${LoginTable} user=${user.id} />
    <${Rights} key=${JSON.stringify(user.rights)} user=${user} changed=${setNow} />
  </section>`;
}

export function Users() {
  const { id = "" } = route.value.query;
  if (!may("identity")) return html`<p class="empty">${t("Users need the role {0}.", "identity")}</p>`;
  return id ? html`<${User} id=${id} key=${id} />` : html`<${List} />`;
}
