// An alignment of two series that the user draws: monotone paths through the grid of their pairs (dynamic time warping).

import { element, svg } from "../dom";
import { LatticeBuilder } from "../kernels/lattice";
import { clamp, numberText, weightText } from "../numbers";
import { type Change, type Kind, readNumbers, writeNumbers } from "./kind";

interface AlignmentState {
  first: number[];
  second: number[];
}

const N = 24;
const initialFirst = Array.from({ length: N }, (_, i) => Number(Math.sin((2 * Math.PI * i) / 16).toFixed(2)));
const initialSecond = Array.from({ length: N }, (_, i) => Number(Math.sin((2 * Math.PI * (i * i) / N) / 16 - 0.5).toFixed(2)));

// Into each cell the steps of Python's Alignment: diagonal, down, right. Parts: the cells.
export function alignmentBuilder(m: number, n: number): LatticeBuilder {
  const builder = new LatticeBuilder(1, m * n);
  for (let i = 0; i < m; ++i)
    for (let j = 0; j < n; ++j) {
      const node = builder.node();
      const at = (row: number, column: number) => 1 + row * n + column;
      if (i === 0 && j === 0) builder.edge(node, [0], [0]);
      if (i > 0 && j > 0) builder.edge(node, [at(i - 1, j - 1)], [i * n + j]);
      if (i > 0) builder.edge(node, [at(i - 1, j)], [i * n + j]);
      if (j > 0) builder.edge(node, [at(i, j - 1)], [i * n + j]);
    }
  return builder;
}

export const alignment: Kind<AlignmentState> = {
  id: "alignment",
  title: "Alignment",
  note: "Draw two series. Every path from the top left to the bottom right aligns them; a cell costs the squared difference of its two points. Under Shannon’s entropy the value is minus the soft-DTW distance.",
  modes: ["map", "shannon", "squared", "sparsemap"],
  initial: () => ({ first: initialFirst.slice(), second: initialSecond.slice() }),
  read: (fields) => ({ first: readNumbers(fields.get("x"), initialFirst, 2), second: readNumbers(fields.get("y"), initialSecond, 2) }),
  write(state, fields) {
    fields.set("x", writeNumbers(state.first));
    fields.set("y", writeNumbers(state.second));
  },
  problem({ first, second }) {
    const scores = Float64Array.from(first.flatMap((a) => second.map((b) => -((a - b) ** 2))));
    return { builder: alignmentBuilder(first.length, second.length), scores, nRegularized: scores.length };
  },
  name({ first, second }, parts) {
    let path = "", i = 0, j = 0;
    while (i + 1 < first.length || j + 1 < second.length) {
      const has = (row: number, column: number) => row < first.length && column < second.length && parts[row * second.length + column] === 1;
      if (has(i + 1, j + 1) && !has(i + 1, j) && !has(i, j + 1)) { path += "↘"; ++i; ++j; }
      else if (has(i + 1, j)) { path += "↓"; ++i; }
      else if (has(i, j + 1)) { path += "→"; ++j; }
      else break;
    }
    return path;
  },
  mount(root, state, change) {
    const first = new SeriesEditor("first", "First series, down", change, () => state().first);
    const second = new SeriesEditor("second", "Second series, across", change, () => state().second);
    const picture = svg("svg", { class: "grid-picture", role: "img" });
    root.append(element("div", { class: "alignment" }, element("div", { class: "series-pair" }, first.root, second.root), picture));
    return {
      draw(now, expected, highlighted) {
        first.draw(now.first);
        second.draw(now.second);
        drawGrid(picture, now, expected, highlighted);
      },
    };
  },
};

// A line that is drawn with the pointer, or point by point with the keys.
class SeriesEditor {
  readonly root: HTMLElement;
  private readonly line = svg("path", { class: "series-line" });
  private readonly dots = svg("path", { class: "series-dots" });
  private readonly cursor = svg("circle", { r: 5, class: "series-cursor" });
  private readonly picture = svg("svg", { class: "series", viewBox: "0 0 300 120", preserveAspectRatio: "none", tabindex: 0, role: "slider", "aria-valuemin": -2, "aria-valuemax": 2, "aria-valuenow": 0 });
  private at = 0;
  private drawing = false;
  private last: { index: number; value: number } | undefined;

  constructor(name: string, private readonly label: string, private readonly change: Change, private readonly series: () => number[]) {
    this.picture.append(svg("path", { d: "M0 60H300", class: "series-zero" }), this.line, this.dots, this.cursor);
    this.root = element("div", { class: `series-box ${name}` }, element("span", { class: "small-label" }, label), this.picture);
    this.picture.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.picture.setPointerCapture(event.pointerId);
      this.picture.focus({ preventScroll: true });
      this.drawing = true;
      this.last = undefined;
      this.draws(event, false);
      event.preventDefault();
    });
    this.picture.addEventListener("pointermove", (event) => { if (this.drawing) this.draws(event, false); });
    const stop = (event: PointerEvent) => {
      if (!this.drawing) return;
      this.drawing = false;
      if (event.type === "pointerup") this.draws(event, true);
      else this.change(() => undefined, true);
    };
    this.picture.addEventListener("pointerup", stop);
    this.picture.addEventListener("pointercancel", stop);
    this.picture.addEventListener("keydown", (event) => this.key(event));
  }

  draw(series: number[]): void {
    const n = series.length;
    const points = series.map((value, i) => `${((i + 0.5) * 300) / n} ${60 - 29 * value}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.dots.setAttribute("d", points.map((point) => `M${point}h0.01`).join(""));
    this.cursor.setAttribute("cx", String(((this.at + 0.5) * 300) / n));
    this.cursor.setAttribute("cy", String(60 - 29 * series[this.at]!));
    this.picture.setAttribute("aria-label", `${this.label}: point ${this.at + 1} of ${n}; left and right choose a point, up and down move it`);
    this.picture.setAttribute("aria-valuenow", String(series[this.at]));
    this.picture.setAttribute("aria-valuetext", `point ${this.at + 1}: ${numberText(series[this.at]!, 2)}`);
  }

  private draws(event: PointerEvent, done: boolean): void {
    const box = this.picture.getBoundingClientRect();
    const series = this.series();
    const index = clamp(Math.floor((series.length * (event.clientX - box.left)) / box.width), 0, series.length - 1);
    const value = Number(clamp((60 - (120 * (event.clientY - box.top)) / box.height) / 29, -2, 2).toFixed(2));
    const from = this.last ?? { index, value };
    this.last = { index, value };
    this.at = index;
    this.change(() => {
      const steps = Math.max(1, Math.abs(index - from.index));
      for (let step = 0; step <= steps; ++step) {
        const share = step / steps;
        series[Math.round(from.index + share * (index - from.index))] = Number((from.value + share * (value - from.value)).toFixed(2));
      }
    }, done);
  }

  private key(event: KeyboardEvent): void {
    const series = this.series();
    const steps: Record<string, number> = { ArrowUp: 0.1, ArrowDown: -0.1 };
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      this.at = clamp(this.at + (event.key === "ArrowRight" ? 1 : -1), 0, series.length - 1);
      this.draw(series);
    } else if (event.key in steps) {
      this.change(() => (series[this.at] = Number(clamp(series[this.at]! + steps[event.key]!, -2, 2).toFixed(2))), true);
    } else return;
    event.preventDefault();
  }
}

function drawGrid(picture: SVGSVGElement, { first, second }: AlignmentState, expected: Float64Array, highlighted: Float64Array | undefined): void {
  const [m, n, side] = [first.length, second.length, 14];
  picture.setAttribute("viewBox", `-1 -1 ${n * side + 2} ${m * side + 2}`);
  let zeros = "";
  const cells: SVGElement[] = [];
  let lit = "";
  let support = 0;
  for (let i = 0; i < m; ++i)
    for (let j = 0; j < n; ++j) {
      const mass = expected[i * n + j]!;
      if (highlighted?.[i * n + j] === 1) lit += `${lit === "" ? "M" : "L"}${(j + 0.5) * side} ${(i + 0.5) * side}`;
      if (mass === 0) { zeros += `M${(j + 0.5) * side} ${(i + 0.5) * side}h0.01`; continue; }
      ++support;
      cells.push(svg("rect", { x: j * side + 0.5, y: i * side + 0.5, width: side - 1, height: side - 1, "fill-opacity": 0.07 + 0.93 * mass, class: "cell-mass" }, svg("title", {}, `${i + 1}, ${j + 1}: ${weightText(mass)}`)));
    }
  picture.setAttribute("aria-label", `Expected alignment: ${support} of ${m * n} cells are visited, the others have exactly zero`);
  picture.replaceChildren(svg("path", { d: zeros, class: "cell-zero" }), ...cells, svg("path", { d: lit, class: "lit-path" }));
}
