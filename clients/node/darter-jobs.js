// Jobs with leases on Darter, over ioredis or node-redis:
//
//   const Redis = require("ioredis");
//   const { put, Worker } = require("darter-jobs");
//
//   async function main() {
//     const redis = new Redis();
//     await put(redis, "mail", { to: "ada@example.com" });
//     const worker = new Worker(redis, ["mail"], async (job) => send(JSON.parse(job.payload).to));
//     process.once("SIGTERM", () => worker.stop());
//     await worker.run();
//     redis.disconnect();
//   }
//
//   main();
//
// A job whose worker dies runs again elsewhere when its lease ends, so it runs at least once. A job whose handler throws
// comes again later; after its last attempt it is dead (JOB.LIST queue DEAD).
"use strict";

const { randomBytes } = require("node:crypto");
const { hostname } = require("node:os");
const { setTimeout: sleep } = require("node:timers/promises");

/** How long a call waits for a job: an idle worker looks that often whether it is to stop. */
const WAIT_MS = 1000;
/** So many times in a lease a worker says which jobs it still has. */
const BEATS_PER_LEASE = 4;
/** How long a worker waits before it tries again. */
const PAUSE_MS = 1000;
/** Errors that no new attempt changes. Others pass: the server cannot be reached, or cannot serve workers for now. */
const LASTING = /^(ERR (?!max number of clients)|(WRONGTYPE|NOPERM|NOAUTH|WRONGPASS) )/;

/** What has node-redis return texts as bytes: version 5 and later, and version 4. */
const AS_BYTES = { typeMapping: { 36: Buffer }, returnBuffers: true };
/** Reads bytes as text, or throws. */
const strictly = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes stay as they are in a command, and all else is text. */
const isBytes = (value) => value instanceof Uint8Array;
const asWord = (value) => (isBytes(value) ? Buffer.from(value) : String(value));

/** Sends a command by whichever of the two clients this is. */
const send = (redis, ...words) =>
  typeof redis.call === "function" ? redis.call(...words.map(asWord)) : redis.sendCommand(words.map(asWord));
/** The same, with bytes in the reply. */
const sendForBytes = (redis, ...words) =>
  typeof redis.call === "function" ? redis.callBuffer(...words.map(asWord)) : redis.sendCommand(words.map(asWord), AS_BYTES);

/**
 * Adds a job and returns its id; with `unique`, the id of the job that holds this lock, if there is one.
 * The payload is a string, bytes (a Buffer), or what JSON can express. `at` is a Date, or milliseconds since 1970.
 */
async function put(redis, queue, payload, options) {
  return send(redis, ...putting(queue, payload, options));
}

/** The same. Returns `{ id, added }`: with `unique`, another job may hold the lock, so that this one was not added. */
async function tryPut(redis, queue, payload, options) {
  const [id, added] = await send(redis, ...putting(queue, payload, options), "WITHADDED");
  return { id, added: Number(added) === 1 };
}

function putting(queue, payload, { id, delayMs, at, unique, uniqueForMs, tries, group, expireMs } = {}) {
  const words = ["JOB.PUT", queue, typeof payload === "string" || isBytes(payload) ? payload : JSON.stringify(payload)];
  const options = {
    ID: id, IN: delayMs, AT: at === undefined ? at : Number(at), UNIQUE: unique, FOR: uniqueForMs, TRIES: tries, GROUP: group,
    EXPIRE: expireMs,
  };
  for (const [word, value] of Object.entries(options)) if (value !== undefined) words.push(word, value);
  return words;
}

/** Takes jobs from queues and has `handle({ queue, id, attempt, payload })` do them. */
class Worker {
  #redis;
  #queues;
  #handle;
  #options;
  #order;
  // Those that it does, with what the server calls them: an id need not be text.
  #jobs = new Map();
  #stopping = false;
  #hasEnded = false;
  #name = `${hostname()}:${process.pid}:${randomBytes(6).toString("hex")}`;

  /**
   * `leaseMs` is after how long the jobs of a worker that died come back, `concurrency` how many jobs it does at once,
   * `backoffMs(attempt)` after how long a job comes again whose handler threw. `order` is "strict", which serves a queue
   * only while those before it are empty, or "fair"; `weights` are numbers, one for each queue, and replace it. Payloads
   * are strings, and a job fails whose payload is not UTF-8; with `binary`, they are Buffers.
   */
  constructor(redis, queues, handle, options = {}) {
    const { leaseMs = 30_000, concurrency = 1, order = "strict", weights, backoffMs, binary = false } = options;
    this.#redis = redis;
    this.#queues = queues;
    this.#handle = handle;
    this.#order = weights ? ["WEIGHTS", ...weights] : [order.toUpperCase()];
    this.#options = { leaseMs, concurrency, binary, backoffMs: backoffMs ?? ((n) => Math.min(3_600_000, 5000 * 2 ** Math.min(n, 10))) };
  }

  /** Has `run` return after the jobs that it does. */
  stop() {
    this.#stopping = true;
  }

  /** Works until it is stopped. Rejects if the server refuses what it asks for. */
  async run() {
    const keeping = this.#keep();
    const ends = Array.from({ length: this.#options.concurrency }, () => this.#work().finally(() => this.stop()));
    const failed = (await Promise.allSettled(ends)).find(({ status }) => status === "rejected");
    this.#hasEnded = true;
    await keeping;
    if (failed) throw failed.reason;
  }

  // Each has a connection of its own, because a command that waits holds up those behind it.
  async #work() {
    const waiting = this.#redis.duplicate();
    waiting.on("error", () => {});
    if (typeof waiting.call !== "function") await waiting.connect();
    const { leaseMs } = this.#options;
    const take = ["JOB.TAKE", this.#name, "LEASE", leaseMs, "WAIT", WAIT_MS, ...this.#order, "FROM", ...this.#queues];
    try {
      while (!this.#stopping) {
        try {
          const taken = (await sendForBytes(waiting, ...take)) ?? [];
          for (const [queue, id, attempt, payload] of taken) await this.#do(queue, id, Number(attempt), payload);
        } catch (error) {
          if (LASTING.test(error.message)) throw error;
          await sleep(PAUSE_MS);
        }
      }
    } finally {
      waiting.disconnect();
    }
  }

  /** Has a job done and says how it ended. It names the attempt: if the lease has ended, another worker may have the job. */
  async #do(queue, id, attempt, payload) {
    const job = { queue: String(queue), id: String(id), attempt, payload };
    this.#jobs.set(job, { queue, id });
    try {
      const error = await this.#failure(job);
      if (error === undefined) await this.#say("JOB.DONE", queue, "ATTEMPT", id, attempt);
      else await this.#say("JOB.FAIL", queue, id, "ATTEMPT", attempt, "IN", this.#options.backoffMs(attempt), "WHY", error);
    } finally {
      this.#jobs.delete(job);
    }
  }

  /** Why the job failed, if it did. What is wrong with it, its payload included, is no other job's fault. */
  async #failure(job) {
    try {
      if (!this.#options.binary) job.payload = strictly.decode(job.payload);
      await this.#handle(job);
      return undefined;
    } catch (error) {
      try {
        return String(error);
      } catch {
        return "an error without a text";
      }
    }
  }

  /** Says how a job ended, again while the server cannot hear it, until its lease has ended. */
  async #say(...words) {
    const until = Date.now() + this.#options.leaseMs;
    for (;;) {
      try {
        return await send(this.#redis, ...words);
      } catch (error) {
        if (Date.now() >= until || LASTING.test(error.message)) throw error;
        await sleep(PAUSE_MS);
      }
    }
  }

  /** Keeps the leases of its jobs. It names them: a job whose reply was lost is not kept, and comes back. */
  async #keep() {
    const { leaseMs } = this.#options;
    let next = Date.now() + leaseMs / BEATS_PER_LEASE;
    while (!this.#hasEnded) {
      await sleep(Math.min(250, Math.max(1, next - Date.now())));
      if (Date.now() < next) continue;
      next = Date.now() + leaseMs / BEATS_PER_LEASE;
      for (const [{ attempt }, { queue, id }] of this.#jobs) {
        await send(this.#redis, "JOB.KEEP", queue, leaseMs, "ATTEMPT", id, attempt).catch(() => {});
      }
    }
  }
}

module.exports = { put, tryPut, Worker };
