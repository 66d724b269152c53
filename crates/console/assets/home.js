// The first page: what needs somebody, what moves, what ended of late.

import { h, show, ago, at, command, count, link, full_name, phase } from "./dom.js";

const SORTS = {
  stuck: ["✘", "Stuck"], failed: ["✘", "Failed"], approval: ["◇", "Approval"], silent: ["▨", "Silent"],
  stopped: ["■", "Stopped"], superseded: ["⇢", "Superseded"], notStarted: ["·", "Not started"], trouble: ["✘", "Trouble"],
};

export const query = () => "view=home";
export const title = (model) => (model.head.needs?.length ? `(${model.head.needs.length}) Flagship` : "Flagship");

export function draw(root, model) {
  const { needs = [], moves = [], ended = [], loading, members, placements } = model.head;
  if (loading && !needs.length && !moves.length && !ended.length) {
    show(root, h("p.quiet", {}, "Reading the hub…"));
    return;
  }
  const nothing = !needs.length && !moves.length && !ended.length;
  show(root, h("div.home", {},
    h("h1", {}, "Home"),
    nothing ? empty(model.head) : [
      section("Needs you", needs, "Nothing waits for you.", need),
      section("Moves", moves, "Nothing moves right now.", move),
      section("Ended in the last 24 hours", ended, "Nothing ended.", over),
      model.head.endedMore > 0 && h("p.quiet", {}, `and ${model.head.endedMore} more, under `, h("a", { href: "#/placements" }, "placements")),
    ],
    h("p.foot", {}, `${count(members, "cluster")}, ${count(placements, "placement")}. `, h("kbd", {}, "?"), " shows the keys.")));
}

function section(name, lines, none, line) {
  return h("section", { "data-key": name, "aria-label": name },
    h("h2", {}, name, lines.length > 0 && h("span.count", {}, lines.length)),
    lines.length ? h("ul.lines", {}, lines.map(line)) : h("p.quiet", {}, none));
}

function where(line) {
  if (line.run) return link.run(line.run);
  return line.cluster ? link.cluster(line.cluster) : "#/fleet?show=silent";
}

function item(line, key, ...inside) {
  return h("li", { "data-key": key }, h("a.line", { href: where(line), "data-item": "" }, inside), line.next && command(line.next));
}

function need(line) {
  const [glyph, word] = SORTS[line.sort] || ["·", line.sort];
  return item(line, `${line.sort}/${line.run ? full_name(line.run) : line.cluster}`,
    h("span.sort", { class: `s-${line.sort}` }, h("span", { "aria-hidden": "true" }, glyph), word),
    h("span.what", {}, line.what, line.mayNot && h("span.not", {}, line.mayNot)), h("span.since", {}, line.since ? ["since ", at(line.since)] : ""));
}

function move(line) {
  return item(line, full_name(line.run), phase(line.run.phase),
    h("span.what", {}, line.what), h("span.since", {}, `${line.done}/${line.all}`));
}

function over(line) {
  return item({ ...line, next: "" }, full_name(line.run), phase(line.run.phase),
    h("span.what", {}, line.what), h("span.since", {}, ago(line.since), " ago"));
}

function empty({ members, placements, placement }) {
  const steps = placements ? [
    ["See what a run would do", `flagship plan ${placement}`],
    ["Start one", `flagship run ${placement}`],
    ["Follow it here, or in the terminal", "flagship watch RUN"],
  ] : [
    ["Place resources on clusters, rolled out by runs", "kubectl --context hub apply -f placement.yaml"],
    ["Say in which order clusters are updated", "kubectl --context hub apply -f strategy.yaml"],
    ["Roll it out", "flagship run PLACEMENT"],
  ];
  return h("section.empty", {},
    h("h2", {}, "No rollout yet"),
    h("p", {}, members ? "Nothing needs you, nothing moves. These three commands make a rollout:" : "No cluster has joined yet. Once one has, these three commands make a rollout:"),
    h("ol", {}, steps.map(([what, line]) => h("li", {}, h("span", {}, what), command(line)))),
    !placements && h("p.quiet", {}, "Just looking? ", command("flagship up --demo"), " brings an application, a placement, a strategy and a run that waits for you."));
}
