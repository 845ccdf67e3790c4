// A worker of clients/node, over the client library that is named.
"use strict";

const { openSync, writeSync } = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");
const { put, tryPut, Worker } = require("../../clients/node/darter-jobs.js");

const runs = openSync(process.env.RUNS, "a");

async function handle(job) {
  const { jid, fails } = JSON.parse(job.payload);
  if (jid !== job.id) throw new Error(`${jid} is not ${job.id}`);
  // This one has no text.
  if (fails) throw Object.create(null);
  writeSync(runs, `start ${jid} ${process.pid}\n`);
  await sleep(process.env.WORK_SECONDS * 1000);
  writeSync(runs, `done ${jid} ${process.pid}\n`);
}

async function connect(library) {
  if (library === "ioredis") return new (require("ioredis"))(process.env.REDIS_URL).on("error", () => {});
  return require("redis").createClient({ url: process.env.REDIS_URL }).on("error", () => {}).connect();
}

async function putAll(redis) {
  const { QUEUE, AT_SECONDS } = process.env;
  await put(redis, QUEUE, { id: "of a group" }, { group: "customer:17" });
  await put(redis, QUEUE, { id: "later" }, { at: new Date(AT_SECONDS * 1000) });
  const tried = [];
  for (const id of ["one", "two"]) tried.push(await tryPut(redis, QUEUE, {}, { id, unique: "once" }));
  const [first, second] = tried;
  if (first.id !== "one" || !first.added || second.id !== "one" || second.added) throw new Error(JSON.stringify(tried));
}

async function workOn(redis) {
  const { QUEUE, LEASE_SECONDS, ORDER, WEIGHTS } = process.env;
  const options = { leaseMs: LEASE_SECONDS * 1000, order: ORDER, weights: WEIGHTS?.split(" ") };
  const worker = new Worker(redis, QUEUE.split(" "), handle, options);
  process.once("SIGTERM", () => worker.stop());
  await worker.run();
}

async function main() {
  const [library, task] = process.argv.slice(2);
  const redis = await connect(library);
  await (task === "put" ? putAll : workOn)(redis);
  redis.disconnect();
}

main();
