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

export interface Row {
  weights: Float32Array;
  value: number; // max_Ω(scores)
  joined: Uint8Array; // fusedmax: whether a position is in the segment of the supported position before it
  labels: Int32Array; // oscarmax: the cluster of each supported position, -1 elsewhere
}

export class RowKernels {
  constructor(private readonly module: KernelModule) {}

  // argmax over the simplex of <p, scores> - gamma Ω(p); a score of -Infinity removes its position.
  solve(operator: RowOperator, scores: Numbers): Row {
    const n = scores.length;
    const gamma = operator.gamma ?? 1;
    const scaled = Float32Array.from(scores, (score) => Math.fround(Math.fround(score) / Math.fround(gamma)));
    return this.module.scope((memory) => {
      const weights = memory.bytes(4 * n);
      const value = memory.bytes(4);
      const joined = memory.bytes(n);
      const labels = memory.bytes(4 * n);
      const kind = OPERATORS.indexOf(operator.name);
      const groups = memory.ints(groupsOf(operator, n));
      this.module.call("omegamax_row", kind, memory.floats(scaled), groups, operator.parameter ?? 0, n, weights, value, joined, labels);
      return {
        weights: memory.readFloats(weights, n),
        value: gamma * (memory.readFloats(value, 1)[0] ?? NaN),
        joined: memory.readBytes(joined, n),
        labels: memory.readInts(labels, n),
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
