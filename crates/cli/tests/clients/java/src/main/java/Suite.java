import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.Tuple;

/**
 * What people do with Jedis, done to a server: HOST PORT ENGINE. Throws at the first thing that is wrong.
 *
 * <p>On the engine `hashlog` what needs keys in order must be refused, and all else be as it is.
 */
public class Suite {
  static HostAndPort address;
  static boolean isOrdered;

  static void check(Object found, Object expected, String what) {
    if (!expected.equals(found)) throw new AssertionError(what + ": " + found + " instead of " + expected);
  }

  static Jedis connect(RedisProtocol protocol) {
    return new Jedis(address, DefaultJedisClientConfig.builder().protocol(protocol).build());
  }

  static void strings(Jedis r) {
    check(r.set("k", "v"), "OK", "SET");
    check(r.get("k"), "v", "GET");
    check(r.get("none") == null, true, "GET of nothing");
    check(r.set("k", "w", SetParams.setParams().nx().ex(100)) == null, true, "SET NX");
    check(r.incrBy("n", 42), 42L, "INCRBY");
    check(r.mset("a", "1", "b", "2"), "OK", "MSET");
    check(r.mget("a", "b"), List.of("1", "2"), "MGET");
    check(r.expire("k", 100), 1L, "EXPIRE");
    check(r.ttl("k"), 100L, "TTL");
  }

  static void collections(Jedis r) {
    check(r.hset("h", Map.of("f", "1", "g", "2")), 2L, "HSET");
    check(r.hgetAll("h"), Map.of("f", "1", "g", "2"), "HGETALL");
    check(r.rpush("l", "1", "2", "3"), 3L, "RPUSH");
    check(r.lrange("l", 0, -1), List.of("1", "2", "3"), "LRANGE");
    check(r.sadd("s", "a", "b"), 2L, "SADD");
    check(r.smembers("s"), Set.of("a", "b"), "SMEMBERS");
    check(r.zadd("z", Map.of("one", 1.0, "two", 2.5)), 2L, "ZADD");
    check(r.zrangeWithScores("z", 0, -1), List.of(new Tuple("one", 1.0), new Tuple("two", 2.5)), "ZRANGE");
    try {
      r.incr("h");
      throw new AssertionError("a hash was incremented");
    } catch (JedisDataException error) {
      check(error.getMessage().startsWith("WRONGTYPE"), true, "wrong type");
    }
  }

  static void refused(Runnable request) {
    try {
      request.run();
      throw new AssertionError("what needs order was done");
    } catch (JedisDataException error) {
      check(error.getMessage().contains("--engine tree"), true, "the refusal " + error.getMessage());
    }
  }

  static void refusals(Jedis r) {
    refused(() -> r.hset("h", "f", "1"));
    refused(() -> r.rpush("l", "1"));
    refused(() -> r.blpop(1, "l"));
    refused(() -> r.sadd("s", "1"));
    refused(() -> r.zadd("z", 1, "m"));
    refused(() -> r.eval("return redis.call('LPUSH', KEYS[1], 'v')", List.of("l"), List.of()));
    check(r.exists("h", "l", "s", "z"), 0L, "EXISTS");
    var known = (List<?>) r.sendCommand(Protocol.Command.COMMAND, "INFO", "zadd", "get");
    check(known.get(0) == null && known.get(1) != null, true, "COMMAND INFO");
  }

  static void together(Jedis r) {
    var transaction = r.multi();
    transaction.set("a", "1");
    var sum = transaction.incr("a");
    transaction.exec();
    check(sum.get(), 2L, "MULTI");
    var pipeline = r.pipelined();
    for (int number = 0; number < 1000; number++) pipeline.set("p:" + number, "v");
    pipeline.sync();
    var found = new HashSet<String>();
    var cursor = ScanParams.SCAN_POINTER_START;
    do {
      var step = r.scan(cursor, new ScanParams().match("p:*").count(100));
      found.addAll(step.getResult());
      cursor = step.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    check(found.size(), 1000, "SCAN");
  }

  static void waiting(Jedis r, RedisProtocol protocol) throws InterruptedException {
    if (isOrdered) {
      var pusher = new Thread(() -> { try (var other = connect(protocol)) { other.rpush("queue", "job"); } });
      pusher.start();
      check(r.blpop(5, "queue"), List.of("queue", "job"), "BLPOP");
      pusher.join();
    }
    var heard = new AtomicReference<String>();
    var isReady = new CountDownLatch(1);
    var listener = new JedisPubSub() {
      @Override public void onSubscribe(String channel, int count) { isReady.countDown(); }
      @Override public void onMessage(String channel, String text) { heard.set(text); unsubscribe(); }
    };
    var subscriber = new Thread(() -> { try (var other = connect(protocol)) { other.subscribe(listener, "news"); } });
    subscriber.start();
    check(isReady.await(5, TimeUnit.SECONDS), true, "SUBSCRIBE");
    check(r.publish("news", "hello"), 1L, "PUBLISH");
    subscriber.join();
    check(heard.get(), "hello", "a message");
  }

  static void scripts(Jedis r) {
    var offered = (List<?>) r.sendCommand(Protocol.Command.COMMAND, "INFO", "eval");
    if (offered.get(0) == null) {
      System.out.println("skipped: no scripts here");
      return;
    }
    var sha = r.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    check(r.evalsha(sha, List.of("scripted"), List.of("5")), 5L, "EVALSHA");
    check(r.eval("return {KEYS[1], ARGV[1]}", List.of("k"), List.of("v")), List.of("k", "v"), "EVAL");
  }

  public static void main(String[] arguments) throws Exception {
    address = new HostAndPort(arguments[0], Integer.parseInt(arguments[1]));
    isOrdered = !arguments[2].equals("hashlog");
    for (var protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
      try (var r = connect(protocol)) {
        r.flushAll();
        strings(r);
        if (isOrdered) collections(r);
        else refusals(r);
        together(r);
        waiting(r, protocol);
        scripts(r);
        System.out.println("Jedis, " + protocol + ": as expected");
      }
    }
  }
}
