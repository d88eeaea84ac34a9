// A matching: every row gets a column of its own, and the other way round.

import { element, svg } from "../dom";
import { LatticeBuilder } from "../kernels/lattice";
import { weightText } from "../numbers";
import { type Kind, readNumbers, readWords, writeNumbers } from "./kind";
import { ScoreMatrix } from "./score_matrix";

interface MatchingState {
  rows: string[];
  columns: string[];
  scores: number[];
}

const ROWS = ["the", "house", "is", "small"];
const COLUMNS = ["das", "Haus", "ist", "klein"];
const SCORES = [
  1.6, 0.6, 0.2, -0.4, //
  0.5, 1.3, 0, 0.6, //
  0.3, 0, 1.1, 0.8, //
  -0.4, 0.9, 0.7, 1.2, //
];
const MOST = 7;

// Row by row over the set of columns that are taken: as many nodes as sets, which is why there are few columns. Each
// matching is derived once. Parts: pairs (n, n).
export function matchingBuilder(n: number): LatticeBuilder {
  const builder = new LatticeBuilder(1, n * n);
  const size = (set: number) => { let count = 0; for (; set > 0; set &= set - 1) ++count; return count; };
  const sets = Array.from({ length: 2 ** n }, (_, set) => set).sort((a, b) => size(a) - size(b) || a - b);
  const nodes = new Map<number, number>([[0, 0]]);
  for (const set of sets.slice(1)) {
    const node = builder.node();
    nodes.set(set, node);
    const row = size(set) - 1;
    for (let column = 0; column < n; ++column)
      if (set & (1 << column)) builder.edge(node, [nodes.get(set ^ (1 << column))!], [row * n + column]);
  }
  return builder;
}

export const matching: Kind<MatchingState> = {
  id: "matching",
  title: "Matching",
  note: "Every word on the left gets a word of its own on the right. The mean of matchings has rows and columns that sum to one.",
  modes: ["map", "shannon", "sparsemap"],
  missing: "Matchings have no recursion from which a squared norm could be built: its steps would depend on an order of the rows.",
  initial: () => ({ rows: ROWS.slice(), columns: COLUMNS.slice(), scores: SCORES.slice() }),
  read(fields) {
    let rows = readWords(fields.get("w"), ROWS, MOST);
    let columns = readWords(fields.get("v"), COLUMNS, MOST);
    const n = Math.min(rows.length, columns.length);
    rows = rows.slice(0, n);
    columns = columns.slice(0, n);
    return { rows, columns, scores: readNumbers(fields.get("e"), n === ROWS.length ? SCORES : new Array<number>(n * n).fill(0)) };
  },
  write(state, fields) {
    fields.set("w", state.rows.join(" "));
    fields.set("v", state.columns.join(" "));
    fields.set("e", writeNumbers(state.scores));
  },
  problem({ rows, scores }) {
    const n = rows.length;
    return { builder: matchingBuilder(n), scores: Float64Array.from(scores), nRegularized: n * n, matching: { rows: n, columns: n } };
  },
  name({ rows, columns }, parts) {
    const n = rows.length;
    return rows.map((row, i) => `${row}–${columns[parts.slice(i * n, (i + 1) * n).indexOf(1)] ?? "?"}`).join("  ");
  },
  mount(root, state, change) {
    const picture = svg("svg", { class: "bipartite", role: "img" });
    const matrix = new ScoreMatrix();
    const rows = element("input", { type: "text", class: "sentence", id: "matching-rows", dir: "auto" });
    const columns = element("input", { type: "text", class: "sentence", id: "matching-columns", dir: "auto" });
    const resize = () => change(() => {
      const before = state();
      const old = before.rows.length;
      const next = matching.read(new URLSearchParams({ w: rows.value, v: columns.value }));
      next.scores = next.rows.flatMap((_, i) => next.columns.map((_, j) => (i < old && j < old ? before.scores[i * old + j]! : 0)));
      Object.assign(before, next);
    }, true);
    rows.addEventListener("change", resize);
    columns.addEventListener("change", resize);
    root.append(
      element("div", { class: "side-by-side" }, picture, matrix.root),
      element("div", { class: "controls" },
        element("div", { class: "field grow" }, element("label", { for: "matching-rows" }, `Left words, up to ${MOST}`), rows),
        element("div", { class: "field grow" }, element("label", { for: "matching-columns" }, "Right words, as many"), columns)));
    return {
      draw(now, expected, highlighted) {
        const n = now.rows.length;
        if (document.activeElement !== rows) rows.value = now.rows.join(" ");
        if (document.activeElement !== columns) columns.value = now.columns.join(" ");
        matrix.setup({
          title: "pairs", rows: now.rows, columns: now.columns, name: (i, j) => `${now.rows[i]} with ${now.columns[j]}`,
          change: (i, j, score, done) => change(() => (state().scores[i * state().rows.length + j] = score), done),
        });
        for (let i = 0; i < n; ++i) for (let j = 0; j < n; ++j) matrix.update(i, j, now.scores[i * n + j]!, expected[i * n + j]!);
        drawBipartite(picture, now, expected, highlighted);
      },
    };
  },
};

function drawBipartite(picture: SVGSVGElement, { rows, columns }: MatchingState, expected: Float64Array, highlighted: Float64Array | undefined): void {
  const n = rows.length;
  const [width, down, left, right] = [360, 46, 100, 260];
  const y = (i: number) => 26 + i * down;
  picture.setAttribute("viewBox", `0 0 ${width} ${n * down + 8}`);
  picture.setAttribute("aria-label", "Expected matching: " + rows.map((row, i) => `${row} ${columns.map((column, j) => `${column} ${weightText(expected[i * n + j]!)}`).join(", ")}`).join("; "));
  const lines: SVGElement[] = [], texts: SVGElement[] = [];
  for (let i = 0; i < n; ++i) {
    for (let j = 0; j < n; ++j) {
      const mass = expected[i * n + j]!;
      const lit = highlighted?.[i * n + j] === 1;
      if (mass === 0 && !lit) continue;
      lines[lit ? "push" : "unshift"](svg("path", { d: `M${left + 10} ${y(i)}C${left + 70} ${y(i)} ${right - 70} ${y(j)} ${right - 10} ${y(j)}`, class: lit ? "edge lit" : "edge", "stroke-width": Math.max(1, 9 * mass) }, svg("title", {}, `${rows[i]} – ${columns[j]}: ${weightText(mass)}`)));
    }
    texts.push(svg("circle", { cx: left + 4, cy: y(i), r: 4, class: "dot" }), svg("circle", { cx: right - 4, cy: y(i), r: 4, class: "dot" }),
      svg("text", { x: left - 8, y: y(i) + 5, class: "side-left" }, rows[i]!), svg("text", { x: right + 8, y: y(i) + 5, class: "side-right" }, columns[i]!));
  }
  picture.replaceChildren(...lines, ...texts);
}
