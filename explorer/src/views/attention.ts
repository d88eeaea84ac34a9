// The attention of one or several models: all heads, one head as a map or as lines, models side by side.

import { controls } from "../attention/controls";
import type { Focus } from "../attention/drawing";
import { exportPng, exportSvg } from "../attention/export";
import { inputForm } from "../attention/input_form";
import { legend } from "../attention/legend";
import { type Overview, overview } from "../attention/overview";
import type { Theme } from "../attention/palette";
import { Panel } from "../attention/panel";
import { type AttentionData, type Model, type Part, readAttention } from "../attention/payload";
import { exactText, rowTable } from "../attention/row_table";
import { meanMap, type SparseMap } from "../attention/sparse_map";
import { readState, type State, writeState } from "../attention/state";
import { tokenText } from "../attention/tokens";
import { element } from "../dom";
import { clamp } from "../numbers";
import type { Mounted, Page, View } from "../view";

interface Shown {
  model: Model;
  part: Part;
  panel: Panel;
  overview: Overview | null;
  means: Map<string, SparseMap>;
}

export const view: View = { id: "attention", title: "Attention", mount: (root, page) => new AttentionView(root, page) };

class AttentionView implements Mounted {
  private readonly data: AttentionData;
  private readonly fault: string = "";
  private state: State = readState("");
  private shown: Shown[] = [];
  private built = ""; // for which input and models the panels were made
  private readonly form = element("div", {});
  private readonly choices = element("div", {});
  private readonly text = element("p", { class: "attention-text", dir: "auto" });
  private readonly key = element("div", {});
  private readonly figures = element("div", { class: "attention-figures" });
  private readonly readout = element("p", { class: "attention-readout" });
  private readonly tables = element("div", { class: "attention-tables" });
  private readonly tip = element("div", { class: "attention-tip", "aria-hidden": "true" });
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private readonly redraw = () => this.refresh();

  constructor(root: HTMLElement, private readonly page: Page) {
    try {
      this.data = readAttention(page.data.attention ?? { inputs: [] });
    } catch (error) {
      this.data = { inputs: [], serve: null };
      this.fault = `The attention in this page cannot be read: ${(error as Error).message}.`;
    }
    if (this.data.serve !== null) this.form.append(inputForm(this.data.serve.maxCharacters, (inputs) => this.add(inputs)));
    root.append(element("div", { class: "attention" }, this.form, this.choices, this.text, this.key, this.figures, this.readout, this.tables, this.tip));
    this.dark.addEventListener("change", this.redraw);
    this.refresh();
  }

  load(state: string): void {
    this.state = readState(state);
    this.refresh();
  }

  unmount(): void {
    this.dark.removeEventListener("change", this.redraw);
    this.clear();
  }

  private add(inputs: AttentionData["inputs"]): void {
    this.data.inputs.push(...inputs);
    this.page.announce("The attention on the new input is shown.");
    this.change({ input: this.data.inputs.length - inputs.length, row: null, column: null });
  }

  private change(change: Partial<State>): void {
    this.state = { ...this.state, ...change };
    this.page.saveState(writeState(this.state), { undoable: true });
    this.refresh();
  }

  private refresh(): void {
    const { inputs } = this.data;
    if (inputs.length === 0) {
      this.explain();
      return;
    }
    const state = this.state;
    state.input = clamp(state.input, 0, inputs.length - 1);
    const input = inputs[state.input]!;
    state.part = clamp(state.part, 0, Math.max(0, ...input.models.map((model) => model.parts.length - 1)));
    const built = JSON.stringify([state.input, state.part, state.hidden]);
    if (built !== this.built) this.build(built);
    const parts = this.shown.map(({ part }) => part);
    this.choices.replaceChildren(
      controls(inputs, parts, state, {
        change: (change) => this.change(change),
        exportSvg: () => exportSvg(this.titled(), "attention"),
        exportPng: () => exportPng(this.titled(), "attention"),
      }),
    );
    this.text.textContent = input.text;
    this.paint(this.chosen());
    this.describe();
  }

  private explain(): void {
    this.figures.replaceChildren(
      element("p", { class: "attention-message", role: this.fault ? "alert" : null }, this.fault || "This page holds no attention yet."),
      element("p", {}, this.data.serve ? "Type some text above." : "Put that of a trained model, or of a Hugging Face model, into the page:"),
      ...(this.data.serve ? [] : [element("pre", {}, 'omegamax explore runs/dates-sparsemax "3 March 2017"\nomegamax explore --model FOLDER "A text of your own"')]),
    );
  }

  private clear(): void {
    for (const each of this.shown) {
      each.panel.unmount();
      each.overview?.unmount();
    }
    this.shown = [];
    this.figures.replaceChildren();
  }

  private build(built: string): void {
    this.clear();
    this.built = built;
    const { input, part: partNumber, hidden } = this.state;
    this.data.inputs[input]!.models.forEach((model, at) => {
      const part = model.parts[partNumber];
      if (hidden.includes(at) || part === undefined || part.maps.length === 0) return;
      const title = [model.name, model.normalizer].filter((text) => text).join(" · ");
      const panel: Panel = new Panel(`Attention of ${title}`, {
        hover: (focus, x, y) => this.hover(focus, x, y),
        choose: (focus) => this.choose(focus),
        move: (rows, columns) => this.move(part, rows, columns),
        scroll: (left, top) => this.shown.forEach((each) => each.panel !== panel && each.panel.scrollTo(left, top)),
      });
      const largest = Math.max(0, ...part.maps.map((map) => map.largest()));
      const all = part.maps.length > 1 ? overview(part, largest, title, (layer, head) => this.change({ layer, head })) : null;
      this.figures.append(
        element(
          "figure",
          {},
          element("figcaption", {}, element("bdi", { dir: "auto" }, model.name), model.normalizer ? ` · ${model.normalizer}` : ""),
          model.note ? element("p", { class: "attention-note" }, `${model.note}.`) : null,
          all?.root,
          panel.root,
        ),
      );
      this.shown.push({ model, part, panel, overview: all, means: new Map() });
    });
  }

  // The chosen head of a model, or a mean; a model with fewer layers or heads shows its last ones.
  private map(shown: Shown): SparseMap {
    const { part, means } = shown;
    const layer = this.state.layer === null ? null : Math.min(this.state.layer, part.nLayers - 1);
    const head = this.state.head === null ? null : Math.min(this.state.head, part.nHeads - 1);
    const key = `${layer} ${head}`;
    let found = means.get(key);
    if (found === undefined) {
      const { nHeads } = part;
      found = meanMap(part.maps.filter((_, at) => (layer === null || Math.floor(at / nHeads) === layer) && (head === null || at % nHeads === head)));
      means.set(key, found);
    }
    return found;
  }

  private chosen(): Focus | null {
    return this.state.row === null ? null : { row: this.state.row, column: this.state.column };
  }

  private paint(focus: Focus | null): void {
    const maps = this.shown.map((each) => this.map(each));
    const largest = Math.max(0, ...maps.map((map) => map.largest()));
    const theme = this.theme();
    this.shown.forEach((each, at) => {
      const { part } = each;
      const inside = focus !== null && focus.row < part.rows.length && (focus.column ?? 0) < part.columns.length;
      const { form, cell } = this.state;
      each.panel.show({ part, map: maps[at]!, form, cell, largest, focus: inside ? focus : null }, theme);
      each.overview?.choose(this.state.layer, this.state.head);
    });
    this.key.replaceChildren(legend(this.state.form, largest, this.shown.map(({ part }, at) => ({ part, map: maps[at]! }))));
  }

  private theme(): Theme {
    const style = getComputedStyle(this.figures);
    const own = (name: string, fallback: string) => style.getPropertyValue(name).trim() || fallback;
    const dark = own("--attention-dark", "0") === "1";
    return {
      ink: style.color,
      faint: dark ? "#7a8590" : "#8a8a8a",
      paper: own("--attention-paper", dark ? "#14181d" : "#ffffff"),
      accent: own("--attention-accent", dark ? "#6db8e8" : "#0b5c8e"),
    };
  }

  private titled() {
    return this.shown.map(({ model, panel }) => ({ title: [model.name, model.normalizer].filter((text) => text).join(" · "), panel }));
  }

  // What a cell or a row holds, in each model, as a sentence.
  private sentence(focus: Focus): string {
    const { row, column } = focus;
    const first = this.shown.find(({ part }) => row < part.rows.length && (column ?? 0) < part.columns.length);
    if (first === undefined) return "";
    const found = this.shown.flatMap((shown) => {
      const { model, part } = shown;
      if (row >= part.rows.length || (column !== null && column >= part.columns.length)) return [];
      const map = this.map(shown);
      const name = this.shown.length > 1 ? `${model.normalizer || model.name} ` : "";
      if (column === null) return [`${name}${map.count(row)} of ${map.nColumns} weights`];
      const cell = map.cell(row, column);
      const absent = { zero: "exactly 0", rounded: "too small to be stored", cut: `0 or below ${part.cut}` };
      return [name + (cell.kind === "weight" ? exactText(cell.weight) : absent[cell.kind])];
    });
    const isolated = (token: string) => `\u2068${tokenText(token)}\u2069`; // its direction does not spread
    const from = `${isolated(first.part.rows[row]!)} (row ${row + 1})`;
    const to = column === null ? "" : ` → ${isolated(first.part.columns[column]!)} (column ${column + 1})`;
    return `${from}${to}: ${found.join(", ")}`;
  }

  private hover(focus: Focus | null, x: number, y: number): void {
    this.paint(focus ?? this.chosen());
    this.tip.textContent = focus === null ? "" : this.sentence(focus);
    this.tip.hidden = focus === null;
    if (focus === null) return;
    const { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.left = `${clamp(x + 14, 4, Math.max(4, window.innerWidth - offsetWidth - 8))}px`;
    this.tip.style.top = `${y + 18 + offsetHeight > window.innerHeight ? y - 14 - offsetHeight : y + 18}px`;
  }

  private choose(focus: Focus | null): void {
    this.change({ row: focus?.row ?? null, column: focus?.column ?? null });
    if (focus !== null) this.page.announce(this.sentence(focus));
  }

  private move(part: Part, rows: number, columns: number): void {
    const { row, column } = this.state;
    const next = row === null ? 0 : clamp(row + rows, 0, part.rows.length - 1);
    const across = row === null ? 0 : clamp((column ?? 0) + (column === null && columns !== 0 ? 0 : columns), 0, part.columns.length - 1);
    this.choose({ row: next, column: across });
    for (const { panel } of this.shown) panel.reveal();
  }

  private describe(): void {
    const focus = this.chosen();
    this.readout.textContent = focus === null ? "Point at a cell to read its weight; click, or use the arrow keys, to choose one." : this.sentence(focus);
    this.tables.replaceChildren(
      ...this.shown.flatMap((shown) => {
        const { model, part } = shown;
        if (focus === null || focus.row >= part.rows.length) return [];
        return [rowTable(part, this.map(shown), focus.row, model.normalizer || model.name)];
      }),
    );
  }
}
