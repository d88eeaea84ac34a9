// The frame around the views: header, tabs, undo, theme, address.

import { History, readAddress, writeAddress } from "./address";
import { element, svg } from "./dom";
import type { Kernels } from "./kernels/kernels";
import { Theme } from "./theme";
import { talkToParent } from "./embedding";
import type { ExplorerData, Mounted, Page, View } from "./view";

const PAUSE = 400; // milliseconds that a change of the address waits for others
const MOST_WRITTEN = 20; // changes within ten seconds

export class Shell implements Page {
  private readonly main = element("main", { id: "view", tabindex: -1 });
  private readonly live = element("p", { class: "visually-hidden", "aria-live": "polite" });
  private readonly tabs = new Map<string, HTMLAnchorElement>();
  private readonly histories = new Map<string, History>();
  private readonly undoButton = this.button("Undo", "Ctrl+Z", "M9 7 4 12l5 5M4 12h10a6 6 0 0 1 6 6", () => this.undo());
  private readonly redoButton = this.button("Redo", "Ctrl+Shift+Z", "m15 7 5 5-5 5m5-5H10a6 6 0 0 0-6 6", () => this.redo());
  private current: View;
  private mounted: Mounted | undefined;
  private waiting: ReturnType<typeof setTimeout> | undefined;
  private written: number[] = []; // when the address was changed, in the last seconds

  constructor(
    private readonly root: HTMLElement,
    private readonly views: View[],
    readonly kernels: Kernels,
    readonly data: ExplorerData,
  ) {
    this.current = views[0]!;
  }

  get reducedMotion(): boolean {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  start(): void {
    const embedded = this.data.embed === true || new URLSearchParams(location.search).has("embed");
    document.documentElement.classList.toggle("embedded", embedded);
    if (embedded) talkToParent(this.main);
    this.root.replaceChildren(
      ...(embedded ? [] : [this.header()]),
      this.main,
      ...(embedded ? [] : [this.footer()]),
      this.live,
    );
    addEventListener("hashchange", () => this.follow());
    addEventListener("keydown", (event) => this.key(event));
    this.follow();
  }

  saveState(text: string, { undoable }: { undoable: boolean }): void {
    this.history().save(text, undoable);
    this.showAddress(undoable);
    this.showUndo();
  }

  announce(text: string): void {
    this.live.textContent = text;
  }

  private header(): HTMLElement {
    const nav = element("nav", { "aria-label": "Views", class: "tabs" });
    for (const view of this.views) {
      const tab = element("a", { href: `#${view.id}` }, view.title);
      this.tabs.set(view.id, tab);
      nav.append(tab);
    }
    const mark = svg("svg", { viewBox: "0 0 32 28", class: "mark", "aria-hidden": "true" },
      svg("path", { d: "M16 2 30 26H2Z", class: "mark-frame" }),
      svg("circle", { cx: 20.5, cy: 17, r: 3.4, class: "mark-point" }));
    return element("header", { class: "top" },
      element("a", { class: "skip", href: "#view", click: (event: Event) => { event.preventDefault(); this.main.focus(); } }, "Skip to the view"),
      element("h1", {}, mark, element("span", {}, "omegamax"), element("small", {}, "explorer")),
      nav,
      element("div", { class: "tools" }, this.undoButton, this.redoButton, new Theme().button),
    );
  }

  private footer(): HTMLElement {
    const { serve } = (this.data.attention ?? {}) as { serve?: unknown };
    const sends = serve ? "It sends what you type for a model to the server on this computer, and nothing anywhere else." : "It sends nothing anywhere.";
    return element("footer", {},
      element("p", {}, `Rows, simplex and structures are computed in this page, by the kernels of omegamax compiled to WebAssembly. ${sends} The address holds what you see: copy it to share it.`));
  }

  private button(name: string, keys: string, path: string, act: () => void): HTMLButtonElement {
    return element("button", { type: "button", class: "icon", "aria-label": name, title: `${name} (${keys})`, click: act },
      svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: path })));
  }

  private history(): History {
    let history = this.histories.get(this.current.id);
    if (!history) this.histories.set(this.current.id, (history = new History("")));
    return history;
  }

  // Shows what the address says: also where the user edits it, or goes back.
  private follow(): void {
    let { view: id, state } = readAddress(location.hash);
    if (id === "" && typeof this.data.view === "string") {
      id = this.data.view;
      state = typeof this.data.state === "string" ? this.data.state : "";
    }
    const next = this.views.find((view) => view.id === id) ?? this.views[0]!;
    const changed = next !== this.current || !this.mounted;
    clearTimeout(this.waiting);
    if (changed) {
      this.mounted?.unmount();
      this.main.replaceChildren();
      this.current = next;
      this.main.className = `view view-${next.id}`;
      this.mounted = next.mount(this.main, this);
      if (state === "") state = this.history().state;
    } else if (state === this.history().state || !location.hash.includes("?")) {
      return this.showAddress(); // the tab of this view
    }
    this.history().save(state, !changed);
    this.mounted!.load(state);
    for (const [name, tab] of this.tabs)
      if (name === next.id) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    document.title = `${next.title} · omegamax explorer`;
    this.showAddress();
    this.showUndo();
  }

  private undo(): void {
    this.show(this.history().undo(), "Undone");
  }
  private redo(): void {
    this.show(this.history().redo(), "Redone");
  }
  private show(state: string | undefined, said: string): void {
    if (state === undefined) return;
    this.mounted!.load(state);
    this.announce(said);
    this.showAddress();
    this.showUndo();
  }

  private key(event: KeyboardEvent): void {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const target = event.target as HTMLElement | null;
    if (target?.matches?.("textarea, input:not([type=range]):not([type=checkbox]):not([type=radio])")) return; // has its own undo
    const key = event.key.toLowerCase();
    if (key === "z" && !event.shiftKey) this.undo();
    else if (key === "y" || (key === "z" && event.shiftKey)) this.redo();
    else return;
    event.preventDefault();
  }

  // Browsers take only so many changes of the address in some seconds, so those of a drag wait, and so do others where
  // there were many.
  private showAddress(atOnce = true): void {
    clearTimeout(this.waiting);
    const now = performance.now();
    this.written = this.written.filter((time) => now - time < 10_000);
    if (atOnce && this.written.length < MOST_WRITTEN) this.writeAddress();
    else this.waiting = setTimeout(() => this.writeAddress(), PAUSE);
  }

  private writeAddress(): void {
    const address = writeAddress({ view: this.current.id, state: this.history().state });
    if (address === location.hash) return;
    this.written.push(performance.now());
    try {
      history.replaceState(null, "", address);
    } catch {
      // A page inside a notebook's frame has no address of its own.
    }
  }

  private showUndo(): void {
    this.undoButton.disabled = !this.history().canUndo;
    this.redoButton.disabled = !this.history().canRedo;
  }
}
