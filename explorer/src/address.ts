// The address of the page: #<view>?<state>. The state is text that only its view understands.

export interface Address {
  view: string;
  state: string;
}

export function readAddress(hash: string): Address {
  const text = hash.replace(/^#/, "");
  const cut = text.indexOf("?");
  return cut < 0 ? { view: text, state: "" } : { view: text.slice(0, cut), state: text.slice(cut + 1) };
}

export function writeAddress({ view, state }: Address): string {
  return state === "" ? `#${view}` : `#${view}?${state}`;
}

// What one view has been through: the state that is shown, those before it and those that were undone.
export class History {
  private past: string[] = [];
  private future: string[] = [];

  constructor(private shown: string, private readonly most = 200) {}

  get state(): string {
    return this.shown;
  }
  get canUndo(): boolean {
    return this.past.length > 0;
  }
  get canRedo(): boolean {
    return this.future.length > 0;
  }

  // `shown` follows every change; a step is taken from the last state that was kept.
  private kept = this.shown;

  save(state: string, undoable: boolean): void {
    this.shown = state;
    if (!undoable || state === this.kept) return;
    this.past.push(this.kept);
    if (this.past.length > this.most) this.past.shift();
    this.future = [];
    this.kept = state;
  }
  undo(): string | undefined {
    return this.move(this.past, this.future);
  }
  redo(): string | undefined {
    return this.move(this.future, this.past);
  }

  private move(from: string[], to: string[]): string | undefined {
    const state = from.pop();
    if (state === undefined) return undefined;
    to.push(this.kept);
    this.kept = this.shown = state;
    return state;
  }
}
