// The address of the page has its state: #/connections?sort=age.
import { signal } from "./lib.js";

export function parse(hash) {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?");
  return { view: path.split("/")[0] || "overview", query: Object.fromEntries(new URLSearchParams(search)) };
}

// link returns the hash of a view, without members that are empty.
export function link(view, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  return `#/${view}${search.size ? `?${search}` : ""}`;
}

export const route = signal(parse(location.hash));

addEventListener("hashchange", () => {
  route.value = parse(location.hash);
});

// go opens a view.
export function go(view, query) {
  location.hash = link(view, query);
}
