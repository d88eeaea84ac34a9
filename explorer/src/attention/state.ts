// What the user has chosen in the attention view, and how the address says it.

import type { Form } from "./drawing";

export interface State {
  input: number;
  part: number;
  layer: number | null; // null: the mean of all layers
  head: number | null; // null: the mean of all heads
  form: Form;
  cell: number; // pixels; 0: the whole map in sight
  row: number | null;
  column: number | null;
  hidden: number[]; // models that are not shown
}

export const CELLS = [0, 8, 14, 20, 30];
const INITIAL: State = { input: 0, part: 0, layer: null, head: null, form: "map", cell: 0, row: null, column: null, hidden: [] };

export function writeState(state: State): string {
  const found = new URLSearchParams();
  for (const name of ["input", "part", "layer", "head", "cell", "row", "column"] as const) {
    if (state[name] !== INITIAL[name]) found.set(name, String(state[name]));
  }
  if (state.form !== INITIAL.form) found.set("form", state.form);
  if (state.hidden.length > 0) found.set("hidden", state.hidden.join("."));
  return found.toString();
}

// Reads an address, which a person may have edited: what is not understood takes its initial value.
export function readState(text: string): State {
  const given = new URLSearchParams(text);
  const whole = (value: string | null) => (value !== null && /^\d{1,7}$/.test(value) ? Number(value) : null);
  const cell = whole(given.get("cell"));
  const row = whole(given.get("row"));
  return {
    input: whole(given.get("input")) ?? 0,
    part: whole(given.get("part")) ?? 0,
    layer: whole(given.get("layer")),
    head: whole(given.get("head")),
    form: given.get("form") === "lines" ? "lines" : "map",
    cell: cell !== null && CELLS.includes(cell) ? cell : 0,
    row,
    column: row === null ? null : whole(given.get("column")),
    hidden: (given.get("hidden") ?? "").split(".").map(whole).filter((model): model is number => model !== null),
  };
}
