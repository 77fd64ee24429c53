// Words of the protocol, for people.
import { t } from "../i18n.js";

export function phaseName(phase) {
  const names = {
    pre_open: t("pre-open"), auction: t("auction"), open: t("open"), quoting: t("quoting"), halt: t("halted"), pause: t("paused"),
    suspended: t("suspended"), pre_close: t("pre-close"), closed: t("closed"), post_close: t("post-close"), feed_down: t("feed down"),
    feed_up: t("feed up"), gap: t("gap in the feed"),
  };
  return names[phase] ?? phase ?? "";
}

// words makes a reason word readable: simulated_gap becomes simulated gap.
export const words = (text) => (text ?? "").replaceAll("_", " ");

// calm says that trading goes on as usual.
export const calm = (phase) => !phase || phase === "open" || phase === "quoting";
