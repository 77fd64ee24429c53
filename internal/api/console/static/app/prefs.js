// What a person chose for this browser: theme, language, watchlist. Nothing of it is secret.
import { effect, signal } from "./lib.js";
import { parse } from "./router.js";

const fromAddress = parse(location.hash).query;

function stored(name) {
  try {
    return localStorage.getItem(`rueda.${name}`) ?? "";
  } catch {
    return ""; // the browser forbids it
  }
}

// keep stores a value, or removes it if it is empty.
export function keep(name, value) {
  try {
    if (value) localStorage.setItem(`rueda.${name}`, value);
    else localStorage.removeItem(`rueda.${name}`);
  } catch {
    // It lasts as long as the page.
  }
}

export { stored };

const oneOf = (list, ...values) => values.find((v) => list.includes(v));

// The theme: "dark", "light", or "" for that of the system.
export const theme = signal(oneOf(["dark", "light"], fromAddress.theme, stored("theme")) ?? "");

// The language: "en" or "es".
export const lang = signal(oneOf(["en", "es"], fromAddress.lang, stored("lang"), ...navigator.languages.map((l) => l.slice(0, 2))) ?? "en");

const systemDark = matchMedia("(prefers-color-scheme: dark)");

// dark says which theme is shown. It changes with the system's.
export const dark = signal(false);
const settle = () => {
  dark.value = theme.value ? theme.value === "dark" : systemDark.matches;
};
systemDark.addEventListener("change", settle);

effect(() => {
  settle();
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
  keep("theme", theme.value);
});

effect(() => {
  document.documentElement.lang = lang.value;
});

export function toggleTheme() {
  theme.value = dark.value ? "light" : "dark";
}

export function toggleLang() {
  lang.value = lang.value === "en" ? "es" : "en";
  keep("lang", lang.value);
}
