// BullMQ for the test of the console: bullmq.js redis://HOST:PORT QUEUE SECONDS; what it reads and answers is as in sidekiq.rb.

const readline = require("node:readline");
const { Queue, Worker } = require("bullmq");

const [url, name, seconds] = process.argv.slice(2);
const { hostname: host, port } = new URL(url);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const ran = [];
const queue = new Queue(name, { connection });
const work = async (job) => {
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  ran.push(job.id);
};
// A worker that finds nothing looks again after `drainDelay` seconds.
const worker = new Worker(name, work, { connection, concurrency: 2, drainDelay: 1 });

async function answer(word, count) {
  if (word === "ran") return ran;
  const jobs = await queue.addBulk(Array.from({ length: Number(count) }, (_, index) => ({ name: "transcode", data: { index } })));
  return jobs.map((job) => job.id);
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) console.log(`= ${JSON.stringify(await answer(...line.split(" ")))}`);
  await Promise.all([worker.close(true), queue.close()]);
  process.exit();
}

main();
