// The scores as bars that can be dragged: one column per token, with its target and its mask.

import { element } from "../dom";
import { clamp, numberText } from "../numbers";
import { MOST_SCORE } from "./state";

export interface EditorEvents {
  score(position: number, score: number, done: boolean): void;
  mask(position: number): void;
  target(position: number): void;
  hover(position: number): void; // -1: nothing
  describe(position: number): string; // what a screen reader says after the score
}

interface Column {
  root: HTMLElement;
  track: HTMLElement;
  bar: HTMLElement;
  number: HTMLElement;
  token: HTMLButtonElement;
  mask: HTMLButtonElement;
  shown: string; // what it was updated with: a drag changes one column of many
}

const LEAST_RANGE = 1.5;

export class ScoreEditor {
  readonly root = element("div", { class: "scores-scroll" });
  private readonly list = element("div", { class: "scores", role: "group", "aria-label": "Scores of the tokens" });
  private columns: Column[] = [];
  private range = LEAST_RANGE;
  private focused = 0;
  private dragged = -1;
  private highlighted = -1;

  constructor(private readonly events: EditorEvents) {
    this.root.append(this.list);
    this.list.addEventListener("pointerleave", () => { if (this.dragged < 0) events.hover(-1); });
  }

  // Makes the columns anew where the tokens have changed, and shows the scores.
  show(tokens: string[], rightToLeft: boolean): void {
    this.list.dir = rightToLeft ? "rtl" : "ltr";
    this.highlighted = -1;
    this.columns = tokens.map((token, i) => this.column(token, i));
    this.list.replaceChildren(...this.columns.map(({ root }) => root));
    this.list.style.setProperty("--n", String(Math.max(1, tokens.length)));
    this.focused = clamp(this.focused, 0, Math.max(0, tokens.length - 1));
    this.columns[this.focused]?.track.setAttribute("tabindex", "0");
  }

  update(scores: number[], masked: boolean[], target: number): void {
    const largest = Math.max(0, ...scores.map(Math.abs));
    // While a bar is dragged the scale stands still, unless the bar leaves it.
    if (this.dragged < 0 || largest > this.range) this.range = Math.max(LEAST_RANGE, Math.ceil(2 * largest) / 2);
    this.columns.forEach((column, i) => {
      const shown = `${scores[i]} ${masked[i]} ${i === target} ${this.range}`;
      if (shown === column.shown && i !== this.dragged && document.activeElement !== column.track) return;
      column.shown = shown;
      this.updateColumn(column, i, scores[i]!, masked[i]!, target);
    });
  }

  highlight(position: number): void {
    if (position === this.highlighted) return;
    this.columns[this.highlighted]?.root.classList.remove("hovered");
    this.columns[position]?.root.classList.add("hovered");
    this.highlighted = position;
  }

  private updateColumn({ root, track, bar, number, token, mask }: Column, i: number, score: number, masked: boolean, target: number): void {
    const share = (50 * Math.abs(score)) / this.range;
    bar.style.top = `${score >= 0 ? 50 - share : 50}%`;
    bar.style.height = `${share}%`;
    number.textContent = masked ? "−∞" : numberText(score, 2);
    number.style.top = `${score >= 0 ? 50 - share : 50 + share}%`;
    root.classList.toggle("negative", score < 0);
    root.classList.toggle("masked", masked);
    root.classList.toggle("target", i === target);
    track.setAttribute("aria-valuenow", String(Number(score.toFixed(3))));
    track.setAttribute("aria-valuemin", String(-this.range));
    track.setAttribute("aria-valuemax", String(this.range));
    if (document.activeElement === track || i === this.dragged) this.describe(i, track, score, masked);
    else track.setAttribute("aria-valuetext", masked ? "masked" : numberText(score, 2));
    token.setAttribute("aria-pressed", String(i === target));
    mask.setAttribute("aria-pressed", String(masked));
  }

  private describe(i: number, track: HTMLElement, score: number, masked: boolean): void {
    track.setAttribute("aria-valuetext", `${masked ? "masked" : numberText(score, 2)}; ${this.events.describe(i)}`);
  }

  private column(text: string, i: number): Column {
    const bar = element("div", { class: "score-bar" });
    const number = element("div", { class: "score-number", "aria-hidden": "true" });
    const track = element("div", { class: "score-track", role: "slider", tabindex: -1, "aria-orientation": "vertical", "aria-label": `Score of ${text}`, "aria-valuenow": 0 }, bar, number);
    const token = element("button", { type: "button", class: "token", tabindex: -1, dir: "auto", title: `${text}: click to make it the target of the losses`, "aria-label": `${text}: target of the losses`, click: () => this.events.target(i) }, text);
    const mask = element("button", { type: "button", class: "mask", tabindex: -1, title: `Mask ${text}`, "aria-label": `Mask ${text}`, click: () => this.events.mask(i) });
    const root = element("div", { class: "score" }, track, token, mask);
    root.addEventListener("pointerenter", () => { if (this.dragged < 0) this.events.hover(i); });
    track.addEventListener("focus", () => this.focus(i));
    track.addEventListener("keydown", (event) => this.key(event, i));
    track.addEventListener("pointerdown", (event) => this.grab(event, i));
    track.addEventListener("pointermove", (event) => { if (this.dragged === i) this.events.score(i, this.scoreAt(event, track), false); });
    const drop = (event: PointerEvent) => {
      if (this.dragged !== i) return;
      this.dragged = -1;
      const still = Number(track.getAttribute("aria-valuenow"));
      this.events.score(i, event.type === "pointerup" ? this.scoreAt(event, track) : still, true);
    };
    track.addEventListener("pointerup", drop);
    track.addEventListener("pointercancel", drop);
    return { root, track, bar, number, token, mask, shown: "" };
  }

  private grab(event: PointerEvent, i: number): void {
    if (event.button !== 0) return;
    const track = this.columns[i]!.track;
    track.setPointerCapture(event.pointerId);
    this.dragged = i;
    track.focus({ preventScroll: true });
    this.events.hover(i);
    if (event.pointerType !== "touch") this.events.score(i, this.scoreAt(event, track), false); // a touch may become a scroll
    event.preventDefault();
  }

  private scoreAt(event: PointerEvent, track: HTMLElement): number {
    const { top, height } = track.getBoundingClientRect();
    const score = this.range * (1 - (2 * (event.clientY - top)) / height);
    const snapped = Math.abs(score) < this.range / 60 ? 0 : score;
    return Number(clamp(snapped, -Math.min(MOST_SCORE, this.range * 1.5), Math.min(MOST_SCORE, this.range * 1.5)).toFixed(2));
  }

  private focus(i: number): void {
    this.columns[this.focused]?.track.setAttribute("tabindex", "-1");
    this.focused = i;
    const { track, root } = this.columns[i]!;
    track.setAttribute("tabindex", "0");
    this.describe(i, track, Number(track.getAttribute("aria-valuenow")), root.classList.contains("masked"));
    this.events.hover(i);
  }

  private key(event: KeyboardEvent, i: number): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { track } = this.columns[i]!;
    const score = Number(track.getAttribute("aria-valuenow"));
    const forward = this.list.dir === "rtl" ? -1 : 1;
    const fine = event.shiftKey ? 0.01 : 0.1;
    const steps: Record<string, number> = { ArrowUp: fine, ArrowDown: -fine, PageUp: 1, PageDown: -1 };
    const moves: Record<string, number> = { ArrowRight: i + forward, ArrowLeft: i - forward, Home: 0, End: this.columns.length - 1 };
    if (event.key in steps) {
      const next = Number(clamp(score + steps[event.key]!, -MOST_SCORE, MOST_SCORE).toFixed(2));
      track.setAttribute("aria-valuenow", String(next)); // at once: the next key may come before the next frame
      this.events.score(i, next, true);
    } else if (event.key in moves) {
      this.columns[clamp(moves[event.key]!, 0, this.columns.length - 1)]?.track.focus();
    } else if (event.key === "m" || event.key === "Delete") this.events.mask(i);
    else if (event.key === "t" || event.key === "Enter") this.events.target(i);
    else if (event.key === "0") this.events.score(i, 0, true);
    else return;
    event.preventDefault();
  }
}
