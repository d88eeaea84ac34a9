// Writes what the panels show into one SVG or PNG file, in the colours of a printed page.

import { element } from "../dom";
import { PAPER } from "./palette";
import type { Panel } from "./panel";
import { CanvasSurface, type Surface, SvgSurface } from "./surface";

const GAP = 20;
const TITLE = 26;
const SCALE = 2; // pixels of a PNG for a pixel of the screen
const MOST_PIXELS = 16_000; // on a side, which browsers allow

export interface Titled {
  title: string;
  panel: Panel;
}

function size(panels: Titled[]): { width: number; height: number } {
  const sizes = panels.map(({ panel }) => panel.size());
  const width = sizes.reduce((sum, each) => sum + each.width + GAP, GAP);
  return { width, height: TITLE + GAP + Math.max(0, ...sizes.map((each) => each.height)) };
}

function drawAll(surface: Surface, panels: Titled[]): void {
  const { width, height } = size(panels);
  surface.rect(0, 0, width, height, PAPER.paper);
  let left = GAP;
  for (const { title, panel } of panels) {
    surface.text(title, left, TITLE / 2 + 2, { fill: PAPER.ink, anchor: "start", size: 14, bold: true });
    const { width, height } = panel.size();
    surface.shift(left, TITLE, () => surface.clip(0, 0, width, height, () => panel.export(surface, PAPER)));
    left += width + GAP;
  }
}

export function exportSvg(panels: Titled[], name: string): void {
  const { width, height } = size(panels);
  const surface = new SvgSurface(width, height, panels.map(({ title }) => title).join(", "));
  drawAll(surface, panels);
  save(new Blob([new XMLSerializer().serializeToString(surface.root)], { type: "image/svg+xml" }), `${name}.svg`);
}

export function exportPng(panels: Titled[], name: string): void {
  const { width, height } = size(panels);
  const scale = Math.min(SCALE, MOST_PIXELS / Math.max(width, height));
  const canvas = element("canvas", { width: Math.round(scale * width), height: Math.round(scale * height) });
  const context = canvas.getContext("2d")!;
  context.scale(scale, scale);
  drawAll(new CanvasSurface(context), panels);
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
