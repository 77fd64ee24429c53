// Signing in.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { about, changePassword, ended, signIn, user } from "../session.js";

function why(err) {
  switch (err.reason) {
    case "invalid_credentials":
      return t("Wrong user or password.");
    case "invalid_otp":
      return t("Wrong code.");
    case "too_many_failures":
    case "rate_limited":
      return t("Too many attempts. Wait a moment and try again.");
    case "address_not_allowed":
      return t("This account may not sign in from this network.");
    case "mfa_enrolment_required":
      return t("This account needs a second factor. Enrol one first.");
    case "password_change_required":
      return t("Choose a new password. An operator knows the present one.");
    case "second_factor_locked":
      return t("Too many codes were wrong, and somebody may know your password. Choose a new one, with a recovery code as code.");
    case "weak_password":
      return err.hint || err.message;
    case "unavailable":
      return t("The gateway cannot check passwords at the moment. Try again.");
  }
  return err.status ? err.message : t("The gateway does not answer.");
}

function ending(reason) {
  switch (reason) {
    case "":
      return "";
    case "invalid_refresh_token":
    case "token_expired":
      return t("Your session has ended. Sign in again.");
    case "idle":
      return t("You were signed out because nobody used the page.");
    case "token_revoked":
      return t("Your session was ended by another device or an operator.");
    case "unreachable":
      return t("The gateway does not answer.");
    case "replaced":
      return t("Another page has taken over this connection.");
  }
  return t("The session has ended: {0}", reason.replaceAll("_", " "));
}

export function Login({ controls: Controls }) {
  const [error, setError] = useState(undefined); // its text is in the language of the page
  const [busy, setBusy] = useState(false);
  const [otp, setOtp] = useState(false);
  const [change, setChange] = useState(false); // a new password is needed
  const form = useRef();
  useEffect(() => form.current?.elements[otp ? "otp" : user.value ? "password" : "username"].focus(), [otp]);
  const submit = async (e) => {
    e.preventDefault();
    const { username, password, otp: code, next } = form.current.elements;
    setBusy(true);
    setError(undefined);
    try {
      if (next) {
        await changePassword(username.value.trim(), password.value, code?.value.trim(), next.value);
        password.value = next.value;
        setChange(false);
        if (code) code.value = "";
      }
      await signIn(username.value.trim(), password.value, next ? "" : code?.value.trim());
    } catch (err) {
      if (err.reason === "mfa_required") setOtp(true);
      else setError(err);
      if (err.reason === "password_change_required" || err.reason === "second_factor_locked") setChange(true);
      setBusy(false);
    }
  };
  const demo = async () => {
    setBusy(true);
    await signIn(about.value.hint.username, about.value.hint.password).catch((err) => {
      setError(err);
      setBusy(false);
    });
  };
  return html`<div class="entry"><div class="corner"><${Controls} /></div>
    <main id="main" class="login">
      <h1>Rueda</h1>
      <p class="lead">${t("Market data and accounts, as the gateway sends them.")}</p>
      ${ended.value && html`<p class="notice" role="alert">${ending(ended.value)}</p>`}
      <form ref=${form} onSubmit=${submit}>
        <label>${t("User")}<input name="username" autocomplete="username" autocapitalize="none" spellcheck="false" required defaultValue=${user.value} /></label>
        <label>${t("Password")}<input name="password" type="password" autocomplete="current-password" required /></label>
        ${otp && html`<label>${t("Code of your second factor")}
          <input name="otp" inputmode=${change ? "text" : "numeric"} autocomplete="one-time-code" required /></label>`}
        ${change && html`<label>${t("New password")}
          <input name="next" type="password" autocomplete="new-password" required /></label>`}
        <p class="error" role="alert">${error && why(error)}</p>
        <button class="primary" disabled=${busy}>${busy ? t("Signing in …") : t("Sign in")}</button>
      </form>
      ${about.value.hint && html`<p class="hint">${t("This is a simulated market.")} <button class="linklike" onClick=${demo} disabled=${busy}>${t("Sign in as {0}", about.value.hint.username)}</button></p>`}
      <p class="hint"><a href="../docs">${t("Documentation")}</a></p>
    </main></div>`;
}
