// A worker of clients/node, over the client library that is named.
"use strict";

const { openSync, writeSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { Worker } = require("../../clients/node/darter-jobs.js");

const runs = openSync(process.env.RUNS, "a");

async function handle(job) {
  const { jid } = JSON.parse(job.payload);
  if (jid !== job.id) throw new Error(`${jid} is not ${job.id}`);
  writeSync(runs, `start ${jid} ${process.pid}\n`);
  await sleep(process.env.WORK_SECONDS * 1000);
  writeSync(runs, `done ${jid} ${process.pid}\n`);
}

async function connect(library) {
  if (library === "ioredis") return new (require("ioredis"))(process.env.REDIS_URL);
  return require("redis").createClient({ url: process.env.REDIS_URL }).on("error", () => {}).connect();
}

async function main() {
  const redis = await connect(process.argv[2]);
  const worker = new Worker(redis, [process.env.QUEUE], handle, { leaseMs: process.env.LEASE_SECONDS * 1000 });
  process.once("SIGTERM", () => worker.stop());
  await worker.run();
  redis.disconnect();
}

main();
