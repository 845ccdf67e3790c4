// The console against made-up data (mock.js).

const fs = require("node:fs");
const path = require("node:path");
const { assert, run, until } = require("../checks");
const { launch, row, rows, visit } = require("./browser");
const { HOSTILE, Mock } = require("./mock");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const PHONE = { width: 390, height: 844, hasTouch: true };
const PAUSE = "queue:mailers";

/** A check: on a server of its own that plays `scenario`. */
const on = (scenario, options, use) => async () => {
  const mock = new Mock(scenario);
  const url = await mock.listen();
  try {
    await visit(url, options, async (page) => {
      if (options.javaScriptEnabled !== false) await page.waitForSelector("#facts dd");
      await use(page, mock, url);
    });
  } finally {
    mock.server.close();
    mock.server.closeAllConnections();
  }
};

const picture = async (page, name, options = {}) => {
  if (process.env.PICTURES) await page.screenshot({ path: path.join(process.env.PICTURES, `${name}.png`), ...options });
};

/** Shows every section once, so that each has asked for what it shows. */
async function scroll(page) {
  for (const [id, filled] of [
    ["charts", ".legend b"],
    ["now", "#slow td"],
    ["durability", "#replicas td"],
  ]) {
    await page.locator(`#${id}`).scrollIntoViewIfNeeded();
    await page.waitForSelector(filled);
  }
  await page.evaluate(() => scrollTo(0, 0));
}

/** What axe-core finds, contrast included. */
async function accessible(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(
    violations.map(
      ({ id, nodes }) =>
        `${id}: ${nodes
          .slice(0, 3)
          .map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`)
          .join(" | ")}`,
    ),
    [],
  );
}

/** Answers the question that is open. */
async function answer(page, yes) {
  await page.waitForSelector("#confirm[open]");
  await page.click(yes ? "#confirm-yes" : "#confirm [value=no]");
  await page.waitForSelector("#confirm", { state: "hidden" });
}

const text = (page, selector) => page.locator(selector).innerText();
const sees = (page, selector, pattern) => until(async () => pattern.test(await text(page, selector)));

async function wholePage(page, mock) {
  await page.waitForSelector("#table tbody tr");
  await scroll(page);
  assert.match(
    await text(page, "#how"),
    /^The server is well\. [\d,]+ jobs wait in 10 queues, the oldest for .+ in pull\. mailers and video-transcode grow\.$/,
  );
  assert.equal(await page.locator("#table tbody tr").count(), 12);
  assert.equal(await page.locator("#sets-table tbody tr").count(), 8);
  assert.match(await text(page, "#facts"), /MiB of 2\.0 GiB/);
  assert.match(await text(page, "#durable"), /on, fsync everysec/);
  assert.match(await text(page, "#hot"), /maxmemory-policy/);
  assert.match(await text(page, "#libraries"), /redis-rb/);
  assert.equal(await page.locator("#largest tbody tr").count(), 8);
  const [busiest] = await page
    .$$eval(".panel .legend", (legends) => legends.map((legend) => legend.textContent))
    .then((all) => all.filter((each) => each.includes("busiest")));
  assert.match(busiest, /busiest\d+ %mean\d+ %threads8/);
  assert.equal(await page.$$eval(".plot path", (paths) => paths.filter((each) => !each.getAttribute("d")).length), 0);
  assert.equal(await page.title(), "Darter");
  assert.deepEqual(mock.stacked, []);
}

const checks = {};
for (const [place, size] of [
  ["1280", {}],
  ["390", PHONE],
]) {
  for (const dark of [false, true]) {
    const look = dark ? "dark" : "light";
    checks[`shows a busy server at ${place} pixels, ${look}`] = on("busy", { ...size, dark }, async (page, mock) => {
      await wholePage(page, mock);
      await accessible(page);
      await picture(page, `console-${place}-${look}`);
      await picture(page, `whole-${place}-${look}`, { fullPage: true });
    });
    checks[`shows a queue at ${place} pixels, ${look}`] = on("busy", { ...size, dark }, async (page) => {
      await row(page, PAUSE).locator("td").first().click();
      await page.waitForSelector("#queue .jobs li");
      await page.waitForSelector("#queue .waits td");
      assert.equal(await text(page, "#queue-title"), PAUSE);
      assert.match(await text(page, "#queue .classes"), /ActionMailer::MailDeliveryJob\s+44 · 44 %/);
      assert.match(await text(page, "#queue .links"), /schedule/);
      const wide = await page.$eval("#queue", (panel) => panel.scrollWidth - panel.clientWidth);
      assert.equal(wide, 0);
      await accessible(page);
      await picture(page, `queue-${place}-${look}`);
      await page.locator("#queue .classes").evaluate((classes) => classes.parentNode.scrollIntoView());
      await picture(page, `jobs-${place}-${look}`);
      await page.keyboard.press("Escape");
      await page.waitForSelector("#queue", { state: "hidden" });
    });
  }
}

Object.assign(checks, {
  "shows the numbers that the server gives": on("busy", {}, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    mock.queues = () => mock.last; // from now on they stand still
    const given = new Map(mock.last.queues.map((queue) => [queue.name, queue]));
    await until(async () => {
      const shown = await rows(page);
      return (
        shown.length === 12 &&
        shown.every(
          (each) =>
            each.depth === given.get(each.name).depth.toLocaleString("en-US") && each.waiters === String(given.get(each.name).waiters),
        )
      );
    });
    const by = Object.fromEntries((await rows(page)).map((each) => [each.name, each]));
    assert.equal(by["bull:video-transcode:wait"].active, "16");
    assert.equal(by["bull:video-transcode:prioritized"].active, "–");
    assert.equal(by["bull:video-transcode:prioritized"].empty, "stands");
    assert.equal(by["asynq:{billing}:pending"].active, "10");
    assert.equal(by["queue:mailers"].active, "–");
    assert.equal(by["queue:mailers"].empty, "grows");
    assert.equal(by["queue:critical"].oldest, "–");
    assert.match(
      await row(page, "queue:mailers").locator(".oldest span").getAttribute("title"),
      /^pushed \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC/,
    );
    const due = (name) => row(page, name).locator(".due").innerText();
    assert.match(await due("retry"), /^late by \d/);
    assert.match(await due("bull:video-transcode:delayed"), /^next in \d+ s/);
    assert.match(await due("schedule"), /^next in \d+ s/);
    assert.match(await due("dead"), /^oldest \d d/);
    assert.equal(await due("rq:failed:reports"), "–");
  }),

  "shows who waits, and waiting times of longer and longer": on("busy", {}, async (page) => {
    await row(page, "queue:critical").locator("td").first().click();
    await page.waitForSelector("#queue .waits td");
    assert.deepEqual(await page.locator("#queue .waits tbody tr td:first-child").allInnerTexts(), ["1 min", "10 min", "1 h"]);
    assert.match(await page.locator("#queue section", { hasText: "Who waits for jobs" }).innerText(), /redis-rb\s+worker-7\s+24/);
    assert.match(await text(page, "#queue .facts"), /KNOWN FOR\s+3 d 4 h/i);
  }),

  "shows the place, class, id and arguments of a job in a list, and in a set when it is due": on("busy", {}, async (page) => {
    const where = () => page.locator("#queue .jobs").first().locator("li").first().locator("summary").innerText();
    await row(page, "queue:pull").locator("td").first().click();
    await until(async () => /^#1\s/.test(await where().catch(() => "")));
    await page.fill("#queue form.row input", "user-62");
    await page.keyboard.press("Enter");
    await until(async () => /^#3\s/.test(await page.locator("#queue .jobs").nth(1).innerText()));
    await row(page, "celery").locator("td").first().click();
    await until(async () => /^#1\s+ActionMailer::MailDeliveryJob\s+\w{24}\s+\('user-0',\)$/.test(await where().catch(() => "")));
    await row(page, "schedule").locator("td").first().click();
    await until(async () => /due in 1\d s$/.test(await where().catch(() => "")));
    assert.doesNotMatch(await text(page, "#queue"), /Waiting time/);
    await page.fill("#queue form.row input", "user-62");
    await page.keyboard.press("Enter");
    await until(async () => /due in 1\d s/.test(await page.locator("#queue .jobs").nth(1).innerText()));
  }),

  "sorts by every column, and remembers it": on("many", {}, async (page) => {
    await page.waitForSelector("#table tbody tr");
    const ages = await rows(page).then((all) => all.map((each) => each.oldest));
    assert.equal(ages.at(-1), "–");
    for (const column of await page.$$eval("#table th[class] button", (buttons) => buttons.map((button) => button.parentNode.className))) {
      await page.click(`#table th.${column} button`);
      const sorted = page.locator("#table th[aria-sort]");
      assert.equal(await sorted.count(), 1);
      assert.equal(await sorted.getAttribute("class"), column);
    }
    await page.click("#table th.depth button");
    const depths = (await rows(page)).map((each) => Number(each.depth.replace(/,/g, "")));
    assert.ok(depths[0] > depths.at(-1), `${depths}`);
    await page.click("#table th.depth button");
    assert.equal(await page.getAttribute("#table th.depth", "aria-sort"), "ascending");
    await page.reload();
    await page.waitForSelector("#table th.depth[aria-sort=ascending]");
  }),

  "shows 300 queues of 1,200, and those that a filter leaves": on("many", {}, async (page) => {
    await page.waitForSelector("#table tbody tr:nth-child(300)");
    assert.equal(await text(page, "#shown"), "shows 300 of 1,200");
    await page.fill("#filter", "TENANT-01");
    assert.equal(await page.locator("#table tbody tr").count(), 10);
    assert.equal(await text(page, "#shown"), "shows 10 of 1,200");
    await page.fill("#filter", "nothing like it");
    assert.equal(await page.locator("#no-match").isVisible(), true);
    await page.fill("#filter", "");
    await picture(page, "many");
  }),

  "shows more than 300 only when asked": on("many", {}, async (page, mock) => {
    mock.list.push(...mock.list.map((queue) => ({ ...queue, db: 3 })));
    await sees(page, "#shown", /^shows 300 of 1,500$/);
    await page.click("#more");
    await sees(page, "#shown", /^shows 600 of 1,500$/);
    assert.equal(await page.locator("#more").isVisible(), false);
    assert.match(await page.locator("#table tbody").innerText(), /db 3/);
  }),

  "says how to push when there is no queue": on("none", {}, async (page) => {
    await page.waitForSelector("#none");
    assert.match(await text(page, "#none-command"), /^redis-cli LPUSH queue:default /);
    assert.match(await text(page, "#how"), /^All is well\. No queue yet\.$/);
    assert.equal(await page.locator("#table").isVisible(), false);
    await accessible(page);
    await picture(page, "none");
  }),

  "shows hostile names as text": on("hostile", {}, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    const names = (await rows(page)).map((each) => each.name);
    assert.equal(names.length, HOSTILE.length + 1);
    assert.ok(names.includes(HOSTILE[0]), "markup is text");
    assert.ok(names.includes("queue:control‹00›‹01›‹1b›[31m‹0d›‹0a›‹09›tail"), `${names}`);
    assert.ok(names.includes("queue:‹202e›gnorw yaw eht‹202c›"));
    assert.ok(names.every((name) => name.length < 300));
    assert.match(await page.locator("#table").innerHTML(), /10,246 characters/);
    assert.equal(await page.evaluate(() => document.querySelectorAll("#table img, #table script").length), 0);
    for (const queue of mock.list) {
      await page
        .locator("#table tbody tr")
        .nth(names.indexOf(names[mock.list.indexOf(queue)]))
        .locator("td")
        .nth(1)
        .click();
      await page.waitForSelector("#queue .jobs li");
    }
    await page.locator("#queue details").first().locator("summary").click();
    await sees(page, "#queue details[open] pre", /<b>bold<\/b>/);
    assert.equal(await page.evaluate(() => window.broken), undefined);
    assert.equal(await page.evaluate(() => document.querySelectorAll("#queue details b > b, #queue pre b").length), 0);
    await picture(page, "hostile");
  }),

  "shows leased jobs as text, cut, with a button for what can be done": on("leased", { away: true }, async (page, mock) => {
    await row(page, "mail").locator("td").first().click();
    const of = (state) => page.locator(`#queue [data-kind=${state}]`);
    await until(async () => (await page.locator("#queue .leased li").count()) === 6);
    assert.match(await of("active").innerText(), /a-1\s+worker-1 · attempt 2\s+lease ends in \d+ s/);
    assert.match(await of("schedules").innerText(), /nightly\s+30 6 \* \* mon-fri · Europe\/Berlin\s+next in [12] h/);
    assert.match(await text(page, "#queue .facts"), /In groups\s+7 of 3 groups\s+Limit\s+100 per 1 min, 1 per group/);
    assert.ok((await of("dead").innerText()).length < 1000, "an id of a megabyte is cut");
    assert.equal(await of("dead").locator("button:visible").count(), 2, "an id that was cut cannot be sent back");
    await of("active").locator("summary").nth(1).click();
    await until(async () => /onerror/.test(await of("active").locator("details[open] pre").innerText()));
    assert.equal(await page.evaluate(() => document.querySelectorAll("#queue img, #queue i").length + (window.broken ?? 0)), await page.locator("#queue .bar i").count());
    await accessible(page);
    await picture(page, "leased");
    for (const [state, index, label, command, said] of [
      ["active", 1, "Extend", /^JOB\.KEEP mail \d{5,6} ID <img/, /ends a minute later/],
      ["delayed", 0, "Run now", /^JOB\.RETRY mail d-1$/, /d-1 waits in mail/],
      ["dead", 0, "Retry", /^JOB\.RETRY mail x-1$/, /x-1 waits in mail/],
      ["schedules", 0, "Run now", /^CRON RUN mail nightly$/, /nightly has pushed/],
    ]) {
      await of(state).locator("li").nth(index).locator(`button:text-is("${label}")`).click();
      await answer(page, true);
      await sees(page, "#toast", said);
      assert.match(mock.commands.at(-1).args.join(" "), command);
    }
    mock.leased.dead.push({ ...mock.leased.active[0], id: "z-1", key: Buffer.from("z-1").toString("base64") });
    await of("dead").locator('[aria-label="Drop z-1"]').click();
    await answer(page, false);
    const before = mock.commands.length;
    await of("dead").locator('[aria-label="Drop z-1"]').click();
    mock.canWrite = false;
    await answer(page, true);
    await sees(page, "#toast", /NOPERM/);
    assert.equal(mock.commands.length, before + 1);
  }),

  "shows leased jobs on a phone": on("leased", { ...PHONE, dark: true }, async (page) => {
    await row(page, "mail").locator("td").first().click();
    await until(async () => (await page.locator("#queue .leased li").count()) === 6);
    assert.equal(await page.$eval("#queue", (panel) => panel.scrollWidth - panel.clientWidth), 0);
    await accessible(page);
    await picture(page, "leased-phone");
  }),

  "shows hostile names on a phone": on("hostile", PHONE, async (page) => {
    await page.waitForSelector("#table tbody tr:nth-child(11)");
    await row(page, HOSTILE[0]).locator("td").nth(1).click();
    await page.waitForSelector("#queue .jobs li");
    assert.equal(await page.$eval("#queue", (panel) => panel.scrollWidth - panel.clientWidth), 0);
    await picture(page, "hostile-390");
  }),

  "sends the bytes of a name, not its text": on("hostile", {}, async (page, mock) => {
    await row(page, "q��‹00›�").locator("button").click();
    await answer(page, true);
    await until(() => mock.commands.length);
    assert.deepEqual([...mock.commands[0].raw[2]], [0x71, 0xff, 0xfe, 0x00, 0x80]);
  }),

  "the policy stops inline scripts and styles": on(
    "busy",
    {
      before: (page) =>
        page.addInitScript(() => {
          window.violated = [];
          document.addEventListener("securitypolicyviolation", (event) => {
            window.violated.push(event.effectiveDirective);
            event.stopImmediatePropagation();
          });
        }),
    },
    async (page, mock, url) => {
      assert.equal(
        (await fetch(url)).headers.get("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      await page.waitForSelector("#table tbody tr");
      await scroll(page);
      await row(page, PAUSE).locator("td").first().click();
      await page.waitForSelector("#queue .jobs li");
      assert.deepEqual(await page.evaluate(() => window.violated), []);
    },
  ),

  "pauses and resumes, after a question": on("busy", {}, async (page, mock) => {
    const button = row(page, PAUSE).locator("button");
    await button.click();
    await page.waitForSelector("#confirm[open]");
    assert.match(await text(page, "#confirm-text"), /Workers find it empty until it is resumed.*jobs wait now/);
    assert.equal(await text(page, "#confirm-command"), "QUEUE PAUSE queue:mailers");
    await accessible(page);
    await picture(page, "confirm");
    await answer(page, false);
    assert.deepEqual(mock.commands, []);
    await button.click();
    await answer(page, true);
    await sees(page, "#toast", /queue:mailers is paused/);
    assert.deepEqual(mock.commands.at(-1).args, ["QUEUE", "PAUSE", PAUSE]);
    await until(async () => (await button.innerText()) === "Resume");
    await sees(page, "#how", /^mailers is paused\./);
    await button.click();
    await answer(page, true);
    await until(async () => (await button.innerText()) === "Pause");
    assert.deepEqual(
      mock.commands.map((each) => each.args[1]),
      ["PAUSE", "RESUME"],
    );
  }),

  "finds a job by id and removes it": on("busy", {}, async (page, mock) => {
    await row(page, "queue:low").locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    const job = mock.jobs({ ...mock.list.find((queue) => queue.name === "queue:low"), depth: 50 })[40];
    await page.selectOption("#queue select", "ID");
    await page.fill("#queue form.row input", job.id);
    await page.keyboard.press("Enter");
    const found = page.locator("#queue .jobs").nth(1).locator("li");
    await found.first().waitFor();
    assert.equal(await found.count(), 1);
    assert.deepEqual(mock.commands[0].args, ["QUEUE", "FIND", "queue:low", "ID", job.id, "COUNT", "50"]);
    await found.locator("summary").click();
    await found.locator("button").click();
    await page.waitForSelector("#confirm[open]");
    assert.match(
      await text(page, "#confirm-text"),
      new RegExp(`${job.id} is removed from queue:low and will not run. This cannot be undone`),
    );
    assert.equal(await page.evaluate(() => document.activeElement.value), "no", "what destroys is not one key away");
    await answer(page, true);
    await sees(page, "#toast", /Removed 1 job from queue:low/);
    assert.deepEqual(mock.commands.at(-1).args, ["QUEUE", "REMOVE", "queue:low", "ID", job.id]);
    await page.waitForSelector("#queue li.gone");
  }),

  "finds by text in slices, and removes all": on("busy", {}, async (page, mock) => {
    await row(page, "queue:mailers").locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    await page.fill("#queue form.row input", "user-217");
    await page.click("#queue form.row button");
    await sees(page, "#queue", /that is all/);
    const cursors = mock.commands.map(({ args }) => args[args.indexOf("CURSOR") + 1]);
    assert.deepEqual(cursors, ["QUEUE", "1000", "2000"], "the first has no cursor");
    await page.click("text=Remove all that contain it");
    await page.waitForSelector("#confirm[open]");
    assert.match(await text(page, "#confirm-text"), /payload contains “user-217”.*: \d+ jobs?, and any that came since/);
    await answer(page, true);
    await sees(page, "#toast", /Removed \d+ jobs? from queue:mailers/);
    assert.deepEqual(mock.commands.at(-1).args, ["QUEUE", "REMOVE", "queue:mailers", "TEXT", "user-217"]);
  }),

  "moves jobs, and says what will happen": on("busy", {}, async (page, mock) => {
    await row(page, "queue:pull").locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    const [to, limit, containing] = await page.locator("#queue form.stack input").all();
    await to.fill("queue:low");
    await limit.fill("100");
    await containing.fill("user-2");
    await page.click('button:text-is("Move …")');
    await page.waitForSelector("#confirm[open]");
    assert.match(
      await text(page, "#confirm-text"),
      /^At most 100 jobs that contain “user-2” move from queue:pull to queue:low, where workers can take them at once\. queue:low holds \d+ jobs now\.$/,
    );
    await answer(page, true);
    await sees(page, "#toast", /Moved 100 jobs to queue:low/);
    assert.deepEqual(mock.commands.at(-1).args, ["QUEUE", "MOVE", "queue:pull", "queue:low", "COUNT", "100", "TEXT", "user-2"]);
    await to.fill("queue:brand new");
    await page.click('button:text-is("Move …")');
    await page.waitForSelector("#confirm[open]");
    assert.match(await text(page, "#confirm-text"), /There is no queue queue:brand new yet/);
    await answer(page, false);
  }),

  "says why the server refuses": on("busy", { away: true }, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    mock.overview = () => ({ ...Mock.prototype.overview.call(mock), token: "old" });
    await until(() => page.evaluate(() => state.overview.token === "old"));
    await row(page, PAUSE).locator("button").click();
    await answer(page, true);
    await sees(page, "#toast.failed", /The token is missing or wrong/);
    assert.match(await page.textContent("#alert"), /token/);
    assert.deepEqual(mock.commands, []);
  }),

  "says that a user may not list queues, and does not say that there are none": on("busy", { away: true }, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    mock.unlisted = true;
    await sees(page, "#how", /This user may not list queues\./);
    await sees(page, "#no-match", /no permissions to run QUEUE LIST/);
    assert.equal(await page.locator("#none").isVisible(), false);
    mock.unlisted = false;
    await sees(page, "#how", /jobs wait in 10 queues/);
  }),

  "does not call a queue growing to which nothing comes": on("busy", {}, async (page, mock) => {
    const { queues } = mock;
    mock.queues = () => {
      const answer = queues.call(mock);
      for (const queue of answer.queues) Object.assign(queue, { in_per_s: 0, in_per_s_1m: 0.016, out_per_s: 0, out_per_s_1m: 0, seconds_to_empty: null });
      return answer;
    };
    await until(async () => (await rows(page)).some((each) => each.name === "queue:mailers" && each.empty === "stands"));
    assert.equal((await rows(page)).some((each) => each.empty === "grows"), false);
  }),

  "has no buttons for who may only read": on("busy", { before: () => {} }, async (page, mock) => {
    mock.canWrite = false;
    await page.waitForSelector("#read-only:visible");
    assert.equal(await page.locator("#table .pause button:visible").count(), 0);
    await row(page, PAUSE).locator("td").first().click();
    await page.waitForSelector("#queue .jobs li");
    await page.locator("#queue summary").first().click();
    assert.deepEqual(
      await page.$$eval("#queue button", (buttons) =>
        buttons
          .filter((button) => button.checkVisibility())
          .map((button) => button.getAttribute("aria-label") ?? button.textContent)
          .filter((label) => /pause|resume|remove|move/i.test(label)),
      ),
      [],
    );
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await sees(page, "#toast", /may only read/);
    assert.equal(await page.locator("#confirm[open]").count(), 0);
    await picture(page, "read-only");
  }),

  "works by keyboard alone": on("busy", {}, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    const focused = () =>
      page.evaluate(() => document.activeElement.closest("tr")?.querySelector("bdi").textContent ?? document.activeElement.id);
    await page.keyboard.press("/");
    assert.equal(await focused(), "filter");
    await page.keyboard.type("sidekiq");
    assert.equal(await page.locator("#table tbody tr").count(), 6);
    await page.keyboard.press("Enter");
    const names = (await rows(page)).map((each) => each.name);
    assert.equal(await focused(), names[0]);
    assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "solid");
    await page.keyboard.press("ArrowDown");
    assert.equal(await focused(), names[1]);
    await page.keyboard.press("End");
    assert.equal(await focused(), names.at(-1));
    await page.keyboard.press("k");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#queue .jobs li");
    assert.equal(await text(page, "#queue-title"), names[1]);
    assert.equal(await focused(), "queue-title");
    await page.keyboard.press("Escape");
    assert.equal(await focused(), names[1]);
    await page.keyboard.press("p");
    await page.waitForSelector("#confirm[open]");
    await page.keyboard.press("Escape");
    await page.waitForSelector("#confirm", { state: "hidden" });
    assert.deepEqual(mock.commands, []);
    await page.keyboard.press("p");
    await page.waitForSelector("#confirm[open]");
    await page.keyboard.press("Enter");
    await until(() => mock.commands.length);
    assert.deepEqual(mock.commands[0].args, ["QUEUE", "PAUSE", names[1]]);
    assert.equal(await focused(), names[1]);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "BUTTON");
    await page.keyboard.press("/");
    await page.keyboard.press("Escape");
    assert.equal(await page.inputValue("#filter"), "");
    await page.keyboard.press("?");
    await page.waitForSelector("#help[open]");
    await page.keyboard.press("Escape");
    await page.locator(".plot").first().focus();
    await page.keyboard.press("ArrowLeft");
    await sees(page, "#charts-at", /^at \d\d:\d\d:\d\d, /);
  }),

  "asks again before the last question has told that it closed": on("busy", {}, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    const ask = (answer) =>
      page.evaluate((answer) => {
        document.getElementById("confirm").close(answer);
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: "p", bubbles: true }));
      }, answer);
    await page.keyboard.press("/");
    await page.keyboard.press("Enter");
    await page.keyboard.press("p");
    await page.waitForSelector("#confirm[open]");
    await ask("no");
    await ask("yes");
    await until(() => mock.commands.length);
    await page.keyboard.press("Enter");
    await until(() => mock.commands.length === 2);
    assert.deepEqual(
      mock.commands.map(({ args }) => args.slice(0, 2).join(" ")),
      ["QUEUE PAUSE", "QUEUE PAUSE"],
    );
  }),

  "says since when the server is away, and that it is back": on("busy", { away: true }, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    mock.away = true;
    await sees(page, "#how", /^The server has not answered since \d\d:\d\d:\d\d, for .+ tries again by itself\.$/);
    assert.equal(await page.title(), "away – Darter");
    assert.equal(await page.locator("#table tbody tr").count(), 12, "what was known stays");
    await picture(page, "away");
    mock.away = false;
    await sees(page, "#toast", /^The server is back, after /);
    await sees(page, "#how", /^The server is well/);
    assert.equal(await page.title(), "Darter");
  }),

  "shows warnings as text": on("busy", {}, async (page, mock) => {
    mock.warnings = ["overcommit_memory is 0: <b>saving may fail</b>", "The last snapshot failed: No space left on device"];
    await sees(page, "#how", /^2 things need attention\./);
    assert.deepEqual(await page.locator("#warnings li").allInnerTexts(), mock.warnings);
    await accessible(page);
    await picture(page, "warnings");
  }),

  "keeps rows, focus, selection and scroll position": on("busy", { height: 500 }, async (page, mock) => {
    await row(page, "queue:low").waitFor();
    await page.evaluate(() => {
      scrollTo(0, 120);
      const low = [...document.querySelectorAll("#table tbody tr")].find((each) => each.textContent.includes("queue:low"));
      window.held = { low, cell: low.querySelector(".depth span").firstChild, changes: 0 };
      low.focus({ preventScroll: true });
      getSelection().selectAllChildren(low.querySelector(".depth span"));
      new MutationObserver((changes) => {
        window.held.changes += changes.length;
      }).observe(document.querySelector("#table tbody"), { childList: true, subtree: true });
    });
    const asked = mock.requests.length;
    await until(() => mock.requests.slice(asked).filter((each) => each === "/api/queues").length >= 4);
    const held = await page.evaluate(() => ({
      connected: held.low.isConnected,
      focus: document.activeElement === held.low,
      same: held.low.querySelector(".depth span").firstChild === held.cell,
      changes: held.changes,
      y: scrollY,
      selected: getSelection().toString() === held.cell.data,
    }));
    assert.deepEqual(held, { connected: true, focus: true, same: true, changes: 0, y: 120, selected: true });
  }),

  "moves a row without taking its focus": on("busy", {}, async (page, mock) => {
    await row(page, "queue:low").focus();
    for (const [oldest, place] of [
      [9e9, 0],
      [1, 8],
    ]) {
      mock.list.find((queue) => queue.name === "queue:low").oldest = oldest;
      await until(async () => (await rows(page))[place].name === "queue:low");
      assert.equal(
        await page.evaluate(() => document.activeElement.querySelector("td bdi")?.textContent && document.activeElement.tagName),
        "TR",
      );
    }
  }),

  "never asks before the last answer has come": on("busy", {}, async (page, mock) => {
    await scroll(page);
    mock.delayMs = 1300;
    const asked = mock.requests.length;
    await page.evaluate(() => {
      for (let i = 0; i < 20; i++) refresh();
    });
    await until(() => mock.requests.slice(asked).filter((each) => each === "/api/overview").length >= 3);
    assert.deepEqual(mock.stacked, []);
  }),

  "asks nothing while it is hidden": on("busy", { before: (page) => page.clock.install() }, async (page, mock) => {
    const hide = (hidden) =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    await page.waitForSelector("#table tbody tr");
    await hide(true);
    await until(() => [...mock.inFlight.values()].every((each) => each === 0));
    const asked = mock.requests.length;
    await page.clock.runFor(120_000);
    assert.deepEqual(mock.requests.slice(asked), []);
    await hide(false);
    await until(() => mock.requests.slice(asked).includes("/api/queues"));
  }),

  "asks for charts only while they are on the screen": on("many", {}, async (page, mock) => {
    await page.waitForSelector("#table tbody tr");
    await until(() => page.evaluate(() => seen.size === 0));
    const asked = mock.requests.length;
    await until(() => mock.requests.slice(asked).filter((each) => each === "/api/queues").length >= 3);
    assert.deepEqual(
      mock.requests.slice(asked).filter((each) => /charts|now/.test(each)),
      [],
    );
    await page.locator("#charts").scrollIntoViewIfNeeded();
    await until(() => mock.requests.slice(asked).some((each) => each === "/api/charts?range=10m"));
    await page.click("[data-range='24h']");
    await until(() => mock.requests.some((each) => each === "/api/charts?range=24h"));
    await sees(page, ".axis >> nth=0", /24 h ago/);
  }),

  "shows a short past in full width": on("busy", {}, async (page, mock) => {
    mock.began = Date.now() - 20_000;
    await scroll(page);
    await sees(page, ".axis >> nth=0", /^1 min ago/);
    const left = () => page.$eval(".plot path", (path) => Number(/^M([\d.]+)/.exec(path.getAttribute("d"))[1]));
    await until(async () => (await left()) > 300 && (await left()) < 500);
    await page.click("[data-range='24h']");
    await sees(page, ".axis >> nth=0", /^2 h 24 min ago/);
  }),

  "opens what its address names": on("busy", {}, async (page, mock, url) => {
    await row(page, PAUSE).locator("td").first().click();
    const address = page.url();
    await page.goBack();
    await page.waitForSelector("#queue", { state: "hidden" });
    await page.goto("about:blank");
    await page.goto(address);
    await page.waitForSelector("#queue .jobs li");
    assert.equal(await text(page, "#queue-title"), PAUSE);
    await page.click("#queue [aria-label=Close]");
    assert.equal(page.url(), url);
  }),

  "says that a queue is gone": on("busy", { away: true }, async (page, mock, url) => {
    await page.goto(`${url}#queue=0:${Buffer.from("queue:gone").toString("base64")}`);
    await sees(page, "#queue .problem >> nth=0", /no such queue/);
    assert.equal(await text(page, "#queue-title"), "queue:gone");
    assert.match(await text(page, "#how"), /^The server is well/);
  }),

  "on a phone an open queue is the whole screen": on("busy", PHONE, async (page) => {
    await row(page, PAUSE).locator("td").nth(1).tap();
    await page.waitForSelector("#queue .jobs li");
    const box = await page.locator("#queue").boundingBox();
    assert.deepEqual([box.x, box.y, box.width, box.height], [0, 0, 390, 844]);
    assert.equal(await page.$eval("#main", (main) => main.inert), true);
    await page.locator("#queue .classes").scrollIntoViewIfNeeded();
    await picture(page, "queue-390-jobs");
    await page.tap("#queue [aria-label=Close]");
    await page.waitForSelector("#queue", { state: "hidden" });
    assert.equal(await page.$eval("#main", (main) => main.inert), false);
  }),

  "has a switch for its colours": on("busy", {}, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.click("#theme");
    assert.equal(await background(), light);
    await page.click("#theme");
    const dark = await background();
    assert.notEqual(dark, light);
    await page.reload();
    assert.equal(await background(), dark);
    await page.click("#theme");
    assert.equal(await background(), light);
  }),

  "moves nothing for who wants that": on("busy", { reducedMotion: "reduce" }, async (page) => {
    assert.equal(await page.$eval("#toast", (toast) => getComputedStyle(toast).transitionProperty), "none");
  }),

  "says that it needs JavaScript": on("busy", { javaScriptEnabled: false }, async (page) => {
    assert.match(await text(page, "noscript"), /needs JavaScript/);
  }),
});

const QUICK = [
  "shows a busy server at 1280 pixels, light",
  "shows a busy server at 390 pixels, dark",
  "shows the numbers that the server gives",
  "shows hostile names as text",
  "shows leased jobs as text, cut, with a button for what can be done",
  "has no buttons for who may only read",
  "works by keyboard alone",
  "says since when the server is away, and that it is back",
];
const { QUICK: quick, ONLY: only = "" } = process.env;
const chosen = Object.entries(checks).filter(([name]) => (!quick || QUICK.includes(name)) && name.includes(only));
launch().then(() => run(Object.fromEntries(chosen)));
