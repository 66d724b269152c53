// Clusters by placements: which version is where; who lags, fails or was changed by hand.

import { h, show, ago, full_name, link, count } from "./dom.js";

const STANDS = [
  ["current", "✔", "current"], ["behind", "↓", "behind"], ["updating", "◐", "updating"],
  ["failed", "✘", "failed"], ["drifted", "≠", "changed on the cluster"], ["scheduled", "·", "nothing rolled out"],
];
const MOST = 400;

export const query = () => "view=fleet";
export const title = () => "Fleet · Flagship";

export function draw(root, model, changed, route, go) {
  const { placements = [], loading } = model.head;
  const { filter = "", show: only = "", cluster = "" } = route.params;
  const lines = model.keys.map((name, at) => ({ name, ...model.rows[at] }));
  const wrong = (line) => line.silent || line.joined === false || line.has.some((cell) => cell && cell[1] > 0 && cell[1] < 5);
  const words = filter.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const fits = (line) => words.every((word) => line.name.toLowerCase().includes(word) || line.labels.toLowerCase().includes(word) || (line.taints || []).some((taint) => taint.toLowerCase().includes(word)));
  const by = { "": () => true, trouble: wrong, silent: (line) => !!line.silent, tainted: (line) => !!line.taints };
  const chosen = lines.filter((line) => fits(line) && (by[only] || by[""])(line));
  const set = (params) => go({ ...route, params: { ...route.params, ...params } }, true);
  const tabs = [["", "All", lines.length], ["trouble", "Not as it should be", lines.filter(wrong).length], ["silent", "Silent", lines.filter((line) => line.silent).length], ["tainted", "Tainted", lines.filter((line) => line.taints).length]];
  show(root, h("div.fleet", {},
    h("h1", {}, "Fleet"),
    h("div.tools", {},
      h("input", { type: "search", placeholder: "Filter by name or label, such as region=eu", "aria-label": "Filter by name or label", value: filter, oninput: (event) => set({ filter: event.target.value }) }),
      h("div.tabs", { role: "group", "aria-label": "Show" }, tabs.map(([id, name, n]) => h("button", { type: "button", "data-key": id || "all", "aria-pressed": String(only === id), onclick: () => set({ show: id }) }, name, h("span.count", {}, n))))),
    !lines.length ? h("p.quiet", {}, loading ? "Reading the hub…" : "No cluster has joined the fleet.")
      : !chosen.length ? h("p.quiet", {}, only === "trouble" ? "Every cluster is as it should be." : "No cluster matches.")
        : h("div.scroll", { tabindex: 0, role: "region", "aria-label": "Clusters by placements" }, h("table.matrix", {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Cluster"), placements.map((key) => h("th", { scope: "col" }, h("a", { href: link.placement(key) }, full_name(key)), h("span.newest", {}, key.newest === null ? "" : `newest ${key.newest}`))), h("th", { scope: "col" }, "Labels"))),
          h("tbody", {}, chosen.slice(0, MOST).map((line) => row(line, placements, cluster, set))))),
    chosen.length > MOST && h("p.quiet", {}, `The first ${MOST} of ${count(chosen.length, "cluster")}; filter to see others.`),
    h("p.legend", { "aria-label": "Signs" }, STANDS.map(([kind, glyph, word]) => h("span", {}, h("i.chip", { class: `m-${kind}`, "aria-hidden": "true" }, glyph), word)))));
}

function row(line, placements, selected, set) {
  const open = () => set({ cluster: line.name });
  return h("tr", { "data-key": line.name, class: line.name === selected ? "selected" : "" },
    h("th", { scope: "row" }, h("button.cluster", { type: "button", "data-item": "", onclick: open }, line.name),
      line.silent && h("span.flag.bad", {}, "silent ", ago(line.silent)), line.joined === false && h("span.flag.bad", {}, "not joined"),
      line.leaving && h("span.flag", {}, "leaving"), line.taints && h("span.flag", { title: line.taints.join(", ") }, "tainted")),
    placements.map((key, at) => {
      const cell = line.has[at];
      if (!cell) return h("td", {}, h("span.none", {}, h("span", { "aria-hidden": "true" }, "–"), h("span.told-only", {}, "not placed here")));
      const [kind, glyph, word] = STANDS[cell[1]];
      return h("td", {}, h("span.stand", { class: `m-${kind}`, title: `${full_name(key)} on ${line.name}: ${cell[0] ? `snapshot ${cell[0]}, ` : ""}${word}` },
        h("span", { "aria-hidden": "true" }, glyph), cell[0] || "", h("span.told-only", {}, word)));
    }),
    h("td.labels", {}, line.labels));
}
