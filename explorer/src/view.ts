// What a view of the page is, and what the page gives it.
//
// Every view is one file `src/views/<id>.ts` that exports `view: View`, and one line in the list of `src/main.ts`.
// A view owns everything inside `root` and nothing outside of it. Text of the user is written by `textContent`
// (`element()` of `src/dom.ts` does so), never as markup.

import type { Kernels } from "./kernels/kernels";

export interface View {
  id: string; // in the address: page.html#<id>?<state>
  title: string; // on its tab
  mount(root: HTMLElement, page: Page): Mounted;
}

export interface Mounted {
  // Shows a state that `saveState` was given before, now or in another browser; "" is the initial state. The text may
  // have been edited by hand: what cannot be read takes its initial value.
  load(state: string): void;
  unmount(): void;
}

export interface Page {
  // Puts the state into the address. A change that is undoable becomes a step of undo; others (hovering, playing) replace
  // the current state. While the user drags, save without `undoable`, and with it when the pointer is lifted.
  saveState(text: string, options: { undoable: boolean }): void;
  readonly kernels: Kernels; // the WebAssembly module
  readonly data: ExplorerData; // what Python put into the page
  readonly reducedMotion: boolean; // the user asked the system for less motion
  announce(text: string): void; // read aloud by screen readers, politely
}

// The JSON object of <script type="application/json" id="omegamax-data">; {} in the page as it is built. Each view reads
// its own key and checks what it finds there.
export interface ExplorerData {
  view?: unknown; // the id of the view that is shown first, if the address names none
  state?: unknown; // its state
  embed?: unknown; // true: one view alone, without header and tabs, as in notebooks and in the documentation
  attention?: unknown; // for views/attention.ts
  [key: string]: unknown;
}
