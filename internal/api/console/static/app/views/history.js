// Stored market data: rows of an instrument, and files of closed days.
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { at, group, number, price } from "../num.js";
import { go, link, route, setQuery } from "../router.js";
import { totals } from "../health.js";
import { download, gateway } from "../session.js";
import { details, first, known } from "../market.js";
import { absent, failure, phaseName, words } from "./words.js";
import { Search } from "./search.js";

const channels = { trades: "trades", quotes: "quotes", statuses: "statuses", bars: "bars" };

// The newest day that can be closed: today's rows still come.
const yesterday = () => new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);

export function History({ id }) {
  const q = route.value.query;
  const channel = Object.hasOwn(channels, q.of ?? "") ? q.of : "trades";
  const [rows, setRows] = useState(undefined);
  const [cursor, setCursor] = useState(undefined);
  const [lost, setLost] = useState([]); // ranges that the rows lack
  const [error, setError] = useState(undefined); // its text is in the language of the page
  useEffect(() => {
    if (!id) first(1).then(([one]) => one && location.replace(link("history", one, q)), setError);
    else details(id).catch(() => undefined);
  }, [id]);
  const query = (more) => ({ instrument: id, start: q.start, end: q.end, order: q.order === "asc" ? undefined : "desc", limit: 200, interval: channel === "bars" ? (q.bar ?? "1m") : undefined, ...more });
  const latest = useRef(0); // counts the choices: an answer to an earlier one comes too late
  const read = async (from) => {
    setError(undefined);
    const choice = from ? latest.current : ++latest.current;
    try {
      const data = await gateway().get(`/market/${channel}`, query({ cursor: from }));
      if (choice !== latest.current) return;
      setRows((old) => (from ? [...(old ?? []), ...data[channel]] : data[channel]));
      setLost((old) => [...(from ? old : []), ...(data.lost ?? [])]);
      setCursor(data.next_cursor);
    } catch (err) {
      if (choice !== latest.current) return;
      setError(err);
      if (!from) setRows([]);
    }
  };
  useEffect(() => {
    if (!id) return;
    setRows(undefined);
    setLost([]);
    read(undefined);
  }, [id, channel, q.start, q.end, q.order, q.bar]);
  useEffect(() => {
    if (id && error) read(undefined);
  }, [totals.value.connects]);
  const file = async (kind) => {
    setError(undefined);
    const search = new URLSearchParams(Object.entries(query({ limit: 10000 })).filter(([, v]) => v !== undefined));
    const name = `${id.replaceAll("|", "-")}-${channel}.${kind === "csv" ? "csv" : "ndjson"}`;
    try {
      const more = await download(`/market/${channel}?${search}`, name, kind === "csv" ? "text/csv" : "application/x-ndjson");
      if (more.length > 0) setLost(more);
    } catch (err) {
      setError(err);
    }
  };
  return html`<section class="history" aria-labelledby="history-title">
    <div class="bar"><h1 id="history-title">${t("History")}</h1>${id && html`<a class="subject" href=${link("i", id)}>${id.split("|")[0]} <span class="term">${id.split("|").slice(1).join(" ")}</span></a>`}
      <${Search} label=${t("Find an instrument")} choose=${(other) => go("history", other, q)} /></div>
    <form class="filters" onSubmit=${(e) => e.preventDefault()}>
      <label>${t("What")} <select value=${channel} onChange=${(e) => setQuery({ of: e.target.value === "trades" ? "" : e.target.value })}>
        <option value="trades">${t("Trades")}</option><option value="quotes">${t("Quotes")}</option><option value="bars">${t("Bars")}</option><option value="statuses">${t("Phases")}</option></select></label>
      ${channel === "bars" && html`<label>${t("Interval")} <select value=${q.bar ?? "1m"} onChange=${(e) => setQuery({ bar: e.target.value })}>${["1s", "1m", "5m", "15m", "1h", "1d"].map((b) => html`<option key=${b} value=${b}>${b}</option>`)}</select></label>`}
      <${When} name="start" label=${t("From")} value=${q.start} /><${When} name="end" label=${t("To")} value=${q.end} />
      <label>${t("Order")} <select value=${q.order ?? "desc"} onChange=${(e) => setQuery({ order: e.target.value === "desc" ? "" : e.target.value })}><option value="desc">${t("newest first")}</option><option value="asc">${t("oldest first")}</option></select></label>
      <span class="gap"></span>
      <button type="button" disabled=${!id} onClick=${() => file("csv")}>CSV</button><button type="button" disabled=${!id} onClick=${() => file("ndjson")}>JSON</button>
    </form>
    <p class="error" role="alert">${error && failure(error)}</p>
    <p class="error lost" role="status">${absent(lost)}</p>
    <div class="two wide"><${Rows} rows=${rows} failed=${error !== undefined} channel=${channel} decimals=${known(id)?.price_decimals ?? 0} more=${cursor && (() => read(cursor))} /><${Day} /></div>
  </section>`;
}

// When is a field for a time in the zone of the browser.
function When({ name, label, value }) {
  const local = (time) => {
    if (!time) return "";
    const d = new Date(time);
    return new Date(d - d.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  };
  return html`<label>${label} <input type="datetime-local" value=${local(value)} onChange=${(e) => setQuery({ [name]: e.target.value ? new Date(e.target.value).toISOString() : "" })} /></label>`;
}

// right has the columns of numbers.
const tables = {
  trades: {
    right: [1, 2, 4],
    head: () => [t("Time"), t("Price"), t("Size"), t("Side"), "N"],
    row: (m, d) => [at(m.T, true), price(m.P, d), m.Z ? group(String(m.Z)) : "", m.type === "X" ? t("cancel of {0}", m.XN ?? "?") : m.type === "C" ? t("correction of {0}", m.XN ?? "?") : m.G === "B" ? `▲ ${t("buy")}` : m.G === "S" ? `▼ ${t("sell")}` : "", number(m.N)],
  },
  quotes: {
    right: [1, 2, 3, 4, 5],
    head: () => [t("Time"), t("Size"), t("Bid"), t("Offer"), t("Size"), "N"],
    row: (m, d) => [at(m.T, true), m.BZ ? group(String(m.BZ)) : "", price(m.BP, d), price(m.AP, d), m.AZ ? group(String(m.AZ)) : "", number(m.N)],
  },
  bars: {
    right: [1, 2, 3, 4, 5, 6],
    head: () => [t("Time"), t("Open"), t("High"), t("Low"), t("Close"), t("Volume"), t("Trades"), ""],
    row: (m, d) => [m.IV === "1d" && m.TD ? m.TD : at(m.T), price(m.OP, d), price(m.HI, d), price(m.LO, d), price(m.CL, d), m.TV ? group(String(m.TV)) : "", number(m.TC), m.R ? t("revision") : ""],
  },
  statuses: {
    right: [4],
    head: () => [t("Time"), t("Phase"), t("Reason"), t("Until"), "N"],
    row: (m) => [at(m.T, true), phaseName(m.E), words(m.Y), at(m.U), number(m.N)],
  },
};

function Rows({ rows, failed, channel, decimals, more }) {
  if (rows === undefined) return html`<p class="empty">${t("Loading …")}</p>`;
  const table = tables[channel];
  if (rows.length === 0) return html`<p class="empty">${failed ? "" : t("Nothing is stored for this choice. Choose another time, or leave From and To empty.")}</p>`;
  let date = "";
  const out = [];
  for (const m of rows) {
    const d = new Date(m.T);
    const its = `${d.getFullYear()}-${String(d.getMonth() + 1).padStart(2, "0")}-${String(d.getDate()).padStart(2, "0")}`;
    if (its !== date) out.push(html`<tr key=${its + m.N} class="date"><th colspan="8" scope="rowgroup">${(date = its)}</th></tr>`);
    out.push(html`<tr key=${`${m.N}${m.type}${m.R ?? ""}`} data-side=${m.G === "B" ? "buyer" : m.G === "S" ? "seller" : ""}>${table.row(m, decimals).map((text, i) => html`<td key=${i} class=${table.right.includes(i) ? "num right" : "num"}>${text}</td>`)}</tr>`);
  }
  return html`<div class="scroller" tabindex="0" role="group" aria-label=${t("Rows")}><table><thead><tr>${table.head().map((name, i) => html`<th key=${i} scope="col" class=${table.right.includes(i) ? "right" : ""}>${name}</th>`)}</tr></thead><tbody>${out}</tbody></table>
    ${more && html`<button class="more" onClick=${more}>${t("More")}</button>`}</div>`;
}

// Day downloads a closed day.
function Day() {
  const [date, setDate] = useState(yesterday());
  const [type, setType] = useState("trades");
  const [format, setFormat] = useState("csv");
  const [state, setState] = useState("");
  const submit = async (e) => {
    e.preventDefault();
    setState(t("Loading …"));
    try {
      const lost = await download(`/market/export?type=${type}&date=${date}&format=${format}`, `${type}-${date}.${format}`);
      setState(`${t("Saved.")} ${absent(lost)}`);
    } catch (err) {
      setState(err.status === 404 ? `${t("This day is not closed, or is not stored.")} ${err.message}` : failure(err));
    }
  };
  return html`<form class="block day" onSubmit=${submit}><h2>${t("A whole day")}</h2>
    <p>${t("All instruments of a closed day in one file.")}</p>
    <label>${t("Day (UTC)")} <input type="date" value=${date} max=${yesterday()} onInput=${(e) => setDate(e.target.value)} required /></label>
    <label>${t("What")} <select value=${type} onChange=${(e) => setType(e.target.value)}><option value="trades">${t("Trades")}</option><option value="quotes">${t("Quotes")}</option><option value="bars">${t("Bars")}</option><option value="depth">${t("Order books")}</option></select></label>
    <label>${t("Format")} <select value=${format} onChange=${(e) => setFormat(e.target.value)}><option value="csv">CSV</option><option value="ndjson">JSON lines</option><option value="parquet">Parquet</option></select></label>
    <button class="primary">${t("Download")}</button><p role="status">${state}</p></form>`;
}
