// The console against a Darter: real.js redis://HOST:PORT [http://HOST:PORT] [USER:PASSWORD]
//
// Compares the page with QUEUE LIST as redis-cli has it, and uses its buttons, also on queues at which real Sidekiq, BullMQ and
// Celery work. It destroys the data of the server. QUICK=1: without the checks that look the same with made-up data, and
// without job systems that are not installed yet.

const { execFileSync } = require("node:child_process");
const net = require("node:net");
const path = require("node:path");
const { assert, run, until } = require("../checks");
const { launch, row, rows, visit } = require("./browser");
const { HOSTILE } = require("./mock");
const { SYSTEMS, Workers, installed } = require("./workers");

const [address, given, login] = process.argv.slice(2);
const redis = new URL(address);
let [user, password] = login?.split(/:(.*)/s) ?? [];
const SOURCE = "queue:console-check",
  TARGET = "queue:console-check-target";
const JOBS = 25;

/** What redis-cli prints for a command, as JSON. */
function ask(...words) {
  const environment = { ...process.env, ...(password ? { REDISCLI_AUTH: password } : {}) };
  const text = execFileSync("redis-cli", ["-h", redis.hostname, "-p", redis.port, ...(user ? ["--user", user] : []), "--json", ...words], {
    env: environment,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
  return JSON.parse(text);
}

/** The rows of QUEUE LIST: maps, lists of names and values, or values in the documented order. */
function listed() {
  const order = ["name", "system", "depth", "oldest_ms", "in_per_s", "out_per_s", "waiters", "paused", "bytes"];
  return ask("QUEUE", "LIST").map((each) => {
    if (!Array.isArray(each)) return each;
    if (each[0] === "name") return Object.fromEntries(each.flatMap((value, i) => (i % 2 ? [] : [[value, each[i + 1]]])));
    return Object.fromEntries(each.map((value, i) => [order[i], value]));
  });
}

const isTrue = (value) => [true, 1, "1", "yes"].includes(value);
const payload = (i) =>
  JSON.stringify({ class: i % 2 ? "OddJob" : "EvenJob", args: [i], jid: `console-check-${i}`, created_at: Date.now() / 1000 });

function seed() {
  ask("DEL", SOURCE, TARGET);
  ask("LPUSH", SOURCE, ...Array.from({ length: JOBS }, (_, i) => payload(i)));
  ask("LPUSH", TARGET, payload(1000));
}

/** Sends a command of raw bytes; whether the reply is an error. */
function send(...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(Number(redis.port), redis.hostname);
    const encode = (words) =>
      Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...words.flatMap((word) => [Buffer.from(`$${Buffer.byteLength(word)}\r\n`), Buffer.from(word), Buffer.from("\r\n")])]);
    if (password) socket.write(encode(["AUTH", user, password]));
    socket.end(encode(args));
    let reply = "";
    socket.on("data", (data) => (reply += data)).on("error", reject).on("close", () => (reply.includes("-ERR") ? reject(new Error(reply)) : resolve()));
  });
}

const credentials = () => (user ? { username: user, password } : undefined);
const open = (options, use) => visit(given ?? http, { httpCredentials: credentials(), ...options }, use);

const page = (use) => () =>
  open({ height: 4000 }, async (page) => {
    seed();
    await row(page, SOURCE).waitFor();
    await use(page);
  });

const picture = async (page, name, options = {}) => {
  if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `${name}.png`), ...options });
};

/** Waits until the page has shown so many answers more, each a second after the one before. */
async function turns(page, count) {
  for (let i = 0; i < count; i++) {
    const before = await page.evaluate(() => state.time);
    await page.waitForFunction((before) => state.time > before, before);
  }
}

/** Runs `use` while the server has users and a password, and takes them away. */
const guarded = (use) => async () => {
  const [userBefore, passwordBefore] = [user, password];
  ask("ACL", "SETUSER", "console-reader", "reset", "on", ">look", "~*", "&*", "+@read", "+info", "+queue|list", "+queue|info", "+queue|peek", "+queue|find");
  ask("CONFIG", "SET", "requirepass", "open sesame");
  [user, password] = ["default", "open sesame"];
  try {
    await use();
  } finally {
    ask("CONFIG", "SET", "requirepass", userBefore === "default" ? passwordBefore : "");
    [user, password] = [userBefore, passwordBefore];
    ask("ACL", "DELUSER", "console-reader");
  }
};

const toast = (page, pattern) => until(async () => pattern.test(await page.locator("#toast").innerText()));

async function confirm(page) {
  await page.waitForSelector("#confirm[open]");
  await page.click("#confirm-yes");
}

const checks = {
  "shows what QUEUE LIST says": page(async (page) => {
    const number = (value) => Number(value).toLocaleString("en-US");
    await until(async () => {
      const shown = await page.$$eval("#table tbody tr, #sets-table tbody tr", (rows) =>
        rows.map((row) => ({
          name: row.queue.name,
          db: row.queue.db,
          depth: row.querySelector(".depth").innerText.trim(),
          bytes: row.querySelector(".bytes span").title,
          paused: row.classList.contains("is-paused"),
          waiters: row.querySelector(".waiters")?.innerText,
        })),
      );
      const list = listed();
      const known = (each) => shown.find((other) => other.name === each.name && other.db === Number(each.db ?? 0));
      return (
        list.length > 1 &&
        list.every((each) => {
          const seen = known(each);
          // Active jobs are a number in the row of their queue.
          return seen
            ? seen.depth === number(each.depth) &&
                seen.bytes === `${number(each.bytes)} bytes` &&
                seen.paused === isTrue(each.paused) &&
                (seen.waiters === undefined || seen.waiters === number(each.waiters))
            : each.state === "active";
        })
      );
    });
    assert.equal((await rows(page)).find((each) => each.name === SOURCE).depth, String(JOBS));
  }),

  "pauses and resumes": page(async (page) => {
    const button = row(page, SOURCE).locator("button");
    const paused = () => isTrue(listed().find((each) => each.name === SOURCE).paused);
    await button.click();
    await confirm(page);
    await toast(page, /is paused/);
    await until(async () => (await button.innerText()) === "Resume");
    assert.equal(paused(), true);
    assert.equal(ask("BRPOP", SOURCE, "0.05"), null);
    await button.click();
    await confirm(page);
    await until(async () => (await button.innerText()) === "Pause");
    assert.equal(paused(), false);
    assert.equal(ask("BRPOP", SOURCE, "1")[0], SOURCE);
    await until(async () => (await rows(page)).find((each) => each.name === SOURCE).depth === String(JOBS - 1));
  }),

  "finds and removes a job": page(async (page) => {
    await row(page, SOURCE).locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    assert.match(await page.locator("#queue .classes").innerText(), /EvenJob\s+13 · 52 %/);
    await page.selectOption("#queue select", "ID");
    await page.fill("#queue form.row input", "console-check-7");
    await page.keyboard.press("Enter");
    const found = page.locator("#queue .jobs").nth(1).locator("li");
    await found.first().waitFor();
    assert.equal(await found.count(), 1);
    await found.locator("summary").click();
    await found.locator("button").click();
    await confirm(page);
    await toast(page, /Removed 1 job/);
    const left = ask("LRANGE", SOURCE, "0", "-1");
    assert.equal(left.length, JOBS - 1);
    assert.ok(left.every((each) => !each.includes('"console-check-7"')));
  }),

  "removes by text, and moves": page(async (page) => {
    await row(page, SOURCE).locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    await page.fill("#queue form.row input", "OddJob");
    await page.keyboard.press("Enter");
    await page.click("text=Remove all that contain it");
    await confirm(page);
    await toast(page, /Removed 12 jobs/);
    const [to, limit] = await page.locator("#queue form.stack input").all();
    await to.fill(TARGET);
    await limit.fill("5");
    await page.click('button:text-is("Move …")');
    await confirm(page);
    await toast(page, /Moved 5 jobs/);
    assert.deepEqual([ask("LLEN", SOURCE), ask("LLEN", TARGET)], [8, 6]);
  }),

  "does with leased jobs what its buttons say": page(async (page) => {
    const queue = "console-check-leased";
    ask("EVAL", "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end", "0", `*${queue}*`);
    const hostile = "<img src=x onerror='window.broken=1'>";
    for (const id of ["active", "dead-1", "dead-2"]) ask("JOB.PUT", queue, payload(1), "ID", id, "TRIES", id === "active" ? "5" : "1");
    for (const id of ["active", "dead-1", "dead-2"]) assert.equal(ask("JOB.TAKE", hostile, "LEASE", "50000", "FROM", queue)[0][1], id);
    for (const id of ["dead-1", "dead-2"]) ask("JOB.FAIL", queue, id, "WHY", hostile);
    ask("JOB.PUT", queue, payload(2), "ID", "delayed", "IN", "7230000");
    ask("JOB.PUT", queue, payload(3), "ID", "grouped", "GROUP", "customer:17");
    ask("CRON", "SET", queue, "nightly", "@daily", payload(4));
    await row(page, queue).locator("td").first().click();
    const of = (state) => page.locator(`#queue [data-kind=${state}]`);
    await until(async () => (await page.locator("#queue .leased li").count()) === 5);
    assert.match(await of("active").innerText(), /attempt 1\s+lease ends in \d+ s/);
    assert.match(await of("dead").innerText(), /<img src=x onerror=.* · after 1 attempt\s+died/);
    assert.equal(await page.evaluate(() => window.broken), undefined);
    assert.match(await page.locator("#queue .facts").innerText(), /In groups\s+1 of 1 group/);
    await picture(page, "real-leased");
    const press = async (label, said) => {
      await page.locator(`#queue [aria-label="${label}"]`).click();
      await confirm(page);
      await toast(page, said);
    };
    const leaseEnd = () => Number(ask("JOB.LIST", queue, "ACTIVE")[1][0][1]);
    const before = leaseEnd();
    await press("Extend active", /ends a minute later/);
    assert.ok(leaseEnd() > before + 50_000, "the lease is longer");
    await press("Run now delayed", /delayed waits in/);
    await press("Retry dead-1", /dead-1 waits in/);
    await press("Drop dead-2", /dead-2 is dropped/);
    await press("Run now nightly", /nightly has pushed a job/);
    assert.equal(ask("LLEN", queue), 3);
    await until(async () => !(await of("dead").isVisible()) && !(await of("delayed").isVisible()));
    // What is no longer so is said.
    ask("JOB.DONE", queue, "active");
    await press("Extend active", /No worker has active any more/);
    ask("CRON", "DEL", queue, "nightly");
  }),

  "shows when a job of a set is due": page(async (page) => {
    ask("ZADD", "schedule", String(Date.now() / 1000 + 7230), payload(1));
    await row(page, "schedule").locator("td").first().click();
    const first = page.locator("#queue .jobs").first();
    await until(async () => /^OddJob\s+console-check-1\s+\[1\]\s+due in 2 h 00 min$/.test((await first.innerText()).trim()));
    await page.fill("#queue form.row input", "OddJob");
    await page.keyboard.press("Enter");
    await until(async () => /due in 2 h 00 min/.test(await page.locator("#queue .jobs").nth(1).innerText()));
    ask("DEL", "schedule");
  }),

  "opens every section": page(async (page) => {
    await page.locator("#charts").scrollIntoViewIfNeeded();
    await until(async () => (await page.locator(".plot path[d^=M]").count()) > 0);
    await page.locator("#now").scrollIntoViewIfNeeded();
    await until(async () => (await page.locator("#largest td, #largest .quiet").count()) > 0);
    assert.match(await page.locator("#durable").innerText(), /Journal/);
  }),
};

/** Those that empty the server or give it a password: real workers would not like it. */
const alone = {
  "keeps out who has no password, and shows who may only read no buttons": guarded(async () => {
    seed();
    const address = given ?? http;
    assert.deepEqual([(await fetch(address)).status, (await fetch(`${address}api/queues`)).status], [401, 401]);
    await open({ away: true, httpCredentials: { username: "default", password: "wrong" } }, async (page) => {
      assert.match(await page.locator("body").innerText(), /password/);
    });
    await open({}, async (page) => {
      await row(page, SOURCE).locator("button").waitFor();
      assert.equal(await page.locator("#who").innerText(), "default");
    });
    await open({ away: true, httpCredentials: { username: "console-reader", password: "look" } }, async (page) => {
      await row(page, SOURCE).locator("td").first().click();
      await page.waitForSelector("#queue .jobs li");
      assert.equal(await page.locator("#who").innerText(), "console-reader");
      assert.equal(await page.locator("#read-only").isVisible(), true);
      const labels = await page.$$eval("button", (buttons) =>
        buttons.filter((button) => button.checkVisibility()).map((button) => button.getAttribute("aria-label") ?? button.textContent),
      );
      assert.deepEqual(labels.filter((label) => /pause|resume|remove|move|extend|retry|drop|run now/i.test(label)), []);
      await page.fill("#queue form.row input", "OddJob");
      await page.keyboard.press("Enter");
      await until(async () => /12 jobs found/.test(await page.locator("#queue").innerText()));
      const refused = await page.evaluate(
        (name) => command(0, "QUEUE", "PAUSE", name).then(() => "it was run", (error) => `${error.status} ${error.message}`),
        SOURCE,
      );
      assert.match(refused, /^4\d\d .*NOPERM/);
      await picture(page, "real-read-only");
    });
    assert.equal(isTrue(listed().find((each) => each.name === SOURCE).paused), false);
  }),

  "says that its password has changed": guarded(async () => {
    await open({ away: true }, async (page) => {
      await page.waitForSelector("#facts dd");
      ask("CONFIG", "SET", "requirepass", "another");
      password = "another";
      await until(async () => /^Sign in to see anything/.test(await page.locator("#how").innerText()));
    });
  }),

  "shows hostile names as text": async () => {
    ask("FLUSHALL");
    const hostile = HOSTILE.filter((name) => name.startsWith("queue:")).map((name) => Buffer.from(name).subarray(0, 1000));
    hostile.push(Buffer.from([...Buffer.from("queue:"), 0xff, 0xfe, 0x00, 0x80]));
    for (const name of hostile) await send("LPUSH", name, `{"class":"<b>Bold</b>","args":["<img src=x onerror='window.broken=1'>\u202e"],"jid":"1"}`);
    await open({}, async (page) => {
      await until(async () => (await page.locator("#table tbody tr").count()) === hostile.length);
      const names = (await rows(page)).map((each) => each.name);
      assert.ok(names.includes(HOSTILE[0]), "markup is text");
      assert.ok(names.includes("queue:control‹00›‹01›‹1b›[31m‹0d›‹0a›‹09›tail"), `${names}`);
      assert.equal(await page.evaluate(() => document.querySelectorAll("#table img, #table script").length), 0);
      for (let i = 0; i < names.length; i++) {
        await page.locator("#table tbody tr").nth(i).locator("td").nth(1).click();
        await page.locator("#queue .jobs li summary").first().click();
        await until(async () => /onerror/.test(await page.locator("#queue details[open] pre").first().innerText()));
      }
      assert.equal(await page.evaluate(() => window.broken), undefined);
      await picture(page, "real-hostile");
      await page.keyboard.press("Escape");
      await row(page, "queue:��‹00›�").locator("button").click();
      await confirm(page);
      await toast(page, /is paused/);
    });
    assert.deepEqual(listed().filter((each) => isTrue(each.paused)).map((each) => each.depth), [1]);
    ask("FLUSHALL");
  },
};

/** Looks, and what is shown of much and of nothing: the same with made-up data. */
const looks = {
  "says how to push when there is no queue": async () => {
    ask("FLUSHALL");
    await open({}, async (page) => {
      await page.waitForSelector("#none");
      assert.match(await page.locator("#how").innerText(), /No queue yet\.$/);
      await picture(page, "real-none");
      ask("LPUSH", SOURCE, payload(1));
      await row(page, SOURCE).waitFor();
      assert.equal(await page.locator("#none").isVisible(), false);
    });
  },

  "shows 300 queues": async () => {
    ask("FLUSHALL");
    ask("EVAL", "for i = 1, 300 do for j = 1, i do redis.call('LPUSH', 'queue:tenant-' .. i, j) end end", "0");
    await open({}, async (page) => {
      await page.waitForSelector("#table tbody tr:nth-child(300)");
      assert.equal(await page.locator("#shown").innerText(), "300 queues");
      await page.click("#table th.depth button");
      await until(async () => (await rows(page))[0].depth === "300");
      await page.fill("#filter", "tenant-29");
      await until(async () => (await page.locator("#table tbody tr").count()) === 11);
      await page.fill("#filter", "");
      await picture(page, "real-many");
    });
    ask("FLUSHALL");
  },

  "works by keyboard alone": page(async (page) => {
    await page.keyboard.press("/");
    await page.keyboard.type("console-check");
    await page.keyboard.press("Enter");
    const focused = () => page.evaluate(() => document.activeElement.closest("tr")?.queue.name ?? document.activeElement.id);
    if ((await focused()) !== SOURCE) await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), SOURCE);
    await page.keyboard.press("p");
    await page.waitForSelector("#confirm[open]");
    await page.keyboard.press("Enter");
    await toast(page, /is paused/);
    await page.keyboard.press("Enter");
    await page.waitForSelector("#queue .jobs li");
    await page.keyboard.press("Escape");
    assert.equal(await focused(), SOURCE);
    await page.keyboard.press("p");
    await page.waitForSelector("#confirm[open]");
    await page.keyboard.press("Enter");
    await toast(page, /goes on/);
  }),
};
for (const [width, height] of [[1280, 900], [390, 844]]) {
  for (const dark of [false, true]) {
    const look = `${width}-${dark ? "dark" : "light"}`;
    looks[`fits ${width} pixels, ${dark ? "dark" : "light"}`] = () =>
      open({ width, height, dark, hasTouch: width === 390 }, async (page) => {
        seed();
        await row(page, SOURCE).locator("td").nth(1).click();
        await page.waitForSelector("#queue .jobs li");
        assert.equal(await page.$eval("#queue", (panel) => panel.scrollWidth - panel.clientWidth), 0);
        await picture(page, `real-queue-${look}`);
        await page.click("#queue [aria-label=Close]");
        await picture(page, `real-${look}`, { fullPage: true });
      });
  }
}

const BATCH = 120;
/** Real workers: the page stops them, removes a job of theirs, and lets them go on. */
const working = (workers) => async () => {
  try {
    await stopAndResume(workers);
  } finally {
    await workers.stop();
  }
};

async function stopAndResume(workers) {
  const pushed = await workers.push(BATCH);
  await until(async () => (await workers.ran()).length > 0);
  await open({}, async (page) => {
    const mine = row(page, workers.key);
    const button = mine.locator("button");
    await button.click();
    await confirm(page);
    await toast(page, /is paused/);
    // Jobs that workers have end; then nothing runs.
    let before = -1;
    await until(async () => {
      await turns(page, 1);
      const now = (await workers.ran()).length;
      const stands = now === before;
      before = now;
      return stands;
    });
    const left = ask("LLEN", workers.key);
    assert.ok(left > 0 && left <= BATCH - before, `${left} jobs are left, ${before} ran`);
    const number = (value) => Number(value).toLocaleString("en-US");
    const known = listed().find((each) => each.name === workers.key);
    assert.deepEqual([known.depth, isTrue(known.paused)], [left, true]);
    await until(async () => {
      const shown = (await rows(page)).find((each) => each.name === workers.key);
      return shown.depth === number(left) && shown.waiters === number(listed().find((each) => each.name === workers.key).waiters);
    });

    await mine.locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    await page.selectOption("#queue select", "ID");
    await page.fill("#queue form.row input", pushed.at(-1));
    await page.keyboard.press("Enter");
    const found = page.locator("#queue .jobs").nth(1).locator("li");
    await found.locator("summary").click();
    await picture(page, `real-${workers.name}`);
    await found.locator("button").click();
    await confirm(page);
    await toast(page, /Removed 1 job/);
    assert.equal(ask("LLEN", workers.key), left - 1);
    await page.keyboard.press("Escape");

    await button.click();
    await confirm(page);
    await toast(page, /goes on/);
    await until(async () => (await workers.ran()).length >= BATCH - 1);
    assert.deepEqual((await workers.ran()).sort(), pushed.slice(0, -1).sort());
    await until(async () => (await rows(page)).find((each) => each.name === workers.key).depth === "0");
    // Pushed are all, and popped all but the one that was removed.
    const totals = `pushed ${BATCH}, popped ${BATCH - 1} since the server knows it`;
    await until(async () => (await mine.locator(".depth span").getAttribute("title")).endsWith(totals));
  });
}

let http;
async function main() {
  const port = given ? null : ask("CONFIG", "GET", "http-port");
  const number = port && Number(Array.isArray(port) ? port[1] : port["http-port"]);
  if (port && !number) {
    console.log("skip the server has no http-port");
    return;
  }
  http = `http://${redis.hostname}:${number}/`;
  await launch();
  ask("FLUSHALL");
  const quick = Boolean(process.env.QUICK);
  const systems = SYSTEMS.filter((name) => installed(name) || !quick);
  for (const name of SYSTEMS.filter((name) => !systems.includes(name))) console.log(`skip stops and resumes real ${name} (not installed)`);
  // They take seconds to start; with a password, nobody has told them.
  const all = password ? [] : systems.map((name) => new Workers(name, address));
  const stops = Object.fromEntries(all.map((workers) => [`stops and resumes real ${workers.name}`, working(workers)]));
  const chosen = Object.entries({ ...checks, ...stops, ...alone, ...(quick ? {} : looks) }).filter(([name]) => name.includes(process.env.ONLY ?? ""));
  await run(Object.fromEntries(chosen));
}

main().catch((error) => {
  console.log(`FAIL the console answers\n${error.stack}`);
  process.exit(1);
});
