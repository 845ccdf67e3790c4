// Chromium for the tests of the console: pages that fail on whatever goes wrong in them.

const { chromium } = require("playwright-core");

let browser;
exports.launch = async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
};

/**
 * Opens `url`, gives the page to `use` and closes it. Throws if the page had an error: an exception, a line of the console
 * (violations of the content security policy are such lines), or a horizontal scroll bar. `away`: requests may fail.
 */
exports.visit = async (url, { width = 1280, height = 900, dark = false, away = false, before = () => {}, ...rest }, use) => {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", ...rest });
  try {
    const page = await context.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(error.stack));
    page.on("console", (line) => {
      if (["error", "warning"].includes(line.type()) && !(away && line.text().startsWith("Failed to load resource")))
        problems.push(line.text());
    });
    page.setDefaultTimeout(15_000);
    await before(page);
    await page.goto(url);
    await use(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) problems.push(`the page is ${wide} pixels too wide`);
    if (problems.length) throw new Error(problems.join("\n"));
  } finally {
    await context.close();
  }
};

/** Each row of the table of queues as text by column. */
exports.rows = (page) =>
  page.$$eval("#table tbody tr", (rows) =>
    rows.map((row) =>
      Object.fromEntries(
        [...row.cells].map((cell) => [
          cell.classList[0],
          cell.className.startsWith("name") ? cell.querySelector("bdi").textContent : cell.innerText.trim(),
        ]),
      ),
    ),
  );

/** The row of the queue whose whole name is `name`. */
exports.row = (page, name) => page.locator(`xpath=//tbody[@role]/tr[.//bdi[. = ${name.includes('"') ? `'${name}'` : `"${name}"`}]]`);
