// The structures view: scores of parts, the expected structure under one of four modes, the list of structures, samples.

import { element, oncePerFrame } from "../dom";
import type { Listed } from "../kernels/lattice";
import { numberText, readNumber, shortNumber } from "../numbers";
import { alignment } from "../structures/alignment";
import { chain } from "../structures/chain";
import { graph } from "../structures/graph";
import { type Drawing, type Kind, MODES, type Mode } from "../structures/kind";
import { matching } from "../structures/matching";
import { type Answer, MOST_LISTED, solve } from "../structures/solve";
import { tree } from "../structures/tree";
import type { Mounted, Page, View } from "../view";
import { Slider } from "../widgets/slider";

const KINDS: Kind<any>[] = [chain, alignment, matching, tree, graph]; // each with a state of its own type
const TITLES: Record<Mode, string> = { map: "MAP", shannon: "Shannon", squared: "Squared norm", sparsemap: "SparseMAP" };
const MEANINGS: Record<Mode, string> = {
  map: "The one structure with the best score.",
  shannon: "Every structure has a probability above zero: the exponential of its score, normalised.",
  squared: "Sparsemax at every step of the recursion: many structures have probability exactly zero.",
  sparsemap: "The few structures whose mean maximises the score less half its squared norm.",
};
const N_SAMPLES = 5;
const MOST_SHOWN = 12; // of the list

class StructuresView implements Mounted {
  private kind: Kind<any> = KINDS[0]!;
  private mode: Mode = "shannon";
  private gamma = 1;
  private seed = 1;
  private readonly states = new Map<string, any>();
  private drawing: Drawing<any> | undefined;
  private answer: Answer | undefined;
  private highlighted: Float64Array | undefined;
  private readonly frame = oncePerFrame(() => this.draw());
  private readonly kindButtons = new Map<string, HTMLButtonElement>();
  private readonly modeButtons = new Map<Mode, HTMLButtonElement>();
  private readonly note = element("p", { class: "hint" });
  private readonly meaning = element("p", { class: "hint" });
  private readonly picture = element("section", { class: "panel structure", "aria-label": "The structure" });
  private readonly value = element("b");
  private readonly count = element("b");
  private readonly list = element("ol", { class: "structure-list" });
  private readonly listTitle = element("h2", {});
  private readonly samples = element("ul", { class: "structure-list samples" });
  private readonly again = element("button", { type: "button", class: "button", click: () => this.change(() => (this.seed = (this.seed % 999) + 1), true) }, "Draw again");
  private readonly message = element("p", { class: "problem", role: "alert", hidden: true });
  private readonly temperature = new Slider({
    label: "γ", name: "temperature", low: 0.05, high: 5, step: 0.01, value: 1, logarithmic: true,
    input: (gamma) => this.change(() => (this.gamma = gamma), false),
    change: (gamma) => this.change(() => (this.gamma = gamma), true),
  });

  constructor(root: HTMLElement, private readonly page: Page) {
    const kinds = element("div", { class: "segmented", role: "group", "aria-label": "Kind of structure" });
    for (const kind of KINDS) {
      const button = element("button", { type: "button", click: () => this.change(() => this.choose(kind), true) }, kind.title);
      this.kindButtons.set(kind.id, button);
      kinds.append(button);
    }
    const modes = element("div", { class: "segmented", role: "group", "aria-label": "How structures are chosen" });
    for (const mode of MODES) {
      const button = element("button", { type: "button", click: () => this.change(() => (this.mode = mode), true) }, TITLES[mode]);
      this.modeButtons.set(mode, button);
      modes.append(button);
    }
    root.append(
      element("section", { class: "panel", "aria-label": "Kind and mode" },
        element("div", { class: "controls" },
          element("div", { class: "field" }, element("span", { class: "label" }, "Structure"), kinds),
          element("div", { class: "field" }, element("span", { class: "label" }, "Regularizer"), modes),
          element("div", { class: "field" }, element("span", { class: "label" }, "Temperature"), this.temperature.root)),
        this.note),
      element("div", { class: "two-sides" }, this.picture,
        element("div", {},
          element("section", { class: "panel", "aria-label": "Value" },
            element("p", { class: "stats large" }, element("span", {}, element("span", { class: "stat-name" }, "value: "), this.value), element("span", {}, element("span", { class: "stat-name" }, "listed: "), this.count)),
            this.meaning, this.message),
          element("section", { class: "panel", "aria-label": "List of structures" }, this.listTitle, this.list),
          element("section", { class: "panel", "aria-label": "Samples" }, element("div", { class: "list-head" }, element("h2", {}, "Samples"), this.again), this.samples))),
    );
  }

  load(text: string): void {
    const fields = new URLSearchParams(text);
    this.choose(KINDS.find(({ id }) => id === fields.get("k")) ?? KINDS[0]!);
    this.mode = MODES.find((mode) => mode === fields.get("o")) ?? "shannon";
    this.gamma = readNumber(fields.get("g"), 0.05, 5) ?? 1;
    this.seed = Math.round(readNumber(fields.get("r"), 1, 999) ?? 1);
    this.states.set(this.kind.id, this.kind.read(fields));
    this.frame.now();
  }

  unmount(): void {
    this.frame.cancel();
  }

  private get state(): any {
    if (!this.states.has(this.kind.id)) this.states.set(this.kind.id, this.kind.initial());
    return this.states.get(this.kind.id);
  }

  private choose(kind: Kind<any>): void {
    if (this.drawing && kind === this.kind) return;
    this.kind = kind;
    this.highlighted = undefined;
    this.picture.replaceChildren();
    this.drawing = kind.mount(this.picture, () => this.state, (apply, done) => this.change(apply, done));
  }

  private change(apply: () => void, undoable: boolean): void {
    apply();
    const fields = new URLSearchParams({ k: this.kind.id, o: this.mode });
    if (this.gamma !== 1) fields.set("g", shortNumber(this.gamma));
    if (this.seed !== 1) fields.set("r", String(this.seed));
    const own = new URLSearchParams(), initial = new URLSearchParams();
    this.kind.write(this.state, own);
    this.kind.write(this.kind.initial(), initial);
    for (const [key, value] of own) if (initial.get(key) !== value) fields.set(key, value);
    this.page.saveState(fields.toString(), { undoable });
    this.frame.ask();
  }

  private draw(): void {
    const mode = this.kind.modes.includes(this.mode) ? this.mode : "shannon";
    this.kindButtons.forEach((button, id) => button.setAttribute("aria-pressed", String(id === this.kind.id)));
    this.modeButtons.forEach((button, each) => {
      button.setAttribute("aria-pressed", String(each === mode));
      button.disabled = !this.kind.modes.includes(each);
      button.title = button.disabled ? (this.kind.missing ?? "") : MEANINGS[each];
    });
    this.temperature.set(this.gamma);
    this.note.textContent = this.kind.note;
    this.meaning.textContent = MEANINGS[mode];
    try {
      this.answer = solve(this.page.kernels, this.kind.problem(this.state), mode, this.gamma, this.seed, N_SAMPLES);
    } catch (error) {
      this.message.hidden = false;
      this.message.textContent = (error as Error).message;
      return;
    }
    this.message.hidden = true;
    this.highlighted = undefined;
    this.showList(this.answer, mode);
    this.drawPicture();
  }

  private drawPicture(): void {
    if (this.answer) this.drawing!.draw(this.state, this.answer.expected, this.highlighted);
  }

  private showList({ value, list, listsScores, samples }: Answer, mode: Mode): void {
    this.value.textContent = numberText(value);
    const shown = Math.min(list.length, MOST_SHOWN);
    const whole = mode === "sparsemap" || list.length < MOST_LISTED;
    if (listsScores) this.count.textContent = `the ${shown} best`;
    else if (!whole) this.count.textContent = `the ${shown} most probable`;
    else this.count.textContent = shown < list.length ? `${shown} of ${list.length}` : `all ${shown} that have probability`;
    this.listTitle.textContent = listsScores ? "Best scores" : "Most probable structures";
    const scale = listsScores ? 1 : Math.max(...list.map(({ probability }) => probability), 1e-9);
    this.list.replaceChildren(...list.slice(0, MOST_SHOWN).map((listed) => this.line(listed, listsScores, scale)));
    this.again.disabled = samples.length === 0;
    this.samples.replaceChildren(...(samples.length === 0
      ? [element("li", { class: "quiet" }, "The MAP is one structure; there is nothing to draw.")]
      : samples.map((parts) => this.pointable(element("li", {}, element("button", { type: "button", class: "structure-name", dir: "auto" }, this.kind.name(this.state, parts))), parts))));
  }

  private line({ probability, parts }: Listed, isScore: boolean, scale: number): HTMLElement {
    const share = isScore ? 0 : (100 * probability) / scale;
    const number = isScore ? numberText(probability, 2) : probability >= 0.0005 ? numberText(probability, 3) : "<0.001";
    return this.pointable(element("li", { style: `--share: ${share.toFixed(1)}%` },
      element("span", { class: "structure-number" }, number),
      element("button", { type: "button", class: "structure-name", dir: "auto" }, this.kind.name(this.state, parts))), parts);
  }

  // Shows a structure of a list in the picture while it is pointed at or focused.
  private pointable(line: HTMLElement, parts: Float64Array): HTMLElement {
    const show = (on: boolean) => () => {
      this.highlighted = on ? parts : undefined;
      this.drawPicture();
    };
    line.addEventListener("pointerenter", show(true));
    line.addEventListener("pointerleave", show(false));
    line.addEventListener("focusin", show(true));
    line.addEventListener("focusout", show(false));
    return line;
  }
}

export const view: View = {
  id: "structures",
  title: "Structures",
  mount: (root, page) => new StructuresView(root, page),
};
