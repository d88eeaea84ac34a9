// How tokens are written: a space is seen, a long token is cut.

import type { Surface } from "./surface";

export function tokenText(token: string): string {
  if (token === "") return "∅";
  return /^\s+$/u.test(token) ? "␣".repeat(token.length) : token;
}

// Shortens a text to a width. Letters with their marks, and joined emoji, stay whole.
export function fitted(surface: Surface, text: string, size: number, width: number): string {
  if (surface.width(text, size) <= width) return text;
  const letters = graphemes(text);
  let [low, high] = [0, letters.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (surface.width(letters.slice(0, middle).join("") + "…", size) <= width) low = middle;
    else high = middle - 1;
  }
  return letters.slice(0, low).join("") + "…";
}

interface Segmenter {
  segment(text: string): Iterable<{ segment: string }>;
}

function graphemes(text: string): string[] {
  const { Segmenter } = Intl as unknown as { Segmenter?: new () => Segmenter };
  return Segmenter ? Array.from(new Segmenter().segment(text), (each) => each.segment) : Array.from(text);
}
