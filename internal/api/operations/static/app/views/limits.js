// How much of each limit is used, the level of the log, and reading the configuration again.
import { html } from "../lib.js";
import { get, may, request } from "../api.js";
import { t } from "../i18n.js";
import { bytes, number } from "../format.js";
import { sum, values } from "../metrics.js";
import { now } from "../poll.js";
import { Failed, attempt, confirmed, say, usePolled } from "../ui.js";

const warnAt = 0.8;

function Gauge({ name, used, limit, format }) {
  if (used === undefined || !limit) return null;
  const share = used / limit;
  return html`<div class="gauge"><label>${name} <meter min="0" max="1" low=${warnAt} high=${warnAt} optimum="0" value=${Math.min(1, share)}></meter></label>
    <span class=${`num ${share > warnAt ? "bad" : ""}`}>${t("{0} of {1}", format(used), format(limit))} <small>${number(share * 100, 1)} %</small></span></div>`;
}

async function reload() {
  if (!(await confirmed(t("Read the configuration again?"), t("A file with mistakes changes nothing."), t("Read again")))) return;
  await attempt(async () => {
    const { applied, restart } = await request("POST", "/admin/reload");
    say(`${t("Applied: {0}", applied.join(", ") || t("nothing"))}. ${t("After a restart: {0}", restart.join(", ") || t("nothing"))}.`);
  });
}

function LogLevel() {
  const { data, failed, again } = usePolled(() => get("/admin/log-level"), 0, []);
  if (failed) return html`<${Failed} error=${failed} />`;
  const change = (level) => attempt(async () => {
    await request("PUT", "/admin/log-level", { level });
    say(t("The level of the log is {0}", level));
    again();
  });
  return html`<label>${t("Level of the log")} <select disabled=${!data || !may("operate")} value=${data?.level} onChange=${(e) => change(e.target.value)}>
    ${["debug", "info", "warn", "error"].map((l) => html`<option value=${l} selected=${l === data?.level}>${l}</option>`)}</select></label>`;
}

export function Limits() {
  const s = now.value?.samples;
  const free = values(s, "rueda_disk_free_bytes", "folder");
  const size = values(s, "rueda_disk_size_bytes", "folder");
  return html`<section>
    <div class="gauges">
      <${Gauge} name=${t("Connections (limits.sockets)")} used=${(sum(s, "rueda_connections", { state: "live" }) ?? 0) + (sum(s, "rueda_connections", { state: "unauthenticated" }) ?? 0)} limit=${sum(s, "rueda_connections_limit")} format=${number} />
      <${Gauge} name=${t("Memory of the stream (stream.memory)")} used=${sum(s, "rueda_stream_memory_bytes")} limit=${sum(s, "rueda_stream_memory_limit_bytes")} format=${bytes} />
      <${Gauge} name=${t("File descriptors")} used=${sum(s, "process_open_fds")} limit=${sum(s, "process_max_fds")} format=${number} />
      ${[...size].map(([folder, total]) => html`<${Gauge} key=${folder} name=${t("Disk of {0}", folder)} used=${total - (free.get(folder) ?? 0)} limit=${total} format=${bytes} />`)}
    </div>
    <div class="bar"><${LogLevel} /><button disabled=${!may("operate")} onClick=${reload}>${t("Read the configuration again")}</button>
      ${!may("operate") && html`<span class="note">${t("Changes need the role {0}.", "operate")}</span>`}</div>
  </section>`;
}
