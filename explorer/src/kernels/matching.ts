// Matchings of rows with columns, by csrc/selections.

import { listed, type Listed } from "./lattice";
import type { KernelModule, Numbers } from "./module";

export class MatchingKernels {
  constructor(private readonly module: KernelModule) {}

  // The column of each row, or -1.
  best(rows: number, columns: number, scores: Numbers): { value: number; columns: Int32Array } {
    return this.module.scope((memory) => {
      const found = memory.bytes(4 * rows);
      const value = this.module.call("omegamax_matching_best", rows, columns, memory.doubles(scores), found);
      return { value, columns: memory.readInts(found, rows) };
    });
  }

  sparsemap(rows: number, columns: number, scores: Numbers): Listed[] {
    return this.module.scope((memory) => {
      const own = memory.doubles(scores);
      const gap = memory.bytes(8);
      const room = rows * columns + 2;
      return listed(this.module, room, rows * columns, (probabilities, parts) =>
        this.module.call("omegamax_matching_sparsemap", rows, columns, own, room, probabilities, parts, gap));
    });
  }
}
