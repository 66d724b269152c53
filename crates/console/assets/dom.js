// The one library of this page: elements from values, and old elements made like new ones.
// Text is always a text node, so a name that looks like markup stays a name.

/** Makes an element: h("div.row", {title: "x", onclick: f}, "text", child). */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const svg = name === "svg" || name === "path" || name === "circle";
  const el = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  if (classes.length) el.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      el[key] = value;
      (el.handlers ||= {})[key] = value;
    } else if (key === "style") {
      // The policy of this page forbids style attributes; properties it allows.
      for (const [property, text] of Object.entries(value)) el.style.setProperty(property, text);
    } else if (key === "class") {
      el.setAttribute("class", [...classes, value].filter(Boolean).join(" "));
    } else {
      el.setAttribute(key, value === true ? "" : String(value));
    }
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) add(el, child);
    else el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Makes the children of `el` like `children`, and keeps what is alike: focus, scroll, selection. */
export function show(el, ...children) {
  const next = document.createElement("div");
  add(next, children);
  children_like(el, next);
}

function children_like(old, next) {
  const kept = new Map();
  for (const child of old.childNodes) {
    const key = child.nodeType === 1 && child.getAttribute("data-key");
    if (key) kept.set(key, child);
  }
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = wanted.nodeType === 1 && wanted.getAttribute("data-key");
    let found = key ? kept.get(key) : at;
    if (found && alike(found, wanted)) {
      if (found === at) at = at.nextSibling;
      else old.insertBefore(found, at);
      like(found, wanted);
    } else {
      old.insertBefore(wanted, at);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function alike(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) return false;
  return old.nodeType !== 1 || old.getAttribute("data-key") === next.getAttribute("data-key");
}

function like(old, next) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  // Somebody else draws in here.
  if (old.hasAttribute("data-own")) return;
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && !next.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style && old.style.cssText !== next.style.cssText) old.style.cssText = next.style.cssText;
  for (const key of Object.keys(old.handlers || {})) if (!next.handlers?.[key]) old[key] = null;
  for (const [key, handler] of Object.entries(next.handlers || {})) old[key] = handler;
  old.handlers = next.handlers;
  children_like(old, next);
}

let offset = 0;

/** Takes the server's time for the time. */
export function set_clock(at) {
  offset = at - Date.now();
}

export function now() {
  return Date.now() + offset;
}

/** 42s, 5m12s, 3h04m, 2d03h. */
export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two(Math.floor(s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d${two(Math.floor(s / 3600) % 24)}h`;
}

const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
const short = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** An instant, absolute on hover. */
export function at(ms) {
  if (!ms) return "";
  const day = 86400000;
  const text = Math.abs(now() - ms) < day / 2 ? short.format(ms) : dated.format(ms);
  return h("time", { datetime: new Date(ms).toISOString(), title: absolute.format(ms) }, text);
}

/** How long ago, counting on; absolute on hover. `until` counts down. */
export function ago(ms, { until = false, end = null } = {}) {
  if (!ms) return "";
  const text = end ? span(end - ms) : span(until ? ms - now() : now() - ms);
  const props = { datetime: new Date(ms).toISOString(), title: absolute.format(ms) };
  if (!end) props[until ? "data-until" : "data-since"] = ms;
  return h("time", props, text);
}

setInterval(() => {
  for (const el of document.querySelectorAll("time[data-since]")) el.textContent = span(now() - el.dataset.since);
  for (const el of document.querySelectorAll("time[data-until]")) el.textContent = span(el.dataset.until - now());
}, 1000);

/** A command with a button that copies it. */
export function command(text) {
  return h("span.command", {}, h("code", {}, text), h("button.copy", {
    type: "button", title: "Copy", "aria-label": `Copy: ${text}`,
    onclick: async (event) => {
      event.stopPropagation();
      event.preventDefault();
      const button = event.currentTarget;
      let said = "Copied";
      try { await navigator.clipboard.writeText(text); } catch { said = "Select it and copy by hand"; }
      say(said);
      button.classList.add("done");
      setTimeout(() => button.classList.remove("done"), 1200);
    },
  }, copy_icon()));
}

function copy_icon() {
  const svg = h("svg", { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" });
  svg.append(h("path", { d: "M5.5 5.5v-3h8v8h-3m-8-5h8v8h-8z", fill: "none", stroke: "currentColor", "stroke-width": 1.3 }));
  return svg;
}

let said_timer;

/** Says something at the foot of the page, for a while; screen readers hear it. */
export function say(text, bad = false) {
  const el = document.getElementById("said");
  el.textContent = text;
  el.className = bad ? "said bad shown" : "said shown";
  clearTimeout(said_timer);
  said_timer = setTimeout(() => { el.className = "said"; }, bad ? 8000 : 3000);
}

export const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

const enc = encodeURIComponent;
export const link = {
  run: (key, extra = "") => `#/run/${key.namespace ? `${enc(key.namespace)}/` : ""}${enc(key.name)}${extra}`,
  placement: (key) => `#/placements/${key.namespace ? `${enc(key.namespace)}/` : ""}${enc(key.name)}`,
  plan: (key) => `#/plan/${key.namespace ? `${enc(key.namespace)}/` : ""}${enc(key.name)}`,
  cluster: (name) => `#/fleet?cluster=${enc(name)}`,
};

export const full_name = (key) => (key.namespace ? `${key.namespace}/${key.name}` : key.name);

export const WORDS = {
  pending: "Pending", initialized: "Not started", running: "Running", waiting: "Waiting", stuck: "Stuck",
  stopping: "Stopping", stopped: "Stopped", frozen: "Frozen", closed: "Closed", policiesChanged: "Policies changed", succeeded: "Succeeded", failed: "Failed",
};
const GLYPHS = {
  pending: "·", initialized: "·", running: "◐", waiting: "◇", stuck: "✘", stopping: "◐", stopped: "■", frozen: "❄", closed: "◷", policiesChanged: "✘", succeeded: "✔", failed: "✘",
};

/** The state of a run, as a word and a sign. */
export function phase(name) {
  return h("span.phase", { class: `p-${name}` }, h("span", { "aria-hidden": "true" }, GLYPHS[name] || "·"), WORDS[name] || name);
}
