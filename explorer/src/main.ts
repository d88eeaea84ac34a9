// Starts the page: reads the data and the kernels that are embedded in it, and shows the views.

import { element } from "./dom";
import { Kernels } from "./kernels/kernels";
import { lossOf } from "./row/operators";
import { Shell } from "./shell";
import type { ExplorerData } from "./view";
import { alignmentBuilder } from "./structures/alignment";
import { chainBuilder } from "./structures/chain";
import { graphBuilder, parseGraph } from "./structures/graph";
import { matchingBuilder } from "./structures/matching";
import { treeBuilder } from "./structures/tree";
import { VIEWS } from "./views";

const BUILDERS = { alignment: alignmentBuilder, chain: chainBuilder, graph: (text: string) => graphBuilder(parseGraph(text)), matching: matchingBuilder, tree: treeBuilder };

function readData(): ExplorerData {
  try {
    const data: unknown = JSON.parse(document.getElementById("omegamax-data")?.textContent || "{}");
    if (typeof data === "object" && data !== null && !Array.isArray(data)) return data as ExplorerData;
  } catch {
    // A page whose data were edited by hand still shows the views that need none.
  }
  return {};
}

function kernelBytes(): Uint8Array {
  const text = atob(document.getElementById("omegamax-kernels")?.textContent ?? "");
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

async function start(): Promise<void> {
  const root = document.getElementById("page")!;
  try {
    const kernels = await Kernels.load(kernelBytes());
    const shell = new Shell(root, VIEWS, kernels, readData());
    shell.start();
    document.documentElement.dataset.ready = "true";
    Object.assign(window, { omegamax: { kernels, builders: BUILDERS, lossOf } }); // for the console, and for the tests in a browser
  } catch (error) {
    root.replaceChildren(
      element("p", { class: "message", role: "alert" },
        `omegamax explorer: this browser did not start the kernels (${String(error)}); use one with WebAssembly SIMD, such as any browser since 2023.`),
    );
  }
}

void start();
