// The frame of the page: views, addresses, undo, themes, phones, accessibility, and no network.

import { readFileSync } from "node:fs";

const VIEWS = ["row", "simplex", "structures", "attention"];
const frame = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const hash = (page) => page.evaluate(() => location.hash);
const go = async (page, address) => {
  await page.evaluate((text) => { location.hash = text; }, address);
  await frame(page);
};

export const checks = [
  ["every view is reached by its tab, and keeps its state", async ({ open, expect }) => {
    const page = await open("#row?g=2");
    for (const name of ["Simplex", "Attention", "Structures", "Row"]) {
      await page.getByRole("navigation").getByText(name, { exact: true }).click();
      await frame(page);
      expect((await page.locator("nav [aria-current]").textContent()) === name, `the tab of ${name}`);
      expect((await page.title()).startsWith(name), "the title follows");
    }
    expect((await hash(page)) === "#row?g=2", `the row keeps its temperature, got ${await hash(page)}`);
    await page.goBack();
    await frame(page);
    expect((await hash(page)).startsWith("#structures"), "the browser goes back");
  }],

  ["an address shows the same state in another browser", async ({ open, expect }) => {
    const page = await open("#row?t=one+two+three&s=0.5+-1+2&m=1&y=0&g=0.5&f=0.3&k=1+2");
    await page.locator(".score-track").nth(2).focus();
    await page.keyboard.press("ArrowUp");
    await frame(page);
    const address = await hash(page);
    const other = await open(address);
    expect((await hash(other)) === address, "the address stays");
    const shown = (tab) => tab.locator(".card").evaluateAll((cards) => cards.map((card) => card.querySelector(".stats").textContent + card.querySelector("path.bars").getAttribute("d")).join());
    expect((await shown(page)) === (await shown(other)), "and so does what it shows");
  }],

  ["dark, light, and the button between them", async ({ open, expect }) => {
    const page = await open("", { colorScheme: "dark" });
    const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await background();
    await page.getByLabel(/^Theme/).click();
    expect((await background()) !== dark, "the button makes it light");
    await page.getByLabel(/^Theme/).click();
    expect((await background()) === dark, "and dark again");
  }],

  ["nothing is wider than a phone", async ({ open, expect }) => {
    const page = await open("", { viewport: { width: 390, height: 844 } });
    for (const address of ["#row", "#simplex", "#attention", ...["chain", "alignment", "matching", "tree", "graph"].map((kind) => `#structures?k=${kind}`)]) {
      await go(page, address);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(width <= 390, `${address} is ${width} pixels wide`);
    }
  }],

  ["axe finds nothing to complain about, light or dark", async ({ open, expect, require }) => {
    const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
    const page = await open("", { colorScheme: "light" });
    await page.evaluate(axe);
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      for (const address of [...VIEWS.map((view) => `#${view}`), "#structures?k=alignment", "#structures?k=matching&o=map", "#structures?k=tree", "#structures?k=graph"]) {
        await go(page, address);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        const said = violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ target }) => target.join(" ")).join(", ")}`);
        expect(said.length === 0, `${scheme} ${address}: ${said.join("; ")}`);
      }
    }
  }],

  ["the page can be used with the keyboard alone", async ({ open, expect }) => {
    const page = await open("#structures");
    await page.keyboard.press("Tab");
    expect((await page.evaluate(() => document.activeElement.textContent)) === "Skip to the view", "the first stop skips the header");
    await page.keyboard.press("Enter");
    expect((await page.evaluate(() => document.activeElement.id)) === "view", "and leads to the view");
    const reached = new Set();
    for (let i = 0; i < 40; ++i) {
      await page.keyboard.press("Tab");
      reached.add(await page.evaluate(() => document.activeElement.getAttribute("role") ?? document.activeElement.tagName));
    }
    for (const kind of ["BUTTON", "INPUT", "slider"]) expect(reached.has(kind), `${kind} is reached, got ${[...reached]}`);
  }],

  ["a notebook shows a row in a frame that cannot leave it", async ({ open, expect }) => {
    const page = await open("", { name: "notebook.html", quiet: true });
    const frame = page.frameLocator("iframe");
    await frame.locator(".card").first().waitFor();
    expect((await frame.locator(".card:visible").count()) === 2, "two operators were asked for");
    expect((await frame.locator("header.top").count()) === 0, "no header");
    expect((await frame.locator(".score.masked .token").textContent()) === "two", "the mask");
    await frame.locator(".score-track").nth(0).focus();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("ArrowUp");
    await frame.locator('.score-track[aria-valuenow="0.7"]').waitFor();
    expect((await page.evaluate(() => location.hash)) === "", "the notebook keeps its address");
  }],

  ["an embedded page follows the theme around it and says how high it is", async ({ open, expect }) => {
    const page = await open("", { name: "notebook.html", quiet: true, colorScheme: "light" });
    const height = await page.evaluate(() => new Promise((done) => {
      addEventListener("message", ({ data }) => { if (data.omegamaxHeight) done(data.omegamaxHeight); });
      const frame = document.createElement("iframe");
      frame.width = 600;
      frame.src = "page.html?embed&theme=dark#row?v=sparsemax";
      document.body.append(frame);
    }));
    expect(height > 300 && height < 900, `a row and one card are ${height} pixels high`);
    const inner = page.frames().find((frame) => frame.url().includes("embed"));
    expect((await inner.evaluate(() => document.documentElement.dataset.theme)) === "dark", "dark, as the address says");
    await page.evaluate(() => document.querySelectorAll("iframe")[1].contentWindow.postMessage({ omegamaxTheme: "light" }, "*"));
    await inner.locator('html[data-theme="light"]').waitFor({ state: "attached" });
  }],

  ["the first paint comes within a second", async ({ open, expect }) => {
    const page = await open();
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
    console.log(`      first paint after ${paint.toFixed(0)} ms here`);
    expect(paint < 5000, `the first paint came after ${paint} ms; this machine may be busy, but not that busy`);
  }],

  ["a browser without WebAssembly is told so", async ({ open, expect }) => {
    const page = await open("", { quiet: true });
    await page.addInitScript(() => { WebAssembly.instantiate = () => Promise.reject(new Error("no SIMD")); });
    await page.reload();
    await page.getByRole("alert").waitFor();
    expect(/did not start the kernels \(Error: no SIMD\)/.test(await page.getByRole("alert").textContent()), "the message");
  }],
];
