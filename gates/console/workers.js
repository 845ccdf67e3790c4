// Real workers of real job systems, each a program in workers/ that reads `push N` and `ran` and answers with ids.

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

const ROOT = path.join(__dirname, "../..");
const SECONDS = "0.05"; // that a job takes

/** What runs a system's jobs, the key of its queue, and what has to be there. */
const SYSTEMS = {
  Sidekiq: { command: ["ruby", "workers/sidekiq.rb"], queue: "console-sidekiq", key: "queue:console-sidekiq", needs: ".cache/trixie/ready" },
  BullMQ: { command: ["node", "workers/bullmq.js"], queue: "console-bullmq", key: "bull:console-bullmq:wait", needs: ".cache/gates/node/ready" },
  Celery: {
    command: [path.join(ROOT, ".cache/gates/celery/venv/bin/python"), "workers/celery_jobs.py"],
    queue: "celery",
    key: "celery",
    needs: ".cache/gates/celery/ready",
  },
};

class Workers {
  constructor(name, url) {
    const { command, queue, key } = SYSTEMS[name];
    const [program, script] = command;
    Object.assign(this, { name, key });
    this.child = spawn(program, [path.join(__dirname, script), url, queue, SECONDS], { stdio: ["pipe", "pipe", "pipe"] });
    this.log = "";
    const lines = readline.createInterface({ input: this.child.stdout });
    this.answers = lines[Symbol.asyncIterator]();
    this.child.stderr.on("data", (data) => (this.log += data));
    this.child.stdin.on("error", () => {});
  }

  async ask(line) {
    this.child.stdin.write(`${line}\n`);
    for (;;) {
      const { value, done } = await this.answers.next();
      if (done) throw new Error(`${this.name} ended: ${this.log}`);
      if (value.startsWith("= ")) return JSON.parse(value.slice(2));
    }
  }

  /** Pushes jobs; their ids. */
  push(count) {
    return this.ask(`push ${count}`);
  }

  /** The ids of the jobs that have run. */
  ran() {
    return this.ask("ran");
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.on("close", resolve));
    this.child.stdin.end();
    if (this.child.exitCode === null) await ended;
  }
}

const installed = (name) => fs.existsSync(path.join(ROOT, SYSTEMS[name].needs));

module.exports = { Workers, installed, SYSTEMS: Object.keys(SYSTEMS) };
