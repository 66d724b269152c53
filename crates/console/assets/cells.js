// The cells of a stage: named tiles while they are few, a canvas while they are many.
// A cell is [mark, since, silent, more]; trailing zeros are left out. More is the run that
// took the cluster, or the cause that holds it.

import { h, show, ago, span, now } from "./dom.js";

export const MARKS = [
  ["queued", "·", "not begun"], ["updating", "◐", "being updated"], ["done", "✔", "done"],
  ["failed", "✘", "failed"], ["taken", "⇢", "follows another run"], ["stuck", "!", "stuck"],
  ["skipped", "⊘", "skipped"],
];
const FEW = 60;

/** One cell as a sentence. */
export function sentence(name, [mark, since = 0, silent = 0, more = ""]) {
  let text = `${name}: ${MARKS[mark][2]}`;
  if (mark === 4 && more) text = `${name}: follows ${more} since`;
  else if (mark === 5 && more) text += `, ${more}`;
  if ((mark === 1 || mark === 5) && since) text += ` for ${span(now() - since * 1000)}`;
  if (silent) text += ", silent";
  return text;
}

/** The cells of one stage. */
export class Cells {
  constructor(open) {
    this.open = open;
    this.box = h("div.cells", { "data-own": "" });
    this.from = this.count = 0;
    this.cursor = 0;
    this.dense = null;
  }

  /** Draws the cells `from .. from + count` of the model; `changed` are rows, or null for all. */
  update(model, from, count, stage, changed, selected) {
    const other = this.from !== from || this.count !== count || this.model !== model || changed === null;
    Object.assign(this, { model, from, count, stage, selected });
    if (count > FEW) this.canvas(other ? null : changed);
    else this.tiles();
  }

  tiles() {
    this.dense = null;
    const tiles = [];
    for (let at = this.from; at < this.from + this.count; at++) tiles.push(this.tile(at));
    show(this.box, h("ul.tiles", {}, tiles));
  }

  tile(row) {
    const name = this.model.keys[row], cell = this.model.rows[row];
    const [mark, since, silent, more] = cell;
    const [kind, glyph] = MARKS[mark];
    return h("li", { "data-key": name }, h("button.tile", {
      type: "button", class: `c-${kind}${silent ? " silent" : ""}${this.selected === name ? " selected" : ""}`,
      title: sentence(name, cell), "data-item": "", onclick: () => this.open(name),
    }, h("span.glyph", { "aria-hidden": "true" }, glyph), h("span.name", {}, name), h("span.told-only", {}, `${MARKS[mark][2]}${silent ? ", silent" : ""}`),
    h("span.since", {}, mark === 5 && more ? more : mark === 1 && since ? ago(since * 1000) : more ? `→ ${more}` : silent ? "silent" : "")));
  }

  canvas(changed) {
    if (!this.dense) {
      const canvas = h("canvas", {
        tabindex: 0, role: "application", "aria-roledescription": "grid of clusters", "data-item": "",
        "aria-label": `Clusters of stage ${this.stage}; arrow keys move, enter opens`,
        "aria-describedby": `cell-${this.stage}`,
      });
      const told = h("p.told", { id: `cell-${this.stage}`, "aria-live": "polite" });
      this.box.replaceChildren(canvas, told);
      this.dense = { canvas, told, wide: 0, size: 0 };
      canvas.onclick = (event) => { const at = this.hit(event); if (at >= 0) { this.move(at); this.open(this.model.keys[this.from + at]); } };
      canvas.onmousemove = (event) => { const at = this.hit(event); this.tell(at); };
      canvas.onmouseleave = () => this.tell(-1);
      canvas.onkeydown = (event) => this.key(event);
      canvas.onfocus = () => this.move(this.cursor);
      canvas.onblur = () => { this.marked = this.cursor; this.paint_one(this.cursor); };
      new ResizeObserver(() => { if (this.dense && this.box.clientWidth !== this.dense.wide) this.paint(); }).observe(this.box);
      changed = null;
    }
    if (changed === null) this.paint();
    else if (changed.size) this.paint_rows([...changed].map((row) => row - this.from).filter((at) => at >= 0 && at < this.count));
  }

  paint() {
    const dense = this.dense, wide = this.box.clientWidth;
    if (!wide) return;
    dense.wide = wide;
    // As large as fits a screen, and never too small to tell signs apart.
    dense.size = Math.max(9, Math.min(18, Math.floor(Math.sqrt((wide * 520) / this.count)) - 2));
    dense.across = Math.max(1, Math.floor(wide / (dense.size + 2)));
    const rows = Math.ceil(this.count / dense.across), tall = rows * (dense.size + 2);
    const ratio = window.devicePixelRatio || 1;
    dense.canvas.width = wide * ratio;
    dense.canvas.height = tall * ratio;
    dense.canvas.style.width = `${wide}px`;
    dense.canvas.style.height = `${tall}px`;
    dense.pen = dense.canvas.getContext("2d", { alpha: true });
    dense.pen.scale(ratio, ratio);
    dense.signs = sprites(dense.size, ratio);
    this.paint_rows(Array.from({ length: this.count }, (_, at) => at));
  }

  paint_one(at) {
    this.paint_rows([at]);
  }

  paint_rows(rows) {
    const { pen, signs, across, size, canvas } = this.dense || {};
    if (!pen) return;
    const step = size + 2, focused = document.activeElement === canvas ? this.cursor : -1;
    const { rows: cells, keys } = this.model, from = this.from;
    for (const at of rows) {
      const cell = cells[from + at];
      if (!cell) continue;
      const x = (at % across) * step, y = Math.floor(at / across) * step;
      // Signs cover their cell but for the corners, which never change.
      pen.drawImage(signs[cell[0] + (cell[2] ? MARKS.length : 0)], x, y, size, size);
      const marked = at === focused || (this.selected && keys[from + at] === this.selected);
      if (marked || at === this.marked) {
        pen.strokeStyle = marked ? color("--text") : color("--panel");
        pen.lineWidth = 1.5;
        pen.strokeRect(x - 0.25, y - 0.25, size + 0.5, size + 0.5);
        if (!marked) pen.drawImage(signs[cell[0] + (cell[2] ? MARKS.length : 0)], x, y, size, size);
      }
    }
  }

  hit(event) {
    const { across, size } = this.dense;
    const at = Math.floor(event.offsetY / (size + 2)) * across + Math.floor(event.offsetX / (size + 2));
    return Math.floor(event.offsetX / (size + 2)) < across && at < this.count ? at : -1;
  }

  tell(at) {
    const { told, canvas } = this.dense;
    const text = at >= 0 ? sentence(this.model.keys[this.from + at], this.model.rows[this.from + at]) : "";
    if (told.textContent !== text) told.textContent = text;
    canvas.style.cursor = at >= 0 ? "pointer" : "";
  }

  move(at) {
    const old = this.cursor;
    this.marked = old;
    this.cursor = Math.max(0, Math.min(this.count - 1, at));
    this.paint_one(old);
    this.paint_one(this.cursor);
    this.tell(this.cursor);
  }

  key(event) {
    const { across } = this.dense;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across, Home: -this.cursor, End: this.count };
    if (event.key in steps) this.move(this.cursor + steps[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.open(this.model.keys[this.from + this.cursor]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let drawn = new Map();

/** One small picture for each mark, silent or not. */
function sprites(size, ratio) {
  const key = `${size}/${ratio}`;
  if (drawn.has(key)) return drawn.get(key);
  const all = [];
  for (const silent of [false, true]) for (const [kind, glyph] of MARKS) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = size * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = color(`--cell-${kind}`);
    pen.beginPath();
    pen.roundRect(0, 0, size, size, size > 10 ? 3 : 2);
    pen.fill();
    if (silent) {
      pen.save();
      pen.clip();
      pen.strokeStyle = color("--text");
      pen.lineWidth = 1;
      for (let x = -size; x < size; x += 4) { pen.beginPath(); pen.moveTo(x, size); pen.lineTo(x + size, 0); pen.stroke(); }
      pen.restore();
    }
    pen.fillStyle = color(`--cell-${kind}-ink`);
    if (size < 11) small(pen, kind, size);
    else {
      pen.font = `${Math.round(size * 0.72)}px system-ui, sans-serif`;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(glyph, size / 2, size / 2 + 0.5);
    }
    all.push(canvas);
  }
  drawn.set(key, all);
  return all;
}

/** Signs that can still be told apart at nine pixels. */
function small(pen, kind, size) {
  const mid = size / 2;
  pen.strokeStyle = pen.fillStyle;
  pen.lineWidth = 1.4;
  pen.beginPath();
  if (kind === "queued") pen.fillRect(mid - 0.8, mid - 0.8, 1.6, 1.6);
  else if (kind === "updating") { pen.arc(mid, mid, mid - 2, Math.PI / 2, Math.PI * 1.5); pen.fill(); }
  else if (kind === "done") { pen.moveTo(2, mid); pen.lineTo(mid - 0.5, size - 2.6); pen.lineTo(size - 2, 2.6); pen.stroke(); }
  else if (kind === "failed") { pen.moveTo(2.4, 2.4); pen.lineTo(size - 2.4, size - 2.4); pen.moveTo(size - 2.4, 2.4); pen.lineTo(2.4, size - 2.4); pen.stroke(); }
  else if (kind === "stuck") { pen.fillRect(mid - 0.9, 2, 1.8, size - 5.6); pen.fillRect(mid - 0.9, size - 2.8, 1.8, 1.8); }
  else if (kind === "skipped") { pen.arc(mid, mid, mid - 1.8, 0, Math.PI * 2); pen.moveTo(2.6, size - 2.6); pen.lineTo(size - 2.6, 2.6); pen.stroke(); }
  else { pen.moveTo(2, mid); pen.lineTo(size - 2, mid); pen.lineTo(mid + 1, 2.4); pen.stroke(); }
}

let redraw = () => {};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawn = new Map();
  redraw();
});
/** Who draws again when light becomes dark. */
export const on_scheme = (again) => { redraw = again; };
