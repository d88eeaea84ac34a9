// Reads the attention that Python put into the page, or that the server sent; omegamax/model_views/encoding.py writes it.

import { type Columns, SparseMap } from "./sparse_map";

export interface Part {
  title: string; // of a model with several kinds of attention
  rows: string[];
  columns: string[];
  nLayers: number;
  nHeads: number;
  cut: number; // weights below it were left out of the page; 0: none was
  maps: SparseMap[]; // layer 0 with all its heads, layer 1, ...
}

export interface Model {
  name: string;
  normalizer: string;
  note: string;
  parts: Part[];
}

export interface Input {
  text: string;
  models: Model[];
}

export interface AttentionData {
  inputs: Input[];
  serve: { maxCharacters: number } | null; // there is a server that reads new input
}

// Reads data of unknown origin; throws an Error with a sentence if it is not what Python writes.
export function readAttention(data: unknown): AttentionData {
  const { inputs, serve } = object(data, "attention");
  return {
    inputs: list(inputs, "inputs").map(readInput),
    serve: serve === undefined ? null : { maxCharacters: whole(object(serve, "serve").max_characters, "limit") },
  };
}

function readInput(data: unknown): Input {
  const { text, models } = object(data, "an input");
  return { text: string(text), models: list(models, "models").map(readModel) };
}

function readModel(data: unknown): Model {
  const { name, normalizer, note, parts } = object(data, "a model");
  return {
    name: string(name),
    normalizer: string(normalizer),
    note: string(note),
    parts: list(parts, "parts").map(readPart),
  };
}

function readPart(data: unknown): Part {
  const given = object(data, "weights");
  const rows = list(given.rows, "rows").map(string);
  const columns = list(given.columns, "columns").map(string);
  const nLayers = whole(given.layers, "layers");
  const nHeads = whole(given.heads, "heads");
  const counts = new Uint32Array(bytes(given.counts, 4));
  const leftOut = given.left_out === undefined ? null : new Uint32Array(bytes(given.left_out, 4));
  const wide = given.column_bits !== 16;
  const places = bytes(given.column_numbers, wide ? 4 : 2);
  const numbers: Columns = wide ? new Uint32Array(places) : new Uint16Array(places);
  const weights = new Float32Array(bytes(given.weights, 4));
  const nRows = nLayers * nHeads * rows.length;
  const starts = new Uint32Array(nRows + 1);
  counts.forEach((count, row) => (starts[row + 1] = starts[row]! + count));
  const fits =
    counts.length === nRows &&
    (leftOut === null || leftOut.length === nRows) &&
    starts[nRows] === weights.length &&
    numbers.length === weights.length &&
    numbers.every((column) => column < columns.length);
  if (!fits) throw new Error("the weights do not fit the tokens");
  const maps = Array.from({ length: nLayers * nHeads }, (_, at) => {
    const [from, to] = [at * rows.length, (at + 1) * rows.length];
    const own = leftOut === null ? null : leftOut.subarray(from, to);
    const exact = given.exact_zeros === true;
    return new SparseMap(rows.length, columns.length, starts.subarray(from, to + 1), numbers, weights, own, exact);
  });
  const cut = typeof given.cut === "number" ? given.cut : 0;
  return { title: string(given.title), rows, columns, nLayers, nHeads, cut, maps };
}

function object(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${what} must be an object`);
  return value as Record<string, unknown>;
}

function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${what} must be a list`);
  return value;
}

function string(value: unknown): string {
  if (typeof value !== "string") throw new Error("a token or a name must be a text");
  return value;
}

function whole(value: unknown, what: string): number {
  if (!Number.isInteger(value) || (value as number) < 1) throw new Error(`the number of ${what} must be whole`);
  return value as number;
}

// Base64 as bytes; browsers and Python both write the low byte first.
function bytes(value: unknown, size: number): ArrayBuffer {
  let text: string;
  try {
    text = atob(string(value));
  } catch {
    throw new Error("the weights are damaged");
  }
  if (text.length % size !== 0) throw new Error("the weights are damaged");
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
  return found.buffer;
}
