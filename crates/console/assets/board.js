// The board of a run: headline, gates, stages with one cell a cluster, why, timeline, log.

import { h, show, ago, at, command, count, link, phase, full_name, WORDS } from "./dom.js";
import { Cells, on_scheme } from "./cells.js";
import { why } from "./why.js";
import { buttons } from "./card.js";
import { timeline } from "./timeline.js";
import { changes, section } from "./plan.js";

export const query = ({ namespace, name }) => `view=run&namespace=${encodeURIComponent(namespace || "")}&name=${encodeURIComponent(name)}`;
export const title = (model) => `${model.head.done ?? 0}/${model.head.all ?? 0} ${WORDS[model.head.phase] || ""} ${model.head.name}`;

let stages = new Map();
let shown = null;
let diff = { id: "", text: "", effect: null };

/** Verbs of the run on the page, for the keyboard. */
export let verbs = [];

export function leave() {
  stages = new Map();
  verbs = [];
  shown = null;
}

export function draw(root, model, changed, route, go, again = true) {
  const head = model.head;
  const other = shown !== `${head.namespace}/${head.name}`;
  if (other) { stages = new Map(); shown = `${head.namespace}/${head.name}`; }
  if (head.missing) {
    verbs = [];
    show(root, head.loading ? h("p.quiet", {}, "Reading the hub…") : h("div.board", {}, h("h1", {}, full_name(head)), why(head.finding)));
    return;
  }
  verbs = [...(head.approvals || []).flatMap((card) => card.verbs), ...(head.verbs || [])];
  const placement = { namespace: head.namespace, name: head.placement };
  const open = (cluster) => go({ ...route, params: { ...route.params, cluster } });
  for (const stage of head.stages) if (!stages.has(stage.name)) stages.set(stage.name, new Cells(open));
  const quiet = head.finding.state === "done";
  if (again || other) show(root, h("div.board", {},
    h("div.headline", {},
      h("div", {},
        h("p.crumbs", {}, h("a", { href: link.placement(placement) }, full_name(placement)), " · snapshot ", h("b", {}, head.snapshot || "…"), " · strategy ", head.strategy),
        h("h1", {}, head.name, head.namespace && h("span.space", {}, head.namespace))),
      h("div.verbs", {}, buttons(head.verbs || [], (said) => started(said, head)),
        h("a.verb", { href: link.plan(placement) }, "Plan a run"))),
    h("dl.figures", {},
      figure("State", phase(head.phase)),
      figure("Stage", `${head.stage} of ${head.stages.length}`),
      figure("Clusters", `${head.done}/${head.all}`),
      figure(head.ended ? "Took" : "Elapsed", ago(head.created, { end: head.ended })),
      head.ended ? figure("Ended", at(head.ended)) : figure("Expected end", head.expected ? at(head.expected) : unknown_end(head))),
    strip(head),
    policy(head),
    approvals(head),
    why(head.finding, { quiet }),
    h("div.stages", { class: head.stages.length > 4 ? "many" : "", style: { "--columns": columns(head.stages) } }, head.stages.map((stage, index) => column(stage, index, head))),
    legend(),
    h("div.lower", {}, timeline(head), log(head)),
    difference(head, placement, () => { if (shown === `${head.namespace}/${head.name}`) draw(root, model, new Set(), route, go, true); })));
  let from = 0;
  for (const stage of head.stages) {
    const cells = stages.get(stage.name);
    const holder = root.querySelector(`[data-cells="${CSS.escape(stage.name)}"]`);
    if (holder && cells.box.parentNode !== holder) holder.replaceChildren(cells.box);
    const selected = route.params.cluster || "";
    const rows = other || cells.selected !== selected ? null : changed;
    cells.update(model, from, stage.cells, stage.name, rows, selected);
    from += stage.cells;
  }
  on_scheme(() => { for (const cells of stages.values()) if (cells.dense) cells.paint(); });
}

/** What this version has that the one before has not, asked for once. */
function difference(head, placement, redraw) {
  if (!head.snapshot || head.before === null || head.before === undefined || head.before === head.snapshot) return null;
  const id = `${full_name(placement)}|${head.before}|${head.snapshot}`;
  if (diff.id !== id) {
    diff = { id, text: "Reading both snapshots…", effect: null };
    compare(placement, head, id).then(redraw);
  }
  const n = diff.effect?.changes.length;
  const told = diff.effect ? `${n ? count(n, "object") : "Nothing"}, snapshot ${head.before} → ${head.snapshot}` : diff.text;
  return section("What differs from the version before", told, diff.effect && changes(diff.effect));
}

async function compare(placement, head, id) {
  const query = new URLSearchParams({ placement: placement.name, namespace: placement.namespace || "", from: head.before, to: head.snapshot });
  let text = "The console does not answer.", effect = null;
  try {
    const answer = await fetch(`/api/changes?${query}`);
    const told = await answer.json();
    if (answer.ok) effect = told; else text = told.error;
  } catch { /* said below */ }
  if (diff.id === id) diff = { id, text, effect };
}

function started(said, head) {
  const made = /^(\S+) created/.exec(said);
  if (!made) return;
  const name = made[1].split("/").pop();
  location.hash = link.run({ namespace: head.namespace, name });
}

function figure(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function unknown_end(head) {
  const asks = head.stages.some((stage) => stage.gates.some((gate) => gate.approval && gate.state !== "passed"));
  if (head.phase === "running" || head.phase === "waiting") return h("span.quiet", {}, asks ? "after approval" : "not known yet");
  return h("span.quiet", {}, "—");
}

function strip(head) {
  const gates = head.stages.flatMap((stage) => stage.gates.map((gate) => ({ ...gate, stage: stage.name })));
  if (!gates.length) return null;
  return h("ol.strip", { "aria-label": "Gates", "data-key": "strip" }, gates.map((gate) => {
    const what = gate.approval ? "approval" : `wait ${gate.wait}`;
    let tells = "ahead";
    if (gate.state === "passed") tells = [gate.approval ? "approved " : "waited until ", at(gate.passed)];
    else if (gate.state === "closed") tells = gate.approval ? ["asked ", ago(gate.asked), " ago"] : [ago(gate.until, { until: true }), " left"];
    const sign = { passed: "✔", closed: "◇", ahead: "·" }[gate.state];
    const by = gate.state === "passed" && gate.approval && [gate.comment && gate.comment !== "approved" && `“${gate.comment}”`, gate.via && `with ${gate.via}`].filter(Boolean).join(" ");
    return h("li", { class: `g-${gate.state}`, "data-key": `${gate.stage}/${gate.side}/${gate.approval || "wait"}`, title: by || null },
      h("span.sign", { "aria-hidden": "true" }, sign), h("span", {}, `${what} ${gate.side} `, h("b", {}, gate.stage)), h("span.tells", {}, tells));
  }));
}

/** What policies and freezes say of the run: budgets, the first deadline, who is skipped. */
function policy(head) {
  const { budgets = [], policies = [], deadline, skipped = [], frozen } = head;
  if (!budgets.length && !deadline && !skipped.length && !frozen) return null;
  const by = policies.length ? `policy ${policies.join(", ")}` : "";
  const line = (name, kind, ...says) => h("div", { class: kind, "data-key": name }, h("dt", {}, name), h("dd", {}, says));
  return h("dl.policy", { "aria-label": "Policies", "data-key": "policy" },
    frozen && line("Frozen", "is-held", frozen.replace(/^Frozen /, "")),
    budgets.length > 0 && line("Budget", budgets.some((one) => one.failed.length > one.allowed) ? "is-spent" : "",
      budgets.map((one, index) => h("span", {}, index ? " · " : "", one.says)), h("span.quiet", {}, ` (${by})`)),
    deadline && line("Deadline", "", h("b", {}, deadline.cluster), " must be available by ", at(deadline.at), ", ", ago(deadline.at, { until: true }), " left", deadline.more > 0 && `; ${deadline.more} more under way`),
    skipped.length > 0 && line("Skipped", "", skipped.map((one, index) => h("span", {}, index ? "; " : "", h("b", {}, one.cluster), one.says.replace(/^Skipped/, ""))), head.skippedMore > 0 && `; and ${head.skippedMore} more`));
}

/** Requests that a policy counts: who has approved, who is missing, what you can do about it. */
function approvals(head) {
  if (!head.approvals?.length) return null;
  return h("section.approvals", { "aria-label": "Approvals", "data-key": "approvals" }, head.approvals.map((card) => {
    const given = card.approved.length, closed = card.rejected ? "is-rejected" : "";
    const can = !card.mayNot;
    return h("article.request", { class: closed, "data-key": card.request, "aria-label": `Approvals ${card.side} ${card.stage}` },
      h("header", {},
        h("h2", {}, `Approvals ${card.side} `, h("b", {}, card.stage)),
        h("p", {}, h("b.tally", {}, `${given} of ${card.required}`), card.missing > 0 && h("span.quiet", {}, ` ${card.missing} missing`), h("span.quiet", {}, ` (policy ${card.policies})`))),
      card.rejected && h("p.missing.fails", {}, h("span", { "aria-hidden": "true" }, "✘ "), "Rejected by ", spoken(card.rejected), ". It waits until that is taken back."),
      h("ul.people", { "aria-label": "Who has approved" },
        card.approved.map((one) => h("li", { "data-key": one.user }, h("span.sign", { "aria-hidden": "true" }, "✔"), h("span", {}, spoken(one)))),
        Array.from({ length: card.missing }, (_, at) => h("li.open", { "data-key": `missing ${at}` }, h("span.sign", { "aria-hidden": "true" }, "◇"), "somebody"))),
      h("p.quiet", {}, `Wants ${card.wanted}.`, card.expires && [" The first approval expires ", at(card.expires), "."]),
      card.refused.length > 0 && h("ul.refused", { "aria-label": "What does not count" }, card.refused.map((one) => h("li", { "data-key": one }, `Does not count: ${one}`))),
      h("p", { class: can ? "may" : "may-not" }, h("span", { "aria-hidden": "true" }, can ? "✔ " : "✘ "),
        can ? `You may approve it${card.viewer ? ` as ${card.viewer}` : ""}.` : card.mayNot),
      h("div.verbs", {}, buttons(card.verbs)));
  }));
}

const spoken = (one) => [h("b", {}, one.user), one.reason && `: “${one.reason}”`, " ", h("span.quiet", {}, at(one.at))];

function column(stage, index, head) {
  const share = stage.cells ? Math.round((stage.doneCells / stage.cells) * 100) : 0;
  const state = stage.done ? "over" : stage.begun ? "under way" : "ahead";
  const cells = h("div", { "data-cells": stage.name, "data-own": "" });
  return h("section.stage", { class: stage.done ? "is-done" : stage.begun ? "is-on" : "is-ahead", "data-key": stage.name, "aria-label": `Stage ${index + 1} of ${head.stages.length}, ${stage.name}, ${state}` },
    h("header", {},
      h("h3", {}, h("span.n", {}, index + 1), stage.name),
      h("span.tally", {}, `${stage.doneCells}/${stage.cells}`)),
    h("div.meter", { role: "progressbar", "aria-label": `${stage.name} done`, "aria-valuenow": share, "aria-valuemin": 0, "aria-valuemax": 100 }, h("span", { style: { width: `${share}%` } })),
    stage.cells ? cells : h("p.quiet", {}, "No cluster matches; the stage is skipped."),
    h("footer", {}, stage.atOnce && stage.cells > 1 ? `${stage.atOnce} at a time` : "", stage.start && [stage.atOnce && stage.cells > 1 ? " · " : "", stage.end || stage.updated ? ["took ", ago(stage.start, { end: stage.updated || stage.end })] : ["for ", ago(stage.start)]]));
}

/** Wider columns for larger stages, none too narrow to read. */
function columns(stages) {
  return stages.map((stage) => `minmax(180px, ${Math.max(8, Math.round(Math.sqrt(stage.cells)))}fr)`).join(" ");
}

function legend() {
  return h("p.legend", { "aria-label": "Signs" }, [["done", "✔", "done"], ["updating", "◐", "updating"], ["stuck", "!", "stuck"], ["failed", "✘", "failed"], ["skipped", "⊘", "skipped"], ["queued", "·", "not begun"], ["taken", "⇢", "follows another run"]].map(([kind, glyph, word]) =>
    h("span", {}, h("i.chip", { class: `c-${kind}`, "aria-hidden": "true" }, glyph), word)), h("span", {}, h("i.chip.silent.c-queued", { "aria-hidden": "true" }), "silent"));
}

function log(head) {
  if (!head.log?.length) return null;
  return h("section.log", { "aria-label": "What happened", "data-key": "log" }, h("h2", {}, "What happened"),
    h("ol", {}, head.log.map((line) => h("li", { "data-key": `${line.at}${line.what}` }, at(line.at), h("span", {}, line.what), line.via && h("span.via", {}, `with ${line.via}`)))),
    h("p.same", {}, h("span", {}, "Same in a terminal"), command(`flagship watch ${head.namespace ? `-n ${head.namespace} ` : ""}${head.name}`)));
}

export { count };
