// Words of the protocol, for people.
import { t } from "../i18n.js";
import { day, number } from "../num.js";

export function phaseName(phase) {
  const names = {
    pre_open: t("pre-open"), auction: t("auction"), open: t("open"), quoting: t("quoting"), halt: t("halted"), pause: t("paused"),
    suspended: t("suspended"), pre_close: t("pre-close"), closed: t("closed"), post_close: t("post-close"), feed_down: t("feed down"),
    feed_up: t("feed up"), gap: t("gap in the feed"), unknown: t("status unknown"),
  };
  return names[phase] ?? phase ?? "";
}

// words makes a reason word readable: simulated_gap becomes simulated gap.
export const words = (text) => (text ?? "").replaceAll("_", " ");

// failure says why a request failed, and what to do.
export function failure(err) {
  if (err.reason === "forbidden" || err.reason === "not_entitled") {
    const scope = /scope ([\w:]+)/.exec(err.message)?.[1];
    return scope ? t("This user does not have the right {0}. An operator can give it.", scope) : t("This user has no right to this. An operator can give it.");
  }
  if (err.reason === "rate_limited") return t("Too many requests. Wait a moment and try again.");
  if (err.reason === "unavailable" || !(err.reason || err.status)) return t("The gateway does not answer. This page asks again when the connection is back.");
  return err.message;
}

// absent says which rows the gateway does not have, or is empty.
export function absent(lost) {
  if (lost.length === 0) return "";
  const texts = lost.slice(0, 3).map((l) => {
    const rows = l.instrument ? `${l.instrument}: ` : "";
    const n = l.from && l.to ? t("N {0} to {1}", number(l.from), number(l.to)) : l.from ? t("from N {0} on, if there were any", number(l.from)) : t("earlier rows, if there were any");
    const time = l.end ? t("before {0}", day(l.end)) : l.start ? t("after {0}", day(l.start)) : "";
    return `${rows}${n}${time && ` (${time})`}`;
  });
  if (lost.length > texts.length) texts.push(t("{0} other ranges", lost.length - texts.length));
  return t("The gateway does not have all of these rows. Missing: {0}.", texts.join("; "));
}

// refusal says that a channel of an instrument is refused.
export function refusal(no) {
  return no.reason === "not_entitled" || no.reason === "forbidden" ? t("an operator can give it.") : (no.msg ?? words(no.reason));
}

// story says in a sentence what an incident was, and what the page has done about it.
export function story(i) {
  switch (i.kind) {
    case "recovered":
      if (i.channel !== "trades") return t("Messages {0} to {1} of {2} did not arrive. The page asked for them and has them now.", i.from, i.to, i.instrument);
      return i.from === i.to ? t("Trade {0} of {1} did not arrive. The page asked for it and has it now. Nothing is lost.", i.from, i.instrument)
        : t("Trades {0} to {1} of {2} did not arrive. The page asked for them and has them now. Nothing is lost.", i.from, i.to, i.instrument);
    case "lost":
      return t("Messages {0} to {1} of {2} are lost: {3}. The gateway does not have them any more.", i.from, i.to, i.instrument, words(i.reason));
    case "waiting":
      return t("The connection was lost. The page connects again and asks for what it has missed.");
    case "closed":
      return t("The connection was closed. {0}", i.msg);
    case "back":
      return t("The connection is back. What follows continues where it was lost.");
    case "book":
      return i.reason === "checksum" ? t("The checksum of the book of {0} was wrong. The page discarded the book and asked for a new one.", i.instrument)
        : i.reason === "chain" ? t("An update of the book of {0} was missing. The page discarded the book and asked for a new one.", i.instrument)
        : t("The book of {0} is not known at the moment.", i.instrument);
    case "book_again":
      return t("The new book of {0} has arrived and is verified.", i.instrument);
    case "feed_gap":
      return t("The gateway's own feed lost events of {0}. Nobody has the trades of that time.", i.instrument);
    case "feed_down":
      return t("The feed of {0} is interrupted. Its prices may be old.", i.market);
    case "feed_up":
      return t("The feed of {0} works again.", i.market);
    case "phase":
      return `${i.market}: ${phaseName(i.phase)}.`;
  }
  const notices = {
    slow_client: t("The page reads too slowly. The gateway leaves out quotes and books that newer ones have replaced."),
    shutting_down: t("The gateway stops soon. The page will connect again."),
    token_expiring: t("The token ends soon. The page gets another one."),
  };
  return notices[i.reason] ?? `${words(i.reason)}${i.msg ? `: ${i.msg}` : ""}`;
}

// kindName names a kind of incident in a word or two.
export function kindName(kind) {
  const names = {
    recovered: t("gap recovered"), lost: t("lost"), waiting: t("connection lost"), closed: t("closed"), back: t("connected again"), notice: t("notice"),
    book: t("book not known"), book_again: t("book verified"), feed_down: t("feed down"), feed_up: t("feed up"), feed_gap: t("gap in the feed"), phase: t("phase"),
  };
  return names[kind] ?? words(kind);
}

// accountWord translates a type, role, right or state of an account.
export function accountWord(word) {
  const names = {
    cash: t("cash"), margin: t("margin"), owner: t("owner"), read: t("read"), trade: t("trade"), active: t("active"), restricted: t("restricted"), closed: t("closed"),
  };
  return names[word] ?? words(word);
}

// calm says that trading goes on as usual.
export const calm = (phase) => !phase || phase === "open" || phase === "quoting";
