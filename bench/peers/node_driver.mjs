/*
 * What the Node.js drivers share: the line protocol of bench/drivers/processes.py, and loading
 * packages from the bench's cache folder.
 *
 * A driver is started with (task, options as JSON). It prints a line of JSON when it is ready,
 * waits for a line, works, and prints what it measured.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const resolver = createRequire(join(process.env.BENCH_NODE_MODULES, "x.js"));

export const load = (name) => import(pathToFileURL(resolver.resolve(name)).href);

export const print = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

export const elapsed = (since) => Number(process.hrtime.bigint() - since) / 1e9;

/** The clock that other processes of this machine share (CLOCK_MONOTONIC), in microseconds. */
export const sharedClock = () => Number(process.hrtime.bigint() / 1000n);

const toldToGo = () => new Promise((resolve) => process.stdin.once("data", resolve));

/** Resolves `done` when `hit` was called that many times. */
export function countdown(jobs) {
  let left = jobs;
  let resolve;
  const done = new Promise((fulfil) => (resolve = fulfil));
  return { done, hit: (count = 1) => (left -= count) <= 0 && resolve() };
}

/** Ask until the database holds no unfinished job. */
export async function untilZero(pool, query) {
  for (;;) {
    const { rows } = await pool.query(query);
    if (Number(rows[0].count) === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Nearest-rank percentiles of delays in microseconds, as milliseconds. */
export function delays(samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] / 1000;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** Run one task: `prepare(options)` gives the function that is timed. */
export async function main(tasks) {
  const [task, text] = process.argv.slice(2);
  const options = JSON.parse(text);
  const work = await tasks[task](options);
  print({ ready: 1 });
  await toldToGo();
  print(await work());
  process.exit(0);
}
