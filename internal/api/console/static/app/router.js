// The address of the page has all of its state: #/i/GGAL%7CBYMA%7C24hs?bar=5m&group=2.
import { computed, signal } from "./lib.js";

// parse returns the parts of a hash.
export function parse(hash) {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  return { view: parts[0] ?? "watch", id: parts[1] ?? "", query: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// link returns the hash of a view, without members that are empty.
export function link(view, id = "", query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "" && value !== null) search.set(name, value);
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${search.size ? `?${search}` : ""}`;
}

export const route = signal(parse(location.hash));

// param is the value of one member of the query, with a default.
export const param = (name, otherwise = "") => computed(() => route.value.query[name] ?? otherwise);

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

// isInstrument reports whether a text, such as one of the address, can be an instrument.
export function isInstrument(text) {
  return /^[!#-)+\-.-:<-[\]-{}~]{1,32}(\|[A-Za-z0-9][A-Za-z0-9._-]{0,15}){2}$/.test(text);
}

// go opens a view.
export function go(view, id, query) {
  location.hash = link(view, id, query);
}

// setQuery changes members of the query without a new entry in the history of the browser.
export function setQuery(patch) {
  const { view, id, query } = route.value;
  const hash = link(view, id, { ...query, ...patch });
  if (hash === location.hash) return;
  history.replaceState(null, "", hash);
  route.value = parse(hash);
}
