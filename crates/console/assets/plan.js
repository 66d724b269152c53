// What a run of a placement would do, before there is one, and the button that starts it.

import { h, show, full_name, link, command, count } from "./dom.js";
import { why } from "./why.js";
import { buttons } from "./card.js";

export const query = () => "view=placements";
export const title = (model, route) => `Plan ${route?.name || ""} · Flagship`;

let asked = "", plan = null, error = "", again = 0;

export function leave() {
  asked = "";
  plan = null;
  error = "";
}

export function draw(root, model, changed, route, go) {
  const key = full_name(route);
  const line = model.rows.find((line) => full_name(line) === key);
  const strategy = route.params.strategy || line?.strategy || "";
  const id = `${key}|${strategy}|${JSON.stringify(line?.runs?.map((run) => run.phase) || [])}`;
  if (line && asked !== id) {
    asked = id;
    ask(route, strategy, id, () => draw(root, model, null, route, go));
  }
  show(root, h("div.plan", {},
    h("p.crumbs", {}, h("a", { href: link.placement(route) }, key)),
    h("h1", {}, `Plan a run of ${key}`),
    !line && h("p.quiet", {}, model.head.loading ? "Reading the hub…" : `There is no placement ${key}.`),
    line && h("div.tools", {}, h("label", {}, "Strategy ",
      h("select", { onchange: (event) => go({ ...route, params: { strategy: event.target.value } }, true) },
        line.strategies.map((name) => h("option", { value: name, selected: name === strategy }, name)))),
    !line.strategies.length && h("p.missing", {}, "There is no update strategy yet; create one first.")),
    error && h("p.missing", { role: "alert" }, error),
    line && !plan && !error && h("p.quiet", {}, "Asking the rules what would happen…"),
    plan?.refused && why(plan.refused),
    plan?.stages && planned(plan, line, route)));
}

async function ask(route, strategy, id, redraw) {
  const mine = ++again;
  const query = new URLSearchParams({ placement: route.name, namespace: route.namespace || "", strategy });
  let next = null, wrong = "";
  try {
    const answer = await fetch(`/api/plan?${query}`);
    const told = await answer.json();
    if (answer.ok) next = told; else wrong = told.error;
  } catch {
    wrong = "The console does not answer.";
  }
  if (mine !== again || asked !== id) return;
  plan = next;
  error = wrong;
  redraw();
}

function planned(plan, line, route) {
  const verb = {
    label: "Start this run", act: plan.act, command: plan.command, missing: line.missing,
    effect: `Starts a run of ${full_name(route)} with strategy ${plan.strategy}: ${count(plan.clusters, "cluster")} in ${count(plan.stages.length, "stage")}, ${count(plan.approvals, "approval")} on the way.`,
  };
  const gates = (stage) => stage.gates.map((gate) => (gate.approval ? `approval ${gate.side}` : `wait ${gate.wait} ${gate.side}`)).join(", ");
  return [
    h("dl.figures", {}, [["Clusters", plan.clusters], ["Stages", plan.stages.length], ["Approvals", plan.approvals]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    plan.passed.map((note) => h("p.missing", {}, note.message)),
    h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Stages" }, h("table.stages-table", {},
      h("thead", {}, h("tr", {}, ["Stage", "Clusters", "At once", "Gates"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, plan.stages.map((stage, at) => h("tr", { "data-key": stage.name },
        h("th", { scope: "row" }, h("span.n", {}, at + 1), stage.name), h("td", {}, names(stage.cells)), h("td.num", {}, plan.atOnce[at]), h("td", {}, gates(stage) || h("span.quiet", {}, "none"))))))),
    h("div.verbs", {}, buttons([verb], (said) => {
      const made = /^(\S+) created/.exec(said);
      if (made) location.hash = link.run({ namespace: route.namespace, name: made[1].split("/").pop() });
    })),
    h("p.same", {}, h("span", {}, "Same in a terminal"), command(`flagship plan ${route.namespace ? `-n ${route.namespace} ` : ""}${route.name}`)),
  ];
}

function names(cells) {
  if (!cells.length) return h("span.quiet", {}, "none, skipped");
  const some = cells.slice(0, 12).map((cell) => cell.cluster).join(", ");
  return cells.length > 12 ? `${some} and ${cells.length - 12} more` : some;
}
