// The simplex view: the cross is dragged, points follow, regions and level sets are drawn.

const frame = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const cells = (page, name) => page.locator(".simplex-table tbody tr", { hasText: name }).locator("td").allTextContents();

export const checks = [
  ["dragging the cross moves the weights", async ({ open, expect }) => {
    const page = await open("#simplex");
    expect((await cells(page, "sparsemax")).join(" ") === "0.675 0.325 0 0.806", `sparsemax of 0.7, 0.35, -0.3, got ${await cells(page, "sparsemax")}`);
    const box = await page.locator("svg.simplex").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height * 0.98, { steps: 5 });
    await page.mouse.up();
    await frame(page);
    const [a, b, c] = (await cells(page, "sparsemax")).map(Number);
    expect(a === 0 && Math.abs(b - 0.5) < 0.02 && Math.abs(c - 0.5) < 0.02, `at the bottom b and c share the weight, got ${[a, b, c]}`);
    await page.keyboard.press("Control+z");
    await frame(page);
    expect((await cells(page, "sparsemax"))[0] === "0.675", "undo");
  }],

  ["regions are named, level sets are lines, sliders and choices are in the address", async ({ open, expect }) => {
    const page = await open("#simplex");
    expect((await page.locator(".regions text").allTextContents()).sort().join("|") === "a|a b|a b c|a c|b|b c|c", "seven regions of sparsemax");
    expect((await page.locator(".levels path").count()) > 3, "level sets");
    await page.getByRole("button", { name: "softmax", exact: true }).click();
    await frame(page);
    expect((await page.locator(".regions text").count()) === 0, "softmax has one region");
    await page.getByRole("button", { name: "fusedmax" }).click();
    await page.getByLabel("strength of fusedmax, as a number").fill("0.3");
    await page.keyboard.press("Enter");
    await page.getByLabel("score of c", { exact: true }).focus();
    await page.keyboard.press("End");
    await frame(page);
    expect((await page.locator(".regions text").allTextContents()).some((text) => text.includes("=")), "regions of ties");
    const hash = await page.evaluate(() => location.hash);
    expect(/s=0\.7\+0\.35\+4&o=fusedmax&f=0\.3/.test(hash), hash);
  }],
];
