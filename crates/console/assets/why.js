// What holds it up: the sentence, the cause, the chain of evidence, the next commands.

import { h, command } from "./dom.js";

const LEADS = { fix: "Fix", then: "Then", or: "Or", look: "Look", more: "More" };

/** The panel; nothing where all is well, one line where it simply moves. */
export function why(finding, { quiet = false, about = "" } = {}) {
  if (!finding || (finding.state === "done" && quiet)) return null;
  if (finding.cause === "IN_PROGRESS") return h("section.why.w-moving", { "aria-label": about ? `Why, ${about}` : "Why", "data-key": "why" }, h("h2", {}, finding.headline));
  return h("section.why", { class: `w-${finding.state}`, "aria-label": about ? `Why, ${about}` : "Why", "data-key": "why" },
    h("h2", {}, finding.headline),
    h("div.grid", {},
      h("div.cause", {},
        h("p", {}, h("span.code", {}, finding.cause), " ", finding.what),
        finding.because && h("blockquote", {}, finding.because),
        h("dl.next", {}, [...finding.next, { lead: "more", what: "", command: `flagship explain ${finding.cause}` }].map((hint) => [
          h("dt", {}, LEADS[hint.lead] || hint.lead),
          h("dd", {}, hint.what && h("span", {}, hint.what), hint.command && command(hint.command)),
        ]))),
      finding.evidence.length > 0 && h("ol.chain", { "aria-label": "Evidence, from the outside in" }, finding.evidence.map((step) =>
        h("li", {}, h("span.kind", {}, step.kind), h("span.name", {}, step.name), h("span.says", {}, step.says))))));
}
