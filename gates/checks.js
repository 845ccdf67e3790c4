// What the drivers in Node share: named checks, run one after the other, each within 30 seconds, one line each.

const assert = require("node:assert/strict");

/** `checks` maps names to async functions; ends the process. */
exports.run = async (checks) => {
  for (const [name, check] of Object.entries(checks)) {
    let timer;
    const late = new Promise((_, reject) => (timer = setTimeout(reject, 30_000, new Error("takes more than 30 s"))));
    try {
      await Promise.race([check(), late]);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`FAIL ${name}\n${error.stack}`);
      process.exitCode = 1;
    }
    clearTimeout(timer);
  }
  process.exit();
};

exports.assert = assert;

/** Waits until `condition` holds. */
exports.until = async (condition) => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
};
