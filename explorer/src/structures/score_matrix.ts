// A table of scores: each cell is a slider, and shows how often its part is expected.

import { element } from "../dom";
import { clamp, numberText, weightText } from "../numbers";

export interface MatrixOptions {
  title: string;
  rows: string[];
  columns: string[];
  skip?(row: number, column: number): boolean; // cells that are no parts
  name(row: number, column: number): string;
  change(row: number, column: number, score: number, done: boolean): void;
}

const MOST = 20;
const PIXELS = 45; // to drag for a score of one

export class ScoreMatrix {
  readonly root = element("div", { class: "matrix-scroll" });
  private options: MatrixOptions | undefined;
  private cells: (HTMLElement | undefined)[][] = [];
  private at = [0, 0];

  // Makes the cells anew where the names have changed.
  setup(options: MatrixOptions): void {
    const before = this.options;
    const same = before && String(before.rows) === String(options.rows) && String(before.columns) === String(options.columns);
    this.options = options;
    if (same) return;
    const { title, rows, columns } = options;
    this.cells = rows.map((_, row) => columns.map((_, column) => (options.skip?.(row, column) ? undefined : this.cell(row, column))));
    const [first] = this.existing();
    if (first) first.tabIndex = 0;
    const head = element("div", { class: "matrix-row" }, element("span", { class: "matrix-corner" }, title), ...columns.map((name) => element("span", { class: "matrix-head", dir: "auto", title: name }, name)));
    const body = this.cells.map((cells, row) => element("div", { class: "matrix-row" }, element("span", { class: "matrix-side", dir: "auto", title: rows[row] }, rows[row]), ...cells.map((cell) => cell ?? element("span", { class: "cell none" }))));
    this.root.replaceChildren(element("div", { class: "matrix", role: "group", "aria-label": title, style: `--columns: ${columns.length}` }, head, ...body));
  }

  // `expected` is undefined where the part is not in the picture of expectations.
  update(row: number, column: number, score: number, expected: number | undefined): void {
    const cell = this.cells[row]?.[column];
    if (!cell) return;
    const said = expected === undefined ? "" : `, expected ${weightText(expected)}`;
    cell.setAttribute("aria-valuenow", String(Number(score.toFixed(2))));
    cell.setAttribute("aria-valuetext", `${numberText(score, 1)}${said}`);
    cell.title = `${this.options!.name(row, column)}: score ${numberText(score, 2)}${said}`;
    (cell.firstChild as HTMLElement).style.height = expected === undefined ? "0" : `${Math.min(100, Math.max(expected > 0 ? 4 : 0, 100 * expected))}%`;
    cell.lastChild!.textContent = numberText(score, 1);
    cell.classList.toggle("exact-zero", expected === 0);
  }

  private *existing(): Generator<HTMLElement> {
    for (const row of this.cells) for (const cell of row) if (cell) yield cell;
  }

  private cell(row: number, column: number): HTMLElement {
    const cell = element("div", { class: "cell", role: "slider", tabindex: -1, "aria-label": this.options!.name(row, column), "aria-valuenow": 0, "aria-valuemin": -MOST, "aria-valuemax": MOST, "aria-orientation": "vertical" }, element("i", { class: "cell-fill" }), element("span", { class: "cell-number" }));
    let start: { y: number; score: number } | undefined;
    const scoreAt = (event: PointerEvent) => Number(clamp(start!.score + (start!.y - event.clientY) / PIXELS, -MOST, MOST).toFixed(1));
    cell.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = { y: event.clientY, score: Number(cell.getAttribute("aria-valuenow")) };
      cell.setPointerCapture(event.pointerId);
      cell.focus({ preventScroll: true });
      event.preventDefault();
    });
    cell.addEventListener("pointermove", (event) => { if (start) this.options!.change(row, column, scoreAt(event), false); });
    const drop = (event: PointerEvent) => {
      if (!start) return;
      const score = event.type === "pointerup" ? scoreAt(event) : start.score;
      start = undefined;
      this.options!.change(row, column, score, true);
    };
    cell.addEventListener("pointerup", drop);
    cell.addEventListener("pointercancel", drop);
    cell.addEventListener("focus", () => {
      for (const other of this.existing()) other.tabIndex = -1;
      cell.tabIndex = 0;
      this.at = [row, column];
    });
    cell.addEventListener("keydown", (event) => this.key(event, cell));
    return cell;
  }

  private key(event: KeyboardEvent, cell: HTMLElement): void {
    if (event.ctrlKey || event.metaKey) return;
    const [row, column] = this.at as [number, number];
    const score = Number(cell.getAttribute("aria-valuenow"));
    const steps: Record<string, number> = { "+": 0.1, "=": 0.1, "-": -0.1, PageUp: 0.5, PageDown: -0.5 };
    if (event.shiftKey && (event.key === "ArrowUp" || event.key === "ArrowDown")) steps[event.key] = event.key === "ArrowUp" ? 0.1 : -0.1;
    if (event.key in steps) {
      const next = Number(clamp(score + steps[event.key]!, -MOST, MOST).toFixed(1));
      cell.setAttribute("aria-valuenow", String(next)); // at once: the next key may come before the next frame
      this.options!.change(row, column, next, true);
      event.preventDefault();
      return;
    }
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    for (let r = row + move[0], c = column + move[1]; this.cells[r] && c >= 0 && c < this.cells[r]!.length; r += move[0], c += move[1]) {
      const next = this.cells[r]![c];
      if (next) return next.focus();
    }
  }
}
