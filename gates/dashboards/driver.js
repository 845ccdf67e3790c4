// Each dashboard on the store, while real jobs lie and have run there: it opens in Chromium without an error, and shows as many
// as the store has.

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { createBullBoard } = require("@bull-board/api");
const { BullMQAdapter } = require("@bull-board/api/bullMQAdapter");
const { ExpressAdapter } = require("@bull-board/express");
const { Queue, Worker } = require("bullmq");
const express = require("express");
const Redis = require("ioredis");
const { assert, run, until } = require("../checks");
const { launch, visit } = require("../console/browser");

const url = process.argv[2];
const { hostname: host, port } = new URL(url);
const store = new Redis({ host, port: Number(port) });
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "darter-dashboards-"));
const programs = [];
const bin = (gate, name) => path.join(__dirname, "../../.cache/gates", gate, "venv/bin", name);

/** Starts a program that ends with this one; what it says is kept for the case that it ends before. */
function start(program, words, environment = {}) {
  const child = spawn(program, words, { cwd: __dirname, env: { ...process.env, PYTHONDONTWRITEBYTECODE: "1", GATE_URL: url, GATE_FOLDER: folder, ...environment } });
  child.log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (child.log += data));
  programs.push(child);
  return child;
}

const ended = (child) => new Promise((resolve) => (child.exitCode === null ? child.on("close", resolve) : resolve(child.exitCode)));

const freePort = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** Waits until the program answers at the address. */
const answers = (address, child) =>
  until(async () => {
    assert.equal(child?.exitCode ?? null, null, child?.log);
    return fetch(address).then((reply) => reply.ok, () => false);
  });

const text = async (page) => (await page.locator("body").innerText()).replace(/\s+/g, " ");
const shows = (page, pattern) => until(async () => pattern.test(await text(page)));

/** What they would fetch from elsewhere, such as fonts, is refused. */
const open = (address, use) =>
  visit(address, { away: true, before: (page) => page.route((to) => to.hostname !== "127.0.0.1", (route) => route.abort()) }, use);

const picture = async (page, name) => {
  if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `${name}.png`) });
};

const checks = {
  "bull-board": async () => {
    const connection = { host, port: Number(port), maxRetriesPerRequest: null };
    const queue = new Queue("board", { connection });
    await queue.addBulk(Array.from({ length: 12 }, (_, index) => ({ name: "job", data: { index } })));
    const worker = new Worker("board", async (job) => { if (job.data.index === 3) throw new Error("ill"); }, { connection });
    await until(async () => (await queue.getCompletedCount()) === 11 && (await queue.getFailedCount()) === 1);
    await worker.close();
    await queue.addBulk(Array.from({ length: 7 }, () => ({ name: "waits", data: {} })));
    await queue.add("later", {}, { delay: 3_600_000 });
    const serverAdapter = new ExpressAdapter().setBasePath("/ui");
    createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter });
    const server = express().use("/ui", serverAdapter.getRouter()).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.on("listening", resolve));
    const address = `http://127.0.0.1:${server.address().port}/ui`;
    const { queues } = await (await fetch(`${address}/api/queues`)).json();
    const { waiting, completed, failed, delayed } = queues[0].counts;
    assert.deepEqual({ waiting, completed, failed, delayed }, { waiting: 7, completed: 11, failed: 1, delayed: 1 });
    await open(`${address}/queue/board?status=waiting`, async (page) => {
      await shows(page, /board.*waits/i);
      await shows(page, /Waiting\s*7/i);
      await shows(page, /Completed\s*11/i);
      await shows(page, /Failed\s*1/i);
      await picture(page, "bull-board");
    });
    server.close();
    server.closeAllConnections();
    await queue.close();
  },

  Flower: async () => {
    const celery = bin("flower", "celery");
    const jobs = path.join(__dirname, "../celery");
    const words = ["--workdir", jobs, "-A", "jobs"];
    const worker = start(celery, [...words, "worker", "-c", "2", "-n", "one@flower", "-E", "-l", "WARNING"], { C_FORCE_ROOT: "1" });
    const at = await freePort();
    const flower = start(celery, [...words, "flower", "--address=127.0.0.1", `--port=${at}`], { FLOWER_UNAUTHENTICATED_API: "true" });
    const address = `http://127.0.0.1:${at}`;
    await answers(`${address}/healthcheck`, flower);
    await until(async () => Object.keys(await (await fetch(`${address}/api/workers?refresh=1`)).json()).includes("one@flower"));
    const push = "import jobs\nfor index in range(5): jobs.add.delay(index, 1).get(timeout=20)\nfor _ in range(9): jobs.hold.delay('release')";
    const pushed = start(bin("flower", "python"), ["-c", push], { PYTHONPATH: jobs });
    assert.equal(await ended(pushed), 0, pushed.log);
    await open(`${address}/workers`, async (page) => {
      await shows(page, /one@flower.*Online/i);
      await picture(page, "flower-workers");
      await page.goto(`${address}/tasks`);
      await shows(page, /jobs\.add.*SUCCESS/);
      await page.goto(`${address}/broker`);
      // Two jobs run, and a worker holds the next ones; the others are in the list, which nobody takes from now.
      await until(async () => {
        const left = await store.llen("celery");
        await page.reload();
        return left > 0 && left < 9 && new RegExp(`celery ${left}\\b`).test((await text(page)));
      });
      await picture(page, "flower-broker");
    });
    fs.writeFileSync(path.join(folder, "release"), "");
    flower.kill();
    worker.kill();
    await ended(worker);
  },

  "rq-dashboard": async () => {
    const push = [
      "import os, redis, rq",
      "store = redis.Redis.from_url(os.environ['GATE_URL'])",
      "for _ in range(4): rq.Queue('done', connection=store).enqueue('time.sleep', 0)",
      "rq.Queue('done', connection=store).enqueue('os.nothing')",
      "for _ in range(6): rq.Queue('reports', connection=store).enqueue('time.sleep', 0)",
    ].join("\n");
    const pushed = start(bin("rq-dashboard", "python"), ["-c", push]);
    assert.equal(await ended(pushed), 0, pushed.log);
    const worker = start(bin("rq-dashboard", "rq"), ["worker", "--burst", "--url", url, "done"]);
    assert.equal(await ended(worker), 0, worker.log);
    const at = await freePort();
    const dashboard = start(bin("rq-dashboard", "rq-dashboard"), ["-b", "127.0.0.1", "-p", String(at), "-u", url]);
    const address = `http://127.0.0.1:${at}`;
    await answers(address, dashboard);
    await open(address, async (page) => {
      await shows(page, /reports 6/);
      await shows(page, /done 0 .*1/);
      await picture(page, "rq-dashboard");
    });
    dashboard.kill();
  },
};

async function main() {
  await launch();
  await store.flushall();
  const chosen = Object.entries(checks).filter(([name]) => name.includes(process.env.ONLY ?? ""));
  process.on("exit", () => {
    programs.forEach((child) => child.exitCode === null && child.kill("SIGKILL"));
    fs.rmSync(folder, { recursive: true, force: true });
  });
  await run(Object.fromEntries(chosen.map(([name, check]) => [`${name} opens and counts`, check])));
}

main();
