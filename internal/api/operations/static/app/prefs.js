// Theme and language of this browser.
import { effect, signal } from "./lib.js";

function stored(name) {
  try {
    return localStorage.getItem(`rueda.${name}`) ?? "";
  } catch {
    return ""; // the browser forbids it
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`rueda.${name}`, value);
  } catch {
    // It lasts as long as the page.
  }
}

const oneOf = (list, ...values) => values.find((v) => list.includes(v));
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = signal(oneOf(["dark", "light"], stored("theme"), system.matches ? "dark" : "light"));
export const lang = signal(oneOf(["en", "es"], stored("lang"), ...navigator.languages.map((l) => l.slice(0, 2))) ?? "en");

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
effect(() => {
  document.documentElement.lang = lang.value;
});

export function toggleTheme() {
  theme.value = theme.value === "dark" ? "light" : "dark";
  keep("theme", theme.value);
}

export function toggleLang() {
  lang.value = lang.value === "en" ? "es" : "en";
  keep("lang", lang.value);
}
