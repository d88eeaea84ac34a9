// The operators of the row view, as omegamax/operator_table.py has them: names, Ω, parameters, what Ω is at a corner.

import type { OperatorName, RowOperator } from "../kernels/rows";

export interface Parameter {
  key: string; // in the address
  label: string;
  name: string;
  low: number;
  high: number;
  step: number;
  value: number;
  digits: number;
}

export interface ShownOperator {
  name: OperatorName;
  omega: string;
  parameter?: Parameter;
}

const STRENGTH = { label: "λ", low: 0, step: 0.005, digits: 3 };

export const SHOWN: ShownOperator[] = [
  { name: "softmax", omega: "Σ p log p" },
  {
    name: "entmax", omega: "(Σ pᵅ − 1) / (α(α − 1))",
    parameter: { key: "a", label: "α", name: "order of entmax", low: 1, high: 4, step: 0.01, value: 1.5, digits: 2 },
  },
  { name: "sparsemax", omega: "½(‖p‖² − 1)" },
  {
    name: "sqpnormmax", omega: "½(‖p‖ₚ² − 1)",
    parameter: { key: "p", label: "p", name: "norm of sqpnormmax", low: 1.05, high: 2, step: 0.01, value: 1.5, digits: 2 },
  },
  {
    name: "fusedmax", omega: "½(‖p‖² − 1) + λ Σ |pᵢ₊₁ − pᵢ|",
    parameter: { ...STRENGTH, key: "f", name: "strength of fusedmax", high: 1, value: 0.1 },
  },
  {
    name: "oscarmax", omega: "½(‖p‖² − 1) + λ Σ max(pᵢ, pⱼ)",
    parameter: { ...STRENGTH, key: "o", name: "strength of oscarmax", high: 0.5, value: 0.05 },
  },
  {
    name: "groupmax", omega: "½(‖p‖² − 1) + λ Σ ‖p_g‖",
    parameter: { ...STRENGTH, key: "l", name: "strength of groupmax", high: 2, value: 0.4 },
  },
  {
    name: "normmax", omega: "‖p‖ − 1, of order α",
    parameter: { key: "n", label: "α", name: "order of normmax", low: 1.1, high: 8, step: 0.05, value: 2, digits: 2 },
  },
  { name: "hardmax", omega: "0" },
];

// Ω of the corner of the simplex at a position. Masked positions are removed: neighbours of theirs become adjacent.
export function omegaAtCorner(operator: RowOperator, position: number, masked: boolean[]): number {
  const strength = operator.parameter ?? 0;
  const left = masked.map((_, i) => i).filter((i) => !masked[i]);
  const place = left.indexOf(position);
  switch (operator.name) {
    case "fusedmax":
      return strength * ((place > 0 ? 1 : 0) + (place < left.length - 1 ? 1 : 0));
    case "oscarmax":
      return strength * (left.length - 1);
    case "groupmax":
      return strength;
    default:
      return 0;
  }
}

// The Fenchel-Young loss of scores for a target position: max_Ω(scores) + γ Ω(target) − score of the target.
export function lossOf(operator: RowOperator, value: number, scores: number[], target: number, masked: boolean[]): number {
  if (masked[target]) return Infinity;
  return value + (operator.gamma ?? 1) * omegaAtCorner(operator, target, masked) - (scores[target] ?? 0);
}
