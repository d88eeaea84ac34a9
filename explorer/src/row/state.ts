// What the row view shows, and how it is written into the address.

import { readNumber, shortNumber } from "../numbers";
import { SHOWN } from "./operators";
import { carryOver, tokensOf } from "./tokens";

export interface RowState {
  text: string;
  scores: number[];
  masked: boolean[];
  target: number; // a position, or -1
  gamma: number;
  parameters: Record<string, number>; // by the key of the parameter
  groups: number[]; // sizes of consecutive groups; the last one repeats
  shown: string[]; // names of operators; none: all of them
}

export const MOST_SCORE = 100;

export function initialState(): RowState {
  return {
    text: "the old man and his dog went home at six",
    scores: [0.1, 0.62, 0.66, -0.6, 0.2, 0.98, 0.64, 0.95, -0.9, 0.4],
    masked: new Array<boolean>(10).fill(false),
    target: -1,
    gamma: 1,
    parameters: Object.fromEntries(SHOWN.flatMap(({ parameter }) => (parameter ? [[parameter.key, parameter.value]] : []))),
    groups: [3, 1, 2, 2, 2],
    shown: [],
  };
}

export function writeState(state: RowState): string {
  const initial = initialState();
  const fields = new URLSearchParams();
  const put = (key: string, text: string, before: string) => {
    if (text !== before) fields.set(key, text);
  };
  put("t", state.text, initial.text);
  put("s", state.scores.map(shortNumber).join(" "), initial.scores.map(shortNumber).join(" "));
  put("m", indices(state.masked), "");
  put("y", String(state.target), "-1");
  put("g", shortNumber(state.gamma), "1");
  for (const key in state.parameters) put(key, shortNumber(state.parameters[key]!), shortNumber(initial.parameters[key]!));
  put("k", state.groups.join(" "), initial.groups.join(" "));
  put("v", state.shown.join(" "), "");
  return fields.toString();
}

export function readState(text: string): RowState {
  const state = initialState();
  const fields = new URLSearchParams(text);
  const own = fields.get("t");
  if (own !== null) retype(state, own);
  const n = state.scores.length;
  const scores = (fields.get("s") ?? "").split(/[\s,]+/).map((score) => readNumber(score, -MOST_SCORE, MOST_SCORE));
  if (fields.has("s")) state.scores = state.scores.map((_, i) => scores[i] ?? 0);
  for (const place of numbers(fields.get("m"))) if (place < n) state.masked[place] = true;
  const target = Number(fields.get("y") ?? "-1");
  if (Number.isInteger(target) && target >= 0 && target < n) state.target = target;
  state.gamma = readNumber(fields.get("g"), 0.05, 5) ?? state.gamma;
  for (const { parameter } of SHOWN) {
    if (!parameter) continue;
    state.parameters[parameter.key] = readNumber(fields.get(parameter.key), parameter.low, parameter.high) ?? parameter.value;
  }
  state.shown = (fields.get("v") ?? "").split(/[\s,]+/).filter((name) => SHOWN.some((shown) => shown.name === name));
  if (fields.has("k")) state.groups = readGroups(fields.get("k")!) ?? state.groups;
  return state;
}

// Changes the text; scores and masks follow their tokens.
export function retype(state: RowState, text: string): void {
  const before = tokensOf(state.text);
  const after = tokensOf(text);
  state.scores = carryOver(before, state.scores, after, 0);
  state.masked = carryOver(before, state.masked, after, false);
  if (state.target >= after.length) state.target = -1;
  state.text = text;
}

export function readGroups(text: string): number[] | undefined {
  const sizes = numbers(text).filter((size) => size > 0);
  return sizes.length > 0 ? sizes.slice(0, 100) : undefined;
}

// The group of each of n positions.
export function groupsOf(sizes: number[], n: number): Int32Array {
  const groups = new Int32Array(n);
  for (let position = 0, group = 0; position < n; ++group)
    for (let left = sizes[Math.min(group, sizes.length - 1)] ?? n; left > 0 && position < n; --left) groups[position++] = group;
  return groups;
}

function indices(flags: boolean[]): string {
  return flags.flatMap((flag, i) => (flag ? [i] : [])).join(" ");
}
function numbers(text: string | null): number[] {
  return (text ?? "").split(/[^\d]+/).filter((word) => word !== "").map(Number).filter(Number.isSafeInteger);
}
