// Where the page is, what it follows, and the keys.

import { h, show, say, link, full_name } from "./dom.js";
import { follow, fetch_view } from "./stream.js";
import { drawer } from "./drawer.js";
import { confirm } from "./card.js";
import * as home from "./home.js";
import * as board from "./board.js";
import * as fleet from "./fleet.js";
import * as placements from "./placements.js";
import * as plan from "./plan.js";

const PAGES = { "": home, run: board, fleet, placements, plan };
const NAV = [["", "Home", "g h"], ["fleet", "Fleet", "g f"], ["placements", "Placements", "g p"]];
const main = document.getElementById("main");

// The key has become a cookie; it has no business in the address, the history or a screenshot.
if (new URLSearchParams(location.search).has("key")) history.replaceState(null, "", location.pathname + location.hash);

/** #/run/NAMESPACE/NAME?cluster=X as a value. */
function read(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...parts] = path.split("/").filter(Boolean).map(decode);
  const name = parts.pop() || "";
  return { page: page in PAGES ? page : "", name, namespace: parts.pop() || null, params: Object.fromEntries(new URLSearchParams(search)) };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function written({ page, name, namespace, params }) {
  const path = [page, namespace, name].filter(Boolean).map(encodeURIComponent).join("/");
  const kept = Object.entries(params).filter(([, value]) => value);
  return `#/${path}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
}

function go(route, quietly = false) {
  const hash = written(route);
  if (quietly) {
    history.replaceState(null, "", hash);
    routed();
  } else location.hash = hash;
}

let route = null, stop = () => {}, query = "", model = null;

function routed() {
  const next = read(location.hash);
  const page = PAGES[next.page];
  const wanted = page.query(next);
  const moved = !route || route.page !== next.page || route.name !== next.name || route.namespace !== next.namespace;
  if (moved && route) PAGES[route.page].leave?.();
  route = next;
  show(document.getElementById("nav"), NAV.map(([id, name]) => h("a", { href: id ? `#/${id}` : "#/", "aria-current": (id === route.page || (id === "placements" && route.page === "plan")) ? "page" : null }, name)));
  if (moved) {
    main.replaceChildren(h("p.quiet", {}, "Loading…"));
    scrollTo(0, 0);
  }
  if (moved || wanted !== query) {
    stop();
    query = wanted;
    model = null;
    stop = follow(wanted, (fresh, changed, head) => { model = fresh; drawn(changed, head); }, told);
  } else if (model) drawn(null, true);
  drawer(route.params.cluster || "", () => go({ ...route, params: { ...route.params, cluster: "" } }));
}

function drawn(changed, head) {
  const page = PAGES[route.page];
  page.draw(main, model, changed, route, go, head);
  if (!head) return;
  document.title = page.title(model, route);
  notice(model.head);
}

function notice({ gaps = [], loading }) {
  const blind = gaps.filter((gap) => gap.why && !gap.stale), stale = gaps.filter((gap) => gap.stale);
  const el = document.getElementById("notice");
  if (stale.length) show(el, h("p.notice.bad", {}, "The hub does not answer; what you see may be old. ", h("span.quiet", {}, stale[0].why)));
  else if (blind.length) show(el, h("p.notice", {}, `You cannot see ${blind.map((gap) => gap.resource).join(", ")}. `, h("span.quiet", {}, blind[0].why)));
  else show(el);
  main.setAttribute("aria-busy", String(!!loading));
}

// Where several people have a console, it says who this is.
let user = "";
async function who() {
  try {
    const me = await (await fetch("/api/me")).json();
    user = me.user;
    if (!user) return;
    const el = document.getElementById("me");
    el.hidden = false;
    show(el, h("span", { title: me.readOnly ? `${user}: ${me.readOnly}` : user }, user), h("button", { type: "button", onclick: async () => {
      await fetch("/api/sign-out", { method: "POST", headers: { "x-flagship-verb": "1" } });
      location.replace("/");
    } }, "Sign out"));
  } catch { /* nobody, or away */ }
}
who();

let state = "";
function told(next) {
  if (next === state) return;
  state = next;
  const words = { live: ["Live", "Changes are shown as they happen"], lost: ["Reconnecting…", "The connection was lost; what you see may be old"], locked: ["Locked", user ? "Sign in again" : "Open the link that the console printed"] };
  const [text, title] = words[next];
  show(document.getElementById("link"), h("span", { class: `l-${next}`, title }, h("i", { "aria-hidden": "true" }), text));
  if (next === "locked") show(document.getElementById("notice"), user ? h("p.notice.bad", {}, "Your sign-in has ended. ", h("a", { href: "/" }, "Sign in again")) : h("p.notice.bad", {}, "This console has another key now. Open the link that `flagship up` or `flagship console` printed."));
}

addEventListener("hashchange", routed);
routed();

// Search: names of runs, clusters and placements.
const search = document.getElementById("search"), found = document.getElementById("found");
let names = [], chosen = 0, hits = [];
search.onfocus = async () => {
  try {
    const [clusters, placed] = await Promise.all([fetch_view("view=fleet"), fetch_view("view=placements")]);
    names = [
      ...placed.rows.flatMap((line) => line.runs.map((run) => ["run", { namespace: line.namespace, name: run.name }, link.run({ namespace: line.namespace, name: run.name })])),
      ...placed.rows.map((line) => ["placement", line, link.placement(line)]),
      ...clusters.keys.map((name) => ["cluster", { name }, link.cluster(name)]),
    ];
    suggest();
  } catch { names = []; }
};
search.oninput = () => { chosen = 0; suggest(); };
search.onblur = () => setTimeout(() => { found.hidden = true; search.setAttribute("aria-expanded", "false"); }, 150);
search.onkeydown = (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    chosen = Math.max(0, Math.min(hits.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
    suggest();
    event.preventDefault();
  } else if (event.key === "Enter" && hits[chosen]) {
    location.hash = hits[chosen][2];
    search.value = "";
    search.blur();
  } else if (event.key === "Escape") {
    search.value = "";
    search.blur();
  }
};

function suggest() {
  const text = search.value.trim().toLowerCase();
  hits = text ? names.filter(([, key]) => full_name(key).toLowerCase().includes(text)).slice(0, 10) : [];
  found.hidden = !text;
  search.setAttribute("aria-expanded", String(!!text));
  search.setAttribute("aria-activedescendant", hits.length ? `hit-${chosen}` : "");
  show(found, hits.length ? hits.map(([kind, key, href], at) => h("li", { id: `hit-${at}`, role: "option", "aria-selected": String(at === chosen), onmousedown: () => { location.hash = href; search.value = ""; } }, h("span.kind", {}, kind), full_name(key)))
    : h("li.quiet", { role: "option", "aria-disabled": "true" }, "Nothing has such a name"));
}

// Keys.
const KEYS = [
  ["/", "find a run, cluster or placement"], ["j  k", "next, previous"], ["enter", "open"], ["a", "approve what the run waits for"],
  ["s", "stop or resume the run"], ["r", "roll back"], ["g h  g f  g p", "home, fleet, placements"], ["esc", "close"], ["?", "these keys"],
];
let went = 0;
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName || "");
  if (typing) return;
  if (event.key === "Escape" && route.params.cluster) return go({ ...route, params: { ...route.params, cluster: "" } });
  if (Date.now() - went < 1000) {
    const to = { h: "#/", f: "#/fleet", p: "#/placements" }[event.key];
    went = 0;
    if (to) { location.hash = to; return; }
  }
  const verb = (names) => route.page === "run" && board.verbs.find((verb) => names.includes(verb.act.verb));
  const open = (names, none) => { const found = verb(names); if (found) confirm(found); else say(none); };
  const keys = {
    "/": () => search.focus(), j: () => step(1), k: () => step(-1), g: () => { went = Date.now(); }, "?": help,
    a: () => open(["approve"], "Nothing waits for an approval here."),
    s: () => open(["stop", "resume"], "There is no run here to stop or resume."),
    r: () => open(["rollback"], "There is no run here to roll back."),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

function step(by) {
  const items = [...main.querySelectorAll("[data-item]")];
  const at = items.indexOf(document.activeElement);
  const next = items[at < 0 ? (by > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function help() {
  const dialog = h("dialog.card", { "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keys"),
    h("dl.keys", {}, KEYS.map(([key, what]) => [h("dt", {}, key.split("  ").map((one) => h("kbd", {}, one))), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("div.buttons", {}, h("button.quiet", { type: "submit" }, "Close"))));
  dialog.onclose = () => dialog.remove();
  document.getElementById("card").replaceChildren(dialog);
  dialog.showModal();
}
