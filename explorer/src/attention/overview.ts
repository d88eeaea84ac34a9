// All heads of all layers of one model as small maps: buttons in a grid, one row for each layer.

import { element } from "../dom";
import { paint } from "./palette";
import type { Part } from "./payload";
import { pool } from "./sparse_map";

const MOST_PIXELS = 96; // on a side of a small map
const MILLISECONDS = 8; // of drawing in one frame

export interface Overview {
  root: HTMLElement;
  choose(layer: number | null, head: number | null): void; // null: the mean
  unmount(): void;
}

export function overview(part: Part, largest: number, label: string, chosen: (layer: number, head: number) => void): Overview {
  const buttons = part.maps.map((_, at) => {
    const [layer, head] = [Math.floor(at / part.nHeads), at % part.nHeads];
    const name = part.nLayers > 1 ? `layer ${layer + 1}, head ${head + 1}` : `head ${head + 1}`;
    return element(
      "button",
      { type: "button", class: "attention-head", title: name, "aria-label": name, "aria-pressed": "false", tabindex: -1, click: () => chosen(layer, head) },
      element("canvas", { "aria-hidden": "true" }),
    );
  });
  const root = element(
    "div",
    { class: "attention-overview", role: "group", "aria-label": `heads of ${label}`, keydown: (event: KeyboardEvent) => move(event) },
    ...buttons,
  );
  root.style.setProperty("--heads", String(part.nHeads));
  if (buttons[0]) buttons[0].tabIndex = 0;

  function move(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -part.nHeads, ArrowDown: part.nHeads }[event.key];
    const next = step === undefined ? undefined : buttons[buttons.indexOf(event.target as HTMLButtonElement) + step];
    if (next === undefined) return;
    event.preventDefault();
    for (const button of buttons) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  }

  let drawn = 0;
  let asked = requestAnimationFrame(drawSome);
  function drawSome(): void {
    const began = performance.now();
    while (drawn < buttons.length && performance.now() - began < MILLISECONDS) {
      const map = part.maps[drawn]!;
      const width = Math.max(1, Math.min(MOST_PIXELS, map.nColumns));
      const height = Math.max(1, Math.min(MOST_PIXELS, map.nRows));
      const region = { top: 0, left: 0, rowsPerBlock: map.nRows / height, columnsPerBlock: map.nColumns / width };
      const canvas = buttons[drawn]!.querySelector("canvas")!;
      canvas.width = width;
      canvas.height = height;
      canvas.getContext("2d")!.putImageData(paint(pool(map, width, height, region), width, height, largest), 0, 0);
      drawn++;
    }
    if (drawn < buttons.length) asked = requestAnimationFrame(drawSome);
  }

  return {
    root,
    choose(layer, head) {
      buttons.forEach((button, at) => {
        const [ownLayer, ownHead] = [Math.floor(at / part.nHeads), at % part.nHeads];
        const some = layer !== null || head !== null; // the mean of all heads marks none
        const pressed = some && (layer === null || layer === ownLayer) && (head === null || head === ownHead);
        button.setAttribute("aria-pressed", String(pressed));
      });
    },
    unmount: () => cancelAnimationFrame(asked),
  };
}
