// Solves a problem under one of the modes: value, expected structure, list and samples.

import type { Kernels } from "../kernels/kernels";
import type { Lattice, Listed } from "../kernels/lattice";
import type { Mode, Problem } from "./kind";

export interface Answer {
  value: number;
  expected: Float64Array;
  list: Listed[]; // of the most probable structures, or, for the MAP, of those with the best scores
  listsScores: boolean;
  samples: Float64Array[];
}

export const MOST_LISTED = 8;

export function solve(kernels: Kernels, problem: Problem, mode: Mode, gamma: number, seed: number, nSamples: number): Answer {
  const lattice = kernels.lattice(problem.builder);
  try {
    const scaled = problem.scores.map((score) => score / gamma);
    if (mode === "sparsemap") return sparsemap(kernels, lattice, problem, scaled, gamma, seed, nSamples);
    const { value, marginals } = lattice.solve(mode === "map" ? "hard" : mode, mode === "map" ? problem.scores : scaled);
    if (!Number.isFinite(value)) throw new Error("Every structure is forbidden; raise a score.");
    if (mode === "map") return { value, expected: marginals, list: lattice.best(MOST_LISTED, problem.scores), listsScores: true, samples: [] };
    return { value: gamma * value, expected: marginals, list: lattice.ranked(MOST_LISTED), listsScores: false, samples: lattice.sample(seed, nSamples) };
  } finally {
    lattice.close();
  }
}

function sparsemap(kernels: Kernels, lattice: Lattice, { matching, nRegularized }: Problem, scaled: Float64Array, gamma: number, seed: number, nSamples: number): Answer {
  const list = matching
    ? kernels.matchings.sparsemap(matching.rows, matching.columns, scaled)
    : lattice.sparsemap(scaled, nRegularized);
  list.sort((a, b) => b.probability - a.probability);
  const expected = new Float64Array(scaled.length);
  for (const { probability, parts } of list) parts.forEach((count, i) => (expected[i]! += probability * count));
  let value = 0;
  expected.forEach((mass, i) => {
    if (mass !== 0) value += mass * scaled[i]! - (i < nRegularized ? 0.5 * mass * mass : 0);
  });
  return { value: gamma * value, expected, list, listsScores: false, samples: draw(list, seed, nSamples) };
}

// Random structures of the list, by their probabilities.
function draw(list: Listed[], seed: number, n: number): Float64Array[] {
  let state = seed >>> 0;
  const next = () => { // mulberry32
    state = (state + 0x6d2b79f5) >>> 0;
    let z = Math.imul(state ^ (state >>> 15), 1 | state);
    z ^= z + Math.imul(z ^ (z >>> 7), 61 | z);
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
  return Array.from({ length: n }, () => {
    let left = next();
    return (list.find(({ probability }) => (left -= probability) < 0) ?? list[list.length - 1]!).parts;
  });
}
