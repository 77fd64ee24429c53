// The field that finds an instrument while one types.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { t } from "../i18n.js";
import { find } from "../market.js";

// Search calls choose with the identifier of an instrument.
export function Search({ choose, label }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState([]);
  const [at, setAt] = useState(0);
  const [open, setOpen] = useState(false);
  const [failed, setFailed] = useState(false);
  const input = useRef();
  const id = useId();
  useEffect(() => {
    const asked = text.trim();
    if (!asked) {
      setHits([]);
      return undefined;
    }
    let current = true;
    const timer = setTimeout(() => {
      find(asked).then(
        (list) => {
          if (!current) return;
          setFailed(false);
          setHits(list);
          setAt(0);
        },
        () => current && setFailed(true),
      );
    }, 120);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [text]);
  const take = (hit) => {
    setText("");
    setOpen(false);
    choose(hit.instrument);
  };
  const keys = (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      setOpen(true);
      if (hits.length > 0) setAt((at + (e.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length);
    } else if (e.key === "Enter" && open && hits[at]) {
      e.preventDefault();
      take(hits[at]);
    } else if (e.key === "Escape") {
      if (text) setText("");
      else input.current.blur();
      setOpen(false);
    }
  };
  const shown = open && text.trim() !== "";
  return html`<div class="search">
    <input ref=${input} data-find type="search" role="combobox" aria-label=${label} placeholder=${`${label}  /`} autocomplete="off" spellcheck="false"
      aria-expanded=${shown} aria-controls=${`${id}-list`} aria-autocomplete="list" aria-activedescendant=${shown && hits[at] ? `${id}-${at}` : undefined}
      value=${text} onInput=${(e) => (setText(e.target.value), setOpen(true))} onKeyDown=${keys} onFocus=${() => setOpen(true)} onBlur=${() => setOpen(false)} />
    <ul id=${`${id}-list`} role="listbox" aria-label=${label} hidden=${!shown}>
      ${hits.map((hit, i) => html`<li key=${hit.instrument} id=${`${id}-${i}`} role="option" aria-selected=${i === at}
          onMouseDown=${(e) => (e.preventDefault(), take(hit))} onMouseMove=${() => setAt(i)}>
        <b>${hit.symbol}</b> <span class="term">${hit.market} ${hit.term}</span><span class="name">${hit.name}</span></li>`)}
      ${shown && hits.length === 0 && html`<li class="none" role="option" aria-selected="false" aria-disabled="true">${failed ? t("The gateway does not answer.") : t("No instrument matches.")}</li>`}
    </ul>
  </div>`;
}
