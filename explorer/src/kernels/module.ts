// The WebAssembly module: its memory and its functions. Arguments are copied in and results copied out.

export type Numbers = ArrayLike<number>;

export interface Exports {
  memory: WebAssembly.Memory;
  omegamax_allocate(bytes: number): number;
  omegamax_release(address: number): void;
  [name: string]: unknown;
}

export class KernelModule {
  private constructor(readonly exports: Exports) {}

  static async load(bytes: BufferSource): Promise<KernelModule> {
    const { instance } = await WebAssembly.instantiate(bytes, { wasi_snapshot_preview1: NOTHING_OUTSIDE });
    const exports = instance.exports as unknown as Exports;
    (exports["_initialize"] as () => void)();
    return new KernelModule(exports);
  }

  // Calls `body` with memory that is released when it returns.
  scope<R>(body: (memory: Scope) => R): R {
    const scope = new Scope(this.exports);
    try {
      return body(scope);
    } finally {
      scope.release();
    }
  }

  call(name: string, ...numbers: number[]): number {
    return (this.exports[name] as (...numbers: number[]) => number)(...numbers);
  }
}

// The module reads and writes no files: what its standard library could ask for is refused (8 is "bad descriptor").
const NOTHING_OUTSIDE = { fd_close: () => 8, fd_seek: () => 8, fd_write: () => 8 };

export class Scope {
  private readonly taken: number[] = [];

  constructor(private readonly exports: Exports) {}

  bytes(count: number): number {
    const address = this.exports.omegamax_allocate(count);
    if (address === 0) throw new Error("omegamax: the page has no memory left; reload it with fewer tokens");
    this.taken.push(address);
    return address;
  }
  floats(numbers: Numbers): number {
    const address = this.bytes(4 * numbers.length);
    new Float32Array(this.exports.memory.buffer, address, numbers.length).set(numbers);
    return address;
  }
  doubles(numbers: Numbers): number {
    const address = this.bytes(8 * numbers.length);
    new Float64Array(this.exports.memory.buffer, address, numbers.length).set(numbers);
    return address;
  }
  ints(numbers: Numbers): number {
    const address = this.bytes(4 * numbers.length);
    new Int32Array(this.exports.memory.buffer, address, numbers.length).set(numbers);
    return address;
  }

  // Copies of results. The memory may have grown during a call, so views are made after it.
  readFloats(address: number, count: number): Float32Array {
    return new Float32Array(this.exports.memory.buffer, address, count).slice();
  }
  readDoubles(address: number, count: number): Float64Array {
    return new Float64Array(this.exports.memory.buffer, address, count).slice();
  }
  readInts(address: number, count: number): Int32Array {
    return new Int32Array(this.exports.memory.buffer, address, count).slice();
  }
  readBytes(address: number, count: number): Uint8Array {
    return new Uint8Array(this.exports.memory.buffer, address, count).slice();
  }

  release(): void {
    for (const address of this.taken) this.exports.omegamax_release(address);
  }
}
