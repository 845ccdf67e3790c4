// Adds jobs as Sidekiq writes them and says "ready"; told "go", works on them, and says "done". The worker does nothing with a job, and
// so many are in work at a time. Finished jobs are removed, as those of other job systems are.

const { once } = require("node:events");
const { createInterface } = require("node:readline");
const { Queue, Worker } = require("bullmq");

const [url, concurrency, count] = process.argv.slice(2);
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const BATCH = 500;

async function main() {
  const queue = new Queue("default", { connection, defaultJobOptions: { removeOnComplete: true } });
  for (let start = 0; start < count; start += BATCH) {
    const size = Math.min(BATCH, count - start);
    const jobs = Array.from({ length: size }, (_, index) => ({ name: "InvoiceWorker", data: [start + index, "x".repeat(60)] }));
    await queue.addBulk(jobs);
  }
  const worker = new Worker("default", async () => {}, { connection, concurrency: Number(concurrency), autorun: false });
  await worker.waitUntilReady();
  console.log("ready");
  await once(createInterface({ input: process.stdin }), "line");
  let left = Number(count);
  const isDone = new Promise((resolve) => worker.on("completed", () => --left || resolve()));
  worker.run();
  await isDone;
  console.log("done");
  process.exit(0);
}

main();
