// The chosen row as a table, for those who cannot see the map or want its numbers.

import { element } from "../dom";
import type { Part } from "./payload";
import type { SparseMap } from "./sparse_map";
import { tokenText } from "./tokens";

const MOST_LINES = 100;

export function exactText(weight: number): string {
  if (Number.isNaN(weight)) return "not a number";
  return weight !== 0 && weight < 1e-4 ? weight.toExponential(2) : weight.toFixed(4);
}

// Says what the other cells of a row hold.
export function absentText(map: SparseMap, row: number, cut: number): string {
  const kind = map.absent(row);
  if (kind === "cut") return `${map.nLeftOut(row)} weights below ${cut} are left out`;
  return kind === "zero" ? "all others are exactly 0" : "all others are too small to be stored";
}

export function rowTable(part: Part, map: SparseMap, row: number, title: string): HTMLTableElement {
  const found: [number, number][] = [];
  map.forRow(row, 0, map.nColumns, (column, weight) => found.push([column, weight]));
  found.sort((a, b) => (Number.isNaN(a[1]) ? 0 : b[1] - a[1]) || a[0] - b[0]);
  const shown = found.slice(0, MOST_LINES);
  const rest = found.length - shown.length;
  const others = found.length === map.nColumns ? "" : `, ${absentText(map, row, part.cut)}`;
  return element(
    "table",
    { class: "attention-table" },
    element(
      "caption",
      {},
      `${title}: row ${row + 1}, `,
      element("bdi", { dir: "auto" }, tokenText(part.rows[row]!)),
      `. ${found.length} of ${map.nColumns} weights${others}${rest > 0 ? `; the ${MOST_LINES} largest are listed` : ""}.`,
    ),
    element("thead", {}, element("tr", {}, ...["column", "token", "weight"].map((name) => element("th", { scope: "col" }, name)))),
    element(
      "tbody",
      {},
      ...shown.map(([column, weight]) =>
        element(
          "tr",
          {},
          element("td", {}, String(column + 1)),
          element("th", { scope: "row", dir: "auto" }, tokenText(part.columns[column]!)),
          element("td", {}, exactText(weight)),
        ),
      ),
    ),
  );
}
