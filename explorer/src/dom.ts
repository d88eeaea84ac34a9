// Makes elements. Texts are always text: nothing here parses markup.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener | ((event: never) => void)>;

function fill(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value as EventListener);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child) node.append(child);
}

// element("button", { class: "tab", click: handler }, "Row"): functions become listeners, strings become text.
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}

export function setAttributes(node: Element, attributes: Record<string, string | number>): void {
  for (const name in attributes) node.setAttribute(name, String(attributes[name]));
}

// Calls `draw` once in the next frame, however often it is asked for before.
export function oncePerFrame(draw: () => void): { ask(): void; now(): void; cancel(): void } {
  let asked = 0;
  const run = () => {
    asked = 0;
    draw();
  };
  return {
    ask() {
      if (asked === 0) asked = requestAnimationFrame(run);
    },
    now() {
      if (asked !== 0) cancelAnimationFrame(asked);
      run();
    },
    cancel() {
      if (asked !== 0) cancelAnimationFrame(asked);
      asked = 0;
    },
  };
}
