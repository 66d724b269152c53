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
    h("dl.figures", {}, [["Clusters", plan.clusters], ["Stages", plan.stages.length], ["Approvals", plan.approvals], ["Pods that restart", plan.effect.pods]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    plan.passed.map((note) => h("p.missing", {}, note.message)),
    plan.open.map((run) => h("p.missing", {}, `${run} has not ended; both would roll out this placement`)),
    changes(plan.effect),
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

/** What would change on the clusters: objects, fields, and what would fail. */
function changes(effect) {
  const against = effect.from === undefined ? "no cluster has a version yet" : `against snapshot ${effect.from}`;
  const signs = { added: "+", removed: "−", changed: "~" };
  const all = effect.changes ?? [];
  const told = effect.changes ? `${all.length ? count(all.length, "object") : "nothing"}, ${against}` : "unknown: there is no snapshot yet, or what it selects cannot be read";
  return h("section.changes", { "aria-label": "What changes" }, h("h2", {}, "What changes"),
    h("p.quiet", {}, told),
    h("ul", {}, all.map((change) => {
      const name = `${change.kind} ${change.namespace ? `${change.namespace}/` : ""}${change.name}`;
      return h("li", { "data-key": name }, h("strong", {}, `${signs[change.what]} ${name}`), h("span.told-only", {}, change.what),
        change.restarts && h("span.quiet", {}, change.pods === undefined ? " restarts its pods" : ` restarts ${count(change.pods, "pod")} a cluster`),
        change.fields.length > 0 && h("ul", {}, change.fields.slice(0, 20).map((field) => h("li", { "data-key": field.path },
          h("code", {}, field.path), ": ", h("del", {}, field.from ?? "unset"), " → ", h("ins", {}, field.to ?? "unset")))),
        change.fields.length > 20 && h("p.quiet", {}, `and ${count(change.fields.length - 20, "more field")}`),
        (change.immutable ?? []).map((path) => h("p.missing", {}, `${path} cannot be changed: applying it will fail on every cluster`)));
    })));
}

function names(cells) {
  if (!cells.length) return h("span.quiet", {}, "none, skipped");
  const some = cells.slice(0, 12).map((cell) => cell.cluster).join(", ");
  return cells.length > 12 ? `${some} and ${cells.length - 12} more` : some;
}
