// A page inside another page, as in the documentation: it says how high it is, and follows the theme around it.

export function talkToParent(content: HTMLElement): void {
  const setTheme = (theme: unknown) => {
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  };
  setTheme(new URLSearchParams(location.search).get("theme"));
  if (parent === window) return;
  addEventListener("message", ({ source, data }: MessageEvent<unknown>) => {
    if (source === parent && typeof data === "object" && data !== null) setTheme((data as { omegamaxTheme?: unknown }).omegamaxTheme);
  });
  new ResizeObserver(() => parent.postMessage({ omegamaxHeight: Math.ceil(content.getBoundingClientRect().height) + 16 }, "*")).observe(content);
}
