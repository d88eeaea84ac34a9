// The plane of three scores. A score vector and a weight vector have one place in it: Σ xᵢ vᵢ, where the vᵢ are the
// corners of the triangle. Adding a constant to all scores changes neither the weights nor the place.

export interface Point {
  x: number;
  y: number;
}

const ANGLES = [Math.PI / 2, Math.PI / 2 + (4 * Math.PI) / 3, Math.PI / 2 + (2 * Math.PI) / 3]; // top, right, left
export const CORNERS: Point[] = ANGLES.map((angle) => ({ x: Math.cos(angle), y: Math.sin(angle) }));

export function place(numbers: ArrayLike<number>, at = 0): Point {
  let x = 0, y = 0;
  for (let i = 0; i < 3; ++i) {
    x += numbers[at + i]! * CORNERS[i]!.x;
    y += numbers[at + i]! * CORNERS[i]!.y;
  }
  return { x, y };
}

// The scores with a given mean at a place.
export function scoresAt({ x, y }: Point, mean = 0): [number, number, number] {
  const of = (i: number) => mean + (2 / 3) * (x * CORNERS[i]!.x + y * CORNERS[i]!.y);
  return [of(0), of(1), of(2)];
}

// Lines along which a function on a square grid has a value (marching squares); coordinates are those of the grid.
export function levelLines(values: ArrayLike<number>, size: number, level: number): [Point, Point][] {
  const lines: [Point, Point][] = [];
  const cut = (a: number, b: number) => (level - a) / (b - a);
  for (let row = 0; row + 1 < size; ++row) {
    for (let column = 0; column + 1 < size; ++column) {
      const at = row * size + column;
      const [a, b, c, d] = [values[at]!, values[at + 1]!, values[at + size + 1]!, values[at + size]!];
      const found: Point[] = [];
      if (a < level !== b < level) found.push({ x: column + cut(a, b), y: row });
      if (b < level !== c < level) found.push({ x: column + 1, y: row + cut(b, c) });
      if (d < level !== c < level) found.push({ x: column + cut(d, c), y: row + 1 });
      if (a < level !== d < level) found.push({ x: column, y: row + cut(a, d) });
      for (let i = 0; i + 1 < found.length; i += 2) lines.push([found[i]!, found[i + 1]!]);
    }
  }
  return lines;
}
