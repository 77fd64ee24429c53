// Numbers and times as text. Prices and sizes keep their digits: they never become floating point.
import { lang } from "./prefs.js";

// group inserts separators of thousands, and has at least so many decimals.
export function group(text, decimals = 0) {
  const spanish = lang.value === "es";
  const minus = text.startsWith("-");
  let [whole, fraction = ""] = (minus ? text.slice(1) : text).split(".");
  if (whole.length > 3) whole = whole.replace(/\B(?=(\d{3})+$)/g, spanish ? "." : ",");
  if (fraction.length < decimals) fraction = fraction.padEnd(decimals, "0");
  return `${minus ? "−" : ""}${whole}${fraction ? (spanish ? "," : ".") + fraction : ""}`;
}

// price formats a Decimal, "" if there is none.
export const price = (d, decimals = 0) => (d ? group(String(d), decimals) : "");

// units formats a bigint in units of a number of decimals.
export function units(value, scale, decimals = scale) {
  const minus = value < 0n;
  let text = String(minus ? -value : value);
  if (scale > 0) {
    text = text.padStart(scale + 1, "0");
    const fraction = text.slice(-scale).replace(/0+$/, "");
    text = text.slice(0, -scale) + (fraction ? `.${fraction}` : "");
  }
  return group((minus ? "-" : "") + text, decimals);
}

// number formats a measured number.
export function number(value, digits = 0) {
  if (value === undefined || !Number.isFinite(value)) return "–";
  return group(value.toFixed(digits));
}

// short formats a large amount: 1.2 M.
export function short(d) {
  if (!d) return "";
  const n = d.toNumber();
  if (Math.abs(n) < 1e5) return group(String(d));
  const [div, unit] = Math.abs(n) < 1e6 ? [1e3, "k"] : Math.abs(n) < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return `${group((n / div).toFixed(n / div < 100 ? 1 : 0))} ${unit}`;
}

// percent formats the change from one Decimal to another, with its sign.
export function percent(from, to) {
  if (!from || !to || from.isZero()) return undefined;
  return (to.toNumber() / from.toNumber() - 1) * 100;
}

export function signed(value, digits = 2) {
  if (value === undefined) return "";
  return `${value > 0 ? "+" : ""}${group(value.toFixed(digits))}`;
}

// duration formats ms: 0.4 s, 12 s, 3 min, 2 h 5 min.
export function duration(ms) {
  if (ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 950) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${group(s.toFixed(1))} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

const two = (n) => (n < 10 ? `0${n}` : String(n));

// clock formats a time of the page, in ms, in the zone of the browser.
export function clock(ms, fraction = false) {
  const d = new Date(ms);
  const text = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  return fraction ? `${text}.${String(d.getMilliseconds()).padStart(3, "0")}` : text;
}

// at formats a time of the wire.
export const at = (time, fraction = false) => (time ? clock(Date.parse(time), fraction) : "");

// day formats a date and time.
export function day(time) {
  if (!time) return "";
  const d = new Date(time);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}

export function bytes(n) {
  return n < 1000 ? `${n} B` : n < 1e6 ? `${group((n / 1e3).toFixed(1))} kB` : `${group((n / 1e6).toFixed(1))} MB`;
}
