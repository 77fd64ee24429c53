// The accounts of the user, and the sign-ins of the login.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { day } from "../num.js";
import { totals } from "../health.js";
import { endSession, gateway, scopes } from "../session.js";
import { accountWord, failure } from "./words.js";

export function Accounts() {
  const [accounts, setAccounts] = useState(undefined);
  const [sessions, setSessions] = useState(undefined);
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const client = gateway();
    (async () => {
      const list = [];
      for await (const a of client.accounts()) list.push(a);
      return list;
    })().then(setAccounts, setAccounts);
    client.get("/auth/sessions").then((data) => setSessions(data.sessions), setSessions);
  }, [version, totals.value.connects]);
  const [ending, end] = useState(undefined); // the sid of the session that is to end
  return html`<section class="accounts" aria-labelledby="accounts-title">
    <div class="bar"><h1 id="accounts-title">${t("Accounts")}</h1></div>
    <${List} rows=${accounts} none=${t("This user has no account.")} head=${[t("Number"), t("Name"), t("Type"), t("Currency"), t("Roles"), t("Rights"), t("State"), t("Since")]} row=${(a) => html`<tr key=${a.account_id}>
      <th scope="row" class="num">${a.number}${a.is_default ? html` <small>${t("default")}</small>` : ""}</th><td>${a.name ?? ""}</td><td>${accountWord(a.type)}</td><td>${(a.currencies ?? [a.currency]).join(", ")}</td>
      <td>${(a.roles ?? []).map(accountWord).join(", ")}</td><td>${(a.permissions ?? []).map(accountWord).join(", ")}</td><td class=${a.status === "active" ? "" : "bad"}>${accountWord(a.status)}</td><td class="num">${day(a.created_at).slice(0, 10)}</td></tr>`} />
    <h2>${t("Where you are signed in")}</h2>
    <${List} rows=${sessions} none=${t("None.")} head=${[t("Last used"), t("Signed in"), t("Address"), t("Program"), t("Connections"), ""]} row=${(s) => html`<tr key=${s.sid}>
      <td class="num">${day(s.last_used_at > s.created_at ? s.last_used_at : s.created_at)}</td><td class="num">${day(s.created_at)}</td><td class="num">${s.address ?? ""}</td><td class="agent" title=${s.client}>${agent(s.client)}</td><td class="num">${s.connections}</td>
      <td>${s.current ? html`<small>${t("this page")}</small>` : html`<button onClick=${() => end(s.sid)} aria-label=${t("End the session of {0}", s.client ?? s.sid)}>${t("End")}</button>`}</td></tr>`} />
    ${ending && html`<${Ending} key=${ending} sid=${ending} close=${(done) => {
      end(undefined);
      if (done) setVersion(version + 1);
    }} />`}
    <h2>${t("Rights of this login")}</h2>
    <p class="scopes">${scopes.value.map((s) => html`<code key=${s}>${s}</code> `)}</p>
  </section>`;
}

// Ending asks for the password, and ends another session of the user.
function Ending({ sid, close }) {
  const form = useRef();
  const [error, setError] = useState(undefined);
  useEffect(() => form.current.elements.password.focus(), []);
  const submit = (e) => {
    e.preventDefault();
    const { password, otp } = form.current.elements;
    endSession(sid, password.value, otp?.value.trim()).then(() => close(true), setError);
  };
  return html`<form ref=${form} class="ending" onSubmit=${submit}>
    <label>${t("Your password ends the session")}<input name="password" type="password" autocomplete="current-password" required /></label>
    ${error?.reason === "mfa_required" && html`<label>${t("Code of your second factor")}<input name="otp" autocomplete="one-time-code" required /></label>`}
    <p class="error" role="alert">${error && error.reason !== "mfa_required" ? failure(error) : ""}</p>
    <button class="primary">${t("End")}</button> <button type="button" onClick=${() => close(false)}>${t("Cancel")}</button>
  </form>`;
}

// agent shortens the name of a program.
function agent(text = "") {
  const m = /(Firefox|Edg|Chrome|Chromium|Safari)\/(\d+)/.exec(text);
  return m ? `${m[1].replace("Edg", "Edge")} ${m[2]}` : text;
}

function List({ rows, head, row, none }) {
  if (rows === undefined) return html`<p class="empty">${t("Loading …")}</p>`;
  if (rows instanceof Error) return html`<p class="error" role="alert">${failure(rows)}</p>`;
  if (rows.length === 0) return html`<p class="empty">${none}</p>`;
  return html`<div class="scroller" tabindex="0" role="group" aria-label=${head[0]}><table><thead><tr>${head.map((name, i) => html`<th key=${i} scope="col">${name || html`<span class="sr">${t("Action")}</span>`}</th>`)}</tr></thead><tbody>${rows.map(row)}</tbody></table></div>`;
}
