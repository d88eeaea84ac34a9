// Everything that the WebAssembly module computes.

import { KernelModule } from "./module";
import { RowKernels } from "./rows";

export class Kernels {
  readonly rows: RowKernels;

  constructor(module: KernelModule) {
    this.rows = new RowKernels(module);
  }

  static async load(bytes: BufferSource): Promise<Kernels> {
    return new Kernels(await KernelModule.load(bytes));
  }
}
