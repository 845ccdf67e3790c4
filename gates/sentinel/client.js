// ioredis through Sentinel, as `failover` starts it: client.js LIST PASSWORD SENTINEL_PORT…

const Redis = require("ioredis");

const [name, password, ...ports] = process.argv.slice(2);
const sentinels = ports.map((port) => ({ host: "127.0.0.1", port: Number(port) }));

const options = { name: "jobs", sentinels, password };
const primary = new Redis(options);
const replica = new Redis({ ...options, role: "slave" });

const say = (...words) => process.stdout.write(`${words.join(" ")}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const portOf = async (redis) => (await redis.config("GET", "port"))[1];
primary.on("error", (error) => say("error", error));
replica.on("error", (error) => say("error of the replica", error));

const read = async () => {
  for (;;) {
    try {
      if (await replica.llen(name)) say("replica", await portOf(replica));
    } catch (error) {
      say("error of the replica", error);
    }
    await pause(50);
  }
};

const write = async () => {
  let number = 0;
  for (let isOver = false; !isOver; ) {
    number += 1;
    try {
      say("primary", await portOf(primary));
      await primary.rpush(name, number);
      say("wrote", number);
      isOver = await primary.exists("over");
    } catch (error) {
      say("error", error);
    }
    await pause(10);
  }
  process.stdout.write(`list ${(await primary.lrange(name, 0, 99)).join(" ")}\n`, () => process.exit());
};

read();
write();
