// Where in the plane of scores an operator gives weight to the same positions, and the level sets of its maximum.

import type { Kernels } from "../kernels/kernels";
import type { RowOperator } from "../kernels/rows";
import { levelLines, type Point, scoresAt } from "./plane";

export interface Regions {
  size: number; // of the grid, which covers [-reach, reach] in both directions, from the top left
  keys: Uint8Array; // one number per region
  supports: Uint8Array; // how many positions have weight
  levels: { level: number; lines: [Point, Point][] }[]; // in coordinates of the grid
}

export function findRegions(kernels: Kernels, operator: RowOperator, reach: number, size: number): Regions {
  const scores = new Float32Array(3 * size * size);
  for (let row = 0, at = 0; row < size; ++row) {
    for (let column = 0; column < size; ++column, at += 3) {
      const here = scoresAt({ x: reach * ((2 * column) / (size - 1) - 1), y: reach * (1 - (2 * row) / (size - 1)) });
      scores.set(here, at);
    }
  }
  const { weights, values } = kernels.rows.solveAll(operator, scores, size * size);
  const keys = new Uint8Array(size * size);
  const supports = new Uint8Array(size * size);
  const ties = operator.name === "fusedmax" || operator.name === "oscarmax";
  for (let cell = 0; cell < keys.length; ++cell) {
    const [a, b, c] = [weights[3 * cell]!, weights[3 * cell + 1]!, weights[3 * cell + 2]!];
    supports[cell] = Number(a > 0) + Number(b > 0) + Number(c > 0);
    let key = Number(a > 0) + 2 * Number(b > 0) + 4 * Number(c > 0);
    if (ties) key += 8 * Number(a > 0 && a === b) + 16 * Number(b > 0 && b === c) + 32 * Number(a > 0 && a === c);
    keys[cell] = key;
  }
  return { size, keys, supports, levels: findLevels(values, size) };
}

// On a grid of about 120, which is enough for lines this smooth.
function findLevels(values: Float32Array, size: number): Regions["levels"] {
  const step = Math.max(1, Math.round(size / 120));
  const coarse = Math.floor((size - 1) / step) + 1;
  const some = new Float32Array(coarse * coarse);
  for (let row = 0; row < coarse; ++row)
    for (let column = 0; column < coarse; ++column) some[row * coarse + column] = values[step * (row * size + column)]!;
  const low = Math.min(...some.filter(Number.isFinite));
  const levels = [];
  for (let level = Math.floor(4 * low + 1) / 4; level < low + 2; level += 0.25) {
    const lines = levelLines(some, coarse, level).map((line) => line.map(({ x, y }) => ({ x: step * x, y: step * y })) as [Point, Point]);
    levels.push({ level, lines });
  }
  return levels;
}
