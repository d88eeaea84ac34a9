// A projective dependency tree: every word has a head, one word hangs from the root, and no two arcs cross (Eisner).

import { element, svg } from "../dom";
import { LatticeBuilder } from "../kernels/lattice";
import { clamp, weightText } from "../numbers";
import { type Kind, readNumbers, readWords, writeNumbers } from "./kind";
import { ScoreMatrix } from "./score_matrix";

interface TreeState {
  words: string[];
  scores: number[]; // (n + 1, n + 1): [head, modifier], 0 is the root
}

const WORDS = ["they", "saw", "her", "with", "glasses"];
const SCORES = [
  0, -0.5, 2, -0.8, -1, -0.6, //
  0, 0, -0.5, -1, -1, -1, //
  0, 1.6, 0, 1.4, 1, 0.1, //
  0, -1, -0.6, 0, 0.9, -0.2, //
  0, -1, -1, -0.7, 0, 1.5, //
  0, -1, -0.8, -0.6, 0.3, 0, //
];
const MOST = 8;

// The recursion of Python's ProjectiveTree with a single root: R and L are half-spans of a head, B is both halves under
// an arc. Nodes by length of the span, B before R and L. Parts: arcs (n + 1, n + 1).
export function treeBuilder(n: number): LatticeBuilder {
  const size = n + 1;
  const builder = new LatticeBuilder(1, size * size, 2);
  const right: number[][] = [], left: number[][] = [], both: number[][] = [];
  for (let s = 0; s < size; ++s) {
    right.push(new Array<number>(size).fill(0)); // where s = t: the leaf
    left.push(new Array<number>(size).fill(0));
    both.push(new Array<number>(size).fill(0));
  }
  for (let length = 1; length < size; ++length) {
    for (let s = 1; s + length < size; ++s) {
      const t = s + length;
      const node = (both[s]![t] = builder.node());
      for (let k = s; k < t; ++k) builder.edge(node, [right[s]![k]!, left[k + 1]![t]!], []);
    }
    for (let s = 1; s + length < size; ++s) {
      const t = s + length;
      const rightward = (right[s]![t] = builder.node());
      for (let k = s + 1; k <= t; ++k) builder.edge(rightward, [both[s]![k]!, right[k]![t]!], [s * size + k]);
      const leftward = (left[s]![t] = builder.node());
      for (let k = s; k < t; ++k) builder.edge(leftward, [left[s]![k]!, both[k]![t]!], [t * size + k]);
    }
  }
  const goal = builder.node();
  for (let k = 1; k <= n; ++k) builder.edge(goal, [left[1]![k]!, right[k]![n]!], [k]);
  return builder;
}

export const tree: Kind<TreeState> = {
  id: "tree",
  title: "Dependency tree",
  note: "Every word has a head, exactly one hangs from the root, and arcs do not cross. An arc is as thick as it is probable; the table has heads in its rows.",
  modes: ["map", "shannon", "squared", "sparsemap"],
  initial: () => ({ words: WORDS.slice(), scores: SCORES.slice() }),
  read(fields) {
    const words = readWords(fields.get("w"), WORDS, MOST);
    const own = words.length === WORDS.length;
    return { words, scores: readNumbers(fields.get("e"), own ? SCORES : new Array<number>((words.length + 1) ** 2).fill(0)) };
  },
  write(state, fields) {
    fields.set("w", state.words.join(" "));
    fields.set("e", writeNumbers(state.scores));
  },
  problem({ words, scores }) {
    return { builder: treeBuilder(words.length), scores: Float64Array.from(scores), nRegularized: scores.length };
  },
  name({ words }, parts) {
    const size = words.length + 1;
    return words.map((word, i) => {
      const head = Array.from({ length: size }, (_, h) => h).find((h) => parts[h * size + i + 1] === 1) ?? -1;
      return `${word}←${head === 0 ? "root" : (words[head - 1] ?? "?")}`;
    }).join("  ");
  },
  mount(root, state, change) {
    const picture = svg("svg", { class: "arcs", role: "img" });
    const matrix = new ScoreMatrix();
    const words = element("input", { type: "text", class: "sentence", id: "tree-words", dir: "auto" });
    words.addEventListener("change", () => change(() => {
      const before = state();
      const [old, next] = [before.words.length + 1, tree.read(new URLSearchParams({ w: words.value }))];
      const size = next.words.length + 1;
      next.scores = Array.from({ length: size * size }, (_, at) => {
        const [h, m] = [Math.floor(at / size), at % size];
        return h < old && m < old ? before.scores[h * old + m]! : 0;
      });
      Object.assign(before, next);
    }, true));
    root.append(
      element("div", { class: "picture-scroll" }, picture), matrix.root,
      element("div", { class: "controls" }, element("div", { class: "field grow" }, element("label", { for: "tree-words" }, `Words, up to ${MOST}`), words)));
    return {
      draw(now, expected, highlighted) {
        const size = now.words.length + 1;
        if (document.activeElement !== words) words.value = now.words.join(" ");
        const heads = ["root", ...now.words];
        matrix.setup({
          title: "head, word", rows: heads, columns: now.words, skip: (h, m) => h === m + 1, name: (h, m) => `${heads[h]} as head of ${now.words[m]}`,
          change: (h, m, score, done) => change(() => (state().scores[h * (state().words.length + 1) + m + 1] = score), done),
        });
        for (let h = 0; h < size; ++h) for (let m = 1; m < size; ++m) if (h !== m) matrix.update(h, m - 1, now.scores[h * size + m]!, expected[h * size + m]!);
        drawArcs(picture, now, expected, highlighted);
      },
    };
  },
};

function drawArcs(picture: SVGSVGElement, { words }: TreeState, expected: Float64Array, highlighted: Float64Array | undefined): void {
  const size = words.length + 1;
  const across = clamp(((picture.parentElement?.clientWidth ?? 700) - 90) / (size - 1), 56, 98);
  const x = (i: number) => 44 + i * across;
  const longest = Math.max(1, ...Array.from(expected.keys()).filter((at) => expected[at]! > 0 || highlighted?.[at] === 1).map((at) => Math.abs(Math.floor(at / size) - (at % size))));
  const height = 66 + 21 * Math.min(5, longest);
  const base = height - 34;
  picture.setAttribute("viewBox", `0 0 ${x(size - 1) + 50} ${height}`);
  picture.style.minWidth = `${Math.min(x(size - 1) + 50, 300)}px`;
  picture.style.maxWidth = `${1.2 * (x(size - 1) + 50)}px`;
  const arcs: SVGElement[] = [], texts: SVGElement[] = [], said: string[] = [];
  for (let h = 0; h < size; ++h)
    for (let m = 1; m < size; ++m) {
      if (h === m) continue;
      const mass = expected[h * size + m]!;
      const lit = highlighted?.[h * size + m] === 1;
      if (mass > 0) said.push(`${words[m - 1]} from ${h === 0 ? "root" : words[h - 1]} ${weightText(mass)}`);
      if (mass === 0 && !lit) continue;
      const [from, to] = [x(h) + (m > h ? 7 : -7), x(m) + (m > h ? -5 : 5)];
      const peak = base - 14 - 27 * Math.min(5, Math.abs(h - m));
      const width = Math.max(1, 7 * mass);
      arcs[lit ? "push" : "unshift"](svg("g", { class: lit ? "arc lit" : "arc" },
        svg("path", { d: `M${from} ${base}C${from} ${peak} ${to} ${peak} ${to} ${base - 5}`, "stroke-width": width, class: "edge" }),
        svg("path", { d: `M${to - 4.5} ${base - 8}h9L${to} ${base}z`, class: "tip" }), svg("title", {}, `${words[m - 1]} ← ${h === 0 ? "root" : words[h - 1]}: ${weightText(mass)}`)));
    }
  ["root", ...words].forEach((word, i) => texts.push(svg("text", { x: x(i), y: height - 10, class: i === 0 ? "word root" : "word" }, word)));
  picture.setAttribute("aria-label", `Expected heads: ${said.join(", ")}`);
  picture.replaceChildren(...arcs, ...texts);
}
