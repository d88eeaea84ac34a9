// The simplex view: three scores as a point of the plane, and where each operator moves it in the triangle of weights.

import { element, oncePerFrame, setAttributes, svg } from "../dom";
import type { OperatorName, RowOperator } from "../kernels/rows";
import { clamp, numberText, readNumber, shortNumber, weightText } from "../numbers";
import { SHOWN } from "../row/operators";
import { CORNERS, place, type Point, scoresAt } from "../simplex/plane";
import { findRegions, type Regions } from "../simplex/regions";
import type { Mounted, Page, View } from "../view";
import { Slider } from "../widgets/slider";

const REACH = 1.75; // of the plane, to each side
const QUICK = 121; // its grid while parameters move ...
const FINE = 361; // ... and when they have come to rest
const REST = 180; // milliseconds
const SIDE = 600; // of the picture, in its own units
const MOST = 4; // of a score
const NAMES = ["a", "b", "c"];
const SHADES = [0, 86, 46, 13]; // opacity of a region by the number of positions with weight

interface SimplexState {
  scores: [number, number, number];
  gamma: number;
  operator: OperatorName;
  parameters: Record<string, number>;
}

function initialState(): SimplexState {
  const parameters = Object.fromEntries(SHOWN.flatMap(({ parameter }) => (parameter ? [[parameter.key, parameter.value]] : [])));
  return { scores: [0.7, 0.35, -0.3], gamma: 1, operator: "sparsemax", parameters };
}

function writeState(state: SimplexState): string {
  const initial = initialState();
  const fields = new URLSearchParams({ s: state.scores.map(shortNumber).join(" "), o: state.operator });
  if (state.gamma !== 1) fields.set("g", shortNumber(state.gamma));
  for (const key in state.parameters)
    if (state.parameters[key] !== initial.parameters[key]) fields.set(key, shortNumber(state.parameters[key]!));
  return fields.toString();
}

function readState(text: string): SimplexState {
  const state = initialState();
  const fields = new URLSearchParams(text);
  const scores = (fields.get("s") ?? "").split(/[\s,]+/);
  state.scores = state.scores.map((score, i) => readNumber(scores[i] ?? null, -MOST, MOST) ?? score) as SimplexState["scores"];
  state.gamma = readNumber(fields.get("g"), 0.05, 5) ?? 1;
  state.operator = SHOWN.find(({ name }) => name === fields.get("o"))?.name ?? state.operator;
  for (const { parameter } of SHOWN)
    if (parameter) state.parameters[parameter.key] = readNumber(fields.get(parameter.key), parameter.low, parameter.high) ?? parameter.value;
  return state;
}

const toPicture = ({ x, y }: Point): Point => ({ x: (SIDE / 2) * (1 + x / REACH), y: (SIDE / 2) * (1 - y / REACH) });
const fromPicture = ({ x, y }: Point): Point => ({ x: REACH * ((2 * x) / SIDE - 1), y: REACH * (1 - (2 * y) / SIDE) });

class SimplexView implements Mounted {
  private state = initialState();
  private readonly frame = oncePerFrame(() => this.draw());
  private drawnRegions = "";
  private rest: ReturnType<typeof setTimeout> | undefined;
  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly levels = svg("g", { class: "levels" });
  private readonly names = svg("g", { class: "regions" });
  private readonly path = svg("path", { class: "path" });
  private readonly arrow = svg("path", { class: "projection" });
  private readonly dots = svg("g", { class: "dots" });
  private readonly score = svg("g", { class: "score-point" }, svg("circle", { r: 18, class: "grip" }), svg("path", { d: "M-9 0H9M0-9V9" }), svg("text", { x: 13, y: -10 }, "θ"));
  private readonly picture = svg("svg", { viewBox: `0 0 ${SIDE} ${SIDE}`, role: "img", class: "simplex" });
  private readonly operators = new Map<OperatorName, HTMLButtonElement>();
  private readonly rows = new Map<OperatorName, HTMLElement[]>();
  private readonly parameterSlot = element("div", { class: "field" });
  private shownParameter = "";
  private parameter: Slider | undefined;
  private readonly caption = element("p", { class: "hint" });
  private readonly sliders = NAMES.map((name, i) => new Slider({
    label: name, name: `score of ${name}`, low: -MOST, high: MOST, step: 0.01, value: 0,
    input: (value) => this.change(() => (this.state.scores[i] = value), false),
    change: (value) => this.change(() => (this.state.scores[i] = value), true),
  }));
  private readonly gamma = new Slider({
    label: "γ", name: "temperature", low: 0.05, high: 5, step: 0.01, value: 1, logarithmic: true,
    input: (gamma) => this.change(() => (this.state.gamma = gamma), false),
    change: (gamma) => this.change(() => (this.state.gamma = gamma), true),
  });

  constructor(root: HTMLElement, private readonly page: Page) {
    const corners = CORNERS.map(toPicture);
    const triangle = `M${corners.map(({ x, y }) => `${x} ${y}`).join("L")}Z`;
    this.picture.append(
      this.levels, svg("path", { d: triangle, class: "triangle" }), this.names,
      ...corners.map(({ x, y }, i) => svg("text", { x, y: y + (i === 0 ? -12 : 26), class: "corner" }, NAMES[i]!)),
      this.path, this.arrow, this.dots, this.score);
    const choose = element("div", { class: "operator-list", role: "group", "aria-label": "Operator whose regions are drawn" });
    const table = element("table", { class: "simplex-table" }, element("thead", {}, element("tr", {}, ...["operator", ...NAMES, "max_Ω"].map((name) => element("th", { scope: "col" }, name)))));
    const body = element("tbody");
    for (const { name } of SHOWN) {
      const button = element("button", { type: "button", class: `op-button op-${name}`, "aria-pressed": "false", click: () => this.change(() => (this.state.operator = name), true) }, element("i", { class: "chip", "aria-hidden": "true" }), name);
      this.operators.set(name, button);
      const cells = [...NAMES, "value"].map(() => element("td"));
      this.rows.set(name, cells);
      body.append(element("tr", {}, element("th", { scope: "row" }, button), ...cells));
    }
    table.append(body);
    choose.append(table);
    root.append(
      element("div", { class: "two-sides" },
        element("section", { class: "panel plane", "aria-label": "The plane of scores" }, element("div", { class: "plane-square" }, this.canvas, this.picture), this.caption),
        element("div", {},
          element("section", { class: "panel stack", "aria-label": "Scores" },
            element("span", { class: "small-label" }, "Scores θ: drag the cross in the picture, or these"),
            ...this.sliders.map(({ root: slider }) => slider),
            element("div", { class: "controls" }, element("div", { class: "field" }, element("span", { class: "label" }, "Temperature"), this.gamma.root), this.parameterSlot)),
          element("section", { class: "panel", "aria-label": "Weights" }, element("div", { class: "wide-table flat" }, choose)))),
    );
    this.picture.addEventListener("pointerdown", (event) => this.grab(event));
    this.picture.addEventListener("pointermove", (event) => { if (this.picture.hasPointerCapture(event.pointerId)) this.moveTo(event, false); });
    this.picture.addEventListener("pointerup", (event) => { if (this.picture.hasPointerCapture(event.pointerId)) this.moveTo(event, true); });
  }

  load(state: string): void {
    this.state = readState(state);
    this.frame.now();
  }
  unmount(): void {
    clearTimeout(this.rest);
    this.frame.cancel();
  }

  private change(apply: () => void, undoable: boolean): void {
    apply();
    this.page.saveState(writeState(this.state), { undoable });
    this.frame.ask();
  }

  private grab(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.picture.setPointerCapture(event.pointerId);
    this.moveTo(event, false);
    event.preventDefault();
  }

  private moveTo(event: PointerEvent, done: boolean): void {
    const box = this.picture.getBoundingClientRect();
    const at = fromPicture({ x: (SIDE * (event.clientX - box.left)) / box.width, y: (SIDE * (event.clientY - box.top)) / box.height });
    const inside = { x: clamp(at.x, -REACH, REACH), y: clamp(at.y, -REACH, REACH) };
    const mean = this.state.scores.reduce((sum, score) => sum + score, 0) / 3;
    this.change(() => (this.state.scores = scoresAt(inside, mean).map((score) => Number(clamp(score, -MOST, MOST).toFixed(3))) as SimplexState["scores"]), done);
  }

  private operator(name: OperatorName, gamma = this.state.gamma): RowOperator {
    const parameter = SHOWN.find((shown) => shown.name === name)?.parameter;
    return { name, gamma, parameter: parameter ? this.state.parameters[parameter.key] : 0, groups: [0, 0, 1] };
  }

  private draw(): void {
    const { scores, operator: chosen } = this.state;
    this.sliders.forEach((slider, i) => slider.set(scores[i]!));
    this.gamma.set(this.state.gamma);
    this.showParameter();
    const dots: SVGElement[] = [];
    for (const { name } of SHOWN) {
      const { weights, value } = this.page.kernels.rows.solve(this.operator(name), scores);
      const at = toPicture(place(weights));
      const own = name === chosen;
      if (own) this.arrow.setAttribute("d", `M${pair(toPicture(place(scores)))}L${pair(at)}`);
      dots[own ? "push" : "unshift"](svg("circle", { cx: at.x, cy: at.y, r: own ? 9 : 6, class: `op-${name}${own ? " own" : ""}` }, svg("title", {}, name)));
      const cells = this.rows.get(name)!;
      weights.forEach((weight, i) => { cells[i]!.textContent = weightText(weight); cells[i]!.className = weight === 0 ? "zero" : ""; });
      cells[3]!.textContent = numberText(value);
      this.operators.get(name)!.setAttribute("aria-pressed", String(own));
      if (own) this.picture.setAttribute("aria-label", `Scores ${scores.map((score) => numberText(score, 2)).join(", ")} under ${name}: weights ${Array.from(weights, weightText).join(", ")}`);
    }
    this.dots.replaceChildren(...dots);
    const cross = toPicture(place(scores));
    setAttributes(this.score, { transform: `translate(${clamp(cross.x, 8, SIDE - 8)} ${clamp(cross.y, 8, SIDE - 8)})` });
    this.path.setAttribute("d", this.pathOverGamma());
    this.drawRegions();
  }

  // Where the weights go as the temperature falls from high to low.
  private pathOverGamma(): string {
    let path = "";
    for (let step = 0; step <= 60; ++step) {
      const { weights } = this.page.kernels.rows.solve(this.operator(this.state.operator, 8 * 0.9 ** step), this.state.scores);
      path += `${step === 0 ? "M" : "L"}${pair(toPicture(place(weights)))}`;
    }
    return path;
  }

  private drawRegions(): void {
    const operator = this.operator(this.state.operator);
    const version = JSON.stringify([operator.name, operator.gamma, operator.parameter]);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const shade = getComputedStyle(this.picture).getPropertyValue(`--${operator.name}`).trim();
    const strongest = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
    if (`${version} ${shade} ${strongest}` === this.drawnRegions) return;
    this.drawnRegions = `${version} ${shade} ${strongest}`;
    this.showRegions(operator, shade, QUICK);
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.showRegions(operator, shade, FINE), REST);
  }

  private showRegions(operator: RowOperator, colour: string, size: number): void {
    const regions = findRegions(this.page.kernels, operator, REACH, size);
    this.canvas.width = this.canvas.height = size;
    this.paint(regions, colour);
    const scale = SIDE / (size - 1);
    this.levels.replaceChildren(...regions.levels.map(({ lines }) => svg("path", { d: lines.map(([a, b]) => `M${pair(a, scale)}L${pair(b, scale)}`).join("") })));
    this.nameRegions(regions, scale);
  }

  // The more positions have weight, the lighter the region; lines between regions are drawn on the canvas, too.
  private paint({ size, keys, supports }: Regions, colour: string): void {
    const context = this.canvas.getContext("2d")!;
    context.fillStyle = colour;
    context.fillRect(0, 0, size, size);
    const image = context.getImageData(0, 0, size, size); // the colour everywhere; the shade is its opacity
    for (let row = 0, cell = 0; row < size; ++row) {
      for (let column = 0; column < size; ++column, ++cell) {
        const border = (column + 1 < size && keys[cell] !== keys[cell + 1]) || (row + 1 < size && keys[cell] !== keys[cell + size]);
        image.data[4 * cell + 3] = border ? 235 : SHADES[supports[cell]!]!;
      }
    }
    context.putImageData(image, 0, 0);
  }

  // The positions with weight, written in the middle of each region.
  private nameRegions({ size, keys, supports }: Regions, scale: number): void {
    const texts: SVGElement[] = [];
    for (const [key, { x, y, n }] of centres(keys, size, () => true)) {
      if (n < 0.012 * size * size || n === keys.length) continue;
      let at = { x, y };
      const inside = () => keys[Math.round(at.y) * size + Math.round(at.x)] === key;
      // A region in two pieces has its name in the right or in the upper one.
      if (!inside()) at = centres(keys, size, (column) => column > x).get(key) ?? at;
      if (!inside()) at = centres(keys, size, (_, row) => row < y).get(key) ?? at;
      if (inside()) texts.push(svg("text", { x: at.x * scale, y: at.y * scale + 5 }, regionName(key)));
    }
    this.names.replaceChildren(...texts);
    const kinds = new Set(supports).size;
    this.caption.textContent = kinds === 1
      ? `Everywhere in the plane ${this.state.operator} gives weight to the same positions. The lines are level sets of max_Ω; the dashed path is where the weights go as γ falls.`
      : "Each region of the plane gives weight to the same positions, which are written in it; equal signs mark weights that are exactly equal. The thin lines are level sets of max_Ω; the dashed path is where the weights go as γ falls.";
  }

  private showParameter(): void {
    const parameter = SHOWN.find(({ name }) => name === this.state.operator)?.parameter;
    if (this.shownParameter !== this.state.operator) {
      this.shownParameter = this.state.operator;
      this.parameter = parameter && new Slider({
        ...parameter,
        input: (value) => this.change(() => (this.state.parameters[parameter.key] = value), false),
        change: (value) => this.change(() => (this.state.parameters[parameter.key] = value), true),
      });
      this.parameterSlot.replaceChildren(...(this.parameter ? [element("span", { class: "label" }, parameter!.name), this.parameter.root] : []));
    }
    if (parameter) this.parameter?.set(this.state.parameters[parameter.key]!);
  }
}

// The middle of each region, of those cells that count, and how many they are.
function centres(keys: Uint8Array, size: number, counts: (column: number, row: number) => boolean): Map<number, { x: number; y: number; n: number }> {
  const sums = new Map<number, { x: number; y: number; n: number }>();
  for (let cell = 0; cell < keys.length; ++cell) {
    const [column, row] = [cell % size, Math.floor(cell / size)];
    if (!counts(column, row)) continue;
    const sum = sums.get(keys[cell]!) ?? { x: 0, y: 0, n: 0 };
    sum.x += column;
    sum.y += row;
    ++sum.n;
    sums.set(keys[cell]!, sum);
  }
  for (const sum of sums.values()) {
    sum.x /= sum.n;
    sum.y /= sum.n;
  }
  return sums;
}

function pair({ x, y }: Point, scale = 1): string {
  return `${(x * scale).toFixed(2)} ${(y * scale).toFixed(2)}`;
}

// "a b" for positions with weight, "a=b" where two of them are tied.
function regionName(key: number): string {
  const present = NAMES.filter((_, i) => key & (1 << i));
  if (key & 8 && key & 16) return "a=b=c";
  const tied = key & 8 ? ["a", "b"] : key & 16 ? ["b", "c"] : key & 32 ? ["a", "c"] : [];
  if (tied.length === 0) return present.join(" ");
  return [tied.join("="), ...present.filter((name) => !tied.includes(name))].join(" ");
}

export const view: View = {
  id: "simplex",
  title: "Simplex",
  mount: (root, page) => new SimplexView(root, page),
};
