// Placements: what is placed, which versions are where, and every run there was.

import { h, show, ago, at, full_name, link, phase, count } from "./dom.js";

export const query = () => "view=placements";
export const title = () => "Placements · Flagship";

export function draw(root, model, changed, route) {
  const wanted = route.name ? full_name(route) : "";
  const all = model.rows.filter((line) => !wanted || full_name(line) === wanted);
  show(root, h("div.placements", {},
    wanted ? h("p.crumbs", {}, h("a", { href: "#/placements" }, "Placements")) : null,
    h("h1", {}, wanted || "Placements"),
    !all.length && h("p.quiet", {}, model.head.loading ? "Reading the hub…" : wanted ? `There is no placement ${wanted}.` : "Nothing is placed yet. A ClusterResourcePlacement says which resources go to which clusters."),
    all.map((line) => h("section.placement", { "data-key": full_name(line) },
      h("header", {},
        h("div", {}, wanted ? null : h("h2", {}, h("a", { href: link.placement(line), "data-item": "" }, full_name(line))),
          h("p.quiet", {}, [count(line.objects, "object"), line.rollout === "External" ? "rolled out by runs" : "rolls out by itself"].join(" · "))),
        line.rollout === "External" && h("a.verb", { href: link.plan(line) }, "Plan a run")),
      versions(line.versions),
      line.runs.length ? runs(line) : h("p.quiet", {}, line.rollout === "External" ? "No run has rolled it out yet." : "It has no runs.")))));
}

function versions(found) {
  const all = Object.entries(found || {}).sort(([a], [b]) => b - a);
  if (!all.length) return null;
  const whole = all.reduce((sum, [, n]) => sum + n, 0);
  return h("ul.versions", { "aria-label": "Versions on clusters" }, all.map(([version, n], index) =>
    h("li", { class: index ? "older" : "newest", style: { "flex-grow": n }, title: `snapshot ${version} on ${count(n, "cluster")} of ${whole}` }, h("b", {}, `snapshot ${version}`), ` ${count(n, "cluster")}`)));
}

function runs(line) {
  return h("div.scroll", { tabindex: 0, role: "region", "aria-label": `Runs of ${full_name(line)}` }, h("table.runs", {},
    h("thead", {}, h("tr", {}, ["Run", "State", "Snapshot", "Clusters", "Started", "Took"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, line.runs.map((run) => h("tr", { "data-key": run.name },
      h("th", { scope: "row" }, h("a", { href: link.run({ namespace: line.namespace, name: run.name }), "data-item": "" }, run.name)),
      h("td", {}, phase(run.phase)), h("td.num", {}, run.snapshot || "…"), h("td.num", {}, `${run.done}/${run.all}`),
      h("td", {}, at(run.created)), h("td.num", {}, ago(run.created, { end: run.ended })))))),
  line.runsInAll > line.runs.length && h("p.quiet", {}, `and ${line.runsInAll - line.runs.length} older runs`));
}
