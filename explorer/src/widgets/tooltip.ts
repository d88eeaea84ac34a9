// One small box of text beside the pointer or beside a focused element. The lines are text, never markup.

import { element } from "../dom";
import { clamp } from "../numbers";

export class Tooltip {
  private readonly box = element("div", { class: "tooltip", role: "presentation", hidden: true });

  constructor(parent: HTMLElement = document.body) {
    parent.append(this.box);
  }

  // At a place of the window; the first line is the title.
  show(x: number, y: number, title: string, lines: string[] = []): void {
    this.box.replaceChildren(
      element("strong", { dir: "auto" }, title),
      ...lines.map((line) => element("span", { dir: "auto" }, line)),
    );
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const above = y - height - 14;
    this.box.style.left = `${clamp(x - width / 2, 6, Math.max(6, innerWidth - width - 6))}px`;
    this.box.style.top = `${above > 6 ? above : y + 18}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
  remove(): void {
    this.box.remove();
  }
}
