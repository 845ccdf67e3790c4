// Each check has a queue of its own under BullMQ's default prefix, whose scripts make up names of keys that no call declares.

const { Queue, Worker, QueueEvents, FlowProducer, Job, UnrecoverableError } = require("bullmq");
const { Redis } = require("ioredis");
const { assert, run, until } = require("../checks");

const { hostname: host, port } = new URL(process.argv[2]);
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
const JOBS = 3000;
const WORKERS = 4;

/** A queue with its events and workers, closed at the end; `body` gets all three. */
async function withQueue(name, body) {
  const queue = new Queue(name, { connection });
  const events = new QueueEvents(name, { connection, lastEventId: "0-0" });
  const workers = [];
  events.setMaxListeners(0);
  await events.waitUntilReady();
  const work = (processor, options) => {
    const worker = new Worker(name, processor, { connection, ...options });
    worker.on("error", (error) => console.log(`worker: ${error}`));
    workers.push(worker);
    return worker;
  };
  try {
    await body({ queue, events, work });
  } finally {
    await Promise.all(workers.map((worker) => worker.close(true)));
    await events.close();
    await queue.close();
  }
}

const checks = {
  "adds, and gets results": ({ queue, events, work }) => {
    work(async (job) => job.data.number * 2);
    return queue.add("double", { number: 21 }).then(async (job) => {
      assert.equal(await job.waitUntilFinished(events), 42);
      assert.equal(await job.getState(), "completed");
      assert.deepEqual((await queue.getJob(job.id)).returnvalue, 42);
    });
  },

  "adds in bulk, and counts": async ({ queue }) => {
    await queue.addBulk(Array.from({ length: 100 }, (_, index) => ({ name: "bulk", data: { index } })));
    await queue.add("later", {}, { delay: 60_000 });
    await queue.add("first", {}, { priority: 1 });
    assert.deepEqual(await queue.getJobCounts("waiting", "delayed", "prioritized", "active"), { waiting: 100, delayed: 1, prioritized: 1, active: 0 });
    assert.deepEqual((await queue.getWaiting(0, 1)).map((job) => job.data.index), [0, 1]);
    await queue.obliterate({ force: true });
    assert.equal(await queue.count(), 0);
  },

  delays: async ({ queue, events, work }) => {
    work(async () => Date.now());
    const job = await queue.add("delayed", {}, { delay: 300 });
    const ended = await job.waitUntilFinished(events);
    assert.ok(ended - job.timestamp >= 299, `${ended - job.timestamp} ms`);
  },

  "changes a delay, and promotes": async ({ queue, events, work }) => {
    const [one, two] = await Promise.all([1, 2].map((index) => queue.add("delayed", { index }, { delay: 1_000_000 })));
    work(async (job) => job.data.index);
    await one.changeDelay(50);
    await two.promote();
    assert.deepEqual(await Promise.all([one, two].map((job) => job.waitUntilFinished(events))), [1, 2]);
  },

  "obeys priorities": async ({ queue, work }) => {
    const order = [];
    for (const priority of [5, 1, 3, 0, 2, 1]) await queue.add("prioritized", { priority }, { priority });
    work(async (job) => order.push(job.data.priority));
    await until(() => order.length === 6);
    assert.deepEqual(order, [0, 1, 1, 2, 3, 5]);
  },

  "last in, first out": async ({ queue, work }) => {
    const order = [];
    for (let index = 0; index < 4; index++) await queue.add("pile", { index }, { lifo: true });
    work(async (job) => order.push(job.data.index));
    await until(() => order.length === 4);
    assert.deepEqual(order, [3, 2, 1, 0]);
  },

  "tries again, with backoff": async ({ queue, events, work }) => {
    const times = [];
    work(async (job) => {
      times.push(Date.now());
      if (job.attemptsMade < 2) throw new Error("not yet");
      return job.attemptsMade;
    });
    const job = await queue.add("flaky", {}, { attempts: 3, backoff: { type: "exponential", delay: 50 } });
    assert.equal(await job.waitUntilFinished(events), 2);
    assert.ok(times[1] - times[0] >= 49 && times[2] - times[1] >= 99, String(times));
  },

  "fails, and is retried by hand": async ({ queue, events, work }) => {
    let good = false;
    work(async () => {
      if (!good) throw new UnrecoverableError("never");
      return "good";
    });
    const job = await queue.add("doomed", {}, { attempts: 5 });
    await assert.rejects(job.waitUntilFinished(events), /never/);
    const failed = await Job.fromId(queue, job.id);
    assert.equal(failed.attemptsMade, 1);
    assert.equal(await failed.isFailed(), true);
    good = true;
    await failed.retry();
    await until(() => job.isCompleted());
  },

  deduplicates: async ({ queue, work }) => {
    const ids = [];
    for (let index = 0; index < 5; index++) {
      ids.push((await queue.add("once", { index }, { deduplication: { id: "same", ttl: 60_000 } })).id);
    }
    assert.equal(new Set(ids).size, 1);
    assert.equal(await queue.getDeduplicationJobId("same"), ids[0]);
    assert.equal(await queue.count(), 1);
    await queue.removeDeduplicationKey("same");
    await queue.add("once", {}, { deduplication: { id: "same" } });
    assert.equal(await queue.count(), 2);
    await queue.add("named", {}, { jobId: "mine" });
    await queue.add("named", {}, { jobId: "mine" });
    assert.equal(await queue.count(), 3);
    work(async () => {});
    await until(async () => (await queue.getCompletedCount()) === 3);
  },

  flows: async ({ queue, events, work }) => {
    const flows = new FlowProducer({ connection });
    work(async (job) => {
      const children = Object.values(await job.getChildrenValues());
      return children.reduce((sum, value) => sum + value, job.data.value);
    }, { concurrency: 5 });
    const child = (value, children) => ({ name: "node", queueName: queue.name, data: { value }, children });
    const flow = await flows.add(child(1, [child(10), child(20), child(30, [child(100), child(200)])]));
    assert.equal(await flow.job.waitUntilFinished(events), 361);
    assert.equal((await flow.job.getDependencies()).unprocessed?.length ?? 0, 0);
    await flows.close();
  },

  "fails a flow with its child": async ({ queue, events, work }) => {
    const flows = new FlowProducer({ connection });
    work(async (job) => {
      if (job.name === "child") throw new Error("ill");
    });
    const flow = await flows.add({
      name: "parent",
      queueName: queue.name,
      children: [{ name: "child", queueName: queue.name, opts: { failParentOnFailure: true } }],
    });
    await assert.rejects(flow.job.waitUntilFinished(events), /failed/);
    await flows.close();
  },

  schedules: async ({ queue, work }) => {
    const ran = [];
    await queue.upsertJobScheduler("often", { every: 100 }, { name: "tick", data: { a: 1 } });
    await queue.upsertJobScheduler("never", { pattern: "0 0 1 1 *" }, { name: "tock" });
    work(async (job) => ran.push(job.name));
    await until(() => ran.length >= 4);
    assert.deepEqual((await queue.getJobSchedulers()).map(({ key }) => key).sort(), ["never", "often"]);
    assert.equal(await queue.removeJobScheduler("often"), true);
    assert.equal(await queue.removeJobScheduler("often"), false);
    assert.ok(!ran.includes("tock"));
  },

  "tells of events": async ({ queue, events, work }) => {
    const seen = [];
    for (const name of ["added", "waiting", "active", "progress", "completed", "drained"]) events.on(name, () => seen.push(name));
    work(async (job) => job.updateProgress(50));
    await queue.add("observed", {});
    await until(() => seen.includes("completed") && seen.includes("drained"));
    assert.deepEqual(seen.slice(0, 5), ["added", "waiting", "active", "progress", "completed"]);
  },

  "pauses and resumes": async ({ queue, work }) => {
    let ran = 0;
    work(async () => ran++);
    await queue.pause();
    await queue.addBulk(Array.from({ length: 10 }, () => ({ name: "held", data: {} })));
    assert.equal(await queue.isPaused(), true);
    assert.equal(ran, 0);
    await queue.resume();
    await until(() => ran === 10);
  },

  "limits the rate": async ({ queue, work }) => {
    const times = [];
    await queue.addBulk(Array.from({ length: 6 }, () => ({ name: "limited", data: {} })));
    work(async () => times.push(Date.now()), { limiter: { max: 2, duration: 200 } });
    await until(() => times.length === 6);
    assert.ok(times[5] - times[0] >= 380, `${times[5] - times[0]} ms`);
  },

  "takes a stalled job back": async ({ queue, work }) => {
    const runs = [];
    let release;
    const held = new Promise((resolve) => (release = resolve));
    await queue.add("stalls", {});
    const lost = work(async () => (runs.push("lost"), held), { lockDuration: 500, skipLockRenewal: true, skipStalledCheck: true });
    await until(() => runs.length === 1);
    work(async () => runs.push("found"), { stalledInterval: 100 });
    await until(async () => (await queue.getCompletedCount()) === 1);
    assert.deepEqual(runs, ["lost", "found"]);
    release();
    await lost.close(true);
  },

  "cleans up and keeps logs": async ({ queue, work }) => {
    work(async (job) => job.log("a line"));
    const jobs = await queue.addBulk(Array.from({ length: 20 }, () => ({ name: "old", data: {} })));
    await until(async () => (await queue.getCompletedCount()) === 20);
    assert.deepEqual(await queue.getJobLogs(jobs[0].id), { logs: ["a line"], count: 1 });
    assert.equal((await queue.clean(0, 1000, "completed")).length, 20);
    await queue.add("kept", {}, { removeOnComplete: true });
    await until(async () => (await queue.getJobCountByTypes("waiting", "active", "completed")) === 0);
  },

  // QUEUE is a command of Darter only.
  "jobs moved and removed by QUEUE run once, or never": async ({ queue, work }) => {
    const client = new Redis(connection);
    if ((await client.call("COMMAND", "INFO", "QUEUE"))[0] === null) return client.disconnect();
    const key = (state) => queue.toKey(state);
    const runs = [];
    let fails = true;
    const worker = work(async (job) => {
      runs.push(job.data.index);
      if (fails) throw new Error("not yet");
      return job.data.index;
    });
    await queue.addBulk([0, 1, 2, 3].map((index) => ({ name: "moved", data: { index } })));
    await until(async () => (await queue.getFailedCount()) === 4);
    fails = false;
    const [job] = await queue.getFailed(0, 0);
    assert.equal(await client.call("QUEUE", "REMOVE", key("failed"), "ID", job.id), 1);
    assert.equal(await queue.getJob(job.id), undefined);
    assert.equal(await client.call("QUEUE", "MOVE", key("failed"), key("wait")), 3);
    await until(async () => (await queue.getCompletedCount()) === 3);
    assert.equal(runs.length, 7);
    assert.equal((await queue.getCompleted())[0].failedReason, undefined);
    // A job that is due much later, and one with a priority.
    await queue.add("moved", { index: 10 }, { delay: 600_000 });
    assert.equal(await client.call("QUEUE", "MOVE", key("delayed"), key("wait")), 1);
    await until(() => runs.includes(10));
    await worker.pause();
    await queue.add("moved", { index: 11 }, { priority: 7 });
    assert.equal(await client.call("QUEUE", "MOVE", key("prioritized"), key("wait")), 1);
    worker.resume();
    await until(async () => (await queue.getCompletedCount()) === 5);
    assert.equal(runs.length, 9);
    await assert.rejects(client.call("QUEUE", "MOVE", key("completed"), "bull:another:wait"), /numbers the jobs/);
    client.disconnect();
  },

  [`runs ${JOBS} jobs once each on ${WORKERS} workers`]: async ({ queue, work }) => {
    const runs = new Map();
    let ended = 0;
    for (let index = 0; index < WORKERS; index++) {
      const worker = work(async (job) => {
        runs.set(job.data.index, (runs.get(job.data.index) ?? 0) + 1);
        if (job.data.index % 50 === 0 && job.attemptsMade === 0) throw new Error("once more");
      }, { concurrency: 10 });
      worker.on("completed", () => ended++);
    }
    const options = (index) => ({ attempts: 2, ...(index % 3 === 0 && { delay: index % 100 }), ...(index % 3 === 1 && { priority: 1 + (index % 10) }) });
    for (let from = 0; from < JOBS; from += 100) {
      const bulk = Array.from({ length: 100 }, (_, index) => ({ name: "job", data: { index: from + index }, opts: options(from + index) }));
      await Promise.all([queue.addBulk(bulk.slice(0, 80)), ...bulk.slice(80).map(({ name, data, opts }) => queue.add(name, data, opts))]);
    }
    await until(() => ended === JOBS);
    const wrong = [...runs].filter(([index, count]) => count !== (index % 50 === 0 ? 2 : 1));
    assert.deepEqual([runs.size, wrong], [JOBS, []]);
    assert.deepEqual(await queue.getJobCounts("waiting", "delayed", "prioritized", "active", "failed"), { waiting: 0, delayed: 0, prioritized: 0, active: 0, failed: 0 });
  },
};

const named = {};
for (const [name, check] of Object.entries(checks)) {
  named[name] = () => withQueue(name.replaceAll(" ", "-"), check);
}
run(named);
