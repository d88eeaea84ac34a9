// The view of attention: what it shows is what Python put into the page, and it works by mouse, touch and keyboard.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const NAME = { name: "attention.html" };
const facts = (files) => JSON.parse(readFileSync(join(files, "attention.json"), "utf8"));

// Changes the state in the address, as a person would.
const goTo = (page, state) =>
  page.evaluate((state) => new Promise((done) => {
    addEventListener("hashchange", () => done(), { once: true });
    location.hash = `#attention?${state}`;
  }), state);

// The tables of the chosen row, as {column: weight}.
const tables = (page) =>
  page.$$eval(".attention-table", (found) =>
    found.map((table) => Object.fromEntries([...table.tBodies[0].rows].map((row) => [Number(row.cells[0].textContent) - 1, Number(row.cells[2].textContent)]))),
  );

// The colour of the middle of a cell of the n-th map, with cells of 20 pixels: [red, green, blue].
const colour = (page, at, row, column) =>
  page.evaluate(([at, row, column]) => {
    const canvas = document.querySelectorAll(".attention-room canvas")[at];
    const ratio = canvas.width / canvas.clientWidth;
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const pixel = (x, y) => [0, 1, 2].map((part) => data[4 * (Math.round(y * ratio) * canvas.width + Math.round(x * ratio)) + part]);
    const { left, top } = canvas.closest(".attention-box").dataset;
    return pixel(Number(left) + 20 * column + 9, Number(top) + 20 * row + 9);
  }, [at, row, column]);

async function withServer(files, use) {
  const { python, server } = facts(files);
  const child = spawn(python, [server], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((done) => child.on("exit", done));
  const stop = () => (child.stdin.end(), ended);
  try {
    const address = await new Promise((found, failed) => {
      child.stdout.once("data", (text) => found(String(text).trim()));
      child.on("exit", () => failed(new Error("the server did not start")));
    });
    await use(address, stop);
  } finally {
    await stop();
  }
}

export const checks = [
  ["rows are those of Python", async ({ open, files, expect }) => {
    const { sparse, dense, mean } = facts(files);
    const near = (found, wanted, said) => {
      const kept = wanted.map((weight, at) => [at, weight]).filter(([, weight]) => weight !== 0);
      expect(Object.keys(found).length === kept.length, `${said}: ${Object.keys(found).length} weights, not ${kept.length}`);
      for (const [at, weight] of kept) expect(Math.abs(found[at] - weight) < 6e-5, `${said}: column ${at} is ${found[at]}, not ${weight}`);
    };
    const page = await open("", NAME);
    for (let layer = 0; layer < 2; layer++) {
      for (let head = 0; head < 3; head++) {
        await goTo(page, `layer=${layer}&head=${head}&row=${2 * layer + 1}`);
        const [first, second] = await tables(page);
        near(first, dense[layer][head][2 * layer + 1], `softmax, layer ${layer}, head ${head}`);
        near(second, sparse[layer][head][2 * layer + 1], `sparsemax, layer ${layer}, head ${head}`);
      }
    }
    await goTo(page, "row=4");
    near((await tables(page))[1], mean[4], "the mean of all heads");
  }],

  ["darker is more, and exactly zero is grey", async ({ open, files, expect }) => {
    const { sparse, dense } = facts(files);
    const page = await open("#attention?layer=1&head=2&cell=20", NAME);
    const light = (colours) => colours[0] + colours[1] + colours[2];
    for (let row = 0; row < 6; row++) {
      for (let column = 0; column < 8; column++) {
        const found = await colour(page, 1, row, column);
        const isGrey = String(found) === "216,216,216";
        expect(isGrey === (sparse[1][2][row][column] === 0), `cell ${row}, ${column} of ${sparse[1][2][row][column]} has the colour ${found}`);
      }
      const [from, to] = [0, 1].map((at) => dense[1][2][row][at]);
      const [a, b] = [await colour(page, 0, row, 0), await colour(page, 0, row, 1)];
      expect(from > to ? light(a) <= light(b) : light(a) >= light(b), `row ${row}: ${a} and ${b} for ${from} and ${to}`);
    }
  }],

  ["texts of any script are text", async ({ open, expect }) => {
    const page = await open("#attention?row=2", NAME);
    expect((await page.textContent(".attention-text")) === "<i>a text</i> שלום", "the input is not shown as text");
    expect((await page.textContent(".attention-table caption bdi")) === "</script><img src=x onerror=alert(1)>", "the token is not shown as text");
    expect((await page.$$(".attention img, .attention i, .attention b")).length === 0, "a token became markup");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save SVG")]);
    const picture = readFileSync(await download.path(), "utf8");
    expect(picture.startsWith("<svg") && picture.includes("שלום") && picture.includes("&lt;b&gt;d&lt;/b&gt;"), "the SVG lacks its tokens");
    expect(!picture.includes("<img") && !picture.includes("<b>"), "a token became markup in the SVG");
    const [image] = await Promise.all([page.waitForEvent("download"), page.click("text=Save PNG")]);
    expect(readFileSync(await image.path()).subarray(1, 4).toString() === "PNG", "no PNG");
    await page.selectOption('[data-control="Drawn-as"]', "lines");
    const [lines] = await Promise.all([page.waitForEvent("download"), page.click("text=Save SVG")]);
    expect(readFileSync(await lines.path(), "utf8").includes("<path"), "the SVG of lines has no lines");
  }],

  ["heads, keys, undo and the address", async ({ open, expect }) => {
    const page = await open("", NAME);
    await page.click('figure:nth-of-type(2) [aria-label="layer 2, head 3"]');
    expect(page.url().endsWith("#attention?layer=1&head=2"), `the address is ${page.url()}`);
    const pressed = await page.$$eval('[aria-pressed="true"]', (found) => found.map((each) => each.getAttribute("aria-label")));
    expect(String(pressed) === "layer 2, head 3,layer 2, head 3", `pressed: ${pressed}`);
    await page.focus(".attention-box");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
    expect(page.url().endsWith("row=1&column=1"), `the address is ${page.url()}`);
    const said = await page.textContent("[aria-live]");
    expect(said.includes("(row 2)") && said.includes("(column 2)") && said.includes("sparsemax: "), `said ${said}`);
    await page.keyboard.press("End");
    expect(page.url().endsWith("row=1&column=7"), "End did not go to the last column");
    await page.keyboard.press("Control+z");
    expect(page.url().endsWith("row=1&column=1"), "undo did not go back");
    await page.focus('[data-control="Head"]');
    await page.selectOption('[data-control="Head"]', "mean");
    expect(await page.evaluate(() => document.activeElement.dataset.control === "Head"), "the control lost the focus");
    await page.focus(".attention-box");
    await page.keyboard.press("Escape");
    expect((await page.$$(".attention-table")).length === 0, "Escape did not leave the row");
    const again = await open(`#${page.url().split("#")[1]}`, NAME);
    const chosen = (tab) => tab.$$eval(".controls select", (found) => found.map((each) => each.value).join());
    expect((await chosen(again)) === (await chosen(page)), "the address does not give the same choices");
  }],

  ["a strange address shows the initial state", async ({ open, expect }) => {
    const page = await open("", NAME);
    for (const state of ["input=99&row=1e9&layer=-1&head=<b>&cell=7&form=x&hidden=a..9", "row=9999999&column=9999999&layer=999", "%%%&&&=", "part=77"]) {
      await goTo(page, state);
      expect((await page.$$("figure canvas")).length > 0, `${state}: nothing is shown`);
    }
  }],

  ["pointing and touching", async ({ open, expect }) => {
    const page = await open("#attention?cell=20&layer=0&head=0", NAME);
    const box = page.locator(".attention-box").nth(1);
    const [left, top] = await box.evaluate((found) => [Number(found.dataset.left), Number(found.dataset.top)]);
    await box.hover({ position: { x: left + 30, y: top + 50 } });
    const tip = await page.textContent(".tooltip");
    expect(tip.includes("(row 3)") && tip.includes("(column 2)") && tip.includes("softmax: "), `the tip says ${tip}`);
    expect(tip.includes("b\\u202ec"), "a character that reverses others is not escaped");
    await box.click({ position: { x: left + 30, y: top + 50 } });
    expect(page.url().endsWith("row=2&column=1"), `the address is ${page.url()}`);
    const phone = await open("#attention?layer=0&head=0", { ...NAME, viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
    const width = await phone.evaluate(() => document.scrollingElement.scrollWidth);
    expect(width <= 390, `the page is ${width} pixels wide on a phone`);
    const place = await phone.$eval(".attention-box", (found) => {
      found.scrollIntoView({ block: "center" });
      const { left, top } = found.getBoundingClientRect();
      return [left + 200, top + 150];
    });
    await phone.touchscreen.tap(...place);
    await phone.waitForFunction(() => location.hash.includes("row="), undefined, { timeout: 5000 }).catch(() => undefined);
    expect(/row=\d/.test(phone.url()), "a tap chooses nothing");
  }],

  ["lines, parts, a cut, and a weight that is no number", async ({ open, files, expect }) => {
    const page = await open("#attention?input=1&row=1", NAME);
    const legend = await page.textContent(".attention-legend");
    expect(legend.includes(`below ${facts(files).cut}`) && legend.includes("not a number"), `the legend says ${legend}`);
    const caption = await page.textContent(".attention-table caption");
    expect(/weights below .* are left out/.test(caption), `the caption says ${caption}`);
    expect((await page.textContent(".attention-table")).includes("not a number"), "NaN is missing in the table");
    await page.selectOption('[data-control="Attention"]', "1");
    expect(page.url().includes("part=1"), "the part is not in the address");
    await page.goto(page.url().split("#")[0] + "#attention?form=lines");
    await page.locator(".attention-box").first().click({ position: { x: 20, y: 40 } });
    expect(page.url().includes("row=1"), `a click on a token of lines gives ${page.url()}`);
  }],

  ["three thousand tokens", async ({ open, expect }) => {
    const began = Date.now();
    const page = await open("", { name: "attention_long.html" });
    await page.waitForSelector(".attention-head canvas");
    console.log(`      open after ${Date.now() - began} ms`);
    await page.selectOption('[data-control="Cells"]', "20");
    const size = await page.$eval(".attention-box", (box) => [box.scrollWidth, box.scrollHeight, box.querySelector("canvas").clientWidth]);
    expect(size[0] > 60_000 && size[1] > 60_000 && size[2] < 1300, `the box scrolls over ${size}`);
    const times = await page.$eval(".attention-box", async (box) => {
      const times = [];
      for (let step = 0; step < 10; step++) {
        box.scrollTop = box.scrollLeft = 6000 * step;
        const began = performance.now();
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        times.push(performance.now() - began);
      }
      return times.sort((a, b) => a - b);
    });
    console.log(`      a scrolled frame takes ${times[5].toFixed(0)} ms`);
    expect(times[5] < 500, `a scrolled frame takes ${times[5]} ms`);
    await page.focus(".attention-box");
    await page.keyboard.press("ArrowDown");
    for (let step = 0; step < 3; step++) await page.keyboard.press("PageDown");
    expect(page.url().endsWith("row=30&column=0"), `the address is ${page.url()}`);
    await page.selectOption('[data-control="Drawn-as"]', "lines");
    await page.waitForTimeout(200);
  }],

  ["damaged and missing data are explained", async ({ open, expect }) => {
    const broken = await open("", { name: "attention_broken.html" });
    const said = await broken.textContent(".attention [role=alert]");
    expect(said.startsWith("The attention in this page cannot be read: "), `said ${said}`);
    const empty = await open("#attention");
    expect((await empty.textContent(".attention")).includes("omegamax explore runs/"), "an empty page says nothing");
  }],

  ["accessible to axe, light and dark", async ({ open, expect, require }) => {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open("#attention?layer=0&head=1&row=1&column=1", { ...NAME, colorScheme });
      await page.evaluate(require("axe-core").source);
      const found = await page.evaluate(() => window.axe.run());
      const said = found.violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 120)}`);
      expect(said.length === 0, `${colorScheme}: ${said.join("; ")}`);
      const paper = await page.$eval(".attention-box", (box) => getComputedStyle(box).backgroundColor);
      expect((paper === "rgb(255, 255, 255)") === (colorScheme === "light"), `${colorScheme}: the paper is ${paper}`);
    }
  }],

  ["the server answers, refuses, and is missed when it is gone", async ({ files, expect, require }) => {
    await withServer(files, async (address, stop) => {
      const { chromium } = require("playwright-core");
      const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
      try {
        const page = await browser.newPage();
        const faults = [];
        page.on("pageerror", (error) => faults.push(error.message));
        page.on("request", (request) => request.url().startsWith(address) || /^(data|blob):/.test(request.url()) || faults.push(request.url()));
        await page.goto(address);
        const ask = async (text) => {
          await page.fill("#attention-text", text);
          await page.click("text=Show attention");
          await page.locator(".attention-form button:not([disabled])").waitFor(); // functions are evaluated, which the page forbids
          return page.textContent(".attention-form [role=alert]");
        };
        expect((await ask("<img>\nabc")) === "", "a good text was refused");
        expect((await page.textContent(".attention-text")) === "<img>", "the new input is not shown");
        expect((await ask("bad")) === "The server refused: letters: expected good letters, got bad ones; write others.", "the refusal is not told");
        await page.click("nav >> text=Row");
        await page.click("nav >> text=Attention");
        expect((await page.$$('[data-control="Input"] option')).length === 2, "what the server sent is forgotten");
        await stop();
        expect((await ask("more")).startsWith("The server does not answer. It was stopped"), "a dead server is not told");
        expect((await page.$$("figure canvas")).length > 0, "what was there is gone");
        expect(faults.length === 0, faults.join("; "));
      } finally {
        await browser.close();
      }
    });
  }],
];
