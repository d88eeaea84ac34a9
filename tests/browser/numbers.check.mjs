// The numbers of the page are those of the library in Python.

import { readFileSync } from "node:fs";
import { join } from "node:path";

const restored = (numbers) => numbers.map((number) => (number === null ? -Infinity : number));

// The largest error of `found`, relative where numbers are above one; infinite where only one of two is exactly zero.
function distance(found, wanted, exactZeros) {
  if (found.length !== wanted.length) return Infinity;
  let most = 0;
  wanted.forEach((number, i) => {
    if (Object.is(found[i], number) || found[i] === number) return;
    if (exactZeros && (found[i] === 0) !== (number === 0)) most = Infinity;
    const error = Math.abs(found[i] - number) / Math.max(1, Math.abs(number));
    most = Number.isNaN(error) ? Infinity : Math.max(most, error);
  });
  return most;
}

export const checks = [
  ["rows agree with Python to 1e-6", async ({ open, files, expect }) => {
    const { rows } = JSON.parse(readFileSync(join(files, "cases.json"), "utf8"));
    const page = await open();
    const inputs = rows.map(({ operator, scores, direction, target }) => ({ operator, scores, direction, target }));
    const found = await page.evaluate((cases) => cases.map(({ operator, scores, direction, target }) => {
      const { kernels } = window.omegamax;
      const row = kernels.rows.solve(operator, scores.map((score) => (score === null ? -Infinity : score)));
      const product = kernels.rows.product(operator, row, direction);
      const loss = window.omegamax.lossOf(operator, row.value, scores, target, scores.map((score) => score === null));
      return { weights: [...row.weights], value: row.value, product: [...product], loss };
    }), inputs);
    let most = 0;
    rows.forEach((wanted, i) => {
      const said = `${JSON.stringify(wanted.operator)} on ${wanted.scores.length} scores`;
      const weights = distance(found[i].weights, wanted.weights, true);
      expect(weights <= 1e-6, `${said}: weights are off by ${weights}`);
      const value = distance([found[i].value], [wanted.value], false);
      expect(value <= 1e-6, `${said}: the value ${found[i].value} is not ${wanted.value}`);
      const loss = Math.abs(found[i].loss - wanted.loss) / Math.max(1, Math.abs(wanted.value), Math.abs(wanted.scores[wanted.target]));
      expect(loss <= 2e-6, `${said}: the loss ${found[i].loss} is not ${wanted.loss}`);
      const largest = Math.max(1, ...wanted.product.map(Math.abs));
      const product = distance(found[i].product.map((number) => number / largest), wanted.product.map((number) => number / largest), false);
      expect(product <= 2e-6, `${said}: the Jacobian is off by ${product}`);
      most = Math.max(most, weights, value);
    });
    console.log(`      ${rows.length} rows, the largest error is ${most.toExponential(1)}`);
  }],

  ["structures agree with Python and with enumeration", async ({ open, files, expect }) => {
    const { structures } = JSON.parse(readFileSync(join(files, "cases.json"), "utf8"));
    const page = await open();
    const inputs = structures.map(({ kind, arguments: given, scores, modes }) => ({ kind, given, scores, modes: Object.keys(modes) }));
    const found = await page.evaluate((cases) => cases.map(({ kind, given, scores, modes }) => {
      const { kernels, builders } = window.omegamax;
      const builder = builders[kind](...given);
      const all = new Float64Array(builder.nParts); // parts of the page that have no scores follow the others
      all.set(scores);
      const lattice = kernels.lattice(builder);
      const results = {};
      for (const mode of modes) {
        if (mode !== "sparsemap") {
          const { value, marginals } = lattice.solve(mode, all);
          results[mode] = { value, marginals: [...marginals] };
          if (mode === "squared") results.ranked = lattice.ranked(8).map(({ probability }) => probability);
          continue;
        }
        const n = given[0];
        const list = kind === "matching" ? kernels.matchings.sparsemap(n, n, all) : lattice.sparsemap(all, kind === "chain" ? n * given[1] : all.length);
        const marginals = new Float64Array(all.length);
        for (const { probability, parts } of list) parts.forEach((count, i) => (marginals[i] += probability * count));
        results.sparsemap = { marginals: [...marginals], total: list.reduce((sum, { probability }) => sum + probability, 0) };
      }
      if (kind === "matching") results.best = kernels.matchings.best(given[0], given[0], all).value;
      lattice.close();
      return results;
    }), inputs);
    structures.forEach(({ kind, arguments: given, modes, scores, ranked }, i) => {
      const said = `${kind} ${JSON.stringify(given).slice(0, 30)}`;
      for (const [mode, wanted] of Object.entries(modes)) {
        const own = found[i][mode];
        const error = distance(own.marginals.slice(0, scores.length), restored(wanted.marginals), false);
        expect(error <= 1e-6, `${said}, ${mode}: marginals are off by ${error}`);
        if (wanted.value !== undefined) expect(distance([own.value], [wanted.value], false) <= 1e-6, `${said}, ${mode}: the value ${own.value} is not ${wanted.value}`);
      }
      expect(Math.abs(found[i].sparsemap.total - 1) < 1e-9, `${said}: probabilities of SparseMAP sum to ${found[i].sparsemap.total}`);
      if (ranked) expect(distance(found[i].ranked, ranked, false) <= 1e-6, `${said}: ranked ${found[i].ranked} is not ${ranked}`);
      if (kind === "matching") expect(Math.abs(found[i].best - modes.hard.value) < 1e-9, `${said}: the best matching`);
    });
  }],

  ["samples have the probabilities that they should have", async ({ open, expect }) => {
    const page = await open();
    const errors = await page.evaluate(() => {
      const { kernels, builders } = window.omegamax;
      const lattice = kernels.lattice(builders.chain(4, 3));
      const scores = Float64Array.from({ length: lattice.nParts }, (_, i) => (i < 21 ? Math.sin(3 * i + 1) : 0));
      return ["shannon", "squared"].map((omega) => {
        const { marginals } = lattice.solve(omega, scores);
        const n = 20000;
        const mean = new Float64Array(lattice.nParts);
        for (const one of lattice.sample(7, n)) one.forEach((count, i) => (mean[i] += count / n));
        return Math.max(...mean.map((number, i) => Math.abs(number - marginals[i])));
      });
    });
    expect(errors.every((error) => error < 0.015), `means of samples are off by ${errors}`);
  }],
];
