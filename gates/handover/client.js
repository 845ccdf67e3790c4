// node-redis while its server hands over, as `handover` starts it: client.js HOST PORT on|off

const { createClient } = require("redis");

const [host, port, notices] = process.argv.slice(2);
const say = (...words) => process.stdout.write(`${words.join(" ")}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let isOver = false;

const connect = async (name) => {
  const maintNotifications = notices === "on" ? "enabled" : "disabled";
  const client = createClient({ socket: { host, port: Number(port) }, maintNotifications });
  client.on("error", (error) => say("error", name, error));
  return client.connect();
};

const repeat = async (name, client, work) => {
  for (let number = 1; !isOver; number += 1) {
    try {
      say("did", name, await work(client, number));
    } catch (error) {
      say("error", name, error);
      await pause(10);
    }
  }
};

const count = (key) => async (client) => `${key} ${await client.incr(key)}`;
const push = async (client, number) => {
  const replies = Array.from({ length: 20 }, (_, each) => client.rPush("pushed", String(number * 20 + each)));
  return `pushed ${(await Promise.all(replies)).length}`;
};
const produce = async (client, number) => {
  await client.lPush("jobs", String(number));
  return `made ${number}`;
};
const consume = async (client) => {
  const job = await client.brPop("jobs", 1);
  return job ? `took ${job.element}` : "waited";
};

const main = async () => {
  const works = { "count-0": count("counter:0"), "count-1": count("counter:1"), push, produce, "consume-0": consume, "consume-1": consume };
  const running = [];
  // A connection for all but those that block.
  const shared = await connect("shared");
  for (const [name, work] of Object.entries(works)) {
    running.push(repeat(name, name.startsWith("consume") ? await connect(name) : shared, work));
  }
  process.stdin.on("end", async () => {
    isOver = true;
    await Promise.all(running);
    process.stdout.write("", () => process.exit());
  });
  process.stdin.resume();
};

main();
