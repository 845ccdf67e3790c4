// ioredis over TLS, as `clients` starts it: client.js PORT CA CERT KEY

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { Redis } = require("ioredis");

const [port, authority, certificate, key] = process.argv.slice(2);
const tls = { ca: fs.readFileSync(authority), servername: "localhost" };
if (certificate) Object.assign(tls, { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) });

const main = async () => {
  const connect = () => {
    const redis = new Redis({ host: "localhost", port: Number(port), tls, retryStrategy: null });
    redis.on("error", (error) => console.log(error.message));
    return redis;
  };
  const [redis, other] = [connect(), connect()];
  const large = "x".repeat(3_000_000);
  await redis.set("large", large);
  assert.equal(await redis.get("large"), large);
  const pipeline = redis.pipeline();
  for (let count = 0; count < 1000; count++) pipeline.incr("n");
  assert.equal((await pipeline.exec()).length, 1000);
  const waiting = redis.blpop("list", 30);
  await other.rpush("list", "x");
  assert.deepEqual(await waiting, ["list", "x"]);
  const heard = new Promise((resolve) => other.on("message", (_, message) => resolve(message)));
  await other.subscribe("news");
  await redis.publish("news", "hello");
  assert.equal(await heard, "hello");
};

main().then(
  () => {
    console.log("served");
    process.exit(0);
  },
  (error) => {
    console.log(error.stack);
    process.exit(1);
  },
);
