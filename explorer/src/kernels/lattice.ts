// Dynamic programs as data: nodes in topological order, edges into them, and the parts that each edge adds.

import type { KernelModule, Numbers } from "./module";

export const OMEGAS = ["hard", "shannon", "squared"] as const; // the order of `enum Omega` in csrc/core/arguments.hpp
export type LatticeOmega = (typeof OMEGAS)[number];

export interface Solution {
  value: number; // -Infinity where there is no structure
  marginals: Float64Array; // how often each part is expected
}
export interface Listed {
  probability: number; // or its score, in a list of the best
  parts: Float64Array; // how often the structure has each part
}

// Collects nodes and edges; `goal` must be the node that was added last.
export class LatticeBuilder {
  readonly leaves: number;
  private readonly into: { tails: number[]; parts: number[] }[][] = [];

  constructor(leaves: number, readonly nParts: number, readonly nTails: 1 | 2 = 1) {
    this.leaves = leaves;
    for (let i = 0; i < leaves; ++i) this.into.push([]);
  }

  get nNodes(): number {
    return this.into.length;
  }
  get nEdges(): number {
    return this.into.reduce((sum, edges) => sum + edges.length, 0);
  }
  node(): number {
    return this.into.push([]) - 1;
  }
  // Derives a node from nodes that were added before it.
  edge(head: number, tails: number[], parts: number[]): void {
    this.into[head]!.push({ tails, parts });
  }

  arrays(): { tails: Int32Array; first: number[]; firstEntry: number[]; part: number[] } {
    const nEdges = this.nEdges;
    const tails = new Int32Array(this.nTails * nEdges).fill(this.nNodes);
    const first = [0], firstEntry = [0], part: number[] = [];
    let edge = 0;
    for (const edges of this.into) {
      for (const { tails: own, parts } of edges) {
        own.forEach((tail, t) => (tails[t * nEdges + edge] = tail));
        part.push(...parts);
        firstEntry.push(part.length);
        ++edge;
      }
      first.push(edge);
    }
    return { tails, first, firstEntry, part };
  }
}

export class Lattice {
  readonly nParts: number;
  private readonly handle: number;

  constructor(private readonly module: KernelModule, builder: LatticeBuilder) {
    this.nParts = builder.nParts;
    const { tails, first, firstEntry, part } = builder.arrays();
    this.handle = module.scope((memory) =>
      module.call(
        "omegamax_lattice_open", builder.nNodes, builder.leaves, builder.nTails, builder.nEdges, builder.nParts,
        builder.nNodes - 1, memory.ints(tails), memory.ints(first), memory.ints(firstEntry), memory.ints(part),
      ));
  }

  close(): void {
    this.module.call("omegamax_lattice_close", this.handle);
  }

  solve(omega: LatticeOmega, scores: Numbers): Solution {
    return this.module.scope((memory) => {
      const marginals = memory.bytes(8 * this.nParts);
      const value = this.module.call("omegamax_lattice_solve", this.handle, OMEGAS.indexOf(omega), memory.doubles(scores), marginals);
      return { value, marginals: memory.readDoubles(marginals, this.nParts) };
    });
  }

  // The next two are of the last solve, whose value must be finite.
  sample(seed: number, n: number): Float64Array[] {
    return this.module.scope((memory) => {
      const found = memory.bytes(8 * n * this.nParts);
      this.module.call("omegamax_lattice_sample", this.handle, seed, n, found);
      return split(memory.readDoubles(found, n * this.nParts), n);
    });
  }
  ranked(k: number): Listed[] {
    return this.list(k, (probabilities, parts) => this.module.call("omegamax_lattice_ranked", this.handle, k, probabilities, parts));
  }

  best(k: number, scores: Numbers): Listed[] {
    return this.module.scope((memory) => {
      const own = memory.doubles(scores);
      return this.list(k, (found, parts) => this.module.call("omegamax_lattice_best", this.handle, k, own, found, parts));
    });
  }

  // Throws where there is no structure. The first `nRegularized` parts are regularised.
  sparsemap(scores: Numbers, nRegularized: number): Listed[] {
    return this.module.scope((memory) => {
      const own = memory.doubles(scores);
      const gap = memory.bytes(8);
      const room = nRegularized + 2; // no face of the polytope needs more vertices
      return this.list(room, (probabilities, parts) =>
        this.module.call("omegamax_lattice_sparsemap", this.handle, nRegularized, own, room, probabilities, parts, gap));
    });
  }

  private list(k: number, find: (numbers: number, parts: number) => number): Listed[] {
    return listed(this.module, k, this.nParts, find);
  }
}

export function listed(module: KernelModule, k: number, nParts: number, find: (numbers: number, parts: number) => number): Listed[] {
  return module.scope((memory) => {
    const numbers = memory.bytes(8 * k);
    const parts = memory.bytes(8 * k * nParts);
    const found = find(numbers, parts);
    if (found < 0) throw new Error("omegamax: there is no structure with a finite score");
    const own = memory.readDoubles(numbers, found);
    return split(memory.readDoubles(parts, found * nParts), found).map((one, i) => ({ probability: own[i]!, parts: one }));
  });
}

function split(numbers: Float64Array, n: number): Float64Array[] {
  const size = n === 0 ? 0 : numbers.length / n;
  return Array.from({ length: n }, (_, i) => numbers.slice(i * size, (i + 1) * size));
}
