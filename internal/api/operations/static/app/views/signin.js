// The sign-in of operators.
import { html, useState } from "../lib.js";
import { ended, signIn, textOf } from "../api.js";
import { t } from "../i18n.js";

export function SignIn() {
  const [token, setToken] = useState("");
  const [failed, setFailed] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e) => {
    e.preventDefault();
    setBusy(true);
    setFailed("");
    try {
      await signIn(token.trim());
    } catch (err) {
      setFailed(err.status === 401 ? t("No operator has this token") : textOf(err));
      setBusy(false);
    }
  };
  return html`<main class="signin"><form onSubmit=${submit} aria-labelledby="title">
    <h1 id="title">${t("Rueda operations")}</h1>
    <label for="token">${t("Token of an operator")}</label>
    <input id="token" type="password" autocomplete="off" spellcheck="false" required autofocus value=${token} onInput=${(e) => setToken(e.target.value)}
      aria-describedby="about" aria-invalid=${failed !== ""} />
    <button class="primary" disabled=${busy || token.trim() === ""}>${t("Sign in")}</button>
    <p class="failed" role="alert">${failed || ended.value}</p>
    <p id="about"><small>${t("The token is one of admin.token_file. It stays in this tab, and is forgotten when the tab is closed.")}</small></p>
  </form></main>`;
}
