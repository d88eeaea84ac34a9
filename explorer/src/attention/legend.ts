// What the colours of a map mean; only what occurs is explained.

import { element } from "../dom";
import { MOST_LINES, type Form } from "./drawing";
import { CUT_COLOUR, NAN_COLOUR, weightColour, ZERO_COLOUR } from "./palette";
import type { Part } from "./payload";
import { exactText } from "./row_table";
import type { SparseMap } from "./sparse_map";

export function legend(form: Form, largest: number, shown: { part: Part; map: SparseMap }[]): HTMLElement {
  const items: (HTMLElement | string)[] = [];
  if (form === "lines") {
    items.push(`Wider, stronger lines have more weight; a weight of 0 has no line. At most ${MOST_LINES} lines are drawn at once, the heaviest.`);
  } else {
    const bar = element("span", { class: "attention-bar", "aria-hidden": "true" });
    const stops = Array.from({ length: 9 }, (_, at) => weightColour((largest * at) / 8, largest));
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    items.push(element("span", {}, "0+ ", bar, ` ${exactText(largest)}`));
    if (shown.some(({ map }) => rows(map).some((row) => map.absent(row) === "zero"))) items.push(patch(ZERO_COLOUR, "exactly 0"));
    if (shown.some(({ map }) => rows(map).some((row) => map.absent(row) === "rounded"))) items.push(patch("#ffffff", "too small to be stored"));
  }
  const cuts = shown.filter(({ map }) => rows(map).some((row) => map.absent(row) === "cut")).map(({ part }) => part.cut);
  if (cuts.length > 0) items.push(patch(CUT_COLOUR, `not in this page: 0, or a weight below ${Math.max(...cuts)}`));
  if (form === "map" && shown.some(({ map }) => hasNan(map))) items.push(patch(NAN_COLOUR, "not a number"));
  return element("p", { class: "attention-legend" }, ...items);
}

function rows(map: SparseMap): number[] {
  return Array.from({ length: map.nRows }, (_, row) => row).filter((row) => map.count(row) < map.nColumns);
}

function hasNan(map: SparseMap): boolean {
  let found = false;
  for (let row = 0; row < map.nRows && !found; row++) {
    map.forRow(row, 0, map.nColumns, (_, weight) => (found = found || Number.isNaN(weight)));
  }
  return found;
}

function patch(colour: string, text: string): HTMLElement {
  const square = element("span", { class: "attention-patch", "aria-hidden": "true" });
  square.style.background = colour;
  return element("span", {}, square, ` ${text}`);
}
