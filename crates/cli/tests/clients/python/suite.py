"""What people do with redis-py, done to a server: `suite.py HOST PORT ENGINE`. Ends with 1 at the first thing that is wrong.

On the engine `hashlog` what needs keys in order must be refused, and all else be as it is."""

import sys
import threading
import time

import redis

IS_ORDERED = sys.argv[3] != "hashlog"


def check(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found!r} instead of {expected!r}")


def strings(r):
    check(r.set("k", "v"), True, "SET")
    check(r.get("k"), "v", "GET")
    check(r.set("k", "w", nx=True), None, "SET NX")
    check(r.set("k", "w", get=True), "v", "SET GET")
    check(r.setex("t", 100, "v"), True, "SETEX")
    check(r.ttl("t"), 100, "TTL")
    check(r.persist("t"), True, "PERSIST")
    check(r.mset({"a": 1, "b": 2}), True, "MSET")
    check(r.mget("a", "none", "b"), ["1", None, "2"], "MGET")
    check(r.incrby("a", 41), 42, "INCRBY")
    check(r.incrbyfloat("f", 0.1), 0.1, "INCRBYFLOAT")
    check(r.incrbyfloat("f", 0.2), 0.3, "INCRBYFLOAT")
    check(r.append("k", "x" * 100_000), 100_001, "APPEND")
    check(r.getrange("k", -3, -1), "xxx", "GETRANGE")
    check(r.setbit("bits", 7, 1), 0, "SETBIT")
    check(r.bitcount("bits"), 1, "BITCOUNT")
    check(r.exists("k", "none"), 1, "EXISTS")
    check(r.delete("k", "t", "none"), 2, "DEL")


def collections(r):
    check(r.hset("h", mapping={"f": 1, "g": 2}), 2, "HSET")
    check(r.hgetall("h"), {"f": "1", "g": "2"}, "HGETALL")
    check(r.hincrby("h", "f", 2), 3, "HINCRBY")
    check(dict(r.hscan_iter("h")), {"f": "3", "g": "2"}, "HSCAN")
    check(r.rpush("l", 1, 2, 3), 3, "RPUSH")
    check(r.lrange("l", 0, -1), ["1", "2", "3"], "LRANGE")
    check(r.lmove("l", "m", "LEFT", "RIGHT"), "1", "LMOVE")
    check(r.lpos("l", "3"), 1, "LPOS")
    check(r.sadd("s", "a", "b", "c"), 3, "SADD")
    check(r.smembers("s"), {"a", "b", "c"}, "SMEMBERS")
    check(r.sadd("u", "b", "d"), 2, "SADD")
    check(r.sinter("s", "u"), {"b"}, "SINTER")
    check(r.zadd("z", {"one": 1, "two": 2, "three": 3}), 3, "ZADD")
    check(r.zrange("z", 0, -1), ["one", "two", "three"], "ZRANGE")
    check([tuple(pair) for pair in r.zrevrange("z", 0, 0, withscores=True)], [("three", 3.0)], "ZREVRANGE")
    check(r.zincrby("z", 5, "one"), 6.0, "ZINCRBY")
    check(r.zrank("z", "one"), 2, "ZRANK")
    check([tuple(pair) for pair in r.zpopmin("z", 1)], [("two", 2.0)], "ZPOPMIN")
    check(r.type("z"), "zset", "TYPE")
    try:
        r.incr("h")
    except redis.ResponseError as error:
        check(str(error), "WRONGTYPE Operation against a key holding the wrong kind of value", "wrong type")
    else:
        raise AssertionError("a hash was incremented")


def refusals(r):
    for refused in (
        lambda: r.hset("h", "f", 1),
        lambda: r.rpush("l", 1),
        lambda: r.blpop("l", timeout=1),
        lambda: r.sadd("s", 1),
        lambda: r.zadd("z", {"m": 1}),
        lambda: r.eval("return redis.call('LPUSH', KEYS[1], 'v')", 1, "l"),
    ):
        try:
            refused()
        except redis.ResponseError as error:
            check("--engine tree" in str(error), True, f"the refusal {error}")
        else:
            raise AssertionError("what needs order was done")
    check("zadd" in r.command(), False, "COMMAND")


def transactions(r):
    with r.pipeline(transaction=True) as pipe:
        pipe.set("n", 1).incr("n").get("n")
        check(pipe.execute(), [True, 2, "2"], "MULTI")
    with r.pipeline(transaction=False) as pipe:
        for number in range(1000):
            pipe.set(f"p:{number}", number)
        check(pipe.execute(), [True] * 1000, "a pipeline")
    with r.pipeline() as pipe:
        pipe.watch("n")
        r.set("n", 10)
        pipe.multi()
        pipe.incr("n")
        try:
            pipe.execute()
        except redis.WatchError:
            pass
        else:
            raise AssertionError("a watched key changed unseen")
    check(len(set(r.scan_iter(match="p:*", count=50))), 1000, "SCAN")


def waiting(r):
    if IS_ORDERED:
        def push():
            time.sleep(0.1)
            r.rpush("queue", "job")

        pusher = threading.Thread(target=push)
        pusher.start()
        check(tuple(r.blpop("queue", timeout=5)), ("queue", "job"), "BLPOP")
        pusher.join()
    pubsub = r.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe("news")
    pubsub.psubscribe("n*")
    deadline = time.time() + 5
    seen = []
    # The pattern is the last that is subscribed to.
    while r.pubsub_numpat() < 1 and time.time() < deadline:
        time.sleep(0.01)
    check(r.publish("news", "hello"), 2, "PUBLISH")
    while len(seen) < 2 and time.time() < deadline:
        message = pubsub.get_message(timeout=0.1)
        if message:
            seen.append((message["type"], message["data"]))
    check(sorted(seen), [("message", "hello"), ("pmessage", "hello")], "messages")
    pubsub.close()


def scripts(r):
    if "eval" not in r.command():
        print("skipped: no scripts here")
        return
    check(r.eval("return {KEYS[1], ARGV[1]}", 1, "k", "v"), ["k", "v"], "EVAL")
    add = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    check(add(keys=["scripted"], args=[5]), 5, "EVALSHA")
    check(add(keys=["scripted"], args=[5]), 10, "EVALSHA")
    # Released by a script of the library's own.
    with r.lock("lock", timeout=5):
        check(r.lock("lock").acquire(blocking=False), False, "a lock that is held")


def server(r):
    info = r.info()
    check(info["redis_version"].startswith("7.0."), True, "INFO")
    check(r.config_set("maxmemory-policy", "noeviction"), True, "CONFIG SET")
    check(r.config_get("maxmemory-policy"), {"maxmemory-policy": "noeviction"}, "CONFIG GET")
    check(r.client_setname("suite"), True, "CLIENT SETNAME")
    check(r.client_getname(), "suite", "CLIENT GETNAME")
    check(any(client["name"] == "suite" for client in r.client_list()), True, "CLIENT LIST")
    check(r.dbsize() > 1000, True, "DBSIZE")
    check("get" in r.command(), True, "COMMAND")


def main():
    host, port = sys.argv[1], int(sys.argv[2])
    for protocol in (2, 3):
        r = redis.Redis(host=host, port=port, protocol=protocol, decode_responses=True)
        for part in (strings, collections if IS_ORDERED else refusals, transactions, waiting, scripts, server):
            r.flushall()
            if part is server:
                r.mset({f"k{number}": number for number in range(1001)})
            part(r)
            print(f"redis-py {redis.__version__}, RESP{protocol}: {part.__name__} as expected")


if __name__ == "__main__":
    main()
