// One operator on the row: bars of weights, exact zeros, segments, clusters and groups, and a column of the Jacobian.

import { element, setAttributes, svg } from "../dom";
import type { Row, RowOperator } from "../kernels/rows";
import { clamp, numberText, weightText } from "../numbers";
import { Slider } from "../widgets/slider";
import type { ShownOperator } from "./operators";

export interface CardEvents {
  parameter(key: string, value: number, done: boolean): void;
  hover(position: number, x: number, y: number): void; // -1: nothing
}

export interface CardContents {
  tokens: string[];
  rightToLeft: boolean;
  masked: boolean[];
  operator: RowOperator;
  row: Row;
  loss: number | undefined;
  scale: number; // the weight that fills the height, the same on all cards
}

const PLOT = 92; // height of a full bar
const TOP = 16; // room for numbers
const MARKS = 16; // segments, clusters, groups
const JACOBIAN = 30;
const LABELS = 18;
const BASE = TOP + PLOT;
export const CARD_HEIGHT = BASE + MARKS + JACOBIAN + LABELS;
const PADDING = 10;

export class OperatorCard {
  readonly root: HTMLElement;
  private readonly plot = svg("svg", { class: "weights", role: "img", height: CARD_HEIGHT });
  private readonly hovered = svg("rect", { class: "hovered", y: 0, height: CARD_HEIGHT });
  private readonly bars = svg("path", { class: "bars" });
  private readonly zeros = svg("path", { class: "zeros" });
  private readonly masks = svg("path", { class: "masked" });
  private readonly marks = svg("path", { class: "marks" });
  private readonly dropped = svg("path", { class: "marks dropped" });
  private readonly gains = svg("path", { class: "gains" });
  private readonly losses = svg("path", { class: "losses" });
  private readonly grid = svg("g", { class: "grid" });
  private readonly texts = svg("g", { class: "texts" });
  private readonly letters = svg("g", { class: "letters" });
  private readonly stats = element("p", { class: "stats" });
  private slider: Slider | undefined;
  private width = 0;
  private drawnGrid = "";
  private contents: CardContents | undefined;

  constructor(readonly shown: ShownOperator, private readonly events: CardEvents) {
    const { name, omega, parameter } = shown;
    if (parameter) {
      this.slider = new Slider({
        ...parameter,
        input: (value) => events.parameter(parameter.key, value, false),
        change: (value) => events.parameter(parameter.key, value, true),
      });
    }
    this.plot.append(this.hovered, this.grid, this.masks, this.bars, this.zeros, this.marks, this.dropped, this.letters, this.gains, this.losses, this.texts);
    this.root = element("section", { class: `card op-${name}`, "aria-label": name },
      element("header", {}, element("h2", {}, element("i", { class: "chip", "aria-hidden": "true" }), name), element("code", { title: `Ω of ${name}` }, omega)),
      element("div", { class: "card-line" }, this.stats, this.slider?.root),
      this.plot);
    this.plot.addEventListener("pointermove", (event) => this.moved(event));
    this.plot.addEventListener("pointerdown", (event) => this.moved(event));
    this.plot.addEventListener("pointerleave", () => events.hover(-1, 0, 0));
  }

  setParameter(value: number | undefined): void {
    if (value !== undefined) this.slider?.set(value);
  }

  resize(width: number): void {
    this.width = width;
    setAttributes(this.plot, { width, viewBox: `0 0 ${width} ${CARD_HEIGHT}` });
    if (this.contents) this.draw(this.contents);
  }

  draw(contents: CardContents): void {
    this.contents = contents;
    if (this.width === 0) return;
    const { row, masked, scale, loss } = contents;
    const { weights } = row;
    const n = weights.length;
    const step = this.step;
    const gap = step > 8 ? step * 0.16 : step > 3 ? 1 : 0.2;
    let bars = "", zeros = "", masks = "", support = 0;
    const ring = clamp(step / 4, 0.8, 3);
    for (let i = 0; i < n; ++i) {
      const x = this.left(i);
      const weight = weights[i]!;
      if (masked[i]) {
        masks += `M${x + gap} ${TOP}h${step - 2 * gap}v${PLOT}h${-(step - 2 * gap)}z`;
      } else if (weight === 0) {
        zeros += `M${x + step / 2 - ring} ${BASE - ring - 1}a${ring} ${ring} 0 1 0 ${2 * ring} 0a${ring} ${ring} 0 1 0 ${-2 * ring} 0z`;
      } else if (weight > 0) {
        ++support;
        const height = Math.max(1.5, (PLOT * weight) / scale);
        bars += `M${x + gap} ${BASE}v${-height}h${step - 2 * gap}v${height}z`;
      }
    }
    this.bars.setAttribute("d", bars);
    this.zeros.setAttribute("d", zeros);
    this.masks.setAttribute("d", masks);
    const allowed = n - masked.filter(Boolean).length;
    this.stats.replaceChildren(
      stat("max_Ω", numberText(row.value)), stat("support", `${support} of ${allowed}`),
      ...(loss === undefined ? [] : [stat("loss", numberText(loss))]),
    );
    this.plot.setAttribute("aria-label", `Weights of ${this.shown.name}: ${this.summary(contents)}`);
    this.drawGrid(scale);
    this.drawMarks(contents);
    this.drawTexts(contents);
    this.showJacobian(undefined, 1);
  }

  // The derivative of all weights by the score of one position; `largest` is what fills the height on all cards.
  showJacobian(column: Float32Array | undefined, largest: number): void {
    let gains = "", losses = "";
    const middle = BASE + MARKS + JACOBIAN / 2;
    if (column) {
      const gap = this.step > 8 ? this.step * 0.22 : 0;
      column.forEach((slope, i) => {
        if (slope === 0) return;
        const height = Math.max(0.75, (JACOBIAN / 2 - 1) * Math.abs(slope) / largest);
        const piece = `M${this.left(i) + gap} ${middle}v${slope > 0 ? -height : height}h${this.step - 2 * gap}V${middle}z`;
        if (slope > 0) gains += piece;
        else losses += piece;
      });
    }
    this.gains.setAttribute("d", gains);
    this.losses.setAttribute("d", losses);
    this.root.classList.toggle("has-jacobian", column !== undefined);
  }

  highlight(position: number): void {
    const off = position < 0 || !this.contents || position >= this.contents.row.weights.length;
    this.hovered.style.display = off ? "none" : "";
    if (!off) setAttributes(this.hovered, { x: this.left(position), width: this.step });
  }

  private get step(): number {
    return (this.width - 2 * PADDING) / Math.max(1, this.contents?.row.weights.length ?? 1);
  }
  private left(i: number): number {
    const n = this.contents?.row.weights.length ?? 1;
    return PADDING + this.step * (this.contents?.rightToLeft ? n - 1 - i : i);
  }

  private moved(event: PointerEvent): void {
    if (!this.contents) return;
    const box = this.plot.getBoundingClientRect();
    const n = this.contents.row.weights.length;
    const place = Math.floor((event.clientX - box.left - PADDING) / this.step);
    const position = this.contents.rightToLeft ? n - 1 - place : place;
    const inside = position >= 0 && position < n;
    this.events.hover(inside ? position : -1, event.clientX, box.top + TOP);
  }

  private drawGrid(scale: number): void {
    if (this.drawnGrid === `${scale} ${this.width}`) return;
    this.drawnGrid = `${scale} ${this.width}`;
    const right = this.width - PADDING;
    const jacobian = BASE + MARKS + JACOBIAN / 2;
    this.grid.replaceChildren(
      svg("path", { d: `M${PADDING} ${TOP}H${right}M${PADDING} ${TOP + PLOT / 2}H${right}` }),
      svg("path", { class: "base", d: `M${PADDING} ${BASE + 0.5}H${right}` }),
      svg("path", { class: "zero-line", d: `M${PADDING} ${jacobian}H${right}` }),
      svg("text", { x: right, y: TOP - 4, "text-anchor": "end" }, String(scale)),
    );
  }

  // A line under each segment of fusedmax and each group of groupmax, a letter under each cluster of oscarmax.
  private drawMarks({ row, operator }: CardContents): void {
    const y = BASE + 7;
    const { weights, joined, labels } = row;
    let marks = "", dropped = "";
    const letters: SVGElement[] = [];
    const line = (from: number, to: number) => {
      const [a, b] = [this.left(from), this.left(to)];
      const inset = Math.min(3, this.step / 4);
      return `M${Math.min(a, b) + inset} ${y - 3}v3H${Math.max(a, b) + this.step - inset}v-3`;
    };
    if (operator.name === "fusedmax") {
      for (let i = 0, start = -1, last = -1; i <= weights.length; ++i) {
        if (i < weights.length && this.contents!.masked[i]) continue; // neighbours of a removed position are adjacent
        if (i < weights.length && joined[i] && weights[i]! > 0) { last = i; continue; }
        if (last > start && start >= 0) marks += line(start, last);
        start = last = i;
      }
    } else if (operator.name === "oscarmax") {
      const sizes = new Map<number, number>();
      labels.forEach((label, i) => { if (label >= 0 && weights[i]! > 0) sizes.set(label, (sizes.get(label) ?? 0) + 1); });
      const clusters = [...sizes].filter(([, size]) => size > 1).map(([label]) => label).sort((a, b) => a - b);
      labels.forEach((label, i) => {
        const cluster = clusters.indexOf(label);
        if (cluster < 0) return;
        const x = this.left(i) + this.step / 2;
        if (this.step >= 9) letters.push(svg("text", { x, y: y + 4 }, String.fromCharCode(65 + (cluster % 26))));
        else marks += `M${x - 0.6} ${y - 4 + 3 * (cluster % 3)}h1.2`;
      });
    } else if (operator.name === "groupmax" && operator.groups) {
      const groups = operator.groups;
      for (let i = 0, start = 0; i <= groups.length; ++i) {
        if (i < groups.length && groups[i] === groups[start]) continue;
        const selected = weights.slice(start, i).some((weight) => weight > 0);
        if (i > start) { if (selected) marks += line(start, i - 1); else dropped += line(start, i - 1); }
        start = i;
      }
    }
    this.marks.setAttribute("d", marks);
    this.dropped.setAttribute("d", dropped);
    this.letters.replaceChildren(...letters);
  }

  private drawTexts({ tokens, row, masked, scale }: CardContents): void {
    const texts: SVGElement[] = [];
    const step = this.step;
    if (step >= 27) {
      row.weights.forEach((weight, i) => {
        const x = this.left(i) + step / 2;
        const y = weight > 0 ? BASE - Math.max(1.5, (PLOT * weight) / scale) - 4 : BASE - 11;
        if (!masked[i]) texts.push(svg("text", { x, y: Math.max(10, y), class: weight === 0 ? "number zero" : "number" }, shortWeight(weight)));
        const letters = Math.floor(step / 6.2);
        const token = Array.from(tokens[i] ?? "");
        texts.push(svg("text", { x, y: CARD_HEIGHT - 4, class: "label" }, token.length > letters ? `${token.slice(0, Math.max(1, letters - 1)).join("")}…` : token.join("")));
      });
    }
    this.texts.replaceChildren(...texts);
  }

  private summary({ tokens, row }: CardContents): string {
    const most = [...row.weights.keys()].filter((i) => row.weights[i]! > 0).sort((a, b) => row.weights[b]! - row.weights[a]!).slice(0, 5);
    const said = most.map((i) => `${tokens[i]} ${weightText(row.weights[i]!)}`).join(", ");
    return `${said || "no weight"}; ${row.weights.filter((weight) => weight === 0).length} exactly zero`;
  }
}

// Three digits without the leading zero, so that ten columns fit on a card.
function shortWeight(weight: number): string {
  const text = weightText(weight);
  return text.startsWith("0.") ? text.slice(1) : text === "<0.001" ? "<.001" : text;
}

function stat(name: string, text: string): HTMLElement {
  return element("span", {}, element("span", { class: "stat-name" }, name), " ", element("b", {}, text));
}
