// One cluster beside whatever is on the page: how the hub knows it, what is on it, what is wrong.

import { h, show, ago, at, link, full_name } from "./dom.js";
import { follow, fetch_view } from "./stream.js";
import { why } from "./why.js";

let shown = "", timer = 0;
const EVERY = 3000;

/** Shows a cluster; an empty name closes the drawer. */
export function drawer(name, close) {
  const root = document.getElementById("drawer");
  if (!name) {
    clearTimeout(timer);
    if (shown) show(root);
    shown = "";
    return;
  }
  if (shown === name) return;
  const fresh = !shown;
  shown = name;
  clearTimeout(timer);
  show(root, frame(name, close, [h("p.quiet", {}, "Looking…")]));
  if (fresh) root.querySelector("h2")?.focus();
  const look = async () => {
    try {
      const model = await fetch_view(`view=cluster&name=${encodeURIComponent(name)}`);
      if (shown === name) show(root, frame(name, close, inside(model.head)));
    } catch (error) {
      if (shown === name) show(root, frame(name, close, [h("p.missing", {}, error.message || "The console does not answer.")]));
    }
    if (shown === name) timer = setTimeout(look, EVERY);
  };
  look();
}

function frame(name, close, children) {
  return h("aside.drawer", { "aria-label": `Cluster ${name}` },
    h("header", {}, h("h2", { tabindex: -1 }, name), h("button.close", { type: "button", "aria-label": "Close", onclick: close }, "✕")),
    h("div.body", {}, children));
}

function inside(head) {
  if (head.missing) return [head.loading ? h("p.quiet", {}, "Reading the hub…") : why(head.finding, { about: head.name })];
  return [
    head.finding.state === "done" ? h("p.fine", {}, h("span", { "aria-hidden": "true" }, "✔ "), head.finding.headline) : why(head.finding, { about: head.name }),
    h("section", {}, h("h3", {}, "Member"),
      h("dl.facts", {},
        fact("Heartbeat", head.heard ? [ago(head.heard), ` ago, every ${head.period}s`, head.silent && h("b.bad", {}, " silent")] : "never"),
        fact("Joined", head.joined ? [head.joined.status, h("span.quiet", {}, ` ${head.joined.reason}`)] : "no"),
        head.leaving && fact("Leaving", "it is being removed from the fleet"),
        fact("Taints", head.taints.length ? head.taints.join(", ") : "none"))),
    Object.keys(head.labels).length > 0 && h("section", {}, h("h3", {}, "Labels"), h("ul.tags", {}, Object.entries(head.labels).map(([key, value]) => h("li", {}, key, "=", h("b", {}, value))))),
    h("section", {}, h("h3", {}, "Placements"), head.placements.length ? head.placements.map(placement) : h("p.quiet", {}, "Nothing is placed here.")),
    head.member && h("section", {}, h("h3", {}, "On the cluster"), on_member(head.member)),
    (head.properties.length > 0 || head.capacity.length > 0) && h("section", {}, h("h3", {}, "Properties"),
      h("dl.facts", {}, head.properties.map(([name, value]) => fact(name.split("/").pop(), value)),
        head.capacity.map((line) => fact(line.name, line.free ? `${line.free} free of ${line.all}` : line.all)))),
  ];
}

function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

function placement(line) {
  const sign = { True: "✔", False: "✘", Unknown: "◐" };
  return h("div.placed", { "data-key": full_name(line) },
    h("h4", {}, h("a", { href: link.placement(line) }, full_name(line)), h("span.version", {}, line.version === null ? "nothing rolled out" : `snapshot ${line.version}`)),
    h("ul.conditions", {}, line.conditions.map((found) => h("li", { class: `k-${found.status}`, title: found.message },
      h("span", { "aria-hidden": "true" }, sign[found.status] || "·"), h("span", {}, found.type), h("span.quiet", {}, found.reason)))),
    line.failed.map((object) => h("div.object", {}, h("b", {}, `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`),
      h("span", {}, `${object.condition.type}=${object.condition.status} ${object.condition.reason}`), h("p", {}, object.condition.message))),
    line.drifted.map((object) => h("div.object", {}, h("b", {}, `${object.kind} ${object.namespace ? `${object.namespace}/` : ""}${object.name}`), h("span", {}, "was changed on the cluster"),
      h("ul.fields", {}, object.fields.map((field) => h("li", {}, h("code", {}, field.path), " hub ", h("b", {}, field.hub || "nothing"), ", cluster ", h("b", {}, field.member || "nothing")))))));
}

function on_member(member) {
  if (member.blind) return h("p.quiet", {}, `Cannot look there: ${member.blind}`);
  const { object, pods, events } = member;
  return [
    object && h("p", {}, h("b", {}, `${object.kind} ${object.name}`), object.wanted !== null && `, ${object.ready ?? 0} of ${object.wanted} ready`),
    pods.length > 0 && h("ul.pods", {}, pods.map((pod) => h("li", { "data-key": pod.name }, h("b", {}, pod.name), h("span", {}, pod.reason || pod.phase), pod.message && h("p", {}, pod.message)))),
    events.length > 0 && h("ul.events", {}, events.map((event) => h("li", {}, at(event.at), h("b", {}, event.reason), event.count > 1 && h("span.quiet", {}, ` ×${event.count}`), h("p", {}, event.message)))),
  ];
}

export { follow };
