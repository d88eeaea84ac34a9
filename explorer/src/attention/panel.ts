// The picture of one model: a box that scrolls, and in it a canvas as large as the box, which draws what is in sight.

import { element, oncePerFrame } from "../dom";
import { draw, type Focus, focusAt, type Form, type Frame, LINE_HEIGHT, margins } from "./drawing";
import { PAPER, type Theme } from "./palette";
import type { Part } from "./payload";
import type { SparseMap } from "./sparse_map";
import { CanvasSurface, type Surface } from "./surface";

export interface Picture {
  part: Part;
  map: SparseMap;
  form: Form;
  cell: number; // 0: small enough that the whole map is in sight
  largest: number; // the weight that is darkest
  focus: Focus | null;
}

export interface PanelEvents {
  hover(focus: Focus | null, x: number, y: number): void; // the place is that of the window
  choose(focus: Focus | null): void;
  move(rows: number, columns: number): void; // by keys
  scroll(left: number, top: number): void; // by shares of the whole
}

const LARGEST_FITTED = 26; // pixels of a cell
const LEAST_HEIGHT = 120;

export class Panel {
  readonly root: HTMLElement;
  private readonly canvas = element("canvas", { "aria-hidden": "true" });
  private readonly room = element("div", { class: "attention-room" }, this.canvas);
  private readonly box: HTMLElement;
  private readonly frames = oncePerFrame(() => this.draw());
  private readonly sizes: ResizeObserver;
  private picture: Picture | null = null;
  private theme: Theme = PAPER;
  private scrollsAlone = true;

  constructor(label: string, private readonly events: PanelEvents) {
    this.box = element(
      "div",
      {
        class: "attention-box",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "attention map",
        "aria-label": `${label}. Arrow keys move through rows and columns, Home and End to the ends, Escape leaves.`,
        scroll: () => this.scrolled(),
        pointermove: (event: PointerEvent) => this.point(event, (focus) => events.hover(focus, event.clientX, event.clientY)),
        pointerleave: () => events.hover(null, 0, 0),
        click: (event: MouseEvent) => this.point(event, (focus) => events.choose(focus)),
        keydown: (event: KeyboardEvent) => this.key(event),
      },
      this.room,
    );
    this.root = this.box;
    this.sizes = new ResizeObserver(() => this.layOut());
    this.sizes.observe(this.box);
  }

  show(picture: Picture, theme: Theme): void {
    this.picture = picture;
    this.theme = theme;
    this.layOut();
  }

  // Scrolls to where another panel was scrolled to, without telling others.
  scrollTo(left: number, top: number): void {
    const { box } = this;
    const [x, y] = [left * (box.scrollWidth - box.clientWidth), top * (box.scrollHeight - box.clientHeight)];
    if (Math.abs(box.scrollLeft - x) < 1 && Math.abs(box.scrollTop - y) < 1) return;
    this.scrollsAlone = false;
    box.scrollLeft = x;
    box.scrollTop = y;
  }

  // Brings the chosen row and column into sight.
  reveal(): void {
    const { box, picture } = this;
    if (picture === null || picture.focus === null) return;
    const frame = this.frame(picture);
    const { row, column } = picture.focus;
    const toView = (place: number, at: number, length: number) =>
      place * frame.cell < at ? place * frame.cell : Math.max(at, (place + 1) * frame.cell - length);
    box.scrollTop = toView(row, box.scrollTop, box.clientHeight - frame.top);
    if (picture.form === "map" && column !== null) {
      box.scrollLeft = toView(column, box.scrollLeft, box.clientWidth - frame.left);
    }
  }

  // Draws the same picture elsewhere, for an export.
  export(surface: Surface, theme: Theme): void {
    if (this.picture !== null) this.drawOn(surface, theme, 2);
  }

  // The size of what is in sight, without empty space beside a small map.
  size(): { width: number; height: number } {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (this.picture === null || this.picture.form === "lines") return { width, height };
    const { left, top, cell } = this.frame(this.picture);
    const { rows, columns } = this.picture.part;
    const least = 160; // for the title
    return { width: Math.min(width, Math.max(least, left + columns.length * cell + 4)), height: Math.min(height, top + rows.length * cell + 4) };
  }

  unmount(): void {
    this.sizes.disconnect();
    this.frames.cancel();
  }

  private layOut(): void {
    const { picture, box, room } = this;
    if (picture === null) return;
    const frame = this.frame(picture);
    Object.assign(box.dataset, { left: frame.left, top: frame.top }); // where the cells begin, for tests in a browser
    const nPlaces = picture.form === "map" ? picture.part.rows.length : Math.max(picture.part.rows.length, picture.part.columns.length);
    const height = frame.top + nPlaces * frame.cell + 2;
    const width = picture.form === "map" ? frame.left + picture.part.columns.length * frame.cell + 2 : 0;
    room.style.width = width > box.clientWidth ? `${width}px` : "100%";
    room.style.height = `${height}px`;
    const most = Math.max(240, Math.round(0.7 * window.innerHeight));
    const bars = box.offsetHeight - box.clientHeight; // of scrolling, and the frame
    box.style.height = `${Math.min(most, Math.max(LEAST_HEIGHT, height + bars))}px`;
    this.frames.ask();
  }

  private frame(picture: Picture): Frame {
    const { box } = this;
    const surface = new CanvasSurface(this.canvas.getContext("2d")!);
    const cell = picture.form === "lines" ? LINE_HEIGHT : picture.cell || this.fittedCell(surface, picture);
    return {
      width: box.clientWidth,
      height: box.clientHeight,
      scrollLeft: box.scrollLeft,
      scrollTop: box.scrollTop,
      cell,
      pixelRatio: window.devicePixelRatio || 1,
      ...margins(surface, picture.part, picture.form, cell),
    };
  }

  private fittedCell(surface: Surface, { part }: Picture): number {
    const most = Math.max(200, 0.7 * window.innerHeight);
    const fit = ({ left, top }: { left: number; top: number }) =>
      Math.min((this.box.clientWidth - left - 2) / part.columns.length, (most - top - 4) / part.rows.length);
    const labelled = fit(margins(surface, part, "map", LARGEST_FITTED));
    const plain = fit(margins(surface, part, "map", 1));
    return Math.min(LARGEST_FITTED, labelled >= 10 ? labelled : Math.max(0.05, Math.min(plain, 9.9)));
  }

  private draw(): void {
    const { picture, canvas } = this;
    if (picture === null || this.box.clientWidth === 0) return;
    const frame = this.frame(picture);
    const ratio = frame.pixelRatio;
    const [width, height] = [Math.round(frame.width * ratio), Math.round(frame.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.width = `${frame.width}px`;
      canvas.style.height = `${frame.height}px`;
    }
    const context = canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.drawOn(new CanvasSurface(context), this.theme, ratio);
  }

  private drawOn(surface: Surface, theme: Theme, pixelRatio: number): void {
    const { part, map, form, largest, focus } = this.picture!;
    draw(surface, part, map, form, { ...this.frame(this.picture!), pixelRatio }, largest, theme, focus);
  }

  private scrolled(): void {
    this.frames.ask();
    const { box } = this;
    if (this.scrollsAlone) {
      const share = (at: number, whole: number) => (whole > 0 ? at / whole : 0);
      this.events.scroll(share(box.scrollLeft, box.scrollWidth - box.clientWidth), share(box.scrollTop, box.scrollHeight - box.clientHeight));
    }
    this.scrollsAlone = true;
  }

  private point(event: MouseEvent, use: (focus: Focus | null) => void): void {
    if (this.picture === null) return;
    const bounds = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left - this.box.clientLeft, event.clientY - bounds.top - this.box.clientTop];
    use(focusAt(this.picture.part, this.picture.form, this.frame(this.picture), x, y));
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      PageUp: [-10, 0],
      PageDown: [10, 0],
      Home: [0, -Infinity],
      End: [0, Infinity],
    };
    const step = steps[event.key];
    if (event.key === "Escape") this.events.choose(null);
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.events.move(...step);
  }
}
