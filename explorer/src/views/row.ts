// The row view: a sentence, one score per token, and the weights of every operator side by side.

import { element, oncePerFrame } from "../dom";
import type { Row, RowOperator } from "../kernels/rows";
import { numberText, weightText } from "../numbers";
import { OperatorCard } from "../row/card";
import { ScoreEditor } from "../row/editor";
import { lossOf, SHOWN } from "../row/operators";
import { PRESETS } from "../row/presets";
import { groupsOf, initialState, readGroups, readState, retype, type RowState, writeState } from "../row/state";
import { isRightToLeft, MOST_TOKENS, tokensOf } from "../row/tokens";
import type { Mounted, Page, View } from "../view";
import { Slider } from "../widgets/slider";
import { Tooltip } from "../widgets/tooltip";

const SCALES = [0.02, 0.05, 0.1, 0.25, 0.5, 1];

class RowView implements Mounted {
  private state: RowState = initialState();
  private tokens: string[] = [];
  private solved: { operator: RowOperator; row: Row }[] = [];
  private hovered = -1;
  private readonly frame = oncePerFrame(() => this.draw());
  private readonly tooltip = new Tooltip();
  private readonly sentence = element("input", { type: "text", id: "row-text", class: "sentence", autocomplete: "off", spellcheck: "false", dir: "auto", maxlength: 20000 });
  private readonly preset = element("select", { id: "row-preset" }, element("option", { value: "" }, "Choose an example …"), ...PRESETS.map(({ name }, i) => element("option", { value: i }, name)));
  private readonly groups = element("input", { type: "text", id: "row-groups", class: "number wide", title: "Sizes of consecutive groups; the last one repeats" });
  private readonly gamma = new Slider({
    label: "γ", name: "temperature of all operators", low: 0.05, high: 5, step: 0.01, value: 1, logarithmic: true,
    input: (gamma) => this.change(() => (this.state.gamma = gamma), false),
    change: (gamma) => this.change(() => (this.state.gamma = gamma), true),
  });
  private readonly editor = new ScoreEditor({
    score: (i, score, done) => this.change(() => (this.state.scores[i] = score), done),
    mask: (i) => this.change(() => (this.state.masked[i] = !this.state.masked[i]), true),
    target: (i) => this.change(() => (this.state.target = this.state.target === i ? -1 : i), true),
    hover: (i) => this.hover(i),
    describe: (i) => this.describe(i),
  });
  private readonly cards = SHOWN.map((shown) => new OperatorCard(shown, {
    parameter: (key, value, done) => this.change(() => (this.state.parameters[key] = value), done),
    hover: (i, x, y) => this.hoverCard(shown.name, i, x, y),
  }));
  private readonly table = element("table", {});
  private readonly numbers = element("details", { class: "numbers", toggle: () => this.fillTable() }, element("summary", {}, "All numbers as a table"), element("div", { class: "wide-table", tabindex: 0, role: "region", "aria-label": "All numbers" }, this.table));
  private readonly resized: ResizeObserver;

  constructor(root: HTMLElement, private readonly page: Page) {
    const cards = element("div", { class: "cards" }, ...this.cards.map((card) => card.root));
    root.append(
      element("section", { class: "panel controls", "aria-label": "The row" },
        element("div", { class: "field grow" }, element("label", { for: "row-text" }, "Sentence"), this.sentence),
        element("div", { class: "field" }, element("label", { for: "row-preset" }, "Examples"), this.preset),
        element("div", { class: "field" }, element("span", { class: "label" }, "Temperature"), this.gamma.root),
        element("div", { class: "field groups-field" }, element("label", { for: "row-groups" }, "Groups"), this.groups),
      ),
      element("section", { class: "panel", "aria-label": "Scores" },
        this.editor.root,
        element("p", { class: "hint" }, "Drag a bar, or use the arrow keys. Click a word to make it the target of the losses (T), the ring below it to mask it (M). Point at a word to see its column of the Jacobian: how all weights move with its score."),
      ),
      element("p", { class: "legend" }, legendItem("bar", "weight"), legendItem("zero", "exactly zero"), legendItem("mask", "masked"), legendItem("mark", "segment, or group"), element("span", {}, element("b", { class: "letter" }, "A"), "cluster of oscarmax"), legendItem("slope", "Jacobian")),
      cards,
      this.numbers,
    );
    this.sentence.addEventListener("input", () => this.change(() => retype(this.state, this.sentence.value), false));
    this.sentence.addEventListener("change", () => this.change(() => retype(this.state, this.sentence.value), true));
    this.groups.addEventListener("change", () => this.change(() => { this.state.groups = readGroups(this.groups.value) ?? this.state.groups; }, true, true));
    this.preset.addEventListener("change", () => this.usePreset());
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(cards);
  }

  load(state: string): void {
    this.state = readState(state);
    this.showControls();
    this.frame.now();
  }

  unmount(): void {
    this.frame.cancel();
    this.resized.disconnect();
    this.tooltip.remove();
  }

  private change(apply: () => void, undoable: boolean, controls = false): void {
    apply();
    this.page.saveState(writeState(this.state), { undoable });
    if (controls) this.showControls();
    this.frame.ask();
  }

  private usePreset(): void {
    const preset = PRESETS[Number(this.preset.value)];
    if (this.preset.value === "" || !preset) return;
    this.change(() => (this.state = readState(preset.state)), true, true);
    this.preset.value = "";
    this.page.announce(`${preset.name}: ${this.state.scores.length} tokens`);
  }

  private showControls(): void {
    this.sentence.value = this.state.text;
    this.gamma.set(this.state.gamma);
    this.groups.value = this.state.groups.join(" ");
    for (const card of this.cards) if (card.shown.parameter) card.setParameter(this.state.parameters[card.shown.parameter.key]);
  }

  private operator(name: RowOperator["name"], parameterKey: string | undefined): RowOperator {
    const parameter = parameterKey === undefined ? 0 : this.state.parameters[parameterKey];
    return { name, parameter, gamma: this.state.gamma, groups: groupsOf(this.state.groups, this.tokens.length) };
  }

  private draw(): void {
    const { text, scores, masked, target } = this.state;
    const rightToLeft = isRightToLeft(text);
    const tokens = tokensOf(text);
    if (tokens.length !== this.tokens.length || tokens.some((token, i) => token !== this.tokens[i])) {
      this.tokens = tokens;
      this.hovered = -1;
      this.editor.show(tokens, rightToLeft);
      if (tokens.length === MOST_TOKENS) this.page.announce(`Only the first ${MOST_TOKENS} tokens are shown`);
    }
    const allowed = scores.map((score, i) => (masked[i] ? -Infinity : score));
    this.solved = SHOWN.map(({ name, parameter }) => {
      const operator = this.operator(name, parameter?.key);
      return { operator, row: this.page.kernels.rows.solve(operator, allowed) };
    });
    const largest = Math.max(0, ...this.solved.map(({ operator, row }) => (operator.name === "hardmax" ? 0 : Math.max(0, ...row.weights))));
    const scale = SCALES.find((each) => each >= largest * 0.999) ?? 1;
    this.editor.update(scores, masked, target);
    this.cards.forEach((card, k) => {
      card.root.hidden = this.state.shown.length > 0 && !this.state.shown.includes(card.shown.name);
      const { operator, row } = this.solved[k]!;
      const loss = target < 0 ? undefined : lossOf(operator, row.value, scores, target, masked);
      card.draw({ tokens, rightToLeft, masked, operator, row, loss, scale: operator.name === "hardmax" ? 1 : scale });
    });
    this.hover(this.hovered);
    this.fillTable();
  }

  // Marks a position everywhere, and shows its column of every Jacobian.
  private hover(position: number): void {
    this.hovered = position;
    this.editor.highlight(position);
    const direction = new Float32Array(this.tokens.length);
    const shown = position >= 0 && position < direction.length && !this.state.masked[position];
    if (shown) direction[position] = 1;
    const columns = shown ? this.solved.map(({ operator, row }) => this.page.kernels.rows.product(operator, row, direction)) : [];
    const largest = Math.max(1e-6, ...columns.map((column) => Math.max(0, ...column.map(Math.abs))));
    this.cards.forEach((card, k) => {
      card.highlight(position);
      card.showJacobian(columns[k], largest);
    });
    if (position < 0) this.tooltip.hide();
  }

  private hoverCard(name: string, i: number, x: number, y: number): void {
    if (i !== this.hovered) this.hover(i);
    const k = SHOWN.findIndex((shown) => shown.name === name);
    const solved = this.solved[k];
    if (i < 0 || !solved) return this.tooltip.hide();
    if (this.state.masked[i]) return this.tooltip.show(x, y, this.tokens[i]!, ["masked"]);
    const direction = Float32Array.from(this.tokens, (_, j) => Number(j === i));
    const slope = this.page.kernels.rows.product(solved.operator, solved.row, direction)[i]!;
    const weight = solved.row.weights[i]!;
    this.tooltip.show(x, y, this.tokens[i]!, [
      `score ${numberText(this.state.scores[i]!, 2)}`,
      `${name} ${weight === 0 ? "exactly 0" : weight.toPrecision(6)}`,
      `∂p/∂θ ${numberText(slope, 4)}`,
    ]);
  }

  private describe(i: number): string {
    return this.solved.map(({ operator, row }) => `${operator.name} ${weightText(row.weights[i] ?? NaN)}`).join(", ");
  }

  private fillTable(): void {
    if (!this.numbers.open) return;
    const head = element("tr", {}, element("th", { scope: "col" }, "token"), element("th", { scope: "col" }, "score"), ...SHOWN.map(({ name }) => element("th", { scope: "col" }, name)));
    const body = this.tokens.map((token, i) => element("tr", {},
      element("th", { scope: "row", dir: "auto" }, token),
      element("td", {}, this.state.masked[i] ? "masked" : numberText(this.state.scores[i]!, 2)),
      ...this.solved.map(({ row }) => element("td", row.weights[i] === 0 ? { class: "zero" } : {}, row.weights[i] === 0 ? "0" : row.weights[i]!.toFixed(6)))));
    const foot = element("tr", {}, element("th", { scope: "row" }, "max_Ω"), element("td"), ...this.solved.map(({ row }) => element("td", {}, row.value.toFixed(6))));
    this.table.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body), element("tfoot", {}, foot));
  }

  private resize(): void {
    for (const card of this.cards) {
      const style = getComputedStyle(card.root);
      card.resize(Math.max(60, card.root.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)));
    }
    this.hover(this.hovered);
  }
}

function legendItem(kind: string, text: string): HTMLElement {
  return element("span", {}, element("i", { class: `key key-${kind}`, "aria-hidden": "true" }), text);
}

export const view: View = {
  id: "row",
  title: "Row",
  mount: (root, page) => new RowView(root, page),
};
