// The texts of the page. English is in the code, and the key of the Spanish text.
import { lang } from "./prefs.js";
import { es } from "./lang/es.js";

// t returns a text in the chosen language. {0}, {1} and so on are replaced by the arguments.
export function t(text, ...args) {
  const found = lang.value === "es" ? (es[text] ?? text) : text;
  return args.length === 0 ? found : found.replace(/\{(\d)\}/g, (_, i) => String(args[i] ?? ""));
}
