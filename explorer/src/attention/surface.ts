// What a picture is drawn on: a canvas on the screen, or an SVG file. Both get the same calls.

import { svg } from "../dom";

export type Anchor = "start" | "middle" | "end";

export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth: number): void;
  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, lineWidth: number, opacity: number): void;
  text(text: string, x: number, y: number, options: TextOptions): void;
  image(pixels: ImageData, x: number, y: number, width: number, height: number): void;
  width(text: string, size: number): number;
  clip(x: number, y: number, width: number, height: number, draw: () => void): void;
  shift(x: number, y: number, draw: () => void): void;
}

export interface TextOptions {
  fill: string;
  anchor: Anchor;
  size: number;
  turned?: boolean; // upwards
  bold?: boolean;
}

export const FONT = 'system-ui, "Noto Sans", sans-serif';

export class CanvasSurface implements Surface {
  constructor(private readonly context: CanvasRenderingContext2D) {}

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth: number): void {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = lineWidth;
    this.context.strokeRect(x, y, width, height);
  }

  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, lineWidth: number, opacity: number): void {
    const { context } = this;
    context.globalAlpha = opacity;
    context.strokeStyle = stroke;
    context.lineWidth = lineWidth;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
    context.stroke();
    context.globalAlpha = 1;
  }

  text(text: string, x: number, y: number, options: TextOptions): void {
    const { context } = this;
    context.save();
    context.font = `${options.bold ? "600 " : ""}${options.size}px ${FONT}`;
    context.fillStyle = options.fill;
    context.textBaseline = "middle";
    context.direction = "ltr"; // where a text stands; its letters run as their script does
    context.textAlign = options.anchor === "middle" ? "center" : options.anchor === "end" ? "right" : "left";
    context.translate(x, y);
    if (options.turned) context.rotate(-Math.PI / 2);
    context.fillText(text, 0, 0);
    context.restore();
  }

  image(pixels: ImageData, x: number, y: number, width: number, height: number): void {
    const { context } = this;
    context.imageSmoothingEnabled = false;
    context.drawImage(toCanvas(pixels), x, y, width, height);
  }

  width(text: string, size: number): number {
    this.context.font = `${size}px ${FONT}`;
    return this.context.measureText(text).width;
  }

  clip(x: number, y: number, width: number, height: number, draw: () => void): void {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    draw();
    context.restore();
  }

  shift(x: number, y: number, draw: () => void): void {
    this.context.save();
    this.context.translate(x, y);
    draw();
    this.context.restore();
  }
}

export class SvgSurface implements Surface {
  readonly root: SVGSVGElement;
  private into: Element;
  private nClips = 0;
  private readonly measure = document.createElement("canvas").getContext("2d")!;

  constructor(width: number, height: number, title: string) {
    this.root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT, role: "img" });
    this.root.append(svg("title", {}, title));
    this.into = this.root;
  }

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.into.append(svg("rect", { ...box(x, y, width, height), fill }));
  }

  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth: number): void {
    this.into.append(svg("rect", { ...box(x, y, width, height), fill: "none", stroke, "stroke-width": lineWidth }));
  }

  curve(x0: number, y0: number, x1: number, y1: number, stroke: string, lineWidth: number, opacity: number): void {
    const middle = round((x0 + x1) / 2);
    const d = `M${round(x0)} ${round(y0)}C${middle} ${round(y0)} ${middle} ${round(y1)} ${round(x1)} ${round(y1)}`;
    const style = { "stroke-width": round(lineWidth), "stroke-opacity": round(opacity) };
    this.into.append(svg("path", { d, fill: "none", stroke, ...style }));
  }

  text(text: string, x: number, y: number, options: TextOptions): void {
    const place = options.turned ? { transform: `translate(${round(x)} ${round(y)}) rotate(-90)` } : { x: round(x), y: round(y) };
    const { fill, anchor, size, bold } = options;
    const style = { fill, "text-anchor": anchor, "font-size": size, "dominant-baseline": "central", "font-weight": bold ? 600 : null };
    this.into.append(svg("text", { ...place, ...style, "unicode-bidi": "isolate" }, text));
  }

  image(pixels: ImageData, x: number, y: number, width: number, height: number): void {
    const href = toCanvas(pixels).toDataURL("image/png");
    this.into.append(svg("image", { ...box(x, y, width, height), href, preserveAspectRatio: "none", style: "image-rendering: pixelated" }));
  }

  width(text: string, size: number): number {
    this.measure.font = `${size}px ${FONT}`;
    return this.measure.measureText(text).width;
  }

  clip(x: number, y: number, width: number, height: number, draw: () => void): void {
    const id = `clip${this.nClips++}`;
    const group = svg("g", { "clip-path": `url(#${id})` });
    this.into.append(svg("clipPath", { id }, svg("rect", box(x, y, width, height))), group);
    this.drawInto(group, draw);
  }

  shift(x: number, y: number, draw: () => void): void {
    const group = svg("g", { transform: `translate(${round(x)} ${round(y)})` });
    this.into.append(group);
    this.drawInto(group, draw);
  }

  private drawInto(group: Element, draw: () => void): void {
    const outside = this.into;
    this.into = group;
    draw();
    this.into = outside;
  }
}

function box(x: number, y: number, width: number, height: number): Record<string, number> {
  return { x: round(x), y: round(y), width: round(width), height: round(height) };
}

function round(number: number): number {
  return Math.round(100 * number) / 100;
}

function toCanvas(pixels: ImageData): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  canvas.getContext("2d")!.putImageData(pixels, 0, 0);
  return canvas;
}
