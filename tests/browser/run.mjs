// Runs the checks of the page in a real browser: node tests/browser/run.mjs DIRECTORY [part of a name]
//
// DIRECTORY holds what tests/browser/cases.py wrote. Every file *.check.mjs beside this one exports `checks`, a list of
// [name, async ({ open, files, expect }) => ...]. `open(address, options)` opens the page in a context of its own.

import { readdirSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(join(here, "../../explorer/package.json"));
const { chromium } = require("playwright-core");
const files = resolve(process.argv[2]);
const wanted = process.argv[3] ?? "";

const executablePath = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((path) => path && existsSync(path));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

export function expect(condition, message) {
  if (!condition) throw new Error(message);
}

let failures = 0, done = 0;
for (const file of readdirSync(here).filter((name) => name.endsWith(".check.mjs")).sort()) {
  const { checks } = await import(pathToFileURL(join(here, file)));
  for (const [name, run] of checks) {
    if (!`${file} ${name}`.includes(wanted)) continue;
    const contexts = [], complaints = [];
    // Opens the page; what it logs as an error, or asks of the network, fails the check.
    const open = async (address = "", { name: page = "page.html", quiet = false, ...options } = {}) => {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
      contexts.push(context);
      const tab = await context.newPage();
      tab.setDefaultTimeout(15000);
      tab.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
      tab.on("console", (message) => { if (message.type() === "error") complaints.push(`console: ${message.text()}`); });
      tab.on("request", (request) => { if (!/^(file|data|blob):/.test(request.url())) complaints.push(`request: ${request.url()}`); });
      await tab.goto(pathToFileURL(join(files, page)).href + address);
      if (!quiet) await tab.waitForSelector("html[data-ready]");
      return tab;
    };
    const start = Date.now();
    try {
      await run({ open, files, expect, require });
      expect(complaints.length === 0, complaints.join("; "));
      console.log(`ok    ${file.replace(".check.mjs", "")}: ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      ++failures;
      console.log(`FAIL  ${file.replace(".check.mjs", "")}: ${name}\n      ${String(error.message).split("\n").slice(0, 6).join("\n      ")}${complaints.length ? `\n      ${complaints.join("\n      ")}` : ""}`);
    }
    ++done;
    await Promise.all(contexts.map((context) => context.close()));
  }
}
await browser.close();
console.log(`${done - failures} of ${done} checks passed`);
process.exit(failures === 0 && done > 0 ? 0 : 1);
