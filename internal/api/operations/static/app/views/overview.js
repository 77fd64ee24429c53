// Rates and latencies now and in the last ten minutes.
import { html } from "../lib.js";
import { t } from "../i18n.js";
import { bytes, clock, milliseconds, number } from "../format.js";
import { sum } from "../metrics.js";
import { newest, now, points, trouble } from "../poll.js";
import { Plot } from "../plot.js";

const perSecond = (v) => (v === undefined || v === null ? "–" : `${number(v, v < 10 ? 1 : 0)}/s`);
const bytesPerSecond = (v) => (v === undefined || v === null ? "–" : `${bytes(v)}/s`);

function Tile({ name, value, note, bad }) {
  return html`<div class=${`tile ${bad ? "bad" : ""}`}><dt>${name}</dt><dd class="num">${value}${note && html` <small>${note}</small>`}</dd></div>`;
}

export function Overview() {
  points.value;
  const s = now.value?.samples;
  if (!s) return html`<p class="empty">${t("Waiting for the first figures")}</p>`;
  const ready = sum(s, "rueda_ready") === 1;
  const stale = sum(s, "rueda_shard_stale") ?? 0;
  const slow = sum(s, "rueda_backlog_connections") ?? 0;
  const panics = sum(s, "rueda_panics_total") ?? 0;
  const behind = (sum(s, "rueda_position") ?? 0) - (sum(s, "rueda_committed_position") ?? 0);
  return html`<section>
    <dl class="tiles">
      <${Tile} name=${t("State")} value=${trouble.value ? t("unknown") : ready ? t("ready") : t("not ready")} bad=${!ready || trouble.value} note=${trouble.value && t("The figures are of {0}.", clock(now.value.at))} />
      <${Tile} name=${t("Live connections")} value=${number(newest("live"))} note=${t("{0} without a login", number(sum(s, "rueda_connections", { state: "unauthenticated" })))} />
      <${Tile} name=${t("Slow clients")} value=${number(slow)} note=${bytes(sum(s, "rueda_backlog_bytes"))} bad=${slow > 0} />
      <${Tile} name=${t("Delivery, 99 of 100")} value=${milliseconds(newest("high"))} note=${t("half: {0}", milliseconds(newest("median")))} />
      <${Tile} name=${t("Journal write, 99 of 100")} value=${milliseconds(newest("commit"))} note=${t("not yet written: {0}", number(Math.max(0, behind)))} bad=${sum(s, "rueda_journal_suspended") === 1} />
      <${Tile} name=${t("Instruments")} value=${number(sum(s, "rueda_instruments"))} note=${t("{0} topics", number(sum(s, "rueda_topics")))} />
      <${Tile} name=${t("Memory")} value=${bytes(sum(s, "process_resident_memory_bytes"))} note=${t("stream: {0}", bytes(sum(s, "rueda_stream_memory_bytes")))} bad=${(sum(s, "rueda_stream_memory_relief") ?? 0) > 0} />
      <${Tile} name=${t("Panics")} value=${number(panics)} note=${stale > 0 ? t("{0} shards do not answer", number(stale)) : ""} bad=${panics > 0 || stale > 0} />
    </dl>
    <div class="plots">
      <${Plot} title=${t("Messages")} format=${perSecond} lines=${[["deliveries", t("delivered"), "--accent"], ["messages", t("published"), "--down"]]} />
      <${Plot} title=${t("Delivery time")} format=${milliseconds} lines=${[["high", t("99 of 100"), "--down"], ["median", t("half"), "--accent"]]} />
      <${Plot} title=${t("Output")} format=${bytesPerSecond} lines=${[["bytes", t("bytes"), "--accent"]]} />
      <${Plot} title=${t("Connections")} whole format=${(v) => number(v)} lines=${[["live", t("live"), "--accent"]]} />
      <${Plot} title=${t("Requests")} format=${perSecond} lines=${[["requests", t("answers"), "--accent"]]} />
      <${Plot} title=${t("Request and journal time")} format=${milliseconds} lines=${[["request", t("requests, 99 of 100"), "--down"], ["commit", t("journal, 99 of 100"), "--accent"]]} />
    </div>
  </section>`;
}
