// The attention of one or several models: all heads, one head as a map or as lines, models side by side.

import { controls } from "../attention/controls";
import type { Focus } from "../attention/drawing";
import { exportPng, exportSvg } from "../attention/export";
import { inputForm } from "../attention/input_form";
import { legend } from "../attention/legend";
import { type Overview, overview } from "../attention/overview";
import { PAPER, type Theme } from "../attention/palette";
import { Panel } from "../attention/panel";
import { type AttentionData, type Model, type Part, readAttention } from "../attention/payload";
import { exactText, rowTable } from "../attention/row_table";
import { meanMap, type SparseMap } from "../attention/sparse_map";
import { readState, type State, writeState } from "../attention/state";
import { tokenText } from "../attention/tokens";
import { element } from "../dom";
import { clamp } from "../numbers";
import type { Mounted, Page, View } from "../view";
import { Tooltip } from "../widgets/tooltip";

interface Shown {
  model: Model;
  part: Part;
  panel: Panel;
  overview: Overview | null;
  means: Map<string, SparseMap>;
}

export const view: View = { id: "attention", title: "Attention", mount: (root, page) => new AttentionView(root, page) };

// What was read before stays when the user goes to another view and comes back, also what the server has sent.
const READ = new WeakMap<object, AttentionData>();

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
  private readonly readout = element("p", { class: "attention-readout hint" });
  private readonly tables = element("div", { class: "attention-tables" });
  private readonly tip = new Tooltip();
  private readonly dark = window.matchMedia("(prefers-color-scheme: dark)");
  private readonly redraw = () => this.refresh();
  private readonly themes = new MutationObserver(this.redraw); // the user chose another one

  constructor(root: HTMLElement, private readonly page: Page) {
    const known = READ.get(page.data);
    try {
      this.data = known ?? readAttention(page.data.attention ?? { inputs: [] });
    } catch (error) {
      this.data = { inputs: [], serve: null };
      this.fault = `The attention in this page cannot be read: ${(error as Error).message}.`;
    }
    READ.set(page.data, this.data);
    if (this.data.serve !== null) this.form.append(inputForm(this.data.serve.maxCharacters, (inputs) => this.add(inputs)));
    const shown = element("section", { class: "panel" }, this.text, this.key, this.figures, this.readout);
    root.append(element("div", { class: "attention" }, this.form, this.choices, shown, this.tables));
    this.dark.addEventListener("change", this.redraw);
    this.themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.refresh();
  }

  load(state: string): void {
    this.state = readState(state);
    this.refresh();
  }

  unmount(): void {
    this.dark.removeEventListener("change", this.redraw);
    this.themes.disconnect();
    this.tip.remove();
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
    const focused = (document.activeElement as HTMLElement | null)?.dataset.control;
    this.choices.replaceChildren(
      controls(inputs, parts, state, {
        change: (change) => this.change(change),
        exportSvg: () => exportSvg(this.titled(), "attention"),
        exportPng: () => exportPng(this.titled(), "attention"),
      }),
    );
    if (focused) this.choices.querySelector<HTMLElement>(`[data-control="${focused}"]`)?.focus(); // it was made anew
    this.text.textContent = input.text;
    const maps = this.shown.map((each) => ({ part: each.part, map: this.map(each) }));
    this.key.replaceChildren(legend(state.form, Math.max(0, ...maps.map(({ map }) => map.largest())), maps));
    this.paint(this.chosen());
    this.describe();
  }

  private explain(): void {
    const fault = this.fault !== "";
    const how = this.data.serve ? "Type some text above." : "Put that of a trained model, or of a Hugging Face model, into the page:";
    const commands = 'omegamax explore runs/dates-sparsemax "3 March 2017"\nomegamax explore --model FOLDER "A text of your own"';
    this.figures.replaceChildren(
      element(
        "div",
        {},
        element("p", { class: "attention-message", role: fault ? "alert" : null }, fault ? this.fault : "This page holds no attention yet."),
        element("p", {}, how),
        this.data.serve === null && element("pre", { class: "attention-commands" }, commands),
      ),
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
  }

  private theme(): Theme {
    const style = getComputedStyle(this.figures);
    const own = (name: string, fallback: string) => style.getPropertyValue(name).trim() || fallback;
    return {
      ink: style.color,
      faint: own("--strong-line", PAPER.faint),
      paper: own("--panel", PAPER.paper),
      accent: own("--accent", PAPER.accent),
    };
  }

  private titled() {
    return this.shown.map(({ model, panel }) => ({ title: [model.name, model.normalizer].filter((text) => text).join(" · "), panel }));
  }

  // What a cell or a row holds: its tokens, and a line for each model.
  private described({ row, column }: Focus): { title: string; lines: string[] } {
    const inside = this.shown.filter(({ part }) => row < part.rows.length && (column ?? 0) < part.columns.length);
    if (inside.length === 0) return { title: "", lines: [] };
    const lines = inside.map((shown) => {
      const { model, part } = shown;
      const map = this.map(shown);
      const name = this.shown.length > 1 ? `${model.normalizer || model.name}: ` : "";
      if (column === null) return `${name}${map.count(row)} of ${map.nColumns} weights`;
      const cell = map.cell(row, column);
      const absent = { zero: "exactly 0", rounded: "too small to be stored", cut: `0 or below ${part.cut}` };
      return name + (cell.kind === "weight" ? exactText(cell.weight) : absent[cell.kind]);
    });
    const { part } = inside[0]!;
    const isolated = (token: string) => `\u2068${tokenText(token)}\u2069`; // its direction does not spread
    const from = `${isolated(part.rows[row]!)} (row ${row + 1})`;
    return { title: column === null ? from : `${from} → ${isolated(part.columns[column]!)} (column ${column + 1})`, lines };
  }

  private sentence(focus: Focus): string {
    const { title, lines } = this.described(focus);
    return title && `${title}. ${lines.join(", ")}`;
  }

  private hover(focus: Focus | null, x: number, y: number): void {
    this.paint(focus ?? this.chosen());
    const { title, lines } = focus === null ? { title: "", lines: [] } : this.described(focus);
    if (title === "") this.tip.hide();
    else this.tip.show(x, y, title, lines);
  }

  private choose(focus: Focus | null): void {
    this.change({ row: focus?.row ?? null, column: focus?.column ?? null });
    if (focus !== null) this.page.announce(this.sentence(focus));
  }

  private move(part: Part, rows: number, columns: number): void {
    const { row, column } = this.state;
    if (part.rows.length === 0 || part.columns.length === 0) return;
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
        return [element("div", { class: "wide-table" }, rowTable(part, this.map(shown), focus.row, model.normalizer || model.name))];
      }),
    );
  }
}
