// A slider with its name and its number. `input` is called while it moves, `change` when it is let go.

import { element } from "../dom";
import { clamp, numberText, readNumber } from "../numbers";

export interface SliderOptions {
  label: string; // what is shown: γ
  name: string; // what is read aloud: temperature of all operators
  low: number;
  high: number;
  step: number;
  value: number;
  digits?: number;
  logarithmic?: boolean; // equal distances are equal ratios; low must be positive
  input(value: number): void;
  change(value: number): void;
}

export class Slider {
  readonly root: HTMLElement;
  private readonly range: HTMLInputElement;
  private readonly field: HTMLInputElement;
  private current: number;

  constructor(private readonly options: SliderOptions) {
    this.current = options.value;
    const { name, low, high, step } = options;
    const whole = options.logarithmic ? { min: 0, max: 1000, step: 1 } : { min: low, max: high, step };
    this.range = element("input", { type: "range", ...whole, "aria-label": name, title: name });
    this.field = element("input", { type: "text", inputmode: "decimal", class: "number", "aria-label": `${name}, as a number`, size: 5 });
    this.range.addEventListener("input", () => this.moved(false));
    this.range.addEventListener("change", () => this.moved(true));
    this.field.addEventListener("change", () => this.typed());
    this.root = element("span", { class: "slider" }, element("span", { class: "slider-label", "aria-hidden": "true" }, options.label), this.range, this.field);
    this.set(options.value);
  }

  get value(): number {
    return this.current;
  }

  set(value: number): void {
    const { low, high, logarithmic, digits = 2 } = this.options;
    this.current = clamp(value, low, high);
    const place = logarithmic ? (1000 * Math.log(this.current / low)) / Math.log(high / low) : this.current;
    this.range.value = String(place);
    this.range.setAttribute("aria-valuetext", numberText(this.current, digits));
    this.field.value = numberText(this.current, digits);
  }

  private moved(done: boolean): void {
    const { low, high, step, logarithmic } = this.options;
    let value = Number(this.range.value);
    if (logarithmic) value = Math.round((low * (high / low) ** (value / 1000)) / step) * step;
    this.set(value);
    (done ? this.options.change : this.options.input)(this.current);
  }

  private typed(): void {
    const value = readNumber(this.field.value.replace("−", "-").replace(",", "."), this.options.low, this.options.high);
    this.set(value ?? this.current);
    this.options.change(this.current);
  }
}
