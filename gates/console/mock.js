// The console's API with made-up data, for tests and for work on the page: node gates/console/mock.js [PORT] [SCENARIO]
//
// The numbers are functions of the time, so they move as those of a busy server do. Commands change what they would change
// on a server, and are kept in `commands`. Scenarios: busy, none, many (300 queues of 1,200), hostile (names), leased (jobs of hostile ids), quiet.

const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");

const PAGE = path.join(__dirname, "../../crates/httpd/console");
const TYPES = {
  "index.html": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "jobs.js": "text/javascript; charset=utf-8",
  "style.css": "text/css; charset=utf-8",
};
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const WAIT_BOUNDS_MS = [1, 5, 25, 100, 500, 1000, 5000, 30000, 120000, 600000, 3600000, 21600000];

/** Between -1 and 1, smooth, of its own for each seed. */
const wave = (seed, seconds) => (Math.sin(seconds / (7 + (seed % 13)) + seed) + Math.sin(seconds / (23 + (seed % 17)) + seed * 2.3)) / 2;
/** Between 0 and 1, another each second. */
const noise = (seed, seconds) =>
  crypto
    .createHash("md5")
    .update(`${seed} ${Math.floor(seconds)}`)
    .digest()
    .readUInt32LE() /
  2 ** 32;
const round = (value, digits = 2) => Number(value.toFixed(digits));

// name, system, state, depth, how much it varies, in, out, waiters, age of the oldest (less than 0: it is due then), bytes of a job
const BUSY = [
  ["queue:default", "sidekiq", "waiting", 1834, 0.25, 412, 418, 0, 4_300, 231],
  ["queue:mailers", "sidekiq", "waiting", 12406, 0.03, 96, 71, 0, 192_000, 248],
  ["queue:critical", "sidekiq", "waiting", 0, 0, 38, 38, 24, null, 231],
  ["queue:push", "sidekiq", "waiting", 310, 0.5, 220, 222, 0, 900, 310],
  ["queue:pull", "sidekiq", "waiting", 41880, 0.01, 3.1, 22, 0, 2_940_000, 420],
  ["queue:low", "sidekiq", "waiting", 96, 0.2, 0.8, 0.9, 0, 61_000, 231],
  ["schedule", "sidekiq", "scheduled", 3120, 0.05, 2.1, 1.8, 0, -12_600, 260],
  ["retry", "sidekiq", "retry", 57, 0.3, 0.4, 0.3, 0, 1_200, 890],
  ["dead", "sidekiq", "dead", 12, 0, 0, 0, 0, 259_200_000, 1400],
  ["bull:video-transcode:wait", "bullmq", "waiting", 418, 0.1, 1.2, 1.1, 0, 372_000, 64],
  ["bull:video-transcode:active", "bullmq", "active", 16, 0, 1.1, 1.1, 0, null, 64],
  ["bull:video-transcode:delayed", "bullmq", "scheduled", 8, 0, 0.1, 0.1, 0, -42_000, 64],
  ["bull:video-transcode:failed", "bullmq", "dead", 4, 0, 0, 0, 0, 7_300_000, 64],
  ["bull:video-transcode:prioritized", "bullmq", "waiting", 3, 0, 0, 0, 0, null, 64],
  ["bull:thumbnails:wait", "bullmq", "waiting", 0, 0, 5.5, 5.5, 8, null, 64],
  ["celery", "celery", "waiting", 73, 0.4, 12, 12, 0, 2_100, 940],
  ["unacked_index", "celery", "active", 32, 0.2, 12, 12, 0, null, 990],
  ["rq:queue:reports", "rq", "waiting", 5, 0.6, 0.05, 0.06, 0, 33_000, 51],
  ["rq:failed:reports", "rq", "dead", 6, 0, 0, 0, 0, null, 51],
  ["asynq:{billing}:pending", "asynq", "waiting", 22, 0.3, 3.4, 3.5, 0, 5_400, 40],
  ["asynq:{billing}:active", "asynq", "active", 10, 0, 3.4, 3.4, 0, null, 40],
  ["asynq:{billing}:retry", "asynq", "retry", 3, 0, 0.1, 0.1, 0, null, 40],
];
const CLASSES = [
  ["ActionMailer::MailDeliveryJob", 44],
  ["PushNotificationWorker", 23],
  ["ThumbnailWorker", 15],
  ["ActivityPub::DeliveryWorker", 11],
  ["LinkCrawlWorker", 5],
  ["Maintenance::VacuumJob", 2],
];
const HOSTILE = [
  `queue:<img src=x onerror="window.broken=1"><script>window.broken=1</script>`,
  "queue:control\u0000\u0001\u001b[31m\r\n\ttail",
  "queue:\u202egnorw yaw eht\u202c",
  "queue:العربية-עברית",
  `queue:${"long".repeat(2560)}`,
  `queue:'"\`\${window.broken=1}{{7*7}}\\`,
  "queue:日本語 🐉 e\u0301",
  "",
  "   ",
  "__proto__",
];

/** Jobs beside a queue, some of which are meant to break the page: markup, and an id that the server has cut. */
function leasedJobs() {
  const now = Date.now();
  const job = (id, ms, more) => ({
    id: id.slice(0, 1024),
    key: id.length <= 1024 ? Buffer.from(id).toString("base64") : null,
    time_ms: now + ms,
    payload: `{"class":"<i>Mail</i>","args":["<img src=x onerror='window.broken=1'>"],"jid":"1"}`,
    payload_bytes: 80,
    attempt: 2,
    worker: "worker-1",
    why: "",
    ...more,
  });
  const markup = "<img src=x onerror='window.broken=1'>\u202e";
  return {
    active: [job("a-1", 30_000), job(markup, 40_000, { worker: markup })],
    delayed: [job("d-1", 3_600_000, { why: "timeout" })],
    dead: [job("x-1", -60_000, { why: markup }), job("y".repeat(1 << 20), -50_000)],
    schedules: [job("nightly", 7_200_000, { schedule: "30 6 * * mon-fri", tz: "Europe/Berlin", missed: "once" })],
  };
}

class Mock {
  constructor(scenario = "busy") {
    this.began = Date.now() - 3.2 * 86_400_000;
    this.token = crypto.randomBytes(16).toString("hex");
    this.canWrite = true;
    this.warnings = [];
    this.away = false;
    this.unlisted = false;
    this.delayMs = 0;
    this.commands = [];
    this.requests = [];
    this.inFlight = new Map();
    this.stacked = [];
    this.other = 0;
    this.paused = new Set();
    this.removed = new Set();
    this.leased = {};
    this.set(scenario);
  }

  set(scenario) {
    const make = (
      name,
      system = "sidekiq",
      state = "waiting",
      depth = 10,
      varies = 0,
      into = 1,
      out = 1,
      waiters = 0,
      oldest = 1000,
      size = 200,
    ) => ({ name, key: Buffer.from(name).toString("base64"), db: 0, system, state, depth, varies, into, out, waiters, oldest, size });
    this.other = scenario === "many" ? 900 : 0;
    if (scenario === "none") this.list = [];
    else if (scenario === "hostile") this.list = HOSTILE.map((name, i) => make(name, "sidekiq", "waiting", 100 + i));
    else if (scenario === "many")
      this.list = Array.from({ length: 300 }, (_, i) =>
        make(
          `queue:tenant-${String(i).padStart(3, "0")}`,
          "sidekiq",
          "waiting",
          (i * 7919) % 1000,
          0.1,
          i % 40,
          i % 41,
          i % 3,
          ((i * 104729) % 900) * 1000,
        ),
      );
    else if (scenario === "leased") {
      this.list = [make("mail", "jobs", "waiting", 3), make("{mail}:jobs:dead", "jobs", "dead", 2)];
      this.leased = leasedJobs();
    } else this.list = BUSY.map((row) => make(...row));
    if (scenario === "hostile") {
      const raw = Buffer.from([0x71, 0xff, 0xfe, 0x00, 0x80]);
      this.list.push({ ...make("q\ufffd\ufffd\u0000\ufffd"), key: raw.toString("base64") });
    }
  }

  queue(queue, i, now) {
    const seconds = now / 1000;
    const depthAt = (at) =>
      Math.max(0, Math.round(queue.depth * (1 + queue.varies * wave(i, at))) - (this.removed.size && queue.state === "waiting" ? 1 : 0));
    const depth = depthAt(seconds);
    const paused = this.paused.has(queue.key);
    const into = queue.into * (1 + 0.15 * wave(i + 5, seconds)),
      out = paused ? 0 : queue.out * (1 + 0.15 * wave(i + 9, seconds));
    const age = queue.oldest === null ? NaN : Math.round(queue.oldest * (1 + 0.2 * wave(i + 3, seconds)));
    const p50 = queue.oldest === null || queue.oldest < 0 ? 0.4 : queue.oldest * 0.6;
    return {
      name: queue.name,
      key: queue.key,
      db: queue.db,
      system: queue.system,
      state: queue.state,
      depth,
      oldest_ms: depth && age >= 0 ? age : null,
      due_in_ms: depth && age < 0 ? -age : null,
      in_per_s: round(into),
      out_per_s: round(out),
      in_per_s_1m: queue.into,
      out_per_s_1m: paused ? 0 : queue.out,
      in_per_s_10m: round(queue.into * 0.9),
      out_per_s_10m: round(queue.out * 0.9),
      ...(queue.system === "rq" ? {} : { score_ms: queue.system !== "bullmq" ? 1000 : queue.state === "scheduled" ? 1 / 4096 : 1 }),
      pushed: Math.round(queue.into * 277_000),
      popped: Math.round(queue.out * 270_000),
      waiters: queue.waiters,
      paused,
      bytes: Math.round(depth * queue.size),
      wait_ms:
        queue.out > 0 && queue.state === "waiting"
          ? { p50: Math.round(p50), p99: Math.round(p50 * 1.5 + 3), max: Math.round(p50 * 1.8 + 9) }
          : null,
      seconds_to_empty: depth === 0 ? 0 : queue.out > queue.into && !paused ? Math.ceil(depth / (queue.out - queue.into)) : null,
      spark: Array.from({ length: 60 }, (_, at) => depthAt(seconds - 59 + at)),
      ...(this.leased.active && queue.state === "waiting" ? { jobs: this.leasedCounts() } : {}),
    };
  }

  leasedCounts() {
    const counts = Object.fromEntries(Object.entries(this.leased).map(([state, jobs]) => [state, jobs.length]));
    const [lease, due] = [this.leased.active[0]?.time_ms ?? null, this.leased.delayed[0]?.time_ms ?? null];
    const limit = { limit_rate: 100, limit_per_ms: 60_000, limit_active: null, limit_per_group: 1 };
    return { ...counts, grouped: 7, groups: 3, next_lease_ms: lease, next_due_ms: due, ...limit };
  }

  queues() {
    const now = Date.now();
    this.last = {
      time_ms: now,
      queues: this.list.map((queue, i) => this.queue(queue, i, now)),
      other: this.other,
    };
    return this.last;
  }

  overview() {
    const now = Date.now(),
      seconds = now / 1000;
    return {
      version: "0.1.0",
      redis_version: "7.2.7",
      uptime_s: Math.round((now - this.began) / 1000),
      role: "primary",
      memory_bytes: Math.round(412e6 + 6e6 * wave(1, seconds)),
      memory_counted_bytes: Math.round(396e6 + 6e6 * wave(1, seconds)),
      memory_bytes_max: 2 * 1024 ** 3,
      connected_clients: 96,
      blocked_clients: 40,
      threads: 8,
      ops_per_s: round(48_000 + 4000 * wave(2, seconds), 1),
      warnings: this.warnings,
      lost_in_crash: "at most the last two seconds if the power fails, about half a millisecond if the process dies",
      can_write: this.canWrite,
      user: "default",
      token: this.token,
      durability: {
        journal: "on",
        appendfsync: "everysec",
        journal_bytes: 183_500_800,
        journal_stalled: false,
        last_save_s: Math.round(seconds - 1260),
        last_save_ok: true,
        changes_since_save: Math.round(84_000 + 900 * (seconds % 60)),
        replicas: [
          { address: "10.0.4.12:6379", state: "online", offset: 918_273_640_123, lag_bytes: 0, lag_s: 0 },
          { address: "10.0.4.13:6379", state: "online", offset: 918_273_611_451, lag_bytes: 28_672, lag_s: 1 },
        ],
        offset: 918_273_640_123,
      },
      time_ms: now,
    };
  }

  charts(range) {
    const step = range === "24h" ? 60_000 : 1000;
    const length = Math.min(range === "24h" ? 1440 : 600, Math.ceil((Date.now() - this.began) / step));
    const end = Math.floor(Date.now() / step) * step;
    const series = (seed, base, swing, jitter, least = 0) =>
      Array.from({ length }, (_, i) => {
        const at = (end - (length - 1 - i) * step) / 1000;
        return round(Math.max(least, base + swing * wave(seed, at / (step / 1000) / 6) + jitter * base * (noise(seed, at) - 0.5)), 1);
      });
    const spiky = (seed, base) =>
      series(seed, base, base * 0.15, 0.3).map((value, i) =>
        noise(seed + 50, i + Math.floor(end / 600_000) * 600) > 0.985 ? value * 2.4 : value,
      );
    return {
      step_ms: step,
      from_ms: end - (length - 1) * step,
      series: {
        reads_per_s: series(1, 12_400, 2600, 0.1),
        writes_per_s: series(2, 31_000, 5200, 0.08),
        other_per_s: series(3, 2400, 300, 0.2),
        read_p50_us: series(4, 38, 6, 0.15),
        read_p99_us: spiky(5, 180),
        write_p50_us: series(6, 52, 8, 0.15),
        write_p99_us: spiky(7, 260),
        memory_bytes: series(8, 408e6, 14e6, 0.002),
        net_in_bytes_per_s: series(9, 11.2e6, 2e6, 0.08),
        net_out_bytes_per_s: series(10, 7.4e6, 1.4e6, 0.08),
        delegations_per_s: series(11, 880, 420, 0.3),
        cpu_percent: Array.from({ length: 8 }, (_, i) => series(20 + i, 34 + 4 * i, 9, 0.12)),
      },
    };
  }

  now() {
    const now = Date.now();
    return {
      slow: [
        {
          id: 91,
          time_ms: now - 42_000,
          micros: 18_420,
          args: ["ZRANGEBYSCORE", "schedule", "-inf", "1795432100", "LIMIT", "0", "10000"],
          client: "10.0.4.31:50122 sidekiq",
        },
        {
          id: 90,
          time_ms: now - 3_190_000,
          micros: 12_077,
          args: ["LRANGE", "queue:pull", "0", "-1"],
          client: "10.0.4.9:41800 rails-console",
        },
        {
          id: 88,
          time_ms: now - 8_020_000,
          micros: 10_310,
          args: ["EVALSHA", "a1f0c2…", "8", "bull:video-transcode:wait", "bull:video-transcode:active"],
          client: "10.0.4.40:39112 bullmq",
        },
      ],
      largest_keys: [
        { key: "queue:pull", type: "list", bytes: 17_589_600 },
        { key: "queue:mailers", type: "list", bytes: 3_076_688 },
        { key: "schedule", type: "zset", bytes: 811_200 },
        { key: "feed:home:4211", type: "zset", bytes: 402_112 },
        ...Array.from({ length: 16 }, (_, i) => ({ key: `vm:${7628 + i}:1bb85ed68dc1:work`, type: "string", bytes: 3120 - i })),
      ],
      hot_keys: null,
      why: "hot keys are known only with maxmemory-policy allkeys-lfu or volatile-lfu",
      blocked: [
        { queue: "queue:critical", clients: 24 },
        { queue: "bull:thumbnails:wait", clients: 8 },
        { queue: "celery", clients: 8 },
      ],
      libraries: [
        { name: "redis-rb", version: "5.4.1", clients: 58 },
        { name: "ioredis", version: "6.0.0", clients: 24 },
        { name: "redis-py", version: "8.1.0", clients: 12 },
        { name: "", version: "", clients: 2 },
      ],
    };
  }

  info(db, key) {
    const i = this.list.findIndex((queue) => queue.db === db && queue.key === key);
    if (i < 0) return null;
    const now = Date.now(),
      { key: _key, db: _db, due_in_ms, wait_ms, seconds_to_empty, spark, ...queue } = this.queue(this.list[i], i, now);
    const prefix = queue.name.slice(0, queue.name.lastIndexOf(":"));
    const beside = this.list.filter(
      (other) =>
        other !== this.list[i] &&
        other.state !== "waiting" &&
        other.system === queue.system &&
        (queue.system === "sidekiq" || other.name.startsWith(prefix)),
    );
    const p50 = wait_ms?.p50 ?? 1,
      span = (times, count) => ({
        p50: Math.round(p50 * times),
        p95: Math.round(p50 * 1.3 * times),
        p99: Math.round(p50 * 1.5 * times),
        max: Math.round(p50 * 2.2 * times),
        count,
      });
    return {
      ...queue,
      paused: Number(queue.paused),
      waits: {
        "10m": span(0.9, Math.round(queue.out_per_s * 590)),
        "1h": span(0.7, Math.round(queue.out_per_s * 3400)),
        "1m": wait_ms ? span(1, Math.round(queue.out_per_s * 60)) : null,
      },
      known_since_ms: Math.round(this.began + 12_000),
      last_push_ms: now - 180,
      last_pop_ms: now - 220,
      waiting: queue.waiters ? [{ name: "worker-7", library: "redis-rb", clients: queue.waiters }] : [],
      beside: beside.map((other) => ({ state: other.state, name: other.name, depth: other.depth, oldest_ms: other.oldest < 0 ? null : other.oldest })),
      wait_histogram: WAIT_BOUNDS_MS.map((le_ms) => ({
        le_ms,
        count: Math.round(4e6 * Math.exp(-((Math.log(le_ms) - Math.log(p50 + 1)) ** 2) / 6)),
      })),
    };
  }

  /** The jobs of a queue, the next to be taken first: the same whenever asked. */
  jobs(queue) {
    const opaque = queue.system === "bullmq" || queue.system === "asynq";
    const celery = queue.system === "celery";
    return Array.from({ length: Math.min(queue.depth, 3000) }, (_, i) => {
      let point = (i * 37) % 100;
      const name = CLASSES.find(([, share]) => (point -= share) < 0)[0];
      const jid = crypto.createHash("md5").update(`${queue.name} ${i}`).digest("hex").slice(0, 24);
      const arg = `user-${(i * 31) % 977}`;
      if (celery) {
        const headers = { lang: "py", task: name, id: jid, argsrepr: `('${arg}',)`, kwargsrepr: "{}" };
        return { id: jid, payload: JSON.stringify({ body: Buffer.from(`[["${arg}"], {}]`).toString("base64"), headers, properties: { correlation_id: jid } }) };
      }
      return opaque
        ? { id: String(4000 + i), payload: String(4000 + i) }
        : {
            id: jid,
            payload: JSON.stringify({
              class: name,
              args: [arg, { locale: "de", note: i % 50 === 0 ? "<b>bold</b>" : "welcome" }],
              retry: true,
              queue: queue.name.slice(6, 46),
              jid,
              created_at: Date.now() / 1000 - i * 0.8,
              enqueued_at: Date.now() / 1000 - i * 0.8,
            }),
          };
    }).filter((job) => !this.removed.has(job.id));
  }

  /** Of the i-th job: its index from the end, or when it is due, in seconds. */
  position(queue, i) {
    return queue.oldest < 0 ? (Date.now() - queue.oldest) / 1000 + i : -1 - i;
  }

  command({ db, args }) {
    const raw = args.map((arg) => (typeof arg === "string" ? Buffer.from(arg) : Buffer.from(arg.b64, "base64")));
    const words = raw.map(String);
    this.commands.push({ db, args: words, raw });
    if (words[0] !== "QUEUE") return this.leasedCommand(words);
    const [, what, , kind, text] = words;
    const queue = this.list.find((each) => each.db === db && each.key === raw[2].toString("base64"));
    if (!queue) throw new Error("ERR no such queue");
    const option = (name, otherwise) => (words.indexOf(name, 3) > 0 ? Number(words[words.indexOf(name, 3) + 1]) : otherwise);
    const matches = (job) => (kind === "ID" ? job.id === text : job.payload.includes(text));
    if (what !== "FIND" && !this.canWrite)
      throw new Error(`NOPERM User reader has no permissions to run the 'queue|${what.toLowerCase()}' command`);
    switch (what) {
      case "PAUSE":
        this.paused.add(queue.key);
        return "OK";
      case "RESUME":
        this.paused.delete(queue.key);
        return "OK";
      case "FIND": {
        const from = option("CURSOR", 0),
          slice = 1000,
          jobs = this.jobs(queue);
        const found = jobs
          .slice(from, from + slice)
          .map((job, i) => [this.position(queue, from + i), job])
          .filter(([, job]) => matches(job))
          .map(([position, job]) => [position, job.payload]);
        return [String(from + slice < jobs.length ? from + slice : 0), found.slice(0, option("COUNT", 10))];
      }
      case "REMOVE": {
        const jobs = this.jobs(queue).filter(matches).slice(0, option("COUNT", Infinity));
        jobs.forEach((job) => this.removed.add(job.id));
        return jobs.length;
      }
      case "MOVE":
        return Math.min(option("COUNT", queue.depth), queue.depth);
      default:
        throw new Error(`ERR unknown subcommand '${what}'`);
    }
  }

  /** JOB.RETRY, JOB.DROP, JOB.KEEP and CRON RUN. */
  leasedCommand(words) {
    if (!this.canWrite) throw new Error(`NOPERM User reader has no permissions to run the '${words[0].toLowerCase()}' command`);
    const id = words.at(-1);
    const of = (...states) => states.filter((state) => this.leased[state].some((job) => job.id === id));
    if (words[0] === "JOB.KEEP") of("active").forEach((state) => this.leased[state].find((job) => job.id === id).time_ms += 60_000);
    if (["JOB.KEEP", "CRON"].includes(words[0])) return of("active", "schedules").length;
    const left = of("delayed", "dead");
    left.forEach((state) => (this.leased[state] = this.leased[state].filter((job) => job.id !== id)));
    return left.length;
  }

  /** Status and answer. */
  answer(url, request, body) {
    const query = url.searchParams;
    switch (url.pathname) {
      case "/api/overview":
        return [200, this.overview()];
      case "/api/queues":
        if (this.unlisted) return [403, { error: "NOPERM User reader has no permissions to run QUEUE LIST" }];
        return [200, this.queues()];
      case "/api/charts":
        return [200, this.charts(query.get("range"))];
      case "/api/now":
        return [200, this.now()];
      case "/api/queue": {
        const info = this.info(Number(query.get("db")), query.get("key"));
        return info ? [200, info] : [404, { error: "ERR no such queue" }];
      }
      case "/api/jobs":
        return [200, { jobs: this.leased[query.get("state")].slice(0, Number(query.get("count"))) }];
      case "/api/peek": {
        const queue = this.list.find((each) => each.key === query.get("key"));
        return queue
          ? [
              200,
              {
                jobs: this.jobs(queue)
                  .slice(0, Number(query.get("count")))
                  .map((job, i) => ({
                    ...(queue.oldest < 0 ? { index: i, score: this.position(queue, i) } : { index: this.position(queue, i) }),
                    payload: job.payload,
                  })),
              },
            ]
          : [400, { error: "ERR no such queue" }];
      }
      case "/api/command":
        if (request.method !== "POST" || request.headers["x-darter-token"] !== this.token)
          return [403, { error: "The token is missing or wrong" }];
        try {
          return [200, { reply: this.command(JSON.parse(body)) }];
        } catch (error) {
          return [400, { error: error.message }];
        }
      default:
        return [404, { error: "no such path" }];
    }
  }

  async handle(request, response) {
    const url = new URL(request.url, "http://mock");
    const file = url.pathname === "/" ? "index.html" : url.pathname.slice(1);
    const headers = { "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store" };
    if (TYPES[file]) {
      response.writeHead(200, { ...headers, "Content-Type": TYPES[file] });
      response.end(fs.readFileSync(path.join(PAGE, file)));
      return;
    }
    this.requests.push(url.pathname + url.search);
    const before = this.inFlight.get(url.pathname) ?? 0;
    if (before) this.stacked.push(url.pathname);
    this.inFlight.set(url.pathname, before + 1);
    let body = "";
    for await (const part of request) body += part;
    if (this.delayMs) await new Promise((resolve) => setTimeout(resolve, this.delayMs));
    this.inFlight.set(url.pathname, this.inFlight.get(url.pathname) - 1);
    if (this.away) {
      request.socket.destroy();
      return;
    }
    const [status, answer] = this.answer(url, request, body);
    response.writeHead(status, { ...headers, "Content-Type": "application/json" });
    response.end(JSON.stringify(answer));
  }

  /** Listens on a port of 127.0.0.1; the address. */
  async listen(port = 0) {
    this.server = http.createServer((request, response) => this.handle(request, response));
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${this.server.address().port}/`;
  }
}

module.exports = { Mock, HOSTILE };

if (require.main === module) new Mock(process.argv[3]).listen(Number(process.argv[2] ?? 8080)).then((address) => console.log(address));
