/*
 * pg-boss, used in batches: the handler is given 2,000 jobs and completes them together, two
 * pollers that go on at once while batches come back full, a table of its own for the queue.
 */
import { countdown, elapsed, load, main, untilZero } from "./node_driver.mjs";

const { default: pg } = await load("pg");
const { PgBoss } = await load("pg-boss");

const QUEUE = "noop";
const BATCH = 2_000;
const POLLERS = 2;
const FILL_CHUNK = 10_000;
const LEFT = "select count(*) from pgboss.job where state < 'completed'";

const jobs = (count) => Array.from({ length: count }, (_, number) => ({ data: { m: number } }));

async function start(options, max) {
  const boss = new PgBoss({ ...options.connection, max, schedule: false, supervise: false });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  await boss.createQueue(QUEUE, { partition: true });
  return boss;
}

async function drain(options) {
  const filler = await start(options, 2);
  for (let left = options.jobs; left > 0; left -= FILL_CHUNK) {
    await filler.insert(QUEUE, jobs(Math.min(left, FILL_CHUNK)));
  }
  await filler.stop({ graceful: false });
  return async () => {
    const { done, hit } = countdown(options.jobs);
    const began = process.hrtime.bigint();
    const boss = await start(options, POLLERS + 1);
    const how = {
      batchSize: BATCH,
      localConcurrency: POLLERS,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    };
    await boss.work(QUEUE, how, async (batch) => {
      hit(batch.length);
    });
    await done;
    await untilZero(new pg.Pool({ ...options.connection, max: 1 }), LEFT);
    return { seconds: elapsed(began) };
  };
}

async function bulk(options) {
  const boss = await start(options, options.connections + 1);
  return async () => {
    let left = options.jobs;
    const send = async () => {
      while (left > 0) {
        left -= options.batch;
        await boss.insert(QUEUE, jobs(options.batch));
      }
    };
    const began = process.hrtime.bigint();
    await Promise.all(Array.from({ length: options.connections }, send));
    return { seconds: elapsed(began) };
  };
}

await main({ drain, bulk });
