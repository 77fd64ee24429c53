// Parts that several views use.
import { html, signal, useEffect, useRef, useState } from "./lib.js";
import { textOf } from "./api.js";
import { t } from "./i18n.js";

// asked is the question of the open dialog; null: there is none.
const asked = signal(null);

// confirmed asks before a change that cannot be undone. It returns a promise of true or false. With
// word, the person has to type it.
export function confirmed(title, text, action, word = "") {
  return new Promise((resolve) => {
    asked.value = { title, text, action, word, resolve };
  });
}

// Dialog shows the open question.
export function Dialog() {
  const ref = useRef(null);
  const [typed, setTyped] = useState("");
  const q = asked.value;
  useEffect(() => {
    if (q && !ref.current.open) ref.current.showModal();
    setTyped("");
  }, [q]);
  if (!q) return null;
  const close = (yes) => {
    ref.current.close();
    asked.value = null;
    q.resolve(yes);
  };
  return html`<dialog ref=${ref} aria-labelledby="question" onCancel=${(e) => {
    e.preventDefault();
    close(false);
  }}>
    <form method="dialog" onSubmit=${(e) => {
      e.preventDefault();
      close(true);
    }}>
      <h2 id="question">${q.title}</h2>
      <p>${q.text}</p>
      ${q.word && html`<label>${t("Type {0} to go on", q.word)} <input autocomplete="off" value=${typed} onInput=${(e) => setTyped(e.target.value)} /></label>`}
      <p class="buttons"><button type="button" onClick=${() => close(false)}>${t("Cancel")}</button>
      <button class="danger" disabled=${q.word !== "" && typed !== q.word}>${q.action}</button></p>
    </form>
  </dialog>`;
}

// said is the newest message about what the person did: {text, bad}.
export const said = signal(null);

export const say = (text) => {
  said.value = { text, bad: false };
};

export const complain = (err) => {
  said.value = { text: err.hint ? `${err.message}. ${err.hint}.` : textOf(err), bad: true };
};

// Said shows the newest message, for screen readers too.
export function Said() {
  const m = said.value;
  return html`<p class=${`said ${m?.bad ? "bad" : ""}`} role="status" aria-live="polite">${m && html`${m.text} <button class="quiet" aria-label=${t("Close the message")} onClick=${() => {
    said.value = null;
  }}>×</button>`}</p>`;
}

// attempt runs an action and shows its failure.
export async function attempt(action) {
  try {
    await action();
  } catch (err) {
    complain(err);
  }
}

// usePolled calls load now, and again after an interval while the page is visible. It returns
// {data, failed, again}. The dependencies are what load depends on.
export function usePolled(load, every, dependencies) {
  const [state, set] = useState({});
  const again = useRef(() => {});
  useEffect(() => {
    let over = false;
    let timer = 0;
    const run = async () => {
      clearTimeout(timer);
      if (!document.hidden) {
        try {
          const data = await load();
          if (!over) set({ data });
        } catch (err) {
          if (!over) set((before) => ({ data: before.data, failed: err }));
        }
      }
      if (!over && every > 0) timer = setTimeout(run, every);
    };
    again.current = run;
    run();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, dependencies);
  return { ...state, again: () => again.current() };
}

// Failed shows why data is missing.
export function Failed({ error }) {
  if (!error) return null;
  return html`<p class="failed" role="alert">${textOf(error)}${error.hint ? ` ${error.hint}.` : ""}</p>`;
}

// Table is a table with a caption for screen readers. columns are [title, class].
export function Table({ caption, columns, empty, children }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr>${columns.map(([title, kind]) => html`<th scope="col" class=${kind ?? ""}>${title || html`<span class="hidden">${t("Action")}</span>`}</th>`)}</tr></thead>
    <tbody>${children.length ? children : html`<tr><td class="empty" colspan=${columns.length}>${empty}</td></tr>`}</tbody>
  </table></div>`;
}
