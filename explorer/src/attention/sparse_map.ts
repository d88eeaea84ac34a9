// The weights of one head: only those that are not zero, row by row.

export type Absent = "zero" | "rounded" | "cut";
export type Cell = { kind: "weight"; weight: number } | { kind: Absent };
export type Columns = Uint16Array | Uint32Array;

// Codes of blocks without a weight, in `pool`.
export const ZERO = -1; // every weight of the block is exactly zero
export const ROUNDED = -2; // too small to be stored, as softmax's
export const CUT = -3; // some weights were left out of the page
export const NOT_A_NUMBER = -4;

export class SparseMap {
  private knownLargest = -1; // not yet

  constructor(
    readonly nRows: number,
    readonly nColumns: number,
    private readonly starts: Uint32Array, // nRows + 1 places in `columns` and `weights`
    private readonly columns: Columns,
    private readonly weights: Float32Array,
    private readonly leftOut: Uint32Array | null, // how many weights of each row are not in the page
    private readonly exactZeros: boolean,
  ) {}

  // Calls `visit` for each weight of a row whose column is in [first, end).
  forRow(row: number, first: number, end: number, visit: (column: number, weight: number) => void): void {
    const stop = this.starts[row + 1]!;
    for (let at = this.find(row, first); at < stop && this.columns[at]! < end; at++) {
      visit(this.columns[at]!, this.weights[at]!);
    }
  }

  count(row: number): number {
    return this.starts[row + 1]! - this.starts[row]!;
  }

  nLeftOut(row: number): number {
    return this.leftOut === null ? 0 : this.leftOut[row]!;
  }

  // What a cell without a weight means in this row.
  absent(row: number): Absent {
    if (this.nLeftOut(row) > 0) return "cut";
    return this.exactZeros || this.count(row) === 0 ? "zero" : "rounded";
  }

  cell(row: number, column: number): Cell {
    const at = this.find(row, column);
    if (at < this.starts[row + 1]! && this.columns[at] === column) {
      return { kind: "weight", weight: this.weights[at]! };
    }
    return { kind: this.absent(row) };
  }

  largest(): number {
    if (this.knownLargest < 0) {
      let largest = 0;
      const stop = this.starts[this.nRows]!;
      for (let at = this.starts[0]!; at < stop; at++) if (this.weights[at]! > largest) largest = this.weights[at]!;
      this.knownLargest = largest;
    }
    return this.knownLargest;
  }

  // The place of the first weight of a row whose column is at least `column`.
  private find(row: number, column: number): number {
    let low = this.starts[row]!;
    let high = this.starts[row + 1]!;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.columns[middle]! < column) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

// The mean of several maps of the same size. A weight that is not in the page counts as 0.
export function meanMap(maps: SparseMap[]): SparseMap {
  const first = maps[0]!;
  if (maps.length === 1) return first;
  const { nRows, nColumns } = first;
  const starts = new Uint32Array(nRows + 1);
  const leftOut = new Uint32Array(nRows);
  const columns: number[] = [];
  const weights: number[] = [];
  const sums = new Float64Array(nColumns);
  const seen = new Uint8Array(nColumns);
  let exact = true;
  for (let row = 0; row < nRows; row++) {
    const found: number[] = [];
    for (const map of maps) {
      leftOut[row]! += map.nLeftOut(row);
      if (map.absent(row) === "rounded") exact = false;
      map.forRow(row, 0, nColumns, (column, weight) => {
        if (seen[column] === 0) {
          seen[column] = 1;
          found.push(column);
        }
        sums[column]! += weight;
      });
    }
    found.sort((a, b) => a - b);
    for (const column of found) {
      columns.push(column);
      weights.push(sums[column]! / maps.length);
      sums[column] = 0;
      seen[column] = 0;
    }
    starts[row + 1] = columns.length;
  }
  const some = leftOut.some((count) => count > 0) ? leftOut : null;
  return new SparseMap(nRows, nColumns, starts, Uint32Array.from(columns), Float32Array.from(weights), some, exact);
}

// The part of a map that is drawn into a grid of blocks.
export interface Region {
  top: number; // the first row, and how many rows a block has; neither needs to be whole
  left: number;
  rowsPerBlock: number;
  columnsPerBlock: number;
}

// The largest weight of each block, or one of the codes above. A block holds every cell that it touches.
export function pool(map: SparseMap, width: number, height: number, region: Region): Float32Array {
  const blocks = new Float32Array(width * height).fill(ZERO);
  const { top, left, rowsPerBlock, columnsPerBlock } = region;
  const lastRow = Math.min(map.nRows, Math.ceil(top + height * rowsPerBlock));
  const firstColumn = Math.max(0, Math.floor(left));
  const endColumn = Math.min(map.nColumns, Math.ceil(left + width * columnsPerBlock));
  const across = (column: number) => Math.min(width, Math.ceil((column - left) / columnsPerBlock - 1e-9));
  for (let row = Math.max(0, Math.floor(top)); row < lastRow; row++) {
    const y0 = Math.max(0, Math.floor((row - top) / rowsPerBlock + 1e-9));
    const y1 = Math.min(height, Math.ceil((row + 1 - top) / rowsPerBlock - 1e-9));
    const absent = map.absent(row);
    if (absent !== "zero") {
      const code = absent === "cut" ? CUT : ROUNDED;
      const right = across(endColumn);
      for (let y = y0; y < y1; y++) {
        for (let x = 0; x < right; x++) if (blocks[y * width + x] === ZERO) blocks[y * width + x] = code;
      }
    }
    map.forRow(row, firstColumn, endColumn, (column, weight) => {
      const x0 = Math.max(0, Math.floor((column - left) / columnsPerBlock + 1e-9));
      const x1 = across(column + 1);
      for (let y = y0; y < y1; y++) {
        for (let x = x0; x < x1; x++) {
          const at = y * width + x;
          if (Number.isNaN(weight)) blocks[at] = NOT_A_NUMBER;
          else if (blocks[at] !== NOT_A_NUMBER && weight > blocks[at]!) blocks[at] = weight;
        }
      }
    });
  }
  return blocks;
}
