// The console against a Darter: real.js redis://HOST:PORT [http://HOST:PORT] [USER:PASSWORD]
//
// Compares the page with QUEUE LIST as redis-cli has it, and uses its buttons on queues of its own, which it deletes.

const { execFileSync } = require("node:child_process");
const { assert, run, until } = require("../checks");
const { launch, row, rows, visit } = require("./browser");

const [address, given, login] = process.argv.slice(2);
const redis = new URL(address);
const [user, password] = login?.split(/:(.*)/s) ?? [];
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

const page = (use) => () =>
  visit(given ?? http, { height: 4000, httpCredentials: user ? { username: user, password } : undefined }, async (page) => {
    seed();
    await row(page, SOURCE).waitFor();
    await use(page);
  });

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

  "opens every section": page(async (page) => {
    await page.locator("#charts").scrollIntoViewIfNeeded();
    await until(async () => (await page.locator(".plot path[d^=M]").count()) > 0);
    await page.locator("#now").scrollIntoViewIfNeeded();
    await until(async () => (await page.locator("#largest td, #largest .quiet").count()) > 0);
    assert.match(await page.locator("#durable").innerText(), /Journal/);
  }),
};

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
  process.on("exit", () => ask("DEL", SOURCE, TARGET));
  await run(checks);
}

main().catch((error) => {
  console.log(`FAIL the console answers\n${error.stack}`);
  process.exit(1);
});
