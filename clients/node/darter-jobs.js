// Jobs with leases on Darter, over ioredis or node-redis:
//
//   const Redis = require("ioredis");
//   const { put, Worker } = require("darter-jobs");
//
//   await put(redis, "mail", { to: "ada@example.com" }, { delayMs: 60_000 });
//   const worker = new Worker(redis, ["mail"], async (job) => send(JSON.parse(job.payload).to));
//   process.once("SIGTERM", () => worker.stop());
//   await worker.run();
//
// A job whose worker dies runs again elsewhere when its lease ends, so it runs at least once. A job whose handler throws
// comes again later; after its last attempt it is dead (JOB.LIST queue DEAD).
"use strict";

const { randomBytes } = require("node:crypto");
const { hostname } = require("node:os");
const { setTimeout: sleep } = require("node:timers/promises");

/** How long a call waits for a job: an idle worker looks that often whether it is to stop. */
const WAIT_MS = 1000;
/** So many times in a lease a worker says that it lives. */
const BEATS_PER_LEASE = 4;

/** Sends a command by whichever of the two clients this is. */
const send = (redis, ...words) =>
  typeof redis.call === "function" ? redis.call(...words.map(String)) : redis.sendCommand(words.map(String));

/**
 * Adds a job and returns its id; with `unique`, the id of the job that holds this lock, if there is one.
 * The payload is a string, or what JSON can express.
 */
async function put(redis, queue, payload, { id, delayMs, unique, uniqueForMs, tries, expireMs } = {}) {
  const words = ["JOB.PUT", queue, typeof payload === "string" ? payload : JSON.stringify(payload)];
  const options = { ID: id, IN: delayMs, UNIQUE: unique, FOR: uniqueForMs, TRIES: tries, EXPIRE: expireMs };
  for (const [word, value] of Object.entries(options)) if (value !== undefined) words.push(word, value);
  return send(redis, ...words);
}

/** Takes jobs from queues, the first one first, and has `handle({ queue, id, attempt, payload })` do them. */
class Worker {
  #redis;
  #queues;
  #handle;
  #options;
  #stopping = false;
  #hasEnded = false;
  #name = `${hostname()}:${process.pid}:${randomBytes(6).toString("hex")}`;

  /**
   * `leaseMs` is after how long the jobs of a worker that died come back, `concurrency` how many jobs it does at once,
   * `backoffMs(attempt)` after how long a job comes again whose handler threw.
   */
  constructor(redis, queues, handle, { leaseMs = 30_000, concurrency = 1, backoffMs } = {}) {
    this.#redis = redis;
    this.#queues = queues;
    this.#handle = handle;
    this.#options = { leaseMs, concurrency, backoffMs: backoffMs ?? ((n) => Math.min(3_600_000, 5000 * 2 ** Math.min(n, 10))) };
  }

  /** Has `run` return after the jobs that it does. */
  stop() {
    this.#stopping = true;
  }

  /** Works until it is stopped. */
  async run() {
    const keeping = this.#keep();
    try {
      await Promise.all(Array.from({ length: this.#options.concurrency }, () => this.#work()));
    } finally {
      this.#hasEnded = true;
      await keeping;
    }
  }

  // Each has a connection of its own, because a command that waits holds up those behind it.
  async #work() {
    const waiting = this.#redis.duplicate();
    waiting.on("error", () => {});
    if (typeof waiting.call !== "function") await waiting.connect();
    const { leaseMs } = this.#options;
    while (!this.#stopping) {
      try {
        const taken = await send(waiting, "JOB.TAKE", this.#name, "LEASE", leaseMs, "WAIT", WAIT_MS, "FROM", ...this.#queues);
        for (const [queue, id, attempt, payload] of taken ?? []) await this.#do({ queue, id, attempt: Number(attempt), payload });
      } catch {
        await sleep(1000);
      }
    }
    waiting.disconnect();
  }

  /** Has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job. */
  async #do(job) {
    const { queue, id, attempt } = job;
    try {
      await this.#handle(job);
    } catch (error) {
      await this.#say("JOB.FAIL", queue, id, "ATTEMPT", attempt, "IN", this.#options.backoffMs(attempt), "WHY", String(error));
      return;
    }
    await this.#say("JOB.DONE", queue, "ATTEMPT", id, attempt);
  }

  /** Says how a job ended, again if the server cannot be reached, until its lease has ended. */
  async #say(...words) {
    const until = Date.now() + this.#options.leaseMs;
    for (;;) {
      try {
        return await send(this.#redis, ...words);
      } catch (error) {
        if (Date.now() >= until) throw error;
        await sleep(1000);
      }
    }
  }

  /** Says that this worker lives: none of its leases ends meanwhile. */
  async #keep() {
    const { leaseMs } = this.#options;
    let next = Date.now() + leaseMs / BEATS_PER_LEASE;
    while (!this.#hasEnded) {
      await sleep(Math.min(250, Math.max(1, next - Date.now())));
      if (Date.now() < next) continue;
      next = Date.now() + leaseMs / BEATS_PER_LEASE;
      for (const queue of this.#queues) await send(this.#redis, "JOB.KEEP", queue, leaseMs, "WORKER", this.#name).catch(() => {});
    }
  }
}

module.exports = { put, Worker };
