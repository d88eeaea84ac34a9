// Operators on one row of scores, computed by csrc/rows in float32.

import type { KernelModule, Numbers } from "./module";

// The order is that of `enum Operator` in wasm/rows.cpp.
export const OPERATORS = [
  "hardmax", "softmax", "entmax", "sparsemax", "sqpnormmax", "normmax", "fusedmax", "oscarmax", "groupmax",
] as const;
export type OperatorName = (typeof OPERATORS)[number];

export interface RowOperator {
  name: OperatorName;
  parameter?: number; // alpha of entmax and normmax, p of sqpnormmax, strength of fusedmax, oscarmax and groupmax
  gamma?: number; // the temperature, 1 if it is left out
  groups?: Numbers; // of groupmax: the group of each position
}

interface Certificate {
  weights: Float32Array;
  joined: Uint8Array; // fusedmax: whether a position is in the segment of the supported position before it
  labels: Int32Array; // oscarmax: the cluster of each supported position, -1 elsewhere
}
export interface Row extends Certificate {
  value: number; // max_Ω(scores)
}
export interface Rows extends Certificate {
  values: Float32Array; // one per row
}

export class RowKernels {
  constructor(private readonly module: KernelModule) {}

  // argmax over the simplex of <p, scores> - gamma Ω(p); a score of -Infinity removes its position.
  solve(operator: RowOperator, scores: Numbers): Row {
    const found = this.solveAll(operator, scores, 1);
    return { ...found, value: found.values[0] ?? NaN };
  }

  // The same for several rows of one length, which stand one after the other in `scores`.
  solveAll(operator: RowOperator, scores: Numbers, rows: number): Rows {
    const size = scores.length;
    const n = rows === 0 ? 0 : size / rows;
    const gamma = Math.fround(operator.gamma ?? 1);
    const scaled = Float32Array.from(scores, (score) => Math.fround(score) / gamma);
    return this.module.scope((memory) => {
      const weights = memory.bytes(4 * size);
      const values = memory.bytes(4 * rows);
      const joined = memory.bytes(size);
      const labels = memory.bytes(4 * size);
      const kind = OPERATORS.indexOf(operator.name);
      const groups = memory.ints(groupsOf(operator, n));
      this.module.call(
        "omegamax_rows", kind, memory.floats(scaled), groups, operator.parameter ?? 0, rows, n, weights, values, joined, labels,
      );
      return {
        weights: memory.readFloats(weights, size),
        values: memory.readFloats(values, rows).map((value) => gamma * value),
        joined: operator.name === "fusedmax" ? memory.readBytes(joined, size) : new Uint8Array(size),
        labels: operator.name === "oscarmax" ? memory.readInts(labels, size) : new Int32Array(size).fill(-1),
      };
    });
  }

  // The Jacobian of the weights by the scores, times a direction.
  product(operator: RowOperator, row: Row, direction: Numbers): Float32Array {
    const n = direction.length;
    const gamma = operator.gamma ?? 1;
    const product = this.module.scope((memory) => {
      const found = memory.bytes(4 * n);
      const kind = OPERATORS.indexOf(operator.name);
      const joined = memory.bytes(n);
      new Uint8Array(this.module.exports.memory.buffer, joined, n).set(row.joined);
      this.module.call(
        "omegamax_row_product", kind, memory.floats(row.weights), memory.floats(direction),
        memory.ints(groupsOf(operator, n)), operator.parameter ?? 0, n, joined, memory.ints(row.labels), found,
      );
      return memory.readFloats(found, n);
    });
    return product.map((number) => number / gamma);
  }
}

function groupsOf(operator: RowOperator, n: number): Numbers {
  return operator.name === "groupmax" ? (operator.groups ?? new Int32Array(n)) : [];
}
