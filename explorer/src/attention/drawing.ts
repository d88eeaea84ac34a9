// Draws one head as a map of cells or as lines between tokens. Only what is inside the frame is looked at.

import { absentColour, FOCUS_COLOUR, NAN_COLOUR, paint, type Theme, weightColour } from "./palette";
import type { Part } from "./payload";
import { pool, type SparseMap } from "./sparse_map";
import type { Surface } from "./surface";
import { fitted, tokenText } from "./tokens";

export type Form = "map" | "lines";

export interface Focus {
  row: number;
  column: number | null;
}

export interface Frame {
  width: number; // in CSS pixels, with the space of the labels
  height: number;
  scrollLeft: number;
  scrollTop: number;
  left: number; // space of the labels
  top: number;
  right: number; // in lines: space of the labels of columns
  cell: number; // size of a cell, or height of a line
  pixelRatio: number;
}

export const LINE_HEIGHT = 20;
export const MOST_LINES = 5000; // in sight at once; the heaviest are drawn
const FONT_SIZE = 12;
const MOST_LABEL = 130;
const WIDEST = 14; // no letter is wider
const LEAST_LABELLED = 10; // size of a cell beside which a token is readable
const LEAST_DRAWN = 6; // smaller cells are painted as pixels

// The space that the labels of a part need.
export function margins(surface: Surface, part: Part, form: Form, cell: number): { left: number; top: number; right: number } {
  if (form === "map" && cell < LEAST_LABELLED) return { left: 6, top: 6, right: 0 };
  const [left, right] = [longest(surface, part.rows) + 10, longest(surface, part.columns) + 10];
  return form === "map" ? { left, top: right, right: 0 } : { left, top: 6, right };
}

const WIDTHS = new WeakMap<string[], number>(); // measured once: every frame needs them

function longest(surface: Surface, tokens: string[]): number {
  let width = WIDTHS.get(tokens);
  if (width === undefined) WIDTHS.set(tokens, (width = measured(surface, tokens)));
  return width;
}

function measured(surface: Surface, tokens: string[]): number {
  let width = 16;
  for (const token of tokens.slice(0, 2000)) {
    if (token.length * WIDEST > width) width = Math.max(width, surface.width(tokenText(token), FONT_SIZE));
    if (width >= MOST_LABEL) return MOST_LABEL;
  }
  return Math.ceil(width);
}

export function draw(surface: Surface, part: Part, map: SparseMap, form: Form, frame: Frame, largest: number, theme: Theme, focus: Focus | null): void {
  surface.rect(0, 0, frame.width, frame.height, theme.paper);
  if (form === "map") drawMap(surface, part, map, frame, largest, theme, focus);
  else drawLines(surface, part, map, frame, theme, focus);
}

function drawMap(surface: Surface, part: Part, map: SparseMap, frame: Frame, largest: number, theme: Theme, focus: Focus | null): void {
  const { cell, left, top, scrollLeft, scrollTop } = frame;
  const width = Math.min(frame.width - left, map.nColumns * cell - scrollLeft);
  const height = Math.min(frame.height - top, map.nRows * cell - scrollTop);
  if (width <= 0 || height <= 0) return;
  const x = (column: number) => left + column * cell - scrollLeft;
  const y = (row: number) => top + row * cell - scrollTop;
  const firstRow = Math.max(0, Math.floor(scrollTop / cell));
  const endRow = Math.min(map.nRows, Math.ceil((scrollTop + height) / cell));
  const firstColumn = Math.max(0, Math.floor(scrollLeft / cell));
  const endColumn = Math.min(map.nColumns, Math.ceil((scrollLeft + width) / cell));
  surface.clip(left, top, width, height, () => {
    if (cell < LEAST_DRAWN) {
      const scale = frame.pixelRatio;
      const [across, down] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
      const step = 1 / (cell * scale);
      const region = { top: scrollTop / cell, left: scrollLeft / cell, rowsPerBlock: step, columnsPerBlock: step };
      surface.image(paint(pool(map, across, down, region), across, down, largest), left, top, width, height);
      return;
    }
    const gap = cell >= 12 ? 1 : 0.5;
    for (let row = firstRow; row < endRow; row++) {
      surface.rect(left, y(row), width, cell - gap, absentColour(map.absent(row)));
      map.forRow(row, firstColumn, endColumn, (column, weight) => {
        surface.rect(x(column), y(row), cell, cell - gap, weightColour(weight, largest));
      });
    }
    for (let column = firstColumn; column < endColumn; column++) surface.rect(x(column + 1) - gap, top, gap, height, theme.paper);
  });
  surface.frame(left, top, width, height, theme.faint, 1);
  if (focus !== null) drawFocus(surface, frame, width, height, focus, x, y);
  if (cell < LEAST_LABELLED) return;
  for (let row = firstRow; row < endRow; row++) {
    const middle = y(row) + cell / 2;
    if (middle < top) continue;
    const text = fitted(surface, tokenText(part.rows[row]!), FONT_SIZE, left - 10);
    surface.text(text, left - 5, middle, { fill: theme.ink, anchor: "end", size: FONT_SIZE, bold: focus?.row === row });
  }
  for (let column = firstColumn; column < endColumn; column++) {
    const middle = x(column) + cell / 2;
    if (middle < left) continue;
    const text = fitted(surface, tokenText(part.columns[column]!), FONT_SIZE, top - 10);
    const bold = focus?.column === column;
    surface.text(text, middle, top - 5, { fill: theme.ink, anchor: "start", size: FONT_SIZE, turned: true, bold });
  }
}

function drawFocus(
  surface: Surface, frame: Frame, width: number, height: number, focus: Focus,
  x: (column: number) => number, y: (row: number) => number,
): void {
  surface.clip(frame.left - 2, frame.top - 2, width + 4, height + 4, () => {
    const size = Math.max(2, frame.cell);
    surface.frame(frame.left, y(focus.row), width, size, FOCUS_COLOUR, 1);
    if (focus.column !== null) surface.frame(x(focus.column), y(focus.row), size, size, FOCUS_COLOUR, 2.5);
  });
}

function drawLines(surface: Surface, part: Part, map: SparseMap, frame: Frame, theme: Theme, focus: Focus | null): void {
  const { left, right, top, cell, scrollTop, height } = frame;
  const y = (place: number) => top + (place + 0.5) * cell - scrollTop;
  const [x0, x1] = [left, Math.max(left + 20, frame.width - right)];
  const first = Math.max(0, Math.floor((scrollTop - top) / cell));
  const end = Math.ceil((scrollTop + height) / cell);
  const lines: [number, number, number][] = [];
  for (let row = 0; row < map.nRows; row++) {
    const chosen = focus !== null && focus.row === row;
    if (focus !== null && !chosen) continue;
    const shown = row >= first && row < end; // of a row above or below, the lines that end in sight are drawn
    map.forRow(row, shown ? 0 : first, shown ? map.nColumns : end, (column, weight) => {
      if (focus === null || focus.column === null || focus.column === column) lines.push([row, column, weight]);
    });
  }
  if (lines.length > MOST_LINES) {
    lines.sort((a, b) => b[2] - a[2]);
    lines.length = MOST_LINES;
  }
  surface.clip(0, 0, frame.width, height, () => {
    for (const [row, column, weight] of lines) {
      const strength = Math.min(1, Math.max(0, weight)) || 0;
      const colour = Number.isNaN(weight) ? NAN_COLOUR : theme.accent;
      surface.curve(x0, y(row), x1, y(column), colour, 0.4 + 3.2 * strength, 0.1 + 0.9 * strength);
    }
  });
  const label = (tokens: string[], x: number, anchor: "start" | "end", bold: number | null, space: number) => {
    for (let place = first; place < Math.min(end, tokens.length); place++) {
      const text = fitted(surface, tokenText(tokens[place]!), FONT_SIZE, space - 10);
      surface.text(text, x, y(place), { fill: theme.ink, anchor, size: FONT_SIZE, bold: bold === place });
    }
  };
  label(part.rows, x0 - 5, "end", focus === null ? null : focus.row, left);
  label(part.columns, x1 + 5, "start", focus === null ? null : focus.column, right);
}

// The row and column under a point of the frame; null outside.
export function focusAt(part: Part, form: Form, frame: Frame, x: number, y: number): Focus | null {
  const place = (y - frame.top + frame.scrollTop) / frame.cell;
  if (place < 0) return null;
  if (form === "map") {
    const across = (x - frame.left + frame.scrollLeft) / frame.cell;
    const [row, column] = [Math.floor(place), Math.floor(across)];
    if (y < frame.top || row >= part.rows.length || column >= part.columns.length) return null;
    return { row, column: x < frame.left || across < 0 ? null : column };
  }
  const row = Math.floor(place);
  return row < part.rows.length && x < (frame.left + frame.width - frame.right) / 2 ? { row, column: null } : null;
}
