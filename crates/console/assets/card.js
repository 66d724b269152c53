// The card before a verb: what exactly will happen, and the command that does the same.

import { h, show, say, command } from "./dom.js";

let before = null;

/** Opens the card of a verb. */
export function confirm(verb, done = () => {}) {
  const dialog = document.createElement("dialog");
  dialog.className = "card";
  dialog.setAttribute("aria-labelledby", "card-title");
  const root = document.getElementById("card");
  before = document.activeElement;
  let busy = false, error = "", reason = "";
  const lacks = () => verb.reason === "required" && !reason.trim();
  const act = () => (reason.trim() ? { ...verb.act, reason: reason.trim() } : verb.act);
  const text = () => (reason.trim() ? `${verb.command} '--reason=${reason.trim().replaceAll("'", "'\\''")}'` : verb.command);
  const draw = () => show(dialog, h("form", { method: "dialog", onsubmit: go },
    h("h2", { id: "card-title" }, verb.label),
    h("p.effect", {}, verb.effect),
    verb.missing && h("p.missing", {}, h("span", { "aria-hidden": "true" }, "✘ "), verb.missing),
    verb.reason && !verb.missing && h("label", {}, verb.reason === "required" ? "Why (a reason is wanted)" : "Why, for those who read it later",
      h("input", { name: "reason", maxlength: 500, autocomplete: "off", "aria-required": String(verb.reason === "required"), oninput: (event) => { reason = event.target.value; draw(); } })),
    h("p.same", {}, h("span", {}, "Same as"), command(text())),
    error && h("pre.error", { role: "alert" }, error),
    h("div.buttons", {},
      h("button.quiet", { type: "button", onclick: () => dialog.close() }, "Cancel"),
      h("button.primary", { type: "submit", class: kind(verb), disabled: busy || !!verb.missing || lacks() }, busy ? "Working…" : verb.label))));
  async function go(event) {
    event.preventDefault();
    if (busy || verb.missing || lacks()) return;
    busy = true;
    error = "";
    draw();
    try {
      const answer = await fetch("/api/act", {
        method: "POST",
        headers: { "content-type": "application/json", "x-flagship-verb": "1" },
        body: JSON.stringify(act()),
      });
      const told = (answer.headers.get("content-type") || "").includes("json") ? await answer.json() : { error: await answer.text() };
      if (answer.ok) {
        dialog.close();
        say(told.said.trim().split("\n")[0]);
        done(told.said);
        return;
      }
      error = told.error;
    } catch {
      error = "The console does not answer. Nothing is known of what became of this; look at the run before you try again.";
    }
    busy = false;
    draw();
  }
  dialog.addEventListener("close", () => {
    dialog.remove();
    before?.focus?.();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  root.replaceChildren(dialog);
  draw();
  dialog.showModal();
  dialog.querySelector("input, button.primary:not([disabled]), button.quiet")?.focus();
}

const kind = (verb) => (verb.act.breakGlass ? "v-glass" : `v-${verb.act.verb}`);

/** The buttons of verbs. What cannot be done is shown, and says why. */
export function buttons(verbs, done) {
  return verbs.map((verb) => h("button.verb", {
    type: "button", class: kind(verb), "data-key": verb.label,
    "aria-disabled": verb.missing ? "true" : null, title: verb.missing || verb.effect,
    "aria-description": verb.missing || verb.effect,
    onclick: () => confirm(verb, done),
  }, verb.label));
}
