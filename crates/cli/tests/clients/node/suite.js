// What people do with ioredis, done to a server: `node suite.js HOST PORT`. Ends with 1 at the first thing that is wrong.

import assert from "node:assert/strict";
import { Redis } from "ioredis";

const [host, port] = [process.argv[2], Number(process.argv[3])];
const connect = () => new Redis({ host, port, maxRetriesPerRequest: 1 });

async function strings(r) {
  assert.equal(await r.set("k", "v"), "OK");
  assert.equal(await r.get("k"), "v");
  assert.equal(await r.set("k", "w", "EX", 100, "NX"), null);
  assert.equal(await r.incr("n"), 1);
  assert.deepEqual(await r.mget("k", "none"), ["v", null]);
  assert.equal(await r.expire("k", 100), 1);
  assert.equal(await r.ttl("k"), 100);
  assert.deepEqual(await r.getBuffer("k"), Buffer.from("v"));
  const bytes = Buffer.from([0, 255, 13, 10]);
  await r.set("bytes", bytes);
  assert.deepEqual(await r.getBuffer("bytes"), bytes);
}

async function collections(r) {
  assert.equal(await r.hset("h", { f: "1", g: "2" }), 2);
  assert.deepEqual(await r.hgetall("h"), { f: "1", g: "2" });
  assert.equal(await r.rpush("l", 1, 2, 3), 3);
  assert.deepEqual(await r.lrange("l", 0, -1), ["1", "2", "3"]);
  assert.equal(await r.sadd("s", "a", "b"), 2);
  assert.deepEqual((await r.smembers("s")).sort(), ["a", "b"]);
  assert.equal(await r.zadd("z", 1, "one", 2.5, "two"), 2);
  assert.deepEqual(await r.zrange("z", 0, -1, "WITHSCORES"), ["one", "1", "two", "2.5"]);
  await assert.rejects(r.incr("h"), /WRONGTYPE/);
}

async function together(r) {
  const replies = await r.multi().set("a", 1).incr("a").get("a").exec();
  assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
  const pipeline = r.pipeline();
  for (let number = 0; number < 1000; number++) pipeline.set(`p:${number}`, number);
  assert.equal((await pipeline.exec()).length, 1000);
  const found = new Set();
  for await (const keys of r.scanStream({ match: "p:*", count: 100 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 1000);
}

async function waiting(r) {
  const [other, subscriber] = [connect(), connect()];
  const popped = other.blpop("queue", 5);
  await r.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);
  const heard = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await subscriber.subscribe("news");
  assert.equal(await r.publish("news", "hello"), 1);
  assert.deepEqual(await heard, ["news", "hello"]);
  await Promise.all([other.quit(), subscriber.quit()]);
}

async function scripts(r) {
  const [offered] = await r.command("INFO", "eval");
  if (!offered) return console.log("skipped: no scripts here");
  r.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  assert.equal(await r.add("scripted", 5), 5);
  assert.equal(await r.add("scripted", 5), 10);
}

const r = connect();
for (const part of [strings, collections, together, waiting, scripts]) {
  await r.flushall();
  await part(r);
  console.log(`ioredis: ${part.name} as expected`);
}
await r.quit();
