// A chain of tags: one tag per word, scored by the words and by neighbouring tags.

import { element, svg } from "../dom";
import { LatticeBuilder } from "../kernels/lattice";
import { clamp, weightText } from "../numbers";
import { type Kind, readNumbers, readWords, writeNumbers } from "./kind";
import { ScoreMatrix } from "./score_matrix";

interface ChainState {
  words: string[];
  tags: string[];
  emissions: number[]; // [word, tag]
  transitions: number[]; // [tag, next tag]
}

const WORDS = ["the", "old", "man", "the", "boats"];
const TAGS = ["DET", "ADJ", "NOUN", "VERB"];
const EMISSIONS = [
  1.5, -1, -1, -1, //
  -1, 1.1, 0.7, -1, //
  -1, -1, 1, 0.6, //
  1.5, -1, -1, -1, //
  -1, -1, 1.2, 0.2, //
];
const TRANSITIONS = [
  -1.2, 0.6, 0.9, -1, //
  -0.8, 0.2, 0.9, -0.6, //
  0, -0.6, 0.1, 0.8, //
  0.9, 0.1, 0.2, -0.8, //
];

// Parts: emissions (n, c), transitions (c, c), and pairs (n - 1, c, c), which have no scores of their own and are drawn.
export function chainBuilder(n: number, c: number): LatticeBuilder {
  const builder = new LatticeBuilder(1, n * c + c * c + (n - 1) * c * c);
  let before: number[] = [];
  for (let word = 0; word < n; ++word) {
    const here: number[] = [];
    for (let tag = 0; tag < c; ++tag) {
      const node = builder.node();
      here.push(node);
      if (word === 0) builder.edge(node, [0], [tag]);
      else
        before.forEach((tail, from) => {
          const pair = n * c + c * c + ((word - 1) * c + from) * c + tag;
          builder.edge(node, [tail], [word * c + tag, n * c + from * c + tag, pair]);
        });
    }
    before = here;
  }
  const goal = builder.node();
  for (const tail of before) builder.edge(goal, [tail], []);
  return builder;
}

export const chain: Kind<ChainState> = {
  id: "chain",
  title: "Tag chain",
  note: "One tag per word. A score of the word and one of the pair of neighbouring tags add up along the chain; every path through the picture is a structure.",
  modes: ["map", "shannon", "squared", "sparsemap"],
  initial: () => ({ words: WORDS.slice(), tags: TAGS.slice(), emissions: EMISSIONS.slice(), transitions: TRANSITIONS.slice() }),
  read(fields) {
    const words = readWords(fields.get("w"), WORDS, 10);
    const tags = readWords(fields.get("c"), TAGS, 6);
    const own = words.length === WORDS.length && tags.length === TAGS.length;
    return {
      words, tags,
      emissions: readNumbers(fields.get("e"), own ? EMISSIONS : new Array<number>(words.length * tags.length).fill(0)),
      transitions: readNumbers(fields.get("t"), tags.length === TAGS.length ? TRANSITIONS : new Array<number>(tags.length ** 2).fill(0)),
    };
  },
  write(state, fields) {
    fields.set("w", state.words.join(" "));
    fields.set("c", state.tags.join(" "));
    fields.set("e", writeNumbers(state.emissions));
    fields.set("t", writeNumbers(state.transitions));
  },
  problem({ words, tags, emissions, transitions }) {
    const [n, c] = [words.length, tags.length];
    const scores = new Float64Array(n * c + c * c + (n - 1) * c * c);
    scores.set(emissions);
    scores.set(transitions, n * c);
    return { builder: chainBuilder(n, c), scores, nRegularized: n * c };
  },
  name({ words, tags }, parts) {
    const c = tags.length;
    return words.map((_, word) => tags[parts.slice(word * c, (word + 1) * c).indexOf(1)] ?? "?").join(" ");
  },
  mount(root, state, change) {
    const picture = svg("svg", { class: "trellis", role: "img" });
    const words = element("input", { type: "text", class: "sentence", id: "chain-words", dir: "auto" });
    const tags = element("input", { type: "text", class: "sentence", id: "chain-tags", dir: "auto" });
    const emissions = new ScoreMatrix();
    const transitions = new ScoreMatrix();
    const resize = () => change(() => {
      const before = state();
      const fields = new URLSearchParams({ w: words.value, c: tags.value });
      const next = chain.read(fields);
      // Scores stay with the numbers of words and tags.
      next.emissions = next.words.flatMap((_, word) => next.tags.map((_, tag) => (word < before.words.length && tag < before.tags.length ? before.emissions[word * before.tags.length + tag]! : 0)));
      next.transitions = next.tags.flatMap((_, from) => next.tags.map((_, to) => (from < before.tags.length && to < before.tags.length ? before.transitions[from * before.tags.length + to]! : 0)));
      Object.assign(before, next);
    }, true);
    words.addEventListener("change", resize);
    tags.addEventListener("change", resize);
    root.append(
      element("div", { class: "picture-scroll" }, picture),
      element("div", { class: "matrices" }, emissions.root, transitions.root),
      element("div", { class: "controls" },
        element("div", { class: "field grow" }, element("label", { for: "chain-words" }, "Words, up to 10"), words),
        element("div", { class: "field grow" }, element("label", { for: "chain-tags" }, "Tags, up to 6"), tags)));
    return {
      draw(now, expected, highlighted) {
        const [n, c] = [now.words.length, now.tags.length];
        if (document.activeElement !== words) words.value = now.words.join(" ");
        if (document.activeElement !== tags) tags.value = now.tags.join(" ");
        emissions.setup({
          title: "word, tag", rows: now.tags, columns: now.words, name: (tag, word) => `${now.tags[tag]} for ${now.words[word]}`,
          change: (tag, word, score, done) => change(() => (state().emissions[word * state().tags.length + tag] = score), done),
        });
        transitions.setup({
          title: "tag, next tag", rows: now.tags, columns: now.tags, name: (from, to) => `${now.tags[to]} after ${now.tags[from]}`,
          change: (from, to, score, done) => change(() => (state().transitions[from * state().tags.length + to] = score), done),
        });
        for (let tag = 0; tag < c; ++tag) {
          for (let word = 0; word < n; ++word) emissions.update(tag, word, now.emissions[word * c + tag]!, expected[word * c + tag]!);
          for (let to = 0; to < c; ++to) transitions.update(tag, to, now.transitions[tag * c + to]!, undefined);
        }
        drawTrellis(picture, now, expected, highlighted);
      },
    };
  },
};

function drawTrellis(picture: SVGSVGElement, { words, tags }: ChainState, expected: Float64Array, highlighted: Float64Array | undefined): void {
  const [n, c] = [words.length, tags.length];
  const across = clamp(((picture.parentElement?.clientWidth ?? 700) - 150) / Math.max(1, n - 1), 56, 118);
  const [left, top, down] = [64, 20, 46];
  const x = (word: number) => left + 40 + word * across;
  const y = (tag: number) => top + 14 + tag * down;
  const [width, height] = [x(n - 1) + 60, y(c - 1) + 56];
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.style.maxWidth = `${width * 1.15}px`;
  picture.style.minWidth = `${Math.min(width, 300)}px`;
  picture.setAttribute("aria-label", "Expected tags: " + words.map((word, i) => `${word} ${tags.map((tag, t) => `${tag} ${weightText(expected[i * c + t]!)}`).join(", ")}`).join("; "));
  const lines: SVGElement[] = [], circles: SVGElement[] = [];
  const pair = (word: number, from: number, to: number) => n * c + c * c + ((word - 1) * c + from) * c + to;
  for (let word = 1; word < n; ++word)
    for (let from = 0; from < c; ++from)
      for (let to = 0; to < c; ++to) {
        const mass = expected[pair(word, from, to)]!;
        const lit = highlighted?.[pair(word, from, to)] === 1;
        const d = `M${x(word - 1) + 13} ${y(from)}C${x(word - 1) + across / 2} ${y(from)} ${x(word) - across / 2} ${y(to)} ${x(word) - 13} ${y(to)}`;
        lines[lit ? "push" : "unshift"](svg("path", { d, class: lit ? "edge lit" : mass === 0 ? "edge none" : "edge", "stroke-width": mass === 0 && !lit ? 1 : Math.max(1, 9 * mass) }));
      }
  for (let word = 0; word < n; ++word) {
    for (let tag = 0; tag < c; ++tag) {
      const mass = expected[word * c + tag]!;
      const node = svg("g", { transform: `translate(${x(word)} ${y(tag)})`, class: highlighted?.[word * c + tag] === 1 ? "node lit" : "node" },
        svg("circle", { r: 13, class: mass === 0 ? "ring none" : "ring" }), svg("circle", { r: mass === 0 ? 0 : Math.max(2, 13 * Math.sqrt(mass)), class: "mass" }), svg("title", {}, `${words[word]} ${tags[tag]}: ${weightText(mass)}`));
      circles.push(node);
    }
    circles.push(svg("text", { x: x(word), y: height - 10, class: "word" }, words[word]!));
  }
  tags.forEach((tag, t) => circles.push(svg("text", { x: left + 4, y: y(t) + 4, class: "tag" }, tag)));
  picture.replaceChildren(...lines, ...circles);
}
