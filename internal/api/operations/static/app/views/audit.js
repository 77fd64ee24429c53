// The newest rows of the audit log.
import { html, useEffect, useRef, useState } from "../lib.js";
import { get, may } from "../api.js";
import { t } from "../i18n.js";
import { moment, number } from "../format.js";
import { go, route } from "../router.js";
import { Failed, Table } from "../ui.js";

const kept = 500;

export function Audit() {
  const { user = "", kind = "" } = route.value.query;
  const [rows, setRows] = useState(null);
  const [failed, setFailed] = useState(null);
  const last = useRef(0);
  useEffect(() => {
    let over = false;
    let timer = 0;
    last.current = 0;
    setRows(null);
    const run = async () => {
      try {
        if (!document.hidden) {
          const query = new URLSearchParams({ limit: "200", ...(user && { user }), ...(kind && { kind }), ...(last.current && { after: String(last.current) }) });
          const answer = await get(`/admin/audit?${query}`);
          if (over) return;
          last.current = Math.max(last.current, answer.last);
          const fresh = [...answer.rows].sort((a, b) => b.seq - a.seq);
          setRows((before) => [...fresh, ...(before ?? []).filter((r) => !fresh.some((f) => f.seq === r.seq))].slice(0, kept));
          setFailed(null);
        }
      } catch (err) {
        if (!over) setFailed(err);
      }
      if (!over) timer = setTimeout(run, 3000);
    };
    if (may("operate")) run();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [user, kind]);
  if (!may("operate")) return html`<p class="empty">${t("The audit log needs the role {0}.", "operate")}</p>`;
  return html`<section>
    <form class="bar" onSubmit=${(e) => {
      e.preventDefault();
      const form = new FormData(e.target);
      go("audit", { user: form.get("user").trim(), kind: form.get("kind").trim() });
    }}>
      <label>${t("User")} <input name="user" key=${user} defaultValue=${user} placeholder=${t("id")} autocomplete="off" /></label>
      <label>${t("Kind")} <input name="kind" key=${kind} defaultValue=${kind} placeholder="login_refused" autocomplete="off" /></label>
      <button>${t("Show")}</button><span class="note">${rows && t("{0} rows", number(rows.length))}</span>
    </form>
    <${Failed} error=${failed} />
    <${Table} caption=${t("Audit log")} empty=${rows ? t("No row matches") : failed ? t("Nothing to show") : t("Loading")} columns=${[[t("Row"), "right"], [t("Time")], [t("Kind")], [t("Who")], [t("User")], [t("Address")], [t("Client")], [t("Detail")]]}>
      ${(rows ?? []).map((r) => html`<tr key=${r.seq}><th scope="row" class="num right">${r.seq}</th><td class="num">${moment(r.time)}</td><td>${r.kind}</td><td>${r.actor}</td>
        <td>${r.user || "–"}</td><td class="num">${r.address || "–"}</td><td class="wrap">${r.client || "–"}</td><td class="wrap">${r.detail || "–"}</td></tr>`)}<//>
  </section>`;
}
