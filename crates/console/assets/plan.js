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
  const { effect } = plan;
  const verb = {
    label: "Start this run", act: plan.act, command: plan.command, missing: line.missing,
    effect: `Starts a run of ${full_name(route)} with strategy ${plan.strategy}: ${count(plan.clusters, "cluster")} in ${count(plan.stages.length, "stage")}, ${count(plan.approvals, "approval")} on the way.`,
  };
  const gates = (stage) => stage.gates.map((gate) => (gate.approval ? `approval ${gate.side}` : `wait ${gate.wait} ${gate.side}`)).join(", ");
  return [
    h("dl.figures", {}, [["Clusters", plan.clusters], ["Stages", plan.stages.length], ["Approvals", plan.approvals], ["Pods that restart", effect.pods]].map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    warnings(plan),
    section("What changes", told(effect), changes(effect)),
    (effect.overrides.length > 0 || effect.overridesUnread) && section("What overrides make of it", effect.overridesUnread ? "You may not read all of them." : "", overrides(effect.overrides)),
    section("Where", where(effect), h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Stages" }, h("table.stages-table", {},
      h("thead", {}, h("tr", {}, ["Stage", "Clusters", "At once", "Gates"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, plan.stages.map((stage, at) => h("tr", { "data-key": stage.name },
        h("th", { scope: "row" }, h("span.n", {}, at + 1), stage.name), h("td", { "data-name": "Clusters" }, names(stage.cells.map((cell) => cell.cluster))), h("td.num", { "data-name": "At once" }, plan.atOnce[at]), h("td", { "data-name": "Gates" }, gates(stage) || h("span.quiet", {}, "none")))))))),
    plan.calendar.length > 0 && section("When clusters may begin", "In the week to come, in this browser's time.", calendar(plan.calendar)),
    h("div.verbs", {}, buttons([verb], (said) => {
      const made = /^(\S+) created/.exec(said);
      if (made) location.hash = link.run({ namespace: route.namespace, name: made[1].split("/").pop() });
    })),
    h("p.same", {}, h("span", {}, "Same in a terminal"), command(`flagship plan ${route.namespace ? `-n ${route.namespace} ` : ""}${route.name}`)),
  ];
}

export function section(name, said, inside) {
  return h("section.changes", { "aria-label": name, "data-key": name }, h("header", {}, h("h2", {}, name), said && h("p.quiet", {}, said)), inside);
}

/** What is in the way, or may be. */
function warnings({ passed, frozen, policies, open, effect }) {
  const kind = ({ kind, group }) => `kind ${kind} of ${group}`;
  const notes = [
    ...policies,
    ...passed.map((note) => note.message),
    ...frozen,
    ...open.map((run) => `${run} has not ended; both would roll out this placement`),
    ...effect.unstaged.map((group) => `No stage takes ${count(group.clusters.length, "cluster")}, ${names(group.clusters)}: ${group.because}`),
    ...effect.missingKinds.filter((one) => one.unknown).map((one) => `Unknown whether ${count(one.unknown, "cluster serves", "clusters serve")} ${kind(one)}: nothing of it was applied there yet`),
  ];
  const fails = effect.missingKinds.filter((one) => one.lacking.length).map((one) => `Would fail on ${count(one.lacking.length, "cluster")}, ${names(one.lacking)}: no ${kind(one)}`);
  return [fails.map((text) => h("p.missing.fails", {}, text)), notes.map((text) => h("p.missing", {}, text))];
}

const HOUR = 3600e3, DAY = 24 * HOUR;

/** The week to come, one line for clusters that share their windows. */
function calendar(all) {
  const from = new Date().setHours(0, 0, 0, 0), days = Array.from({ length: 8 }, (_, at) => new Date(from).setDate(new Date(from).getDate() + at));
  const part = (at) => `${(Math.min(Math.max((at - from) / (8 * DAY), 0), 1) * 100).toFixed(2)}%`;
  const day = (at) => [new Date(at).toLocaleDateString([], { weekday: "short" }), h("span.n", {}, ` ${new Date(at).getDate()}`)];
  const moment = (at) => new Date(at).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const next = ([begin, end]) => (begin <= Date.now() + 60e3 ? `Open now, until ${moment(end)}` : `Next: ${moment(begin)} to ${moment(end)}`);
  return h("div.calendar", {},
    h("div.days", { "aria-hidden": "true" }, days.map((at) => h("span", { style: { left: part(at) } }, day(at)))),
    h("ul", {}, all.map((line) => {
      const spans = line.openings.map((span) => [Date.parse(span.from), Date.parse(span.until)]);
      const said = spans.length ? spans.map(([begin, end]) => `${moment(begin)} to ${moment(end)}`).join(", ") : "never in the week to come";
      return h("li", { "data-key": `${line.stage} ${line.clusters.join(" ")}` },
        h("p", {}, h("b", {}, line.stage), h("span.quiet", {}, names(line.clusters))),
        h("div.week", { role: "img", "aria-label": `Open ${said}`, title: said },
          days.map((at) => h("i", { style: { left: part(at) } })),
          spans.map(([begin, end]) => h("span", { style: { left: part(begin), width: `calc(${part(end)} - ${part(begin)})` } }))),
        h("p.quiet", {}, spans.length ? next(spans[0]) : "Closed for the whole week"));
    })));
}

function told(effect) {
  if (!effect.changes) return "Unknown: there is no snapshot yet, or what it selects cannot be read.";
  const against = effect.from === undefined ? "no cluster has a version yet" : `against snapshot ${effect.from}`;
  return `${effect.changes.length ? count(effect.changes.length, "object") : "Nothing"}, ${against}`;
}

function where({ versions, regions = {} }) {
  const now = Object.entries(versions).map(([version, n]) => (version === "none" ? `no version on ${n}` : `snapshot ${version} on ${n}`));
  const at = Object.entries(regions).map(([region, n]) => `${region} ${n}`);
  return [now.length && `Now ${now.join(", ")}`, at.length && `regions ${at.join(", ")}`].filter(Boolean).join(" · ");
}

const SIGNS = { added: "+", removed: "−", changed: "~" };
const FIELDS = 20;

/** What changes on the clusters: objects, fields, and what fails. */
export function changes(effect) {
  const all = effect.changes ?? [];
  if (!all.length) return null;
  return h("ul", {}, all.map((change) => {
    const name = `${change.kind} ${change.namespace ? `${change.namespace}/` : ""}${change.name}`;
    return h("li", { "data-key": name }, h("p.object-name", {}, h("b", {}, h("span.what", { class: `w-${change.what}`, "aria-hidden": "true" }, SIGNS[change.what]), name), h("span.told-only", {}, change.what),
      change.restarts && h("span.quiet", {}, change.pods === undefined ? "restarts its pods" : `restarts ${count(change.pods, "pod")} a cluster`)),
    fields(change.fields),
    (change.immutable ?? []).map((path) => h("p.missing.fails", {}, `${path} cannot be changed: applying it will fail on every cluster`)));
  }));
}

function overrides(all) {
  if (!all.length) return null;
  return h("ul", {}, all.map((one) => h("li", { "data-key": JSON.stringify([one.by, one.object, one.fields, one.dropped, one.fails]) },
    h("p.object-name", {}, h("b", {}, one.by), one.object && h("span.quiet", {}, `on ${one.object}`)),
    fields(one.fields ?? []),
    one.dropped && h("p", {}, "is not delivered"),
    one.fails && h("p.missing.fails", {}, `nothing reaches these clusters: ${one.fails}`),
    one.clusters.length > 0 && h("p.quiet", {}, `on ${count(one.clusters.length, "cluster")}: ${names(one.clusters)}`))));
}

function fields(all) {
  if (!all.length) return null;
  return [h("ul.fields", {}, all.slice(0, FIELDS).map((field) => h("li", { "data-key": field.path },
    h("code", {}, field.path), h("span.values", {}, h("del", {}, field.from ?? "unset"), h("span", { "aria-label": "becomes" }, "→"), h("ins", {}, field.to ?? "unset"))))),
  all.length > FIELDS && h("p.quiet", {}, `and ${count(all.length - FIELDS, "more field")}`)];
}

function names(clusters) {
  if (!clusters.length) return "none, skipped";
  const some = clusters.slice(0, 12).join(", ");
  return clusters.length > 12 ? `${some} and ${clusters.length - 12} more` : some;
}
