// The choices above the pictures: input, part, layer, head, form, size of cells, models.

import { element } from "../dom";
import type { Input, Part } from "./payload";
import { CELLS, type State } from "./state";
import { tokenText } from "./tokens";

type Change = (change: Partial<State>) => void;

export interface Actions {
  change: Change;
  exportSvg(): void;
  exportPng(): void;
}

export function controls(inputs: Input[], parts: Part[], state: State, actions: Actions): HTMLElement {
  const { change } = actions;
  const input = inputs[state.input]!;
  const count = (of: (part: Part) => number) => Math.max(1, ...parts.map(of));
  const heads = numbered("head", count((part) => part.nHeads), "mean of heads");
  const layers = numbered("layer", count((part) => part.nLayers), "mean of layers");
  const optional = (value: string) => (value === "mean" ? null : Number(value));
  const titles = input.models[0]?.parts.map((part, at): [string, string] => [String(at), part.title || `part ${at + 1}`]) ?? [];
  return element(
    "div",
    { class: "panel controls", role: "group", "aria-label": "What is shown" },
    inputs.length > 1 &&
      choice("Input", inputs.map((each, at) => [String(at), `${at + 1}. ${shortened(tokenText(each.text))}`]), String(state.input), (value) =>
        change({ input: Number(value), row: null, column: null }),
      ),
    titles.length > 1 &&
      choice("Attention", titles, String(state.part), (value) => change({ part: Number(value), row: null, column: null })),
    layers.length > 2 && choice("Layer", layers, String(state.layer ?? "mean"), (value) => change({ layer: optional(value) })),
    heads.length > 2 && choice("Head", heads, String(state.head ?? "mean"), (value) => change({ head: optional(value) })),
    choice("Drawn as", [["map", "map"], ["lines", "lines"]], state.form, (value) => change({ form: value === "lines" ? "lines" : "map" })),
    state.form === "map" &&
      choice("Cells", CELLS.map((cell) => [String(cell), cell === 0 ? "fitted" : `${cell} px`]), String(state.cell), (value) =>
        change({ cell: Number(value) }),
      ),
    input.models.length > 1 && modelBoxes(input, state, change),
    element("span", { class: "attention-exports" }, button("Save SVG", actions.exportSvg), button("Save PNG", actions.exportPng)),
  );
}

function numbered(name: string, count: number, mean: string): [string, string][] {
  return [["mean", mean], ...Array.from({ length: count }, (_, at): [string, string] => [String(at), `${name} ${at + 1}`])];
}

function choice(label: string, options: [string, string][], value: string, changed: (value: string) => void): HTMLElement {
  const select = element("select", { "data-control": label.replace(" ", "-"), change: () => changed(select.value) }, ...options.map(([id, text]) => element("option", { value: id }, text)));
  select.value = value;
  return element("label", { class: "field" }, element("span", { class: "label" }, label), select);
}

function modelBoxes(input: Input, state: State, change: Change): HTMLElement {
  const boxes = input.models.map((model, at) => {
    const box = element("input", {
      type: "checkbox",
      "data-control": `model-${at}`,
      change: () => change({ hidden: box.checked ? state.hidden.filter((each) => each !== at) : [...state.hidden, at] }),
    });
    box.checked = !state.hidden.includes(at);
    return element("label", {}, box, " ", element("bdi", { dir: "auto" }, model.normalizer || model.name));
  });
  return element("fieldset", { class: "attention-models" }, element("legend", { class: "small-label" }, "Models"), ...boxes);
}

function button(text: string, click: () => void): HTMLElement {
  return element("button", { type: "button", class: "button", "data-control": text.replace(" ", "-"), click }, text);
}

function shortened(text: string): string {
  const letters = Array.from(text);
  return letters.length > 60 ? `${letters.slice(0, 59).join("")}…` : text;
}
