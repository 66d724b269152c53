// One view of the hub, kept up to date: the whole of it once, then only what changed.
// A lost connection goes on where it was; a hidden page gives its connection back.

import { set_clock } from "./dom.js";

const HIDDEN_FOR = 60000;

/** Follows a view. `draw(model, rows, head)` gets the rows that changed, or null for all, and whether the head did. */
export function follow(query, draw, tell) {
  const model = { head: {}, keys: [], rows: [] };
  let source = null, last = "", failures = 0, timer = 0, over = false, waiting = new Set(), heads = false, frame = 0;

  // However fast changes come, they are drawn once a frame, and each row once.
  const later = (rows, head) => {
    heads ||= head;
    if (rows === null) waiting = null;
    else if (waiting) for (const row of rows) waiting.add(row);
    if (!frame) frame = requestAnimationFrame(() => {
      const [changed, head] = [waiting, heads];
      frame = 0;
      waiting = new Set();
      heads = false;
      if (!over) draw(model, changed, head);
    });
  };
  const open = () => {
    clearTimeout(timer);
    close();
    const after = last ? `&after=${encodeURIComponent(last)}` : "";
    source = new EventSource(`/events?${query}${after}`);
    source.addEventListener("whole", (event) => {
      const data = JSON.parse(event.data);
      set_clock(data.at);
      Object.assign(model, { head: data.head, keys: data.keys, rows: data.rows });
      seen(event);
      later(null, true);
    });
    source.addEventListener("change", (event) => {
      const data = JSON.parse(event.data);
      set_clock(data.at);
      for (const [field, value] of Object.entries(data.head || {})) {
        if (value === null) delete model.head[field];
        else model.head[field] = value;
      }
      const rows = [];
      for (const [at, value] of data.rows || []) {
        model.rows[at] = value;
        rows.push(at);
      }
      seen(event);
      later(rows, !!data.head);
    });
    source.onopen = () => { failures = 0; tell("live"); };
    source.onerror = () => {
      tell("lost");
      if (source?.readyState !== EventSource.CLOSED) return;
      // Refused, not merely cut: the browser has given up, we have not.
      failures += 1;
      check();
      timer = setTimeout(open, Math.min(15000, 500 * 2 ** failures));
    };
  };
  const seen = (event) => { last = event.lastEventId; failures = 0; tell("live"); };
  const check = async () => {
    try {
      const answer = await fetch("/api/view?view=home", { method: "GET" });
      if (answer.status === 401) tell("locked");
    } catch { /* away; the next try will say */ }
  };
  const close = () => { source?.close(); source = null; };
  const hidden = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(close, HIDDEN_FOR);
    else if (!source || source.readyState === EventSource.CLOSED) open();
  };
  document.addEventListener("visibilitychange", hidden);
  open();
  return () => {
    over = true;
    clearTimeout(timer);
    close();
    document.removeEventListener("visibilitychange", hidden);
  };
}

/** A view once. */
export async function fetch_view(query) {
  const answer = await fetch(`/api/view?${query}`);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}
