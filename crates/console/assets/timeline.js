// When what happened: stages as bars, waits hatched, approvals as diamonds, failures as ticks.

import { h, at, now, span } from "./dom.js";

const LEGEND = [["done", "updated"], ["moving", "updating"], ["stuck", "stuck"], ["waiting", "wait"], ["asking", "asking"], ["diamond", "approval"], ["tick", "failure"]];

/** The timeline of a run; nothing before it has begun. */
export function timeline(head) {
  const { created, ended, expected, stages = [] } = head;
  if (!created || !stages.length) return null;
  const present = ended || now();
  const end = Math.max(present, expected || 0, ...stages.flatMap((stage) => stage.gates.map((gate) => gate.until || 0)));
  const whole = Math.max(1000, end - created);
  const place = (ms) => `${Math.max(0, Math.min(100, ((ms - created) / whole) * 100)).toFixed(2)}%`;
  const bar = (kind, from, to, title) => {
    if (!from || to <= from) return null;
    return h("span.bar", { class: kind, title, style: { left: place(from), width: `calc(${place(to)} - ${place(from)})` } });
  };
  const rows = stages.map((stage) => h("div.lane", { "data-key": stage.name },
    h("span.lane-name", {}, stage.name),
    h("div.track", {},
      bar(stage.updated ? "done" : head.phase === "stuck" || head.phase === "failed" ? "stuck" : "moving", stage.start, stage.updated || present, `${stage.name}: clusters updated in ${span((stage.updated || present) - (stage.start || present))}`),
      stage.gates.map((gate) => gate.approval
        ? [bar("asking", gate.asked, gate.passed || present, `approval ${gate.side} ${stage.name}`),
          gate.asked && h("span.diamond", { class: gate.passed ? "passed" : "open", title: gate.passed ? `approved ${gate.side} ${stage.name}` : `waits for an approval ${gate.side} ${stage.name}`, style: { left: place(gate.passed || gate.asked) } })]
        : bar("waiting", gate.asked, gate.passed || gate.until || present, `waits ${gate.wait} after ${stage.name}`)),
      stage.failures.map((when) => h("span.tick", { title: "a cluster failed", style: { left: place(when) } })),
      !ended && h("span.now", { style: { left: place(present) } }))));
  const said = stages.filter((stage) => stage.start).map((stage) => `${stage.name} ${stage.updated ? `took ${span(stage.updated - stage.start)}` : "is under way"}`);
  return h("section.timeline", { "aria-label": "Timeline", "data-key": "timeline" },
    h("h2", {}, "Timeline"),
    h("div.lanes", { role: "img", "aria-label": said.join(", ") || "nothing has begun" }, rows),
    h("div.axis", {}, h("span", {}, at(created)), h("span", {}, ended ? "ended " : expected ? "expected " : "now ", at(end))),
    h("p.legend", { "aria-hidden": "true" }, LEGEND.map(([kind, word]) => h("span", {}, h("i.key", { class: kind }), word))));
}
