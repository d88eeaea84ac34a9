// Light or dark: as the system says, until the user says otherwise.

import { element, svg } from "./dom";

type Choice = "auto" | "light" | "dark";
const NEXT: Record<Choice, Choice> = { auto: "light", light: "dark", dark: "auto" };
const KEY = "omegamax-theme";

export class Theme {
  readonly button = element("button", { type: "button", class: "icon", click: () => this.set(NEXT[this.choice]) },
    svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" },
      svg("circle", { cx: 12, cy: 12, r: 8 }), svg("path", { d: "M12 4a8 8 0 0 1 0 16Z", class: "filled" })));
  private choice: Choice = "auto";

  constructor() {
    this.set(this.stored());
  }

  private set(choice: Choice): void {
    this.choice = choice;
    if (choice === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice;
    const said = choice === "auto" ? "as the system" : choice;
    this.button.setAttribute("aria-label", `Theme: ${said}`);
    this.button.title = `Theme: ${said}`;
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // No storage in a sandboxed frame: the choice then lasts as long as the page.
    }
  }

  private stored(): Choice {
    try {
      const stored = localStorage.getItem(KEY);
      return stored === "light" || stored === "dark" ? stored : "auto";
    } catch {
      return "auto";
    }
  }
}
