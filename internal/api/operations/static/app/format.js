// Numbers and times as people read them.
import { lang } from "./prefs.js";
import { t } from "./i18n.js";

const locale = () => (lang.value === "es" ? "es-AR" : "en-US");

export function number(v, digits = 0) {
  if (v === undefined || v === null || Number.isNaN(v)) return "–";
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(v);
}

// bytes returns a size in units of 1024.
export function bytes(v) {
  if (v === undefined || v === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${number(v, i === 0 || v >= 100 ? 0 : 1)} ${units[i]}`;
}

// milliseconds returns a time with the digits that matter.
export function milliseconds(v) {
  if (v === undefined || v === null) return "–";
  return `${number(v, v < 1 ? 3 : v < 10 ? 2 : v < 100 ? 1 : 0)} ms`;
}

// age returns how long ago a time was.
export function age(time) {
  const then = typeof time === "number" ? time : Date.parse(time);
  if (!then || then < 0) return "–";
  const s = Math.max(0, (Date.now() - then) / 1000);
  if (s < 10) return t("{0} s", number(s, 1));
  if (s < 120) return t("{0} s", number(s));
  if (s < 7200) return t("{0} min", number(s / 60));
  if (s < 172_800) return t("{0} h", number(s / 3600));
  return t("{0} days", number(s / 86_400));
}

// stateName translates the state of a user or of a key.
export function stateName(word) {
  const names = {
    active: t("active"), disabled: t("disabled"), published: t("made public"), signing: t("signing"), verify_only: t("only verifies"), revoked: t("revoked"),
  };
  return names[word] ?? word;
}

// clock returns the time of day.
export const clock = (time) => new Intl.DateTimeFormat(locale(), { timeStyle: "medium", hourCycle: "h23" }).format(time);

// moment returns a time in the zone of this browser.
export function moment(time) {
  const then = Date.parse(time);
  if (!then || then < 0) return "–";
  return new Intl.DateTimeFormat(locale(), { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" }).format(then);
}
