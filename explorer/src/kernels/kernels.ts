// Everything that the WebAssembly module computes.

import { Lattice, LatticeBuilder } from "./lattice";
import { MatchingKernels } from "./matching";
import { KernelModule } from "./module";
import { RowKernels } from "./rows";

export class Kernels {
  readonly rows: RowKernels;
  readonly matchings: MatchingKernels;

  constructor(private readonly module: KernelModule) {
    this.rows = new RowKernels(module);
    this.matchings = new MatchingKernels(module);
  }

  static async load(bytes: BufferSource): Promise<Kernels> {
    return new Kernels(await KernelModule.load(bytes));
  }

  // To be closed by the caller.
  lattice(builder: LatticeBuilder): Lattice {
    return new Lattice(this.module, builder);
  }
}
