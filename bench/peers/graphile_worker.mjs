/*
 * graphile-worker, with the settings its own performance page measures with: 24 concurrent jobs,
 * a local queue, completions in batches. It deletes finished jobs; it keeps no outcomes.
 */
import { countdown, delays, elapsed, load, main, sharedClock, untilZero } from "./node_driver.mjs";

const { default: pg } = await load("pg");
const { Logger, makeWorkerUtils, run } = await load("graphile-worker");

const CONCURRENT_JOBS = 24;
const FILL_CHUNK = 10_000;
const LEFT = "select count(*) from graphile_worker._private_jobs";

const quiet = new Logger(() => () => {});
const spec = (number) => ({ identifier: "noop", payload: { m: number } });
const specs = (count) => Array.from({ length: count }, (_, number) => spec(number));

function connectionString({ connection }) {
  const { host, port, user, database } = connection;
  const parameters = new URLSearchParams({ host, port, user });
  return `postgres:///${database}?${parameters}`;
}

async function install(options) {
  const utils = await makeWorkerUtils({
    connectionString: connectionString(options),
    maxPoolSize: options.connections ?? 1,
    logger: quiet,
  });
  await utils.migrate();
  return utils;
}

function start(options, batched, noop) {
  const batches = {
    localQueue: { size: options.local_queue },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  };
  return run({
    preset: {
      worker: {
        connectionString: connectionString(options),
        maxPoolSize: CONCURRENT_JOBS + 1,
        concurrentJobs: CONCURRENT_JOBS,
        logger: quiet,
        ...(batched ? batches : {}),
      },
    },
    taskList: { noop },
    noHandleSignals: true,
  });
}

async function drain(options) {
  const utils = await install(options);
  for (let left = options.jobs; left > 0; left -= FILL_CHUNK) {
    await utils.addJobs(specs(Math.min(left, FILL_CHUNK)));
  }
  return async () => {
    const { done, hit } = countdown(options.jobs);
    const began = process.hrtime.bigint();
    await start(options, true, async () => hit());
    await done;
    await untilZero(new pg.Pool({ ...options.connection, max: 1 }), LEFT);
    return { seconds: elapsed(began) };
  };
}

async function bulk(options) {
  const utils = await install(options);
  return async () => {
    let left = options.jobs;
    const send = async () => {
      while (left > 0) {
        left -= options.batch;
        await utils.addJobs(specs(options.batch));
      }
    };
    const began = process.hrtime.bigint();
    await Promise.all(Array.from({ length: options.connections }, send));
    return { seconds: elapsed(began) };
  };
}

/** An idle worker, without the batching that trades latency away. */
async function latency(options) {
  await install(options);
  const { done, hit } = countdown(options.samples);
  const samples = [];
  await start(options, false, async (payload) => {
    samples.push(sharedClock() - payload.t);
    hit();
  });
  return async () => {
    await done;
    return delays(samples);
  };
}

await main({ drain, bulk, latency });
