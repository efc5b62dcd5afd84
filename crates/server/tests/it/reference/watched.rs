//! What counts as a change for a client that watches a key: each command of a list by another
//! client, the same with both servers.

use firn_protocol::resp::Value;

use super::super::client::{Client, Served};
use super::server::RedisServer;

/// What stands there before each command.
const BEFORE: &[&str] = &[
    "SET string abc",
    "SET number 5",
    "SET expiring x EX 1000",
    "RPUSH list a b c",
    "SADD set a b",
    "HSET hash f v n 1",
    "ZADD zset 1 a 2 b",
];

/// The key that is watched, and what another client says meanwhile; `""` is an empty word.
const CHANGES: &[(&str, &str)] = &[
    ("missing", "DEL missing"),
    ("missing", "FLUSHALL"),
    ("missing", "FLUSHDB"),
    ("missing", "GETEX missing PERSIST"),
    ("missing", "GETDEL missing"),
    ("missing", "LPUSHX missing a"),
    ("missing", "HDEL missing f"),
    ("missing", "ZREM missing a"),
    ("missing", "SREM missing a"),
    ("missing", "APPEND missing \"\""),
    ("missing", "SETRANGE missing 0 \"\""),
    ("missing", "SET missing v XX"),
    ("missing", "EXPIRE missing 100"),
    ("missing", "PERSIST missing"),
    ("missing", "SINTERSTORE missing nothing none"),
    ("missing", "ZUNIONSTORE missing 1 none"),
    ("missing", "BITOP NOT missing none"),
    ("missing", "ZRANGESTORE missing none 0 1"),
    ("missing", "SMOVE set missing nothing"),
    ("missing", "LMOVE none missing LEFT LEFT"),
    ("missing", "COPY none missing"),
    ("string", "FLUSHALL"),
    ("string", "SET string abc"),
    ("string", "SET string abc NX"),
    ("string", "SETNX string x"),
    ("string", "MSETNX string x other y"),
    ("string", "APPEND string \"\""),
    ("string", "APPEND string x"),
    ("string", "SETRANGE string 0 \"\""),
    ("string", "SETRANGE string 0 abc"),
    ("string", "GETSET string abc"),
    ("string", "GETEX string"),
    ("string", "GETEX string PERSIST"),
    ("string", "GETEX string EX 100"),
    ("string", "PERSIST string"),
    ("string", "EXPIRE string 100"),
    ("string", "EXPIRE string 100 XX"),
    ("string", "EXPIRE string -1"),
    ("string", "RENAME string string"),
    ("string", "RENAMENX string list"),
    ("string", "COPY string other"),
    ("string", "COPY list string"),
    ("string", "COPY list string REPLACE"),
    ("string", "MOVE string 0"),
    ("string", "TOUCH string"),
    ("string", "OBJECT ENCODING string"),
    ("string", "SETBIT string 1 1"),
    ("string", "SETBIT string 1 0"),
    ("string", "BITFIELD string SET u8 0 97"),
    ("string", "BITFIELD string GET u8 0"),
    ("string", "LPUSH string a"),
    ("number", "INCRBY number 0"),
    ("number", "INCRBYFLOAT number 0"),
    ("number", "DECRBY number 0"),
    ("expiring", "GETEX expiring PERSIST"),
    ("expiring", "PERSIST expiring"),
    ("expiring", "EXPIRE expiring 1 GT"),
    ("list", "LTRIM list 0 -1"),
    ("list", "LTRIM list 1 0"),
    ("list", "LSET list 0 a"),
    ("list", "LREM list 0 nothing"),
    ("list", "LINSERT list BEFORE nothing x"),
    ("list", "LPOP list 0"),
    ("list", "LMOVE list list LEFT LEFT"),
    ("list", "LMPOP 1 list LEFT"),
    ("set", "SADD set a"),
    ("set", "SREM set nothing"),
    ("set", "SPOP set 0"),
    ("set", "SMOVE set set a"),
    ("set", "SMOVE set other nothing"),
    ("set", "SMOVE set other a"),
    ("set", "SINTERSTORE set set set"),
    ("set", "SDIFFSTORE set none set"),
    ("hash", "HSET hash f v"),
    ("hash", "HSETNX hash f v"),
    ("hash", "HDEL hash nothing"),
    ("hash", "HINCRBY hash n 0"),
    ("hash", "HINCRBYFLOAT hash n 0"),
    ("zset", "ZADD zset 1 a"),
    ("zset", "ZADD zset NX 5 a"),
    ("zset", "ZADD zset XX 5 nothing"),
    ("zset", "ZADD zset INCR 0 a"),
    ("zset", "ZINCRBY zset 0 a"),
    ("zset", "ZREM zset nothing"),
    ("zset", "ZPOPMIN zset 0"),
    ("zset", "ZREMRANGEBYSCORE zset 7 8"),
    ("zset", "ZUNIONSTORE zset 1 zset"),
];

/// Whether EXEC runs, though `key` was watched while another client said `line`.
fn goes_on((client, other): &mut (Client, Client), key: &str, line: &str) -> bool {
    other.say("FLUSHALL");
    for line in BEFORE {
        other.say(line);
    }
    client.call(&["WATCH", key]);
    let words: Vec<&str> = line.split(' ').map(|word| if word == "\"\"" { "" } else { word }).collect();
    other.call(&words);
    client.say("MULTI");
    client.say("PING");
    client.say("EXEC") != Value::Null
}

#[test]
fn what_counts_as_a_change_is_what_does_in_redis() {
    let redis = RedisServer::start();
    let served = Served::start(2);
    let mut theirs = (redis.connect(), redis.connect());
    let mut ours = (served.connect(), served.connect());
    let differing: Vec<String> = CHANGES
        .iter()
        .filter_map(|(key, line)| {
            let (expected, found) = (goes_on(&mut theirs, key, line), goes_on(&mut ours, key, line));
            (expected != found).then(|| format!("{key}, {line}: goes on in Redis: {expected}, here: {found}"))
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
