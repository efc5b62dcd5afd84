// What people do with ioredis, done to a server: `node suite.js HOST PORT ENGINE`. Ends with 1 at the first thing that is wrong.
//
// On the engine `hashlog` what needs keys in order must be refused, and all else be as it is.

import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { Redis } from "ioredis";

const [host, port] = [process.argv[2], Number(process.argv[3])];
const isOrdered = process.argv[4] !== "hashlog";
const connect = (options = {}) => new Redis({ host, port, maxRetriesPerRequest: 1, ...options });
let checks = 0;

const is = (found, expected, what) => {
  checks++;
  assert.deepEqual(found, expected, what);
};
const isRefused = async (promise, reason) => {
  checks++;
  await assert.rejects(promise, reason);
};
const between = (found, least, most) => {
  checks++;
  assert.ok(found >= least && found <= most, `${found} is not from ${least} to ${most}`);
};

/// Bytes that are no text: ends of lines, zeros, what no UTF-8 has.
const BYTES = Buffer.from([0, 255, 13, 10, 128, 42, 0]);

async function strings(r) {
  is(await r.set("k", "v"), "OK");
  is(await r.get("k"), "v");
  is(await r.set("k", "w", "EX", 100, "NX"), null);
  is(await r.set("k", "w", "GET"), "v");
  is(await r.incr("n"), 1);
  is(await r.incrbyfloat("n", 0.5), "1.5");
  is(await r.mget("k", "none"), ["w", null]);
  is(await r.mset(new Map([["m:1", "a"], ["m:2", "b"]])), "OK");
  is(await r.mget(["m:1", "m:2"]), ["a", "b"]);
  is(await r.append("k", "x".repeat(100_000)), 100_001);
  is(await r.getrange("k", -3, -1), "xxx");
  is(await r.exists("k", "none", "m:1"), 2);
  is(await r.del("k", "m:1", "none"), 2);
}

async function bytes(r) {
  is(await r.set(BYTES, BYTES), "OK");
  is(await r.getBuffer(BYTES), BYTES);
  is(await r.strlen(BYTES), BYTES.length);
  is(await r.set("k", BYTES), "OK");
  is((await r.keysBuffer("*")).map((key) => key.toString("hex")).sort(), [BYTES, Buffer.from("k")].map((key) => key.toString("hex")).sort());
  if (isOrdered) {
    is(await r.hset("h", BYTES, BYTES), 1);
    is(await r.hgetBuffer("h", BYTES), BYTES);
    is(await r.rpush("l", BYTES, ""), 2);
    is(await r.lrangeBuffer("l", 0, -1), [BYTES, Buffer.alloc(0)]);
  }
  const large = Buffer.alloc(8 << 20, BYTES);
  is(await r.set("large", large), "OK");
  is((await r.getBuffer("large")).equals(large), true);
  is(await r.del(BYTES), 1);
  is(await r.getBuffer(BYTES), null);
}

async function times(r) {
  is(await r.set("k", "v", "PX", 100_000), "OK");
  between(await r.pttl("k"), 90_000, 100_000);
  is(await r.expire("k", 100), 1);
  between(await r.ttl("k"), 99, 100);
  is(await r.expire("k", 50, "GT"), 0);
  is(await r.persist("k"), 1);
  is([await r.ttl("k"), await r.ttl("none")], [-1, -2]);
  is(await r.expireat("k", 4_000_000_000), 1);
  is(await r.expiretime("k"), 4_000_000_000);
  is(await r.getex("k", "PERSIST"), "v");
  is(await r.ttl("k"), -1);
  is(await r.psetex("short", 20, "v"), "OK");
  if (isOrdered) {
    is(await r.hset("collection", "f", "v"), 1);
    is(await r.pexpire("collection", 20), 1);
  }
  await new Promise((resolve) => setTimeout(resolve, 60));
  is(await r.get("short"), null);
  if (isOrdered) is(await r.hgetall("collection"), {});
  is(await r.exists("short", "collection"), 0);
}

async function collections(r) {
  is(await r.hset("h", { f: "1", g: "2" }), 2);
  is(await r.hgetall("h"), { f: "1", g: "2" });
  is(await r.hincrby("h", "f", 41), 42);
  is(await r.hmget("h", "f", "none"), ["42", null]);
  is(await r.rpush("l", 1, 2, 3), 3);
  is(await r.lrange("l", 0, -1), ["1", "2", "3"]);
  is(await r.lmove("l", "m", "LEFT", "RIGHT"), "1");
  is(await r.lpop("l", 2), ["2", "3"]);
  is(await r.sadd("s", "a", "b"), 2);
  is((await r.smembers("s")).sort(), ["a", "b"]);
  is(await r.smismember("s", "a", "none"), [1, 0]);
  is(await r.zadd("z", 1, "one", 2.5, "two"), 2);
  is(await r.zrange("z", 0, -1, "WITHSCORES"), ["one", "1", "two", "2.5"]);
  is(await r.zrangebyscore("z", "(1", "+inf"), ["two"]);
  is(await r.zpopmin("z"), ["one", "1"]);
  is(await r.setbit("bits", 7, 1), 0);
  is(await r.bitcount("bits"), 1);
  await isRefused(r.incr("h"), /WRONGTYPE/);
}

async function refusals(r) {
  for (const words of [["hset", "h", "f", 1], ["rpush", "l", 1], ["blpop", "l", 1], ["sadd", "s", 1], ["zadd", "z", 1, "m"]]) {
    await isRefused(r.call(...words), /--engine tree/);
  }
  await isRefused(r.eval("return redis.call('LPUSH', KEYS[1], 'v')", 1, "l"), /--engine tree/);
  await isRefused(r.multi().set("k", "v").hset("h", "f", 1).exec(), /EXECABORT/);
  is(await r.exists("k", "h", "l", "s", "z"), 0);
  is((await r.command("INFO", "zadd", "get")).map((known) => known !== null), [false, true]);
  is(await r.setbit("bits", 7, 1), 0);
  is(await r.bitcount("bits"), 1);
}

async function transactions(r) {
  is(await r.multi().set("a", 1).incr("a").get("a").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
  const replies = await r.multi().set("a", "text").incr("a").get("a").exec();
  is([replies[0], replies[2]], [[null, "OK"], [null, "text"]]);
  is(replies[1][0].message, "ERR value is not an integer or out of range");
  await isRefused(r.multi().set("a").exec(), /EXECABORT/);
  is(await r.get("a"), "text");
  // Each request answered by itself.
  is(await r.multi({ pipeline: false }), "OK");
  is([await r.set("a", 2), await r.discard(), await r.get("a")], ["QUEUED", "OK", "text"]);
  is(await r.multi({ pipeline: false }), "OK");
  is([await r.set("b", 1), await r.get("b")], ["QUEUED", "QUEUED"]);
  is(await r.exec(), [[null, "OK"], [null, "1"]]);
  const other = connect();
  await r.watch("watched");
  await other.set("watched", "changed");
  is(await r.multi().set("b", 2).exec(), null);
  await r.watch("watched");
  is(await r.multi().set("b", 3).exec(), [[null, "OK"]]);
  is(await r.get("b"), "3");
  is(await other.quit(), "OK");
}

async function pipelines(r) {
  const pipeline = r.pipeline();
  for (let number = 0; number < 10_000; number++) pipeline.set(`p:${number}`, number).get(`p:${number}`);
  const replies = await pipeline.exec();
  is(replies.length, 20_000);
  is(replies.every(([error, reply], index) => error === null && reply === (index % 2 ? `${index >> 1}` : "OK")), true);
  is(await r.dbsize(), 10_000);
  const mixed = await r.pipeline([["set", "k", "v"], ["incr", "k"], ["get", "k"]]).exec();
  is([mixed[0], mixed[1][0].name, mixed[2]], [[null, "OK"], "ReplyError", [null, "v"]]);
  // Requests of one turn of the loop travel together, unasked.
  const automatic = connect({ enableAutoPipelining: true });
  const sums = await Promise.all(Array.from({ length: 2_000 }, () => automatic.incr("counter")));
  is(sums.sort((a, b) => a - b), Array.from({ length: 2_000 }, (_, index) => index + 1));
  const both = await Promise.allSettled([automatic.get("counter"), automatic.hget("counter", "f"), automatic.get("k")]);
  is(both.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  is(await automatic.quit(), "OK");
}

async function streams(r) {
  const collect = async (stream) => {
    const found = [];
    for await (const some of stream) found.push(...some);
    return found;
  };
  const numbers = Array.from({ length: 3_000 }, (_, number) => number);
  await r.mset(numbers.flatMap((number) => [`s:${number}`, number]));
  await r.mset("of another", "pattern");
  if (isOrdered) await members(r, numbers, collect);
  const keys = await collect(r.scanStream({ match: "s:*", count: 100 }));
  is(new Set(keys), new Set(numbers.map((number) => `s:${number}`)));
  const raw = await collect(r.scanBufferStream({ match: "s:1*" }));
  is(raw.every((key) => Buffer.isBuffer(key) && key.toString().startsWith("s:1")), true);
  // Keys that go meanwhile: what stays is found.
  const left = new Set();
  for await (const some of r.scanStream({ match: "s:*", count: 100 })) {
    some.forEach((key) => left.add(key));
    const doomed = some.filter((key) => Number(key.slice(2)) % 2);
    if (doomed.length) await r.unlink(doomed);
  }
  is(numbers.filter((number) => number % 2 === 0).every((number) => left.has(`s:${number}`)), true);
  is(await r.dbsize(), isOrdered ? 1_504 : 1_501);
}

async function members(r, numbers, collect) {
  await r.hset("h", Object.fromEntries(numbers.map((number) => [`f:${number}`, number])));
  await r.sadd("set", numbers);
  await r.zadd("z", numbers.flatMap((number) => [number, `m:${number}`]));
  is(new Set(await collect(r.scanStream({ type: "hash" }))), new Set(["h"]));
  const fields = await collect(r.hscanStream("h", { count: 50 }));
  is(fields.length, 6_000);
  is(new Set(fields.filter((_, index) => index % 2 === 0)), new Set(numbers.map((number) => `f:${number}`)));
  is(new Set(await collect(r.sscanStream("set", { match: "1*" }))), new Set(numbers.map(String).filter((text) => text.startsWith("1"))));
  const found = await collect(r.zscanStream("z"));
  is(new Map(numbers.map((number) => [`m:${number}`, `${number}`])), new Map(numbers.map((_, index) => found.slice(2 * index, 2 * index + 2))));
}

async function waiting(r) {
  const other = connect();
  const popped = other.blpop("queue", "queue:2", 5);
  await r.rpush("queue:2", "job");
  is(await popped, ["queue:2", "job"]);
  is(await other.brpop("none", 0.05), null);
  const moved = other.blmove("from", "to", "LEFT", "RIGHT", 5);
  await r.rpush("from", "job");
  is(await moved, "job");
  is(await r.lrange("to", 0, -1), ["job"]);
  const least = other.bzpopmin("z", 5);
  await r.zadd("z", 1.5, "m");
  is(await least, ["z", "m", "1.5"]);
  const many = other.blmpop(5, 1, "queue", "LEFT", "COUNT", 2);
  await r.rpush("queue", 1, 2, 3);
  is((await many)[0], "queue");
  const id = await other.client("ID");
  const stuck = isRefused(other.blpop("none", 0), /UNBLOCKED/);
  while ((await r.client("UNBLOCK", id, "ERROR")) === 0);
  await stuck;
  is(await other.quit(), "OK");
}

async function subscriptions(r) {
  const subscriber = connect();
  const heard = [];
  subscriber.on("message", (channel, text) => heard.push([channel, text]));
  subscriber.on("pmessage", (pattern, channel, text) => heard.push([pattern, channel, text]));
  subscriber.on("messageBuffer", (channel, text) => text.equals(BYTES) && heard.push([channel.toString(), text]));
  is(await subscriber.subscribe("news", "other"), 2);
  is(await subscriber.psubscribe("n*"), 3);
  // With RESP3 a connection that is subscribed may ask, too.
  is(await subscriber.get("none"), null);
  is(await r.publish("news", "hello"), 2);
  is(await r.publish("other", "there"), 1);
  is(await r.publish("nowhere", "?"), 1);
  is(await r.publish("none", "?"), 1);
  is(await r.publish("silence", "?"), 0);
  is(await r.publish("other", BYTES), 1);
  is(await r.multi().publish("other", "of a transaction").exec(), [[null, 1]]);
  is((await r.pubsub("CHANNELS")).sort(), ["news", "other"]);
  is(await r.pubsub("NUMSUB", "news", "none"), ["news", 1, "none", 0]);
  is(await subscriber.ping(), "PONG");
  const texts = heard.filter(([channel, text]) => !(channel === "other" && text === BYTES.toString()));
  is(texts, [
    ["news", "hello"],
    ["n*", "news", "hello"],
    ["other", "there"],
    ["n*", "nowhere", "?"],
    ["n*", "none", "?"],
    ["other", BYTES],
    ["other", "of a transaction"],
  ]);
  is(await subscriber.unsubscribe("news", "other"), 1);
  is(await subscriber.punsubscribe("n*"), 0);
  is(await subscriber.set("k", "v"), "OK");
  is(await subscriber.quit(), "OK");
}

async function scripts(r) {
  r.defineCommand("add", { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" });
  r.defineCommand("echoes", { lua: "return {KEYS[1], ARGV[1], ARGV[2]}" });
  is(await r.add("scripted", 5), 5);
  is(await r.add("scripted", 5), 10);
  is(await r.echoesBuffer(1, BYTES, BYTES, "x"), [BYTES, BYTES, Buffer.from("x")]);
  // Not known any more: the client sends the whole script again.
  is(await r.script("FLUSH"), "OK");
  is(await r.add("scripted", 5), 15);
  is(await r.script("FLUSH"), "OK");
  // A pipeline of a connection that has not run it yet loads it first.
  const fresh = connect({ scripts: { add: { numberOfKeys: 1, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" } } });
  is(await fresh.pipeline().add("scripted", 1).get("scripted").add("scripted", 1).exec(), [[null, 16], [null, "16"], [null, 17]]);
  is(await fresh.quit(), "OK");
  is(await r.multi().add("scripted", 3).get("scripted").exec(), [[null, 20], [null, "20"]]);
  is(await r.eval("return {1, false, 'text', {2, {3}}}", 0), [1, null, "text", [2, [3]]]);
  await isRefused(r.eval("return redis.error_reply('MINE of a script')", 0), /^ReplyError: MINE of a script/);
  await isRefused(r.evalsha("0".repeat(40), 0), /NOSCRIPT/);
  if (isOrdered) {
    await r.hset("h", "f", "v");
    await isRefused(r.add("h", 1), /WRONGTYPE/);
  }
}

/// A connection through which the test can be cut off.
async function relay() {
  const sockets = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(port, host);
    for (const [from, to] of [[near, far], [far, near]]) {
      sockets.add(from);
      from.on("error", () => {}).on("close", () => to.destroy()).pipe(to);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port: at } = server.address();
  const cut = () => sockets.forEach((socket) => socket.destroy());
  const close = () => new Promise((resolve) => (server.close(resolve), cut()));
  const open = () => once(server.listen(at, "127.0.0.1"), "listening");
  return { at, cut, close, open };
}

async function reconnections(r) {
  const line = await relay();
  const through = (options) => {
    const client = connect({ host: "127.0.0.1", port: line.at, retryStrategy: () => 20, maxRetriesPerRequest: null, ...options });
    return client.on("error", () => {});
  };
  const until = async (holds) => {
    while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  const ids = async () => (await r.client("LIST")).split("\n").filter((text) => /name=subscriber /.test(text)).map((text) => text.split(" ")[0]);
  const waiters = async () => (await r.client("LIST")).split("\n").filter((text) => /name=waiter .*cmd=blpop /.test(text));
  // Asked for while nothing listens.
  await line.close();
  const client = through();
  const early = [client.set("k", "early"), client.get("k")];
  await line.open();
  is(await Promise.all(early), ["OK", "early"]);
  is(await client.select(1), "OK");
  is(await client.set("k", "of database 1"), "OK");
  const [subscriber, waiter] = [through({ connectionName: "subscriber" }), through({ connectionName: "waiter" })];
  const heard = [];
  subscriber.on("message", (channel, text) => heard.push([channel, text]));
  is(await subscriber.subscribe("news"), 1);
  const popped = isOrdered && waiter.blpop("queue", 0);
  if (isOrdered) await until(async () => (await waiters()).length === 1);
  const [[before], [subscribed]] = [await waiters(), await ids()];
  // All three come back as they were: its database, its channels, what it waits for.
  line.cut();
  is(await client.get("k"), "of database 1");
  if (isOrdered) {
    await until(async () => (await waiters()).length === 1 && (await waiters())[0].split(" ")[0] !== before.split(" ")[0]);
    is(await r.rpush("queue", "job"), 1);
    is(await popped, ["queue", "job"]);
  }
  await until(async () => (await ids()).length === 1 && (await ids())[0] !== subscribed);
  await until(async () => (await r.publish("news", "again")) && heard.length);
  is(heard[0], ["news", "again"]);
  is(await r.client("KILL", "ID", await client.client("ID")), 1);
  is(await client.get("k"), "of database 1");
  // What is not to be kept until there is a connection is refused at once.
  const strict = connect({ enableOfflineQueue: false });
  await isRefused(strict.get("k"), /isn't writeable/);
  await once(strict, "ready");
  is(await strict.get("k"), "early");
  await line.close();
  const lost = through({ maxRetriesPerRequest: 1 });
  await isRefused(lost.get("k"), /Max retries|max retries/);
  [client, subscriber, waiter, strict, lost].forEach((other) => other.disconnect());
}

async function protocol(r) {
  const info = await r.info("server");
  is(/redis_version:/.test(info), true);
  is(await r.config("GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"]);
  is(await r.client("SETNAME", "suite"), "OK");
  is(await r.client("GETNAME"), "suite");
  is(await r.echo("text"), "text");
  is(await r.type("none"), "none");
  await isRefused(r.call("NOSUCH", "x"), /unknown command/);
  is(await r.call("SET", "called", "v"), "OK");
  const asking = connect();
  const monitor = await asking.monitor();
  // What the client asks as it connects may be shown, too.
  const shown = new Promise((resolve) => monitor.on("monitor", (_, words) => words[1] === "seen" && resolve(words)));
  await r.set("seen", "v");
  is(await shown, ["set", "seen", "v"]);
  [asking, monitor].forEach((other) => other.disconnect());
  const prefixed = connect({ keyPrefix: "app:" });
  is(await prefixed.mset("a", 1, "b", 2), "OK");
  is(await r.mget("app:a", "app:b"), ["1", "2"]);
  is(await prefixed.quit(), "OK");
  const slow = connect({ commandTimeout: 50 });
  is(await r.client("PAUSE", 10_000, "WRITE"), "OK");
  await isRefused(slow.set("late", 0), /timed out/);
  is(await r.client("UNPAUSE"), "OK");
  if (isOrdered) await isRefused(slow.blpop("none", 0), /timed out/);
  slow.disconnect();
  const newer = connect({ db: 5 });
  is(await newer.set("k", "v"), "OK");
  is([await r.exists("k"), await r.select(5), await r.exists("k"), await r.select(0)], [0, "OK", 1, "OK"]);
  is(await newer.flushdb(), "OK");
  is(await newer.quit(), "OK");
}

const r = connect();
const ordered = isOrdered ? [collections, waiting] : [refusals];
const parts = [strings, bytes, times, ...ordered, transactions, pipelines, streams, subscriptions, scripts, reconnections, protocol];
for (const part of parts) {
  await r.flushall();
  checks = 0;
  try {
    await part(r);
  } catch (error) {
    console.error(`ioredis: ${part.name}: ${error.stack.slice(0, 2_000)}`);
    process.exit(1);
  }
  console.log(`ioredis: ${part.name}, ${checks} checks as expected`);
}
await r.quit();
