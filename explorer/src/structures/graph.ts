// Paths in a directed acyclic graph of the user's own, one edge per line: tail, head, score.

import { element, svg } from "../dom";
import { LatticeBuilder } from "../kernels/lattice";
import { numberText, weightText } from "../numbers";
import type { Kind } from "./kind";
import { ScoreMatrix } from "./score_matrix";

interface Edge {
  tail: string;
  head: string;
  score: number;
}
interface GraphState {
  text: string; // the lines as the user wrote them
}
interface Parsed {
  nodes: string[]; // in topological order, the source first and the goal last
  edges: Edge[];
}

const TEXT = "start a 0.5\nstart b 0.3\nstart c -0.2\na b 0.2\na d 0.4\nb d 0.3\nb e 0.6\nc e 0.9\nd goal 0.5\ne goal 0.2\na goal 0.1";
const MOST_EDGES = 60;

// Throws an Error with a sentence that says what is wrong and how to mend it.
export function parseGraph(text: string): Parsed {
  const edges: Edge[] = [];
  for (const [number, line] of text.split("\n").entries()) {
    const words = line.trim().split(/\s+/u).filter((word) => word !== "");
    if (words.length === 0) continue;
    const score = words.length === 3 ? Number(words[2]!.replace("−", "-").replace(",", ".")) : words.length === 2 ? 0 : NaN;
    if (!Number.isFinite(score)) throw new Error(`Line ${number + 1} must be a tail, a head and a number, such as “a b 0.5”; it is “${line.trim().slice(0, 40)}”.`);
    if (words[0] === words[1]) throw new Error(`Line ${number + 1} leads from ${words[0]} to itself; paths never come back, so remove it.`);
    edges.push({ tail: words[0]!, head: words[1]!, score: Math.min(20, Math.max(-20, score)) });
  }
  if (edges.length === 0) throw new Error("The graph has no edges; write one per line, such as “a b 0.5”.");
  if (edges.length > MOST_EDGES) throw new Error(`The graph may have ${MOST_EDGES} edges, this one has ${edges.length}; remove some.`);
  const names = [...new Set(edges.flatMap(({ tail, head }) => [tail, head]))];
  const sources = names.filter((name) => !edges.some(({ head }) => head === name));
  const goals = names.filter((name) => !edges.some(({ tail }) => tail === name));
  const order: string[] = [];
  const left = new Set(names);
  while (left.size > 0) {
    const next = [...left].find((name) => !edges.some(({ tail, head }) => head === name && left.has(tail)));
    if (next === undefined) throw new Error(`The edges form a circle among ${[...left].slice(0, 5).join(", ")}; turn or remove one of them.`);
    left.delete(next);
    order.push(next);
  }
  if (sources.length > 1) throw new Error(`Paths must begin at one node, but no edge leads to ${sources.slice(0, 4).join(" or ")}; join them.`);
  if (goals.length > 1) throw new Error(`Paths must end at one node, but no edge leaves ${goals.slice(0, 4).join(" or ")}; join them.`);
  order.splice(order.indexOf(goals[0]!), 1);
  return { nodes: [...order, goals[0]!], edges };
}

export function graphBuilder({ nodes, edges }: Parsed): LatticeBuilder {
  const builder = new LatticeBuilder(1, edges.length);
  nodes.slice(1).forEach(() => builder.node());
  edges.forEach(({ tail, head }, i) => builder.edge(nodes.indexOf(head), [nodes.indexOf(tail)], [i]));
  return builder;
}

export const graph: Kind<GraphState> = {
  id: "graph",
  title: "Your graph",
  note: "Write your own directed graph without circles, one edge per line. The structures are its paths from the one node without a predecessor to the one without a successor.",
  modes: ["map", "shannon", "squared", "sparsemap"],
  initial: () => ({ text: TEXT }),
  read: (fields) => ({ text: fields.get("n")?.slice(0, 5000) ?? TEXT }),
  write: (state, fields) => fields.set("n", state.text),
  problem(state) {
    const parsed = parseGraph(state.text);
    return { builder: graphBuilder(parsed), scores: Float64Array.from(parsed.edges, ({ score }) => score), nRegularized: parsed.edges.length };
  },
  name(state, parts) {
    const { nodes, edges } = parseGraph(state.text);
    const path = [nodes[0]!];
    for (let next; (next = edges.find(({ tail }, i) => parts[i] === 1 && tail === path[path.length - 1])); ) path.push(next.head);
    return path.join(" → ");
  },
  mount(root, state, change) {
    const picture = svg("svg", { class: "graph", role: "img" });
    const matrix = new ScoreMatrix();
    const text = element("textarea", { id: "graph-text", rows: 8, spellcheck: "false", dir: "auto", maxlength: 5000 });
    text.addEventListener("input", () => change(() => (state().text = text.value), false));
    text.addEventListener("change", () => change(() => (state().text = text.value), true));
    root.append(
      element("div", { class: "picture-scroll" }, picture), matrix.root,
      element("div", { class: "field" }, element("label", { for: "graph-text" }, "Edges: tail, head, score"), text));
    return {
      draw(now, expected, highlighted) {
        if (document.activeElement !== text) text.value = now.text;
        const parsed = parseGraph(now.text);
        matrix.setup({
          title: "edge", rows: ["score"], columns: parsed.edges.map(({ tail, head }) => `${tail}→${head}`), name: (_, i) => `edge from ${parsed.edges[i]!.tail} to ${parsed.edges[i]!.head}`,
          change: (_, i, score, done) => change(() => (state().text = withScore(state().text, i, score)), done),
        });
        parsed.edges.forEach(({ score }, i) => matrix.update(0, i, score, expected[i]!));
        drawGraph(picture, parsed, expected, highlighted);
      },
    };
  },
};

// The text with another score in the line of an edge.
function withScore(text: string, edge: number, score: number): string {
  let seen = -1;
  return text.split("\n").map((line) => {
    const words = line.trim().split(/\s+/u);
    if (line.trim() === "" || ++seen !== edge) return line;
    return `${words[0]} ${words[1]} ${score}`;
  }).join("\n");
}

// How far an edge is bent: as little as keeps it clear of other nodes.
function freestBend(clearance: (bend: number) => number): number {
  const bends = [0, 30, -30, 60, -60, 90, -90, 120, -120];
  return bends.find((bend) => clearance(bend) > 30) ?? bends.reduce((best, bend) => (clearance(bend) > clearance(best) ? bend : best));
}

// Columns by the longest way from the source.
function drawGraph(picture: SVGSVGElement, { nodes, edges }: Parsed, expected: Float64Array, highlighted: Float64Array | undefined): void {
  const depth = new Map<string, number>();
  for (const name of nodes) depth.set(name, Math.max(0, ...edges.filter(({ head }) => head === name).map(({ tail }) => (depth.get(tail) ?? 0) + 1)));
  const columns: string[][] = [];
  for (const name of nodes) (columns[depth.get(name)!] ??= []).push(name);
  const tallest = Math.max(...columns.map((column) => column.length));
  const [across, down] = [124, 74];
  const [width, height] = [columns.length * across, Math.max(2, tallest) * down + 76];
  // Nodes of neighbouring columns are shifted a little, so that an edge over a column does not run through its node.
  const at = (name: string) => {
    const column = columns[depth.get(name)!]!;
    const shift = column.length === 1 ? [0, -17, 17][depth.get(name)! % 3]! : 0;
    return { x: across / 2 + depth.get(name)! * across, y: height / 2 + (column.indexOf(name) - (column.length - 1) / 2) * down + shift };
  };
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.style.maxWidth = `${width * 1.2}px`;
  picture.style.minWidth = `${Math.min(width, 480)}px`;
  const lines: SVGElement[] = [];
  edges.forEach(({ tail, head, score }, i) => {
    const [a, b] = [at(tail), at(head)];
    const mass = expected[i]!;
    const lit = highlighted?.[i] === 1;
    const length = Math.hypot(b.x - a.x, b.y - a.y);
    const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
    const middleAt = (bend: number) => ({ x: (a.x + b.x) / 2 + uy * bend, y: (a.y + b.y) / 2 - ux * bend });
    const others = nodes.filter((name) => name !== tail && name !== head).map(at);
    const middle = middleAt(freestBend((bend) => {
      const control = middleAt(bend);
      let nearest = Infinity;
      for (const t of [0.2, 0.35, 0.5, 0.65, 0.8]) {
        const [u, v, w] = [(1 - t) ** 2, 2 * t * (1 - t), t * t];
        for (const other of others) nearest = Math.min(nearest, Math.hypot(u * a.x + v * control.x + w * b.x - other.x, u * a.y + v * control.y + w * b.y - other.y));
      }
      return nearest;
    }));
    const [start, end] = [{ x: a.x + 17 * ux, y: a.y + 17 * uy }, { x: b.x - 21 * ux, y: b.y - 21 * uy }];
    lines[lit ? "push" : "unshift"](svg("g", { class: lit ? "arc lit" : mass === 0 ? "arc none" : "arc" },
      svg("path", { d: `M${start.x} ${start.y}Q${middle.x} ${middle.y} ${end.x} ${end.y}`, class: "edge", "stroke-width": mass === 0 && !lit ? 1 : Math.max(1.2, 8 * mass) }),
      svg("circle", { cx: end.x, cy: end.y, r: mass === 0 && !lit ? 2 : Math.max(3, 5 * mass), class: "tip" }),
      svg("text", { x: (a.x + b.x) / 4 + middle.x / 2, y: (a.y + b.y) / 4 + middle.y / 2 - 7, class: "small" }, numberText(score, 1)), svg("title", {}, `${tail} → ${head}: ${weightText(mass)}`)));
  });
  const circles = nodes.map((name) => {
    const { x, y } = at(name);
    const letters = Array.from(name);
    return svg("g", { class: "node", transform: `translate(${x} ${y})` }, svg("circle", { r: 16, class: "ring" }), svg("text", { y: 4, class: letters.length > 4 ? "small" : "" }, letters.length > 6 ? `${letters.slice(0, 5).join("")}…` : name));
  });
  picture.setAttribute("aria-label", `Expected path: ${edges.map(({ tail, head }, i) => `${tail} to ${head} ${weightText(expected[i]!)}`).join(", ")}`);
  picture.replaceChildren(...lines, ...circles);
}
