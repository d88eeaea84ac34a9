// The colours of weights: those of omegamax.plots. Darker is more, and exactly zero is grey, in light and dark pages.

import { CUT, NOT_A_NUMBER, ROUNDED, ZERO } from "./sparse_map";

export interface Theme {
  ink: string;
  faint: string; // frames
  paper: string;
  accent: string; // lines, selected rows and columns
}

export const PAPER: Theme = { ink: "#222222", faint: "#8a8a8a", paper: "#ffffff", accent: "#0b5c8e" };

export const ZERO_COLOUR = "#d8d8d8";
export const CUT_COLOUR = "#f4e8c8";
export const NAN_COLOUR = "#d55e00";
export const FOCUS_COLOUR = "#c2410c"; // the chosen row and cell, on light cells in every theme
const STOPS = ["#ffffff", "#bbd8ec", "#3d93c8", "#00568a", "#002b45"].map(channels);
const STEPS = 256;

function channels(colour: string): [number, number, number] {
  const number = parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

const TABLE: [number, number, number][] = Array.from({ length: STEPS }, (_, step) => {
  const place = (step / (STEPS - 1)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(place));
  const [from, to] = [STOPS[low]!, STOPS[low + 1]!];
  return [0, 1, 2].map((at) => Math.round(from[at]! + (to[at]! - from[at]!) * (place - low))) as [number, number, number];
});
const NAMES = TABLE.map(([red, green, blue]) => `rgb(${red},${green},${blue})`);
const CODES = new Map([
  [ZERO, channels(ZERO_COLOUR)],
  [ROUNDED, channels("#ffffff")],
  [CUT, channels(CUT_COLOUR)],
  [NOT_A_NUMBER, channels(NAN_COLOUR)],
]);

// Colours grow with the square root of the weight, so that weights of a few percent are seen.
function step(weight: number, largest: number): number {
  return Math.round((STEPS - 1) * Math.sqrt(Math.min(1, Math.max(0, weight / (largest || 1)))));
}

export function weightColour(weight: number, largest: number): string {
  return Number.isNaN(weight) ? NAN_COLOUR : NAMES[step(weight, largest)]!;
}

export function absentColour(kind: "zero" | "rounded" | "cut"): string {
  return kind === "zero" ? ZERO_COLOUR : kind === "cut" ? CUT_COLOUR : "#ffffff";
}

// Pixels of pooled weights.
export function paint(blocks: Float32Array, width: number, height: number, largest: number): ImageData {
  const image = new ImageData(width, height);
  for (let at = 0; at < blocks.length; at++) {
    const value = blocks[at]!;
    const [red, green, blue] = value < 0 ? CODES.get(value)! : TABLE[step(value, largest)]!;
    image.data.set([red, green, blue, 255], 4 * at);
  }
  return image;
}
