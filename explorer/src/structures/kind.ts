// What a kind of structure is: its scores, its dynamic program, and how it is drawn and edited.

import type { LatticeBuilder } from "../kernels/lattice";

export const MODES = ["map", "shannon", "squared", "sparsemap"] as const;
export type Mode = (typeof MODES)[number];

export interface Problem {
  builder: LatticeBuilder;
  scores: Float64Array; // one per part; -Infinity forbids a part
  nRegularized: number; // the first parts, of which SparseMAP regularises the expectation
  matching?: { rows: number; columns: number }; // MAP and SparseMAP by the kernels of matchings
}

// Changes the state of a kind. `done` is false while the user drags.
export type Change = (apply: () => void, done: boolean) => void;

export interface Drawing<State> {
  // `expected` is how often each part is expected, `highlighted` a structure of the list that is pointed at.
  draw(state: State, expected: Float64Array, highlighted: Float64Array | undefined): void;
}

export interface Kind<State> {
  id: string;
  title: string;
  note: string;
  modes: readonly Mode[];
  missing?: string; // why some modes are not there
  initial(): State;
  read(fields: URLSearchParams): State;
  write(state: State, fields: URLSearchParams): void;
  problem(state: State): Problem; // throws an Error with a sentence where the state describes none
  name(state: State, parts: Float64Array): string; // of a structure, in the list
  mount(root: HTMLElement, state: () => State, change: Change): Drawing<State>;
}

// Scores in the address: numbers with two digits, separated by spaces.
export function writeNumbers(numbers: ArrayLike<number>): string {
  return Array.from(numbers, (number) => String(Number(number.toFixed(2)))).join(" ");
}
export function readNumbers(text: string | null, fallback: number[], most = 20): number[] {
  const words = (text ?? "").split(/[\s,]+/).filter((word) => word !== "");
  if (text === null) return fallback.slice();
  return fallback.map((_, i) => {
    const number = Number(words[i] ?? "0");
    return Number.isFinite(number) ? Math.min(most, Math.max(-most, number)) : 0;
  });
}
export function readWords(text: string | null, fallback: string[], most: number): string[] {
  const words = (text ?? "").trim().split(/\s+/u).filter((word) => word !== "").slice(0, most);
  return words.length > 0 ? words : fallback.slice();
}
