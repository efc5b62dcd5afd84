//! What only a server on the engine without order does: refusals, walks by hash, reads under locks.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use firn::Settings;
use firn_engine::blocking::Blocking;
use firn_engine::{BatchLimit, HashBatch, HashCursor, HashScan, ReadAt};
use firn_format::datatype::{Slot, UserKey};
use firn_protocol::resp::Value;
use firn_server::ServeSettings;

use super::ENGINE;
use super::client::{Client, Served, bulk, error, ok, request};

/// What a command that needs order is answered.
fn refused() -> Value {
    error(
        "ERR hashes, lists, sets and sorted sets need keys in order, which the engine hashlog does not keep: \
         serve a database of the other engine, with --engine tree",
    )
}

#[test]
fn what_needs_order_is_refused_by_name() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for line in [
        "HSET h f v",
        "HGETALL h",
        "LPUSH l v",
        "BLPOP l 0",
        "SADD s m",
        "SINTERSTORE a b c",
        "ZADD z 1 m",
        "ZRANGE z 0 -1",
        "LMPOP 1 l LEFT",
    ] {
        assert_eq!(client.say(line), refused(), "{line}");
    }
    // Other mistakes are told first, as always.
    assert_eq!(client.say("HSET h"), error("ERR wrong number of arguments for 'hset' command"));
    // It refuses a transaction as a whole, and fails a script where it is called.
    client.say("MULTI");
    client.say("SET k v");
    assert_eq!(client.say("LPUSH l v"), refused());
    let Value::Error(line) = client.say("EXEC") else { panic!("an error") };
    assert!(line.starts_with("EXECABORT"), "{line}");
    assert_eq!(client.say("GET k"), Value::Null);
    let script = "redis.call('set', 'k', 'v') return redis.call('zadd', 'z', 1, 'm')";
    let Value::Error(line) = client.call(&["EVAL", script, "0"]) else { panic!("an error") };
    assert!(line.contains("--engine tree"), "{line}");
    assert_eq!(served.records("fields"), 0);
}

/// Reads of what memory has not, in a pipeline with writes: each finds what stood there before it.
#[test]
fn pipelines_read_beyond_memory_in_their_order() {
    const KEYS: u64 = 250_000;
    let dir = tempfile::tempdir().expect("a folder");
    let builder = firn::Db::builder(dir.path()).engine(ENGINE).settings(Settings::for_memory(64 << 20));
    let db = builder.open_points().expect("a database");
    let served = Served::on(dir, db, ServeSettings { threads: 1, ..ServeSettings::default() });
    let mut client = served.connect();
    let value = |key: u64| format!("{key:0>400}");
    for first in (0..KEYS).step_by(500) {
        let sets = (first..first + 500).map(|key| request(&["SET", &format!("k{key}"), &value(key)]));
        client.stream.write_all(&sets.collect::<Vec<_>>().concat()).expect("sent");
        (0..500).for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    served.flush(false);
    let misses = || served.db.stats().read_miss_count;
    let (before, mut random) = (misses(), fastrand::Rng::with_seed(2));
    for _ in 0..300 {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..random.usize(2..40) {
            let key = random.u64(..KEYS);
            let name = format!("k{key}");
            bytes.extend(request(&["GET", &name]));
            expected.push(bulk(&value(key)));
            match random.u64(..8) {
                0 => {
                    bytes.extend(request(&["SET", &name, "new"]));
                    bytes.extend(request(&["GET", &name]));
                    bytes.extend(request(&["SET", &name, &value(key)]));
                    expected.extend([ok(), bulk("new"), ok()]);
                }
                1 => {
                    bytes.extend(request(&["STRLEN", &name]));
                    bytes.extend(request(&["GET", "none"]));
                    expected.extend([Value::Integer(400), Value::Null]);
                }
                _ => {}
            }
        }
        client.stream.write_all(&bytes).expect("sent");
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(client.reply(), Some(expected), "request {index}");
        }
    }
    assert!(misses() - before > 1000, "{} reads of the device", misses() - before);
}

#[test]
fn commands_tell_what_is_offered() {
    let served = Served::start(1);
    let client = &mut served.connect();
    assert_eq!(client.say("COMMAND INFO hset"), Value::Array(vec![Value::Null]));
    let Value::Array(found) = client.say("COMMAND INFO get") else { panic!("an array") };
    assert!(matches!(found[0], Value::Array(_)));
    let Value::Array(names) = client.say("COMMAND LIST") else { panic!("an array") };
    for (name, is_there) in
        [("zadd", false), ("lpush", false), ("sadd", false), ("hset", false), ("set", true)]
    {
        assert_eq!(names.contains(&bulk(name)), is_there, "{name}");
    }
    client.say("COMMAND DOCS hset");
    let docs = String::from_utf8_lossy(&client.raw).into_owned();
    assert!(docs.contains("Not offered") && docs.contains("--engine tree"), "{docs}");
    let ordered = Served::of(firn::EngineKind::Tree, ServeSettings::default());
    let other = &mut ordered.connect();
    let (Value::Integer(few), Value::Integer(all)) =
        (client.say("COMMAND COUNT"), other.say("COMMAND COUNT"))
    else {
        panic!("numbers")
    };
    assert!(few > 100 && few < all - 80, "{few} of {all}");
    let Value::Bulk(info) = client.say("INFO firn") else { panic!("a text") };
    assert!(String::from_utf8_lossy(&info).contains("\r\nengine:hashlog\r\n"));
    let Value::Bulk(info) = other.say("INFO firn") else { panic!("a text") };
    assert!(String::from_utf8_lossy(&info).contains("\r\nengine:tree\r\n"));
}

/// The body of what `path` answers.
fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

#[test]
fn metrics_and_status_are_those_of_the_engine() {
    let http = Some("127.0.0.1:0".parse().expect("an address"));
    let served = Served::of(ENGINE, ServeSettings { threads: 1, http, ..ServeSettings::default() });
    let address = served.server.http_address().expect("it answers");
    let client = &mut served.connect();
    (0..3000).for_each(|number| _ = client.say(&format!("SET key:{number} {}", "v".repeat(100))));
    let metrics = get(address, "/metrics");
    let of = |name: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("firn_hashlog_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().expect("a number")
    };
    // With what the catalog has.
    assert!((3000.0..3100.0).contains(&of("index_entries")), "{}", of("index_entries"));
    assert!(of("index_bytes") >= 3000.0 * 9.0 && of("resident_bytes") >= 300_000.0);
    assert!(of("redo_write_bytes_total") >= 300_000.0 && of("redo_bytes") > 0.0);
    let status: serde_json::Value = serde_json::from_str(&get(address, "/status")).expect("JSON");
    assert_eq!(status["engine"], "hashlog");
    let names: Vec<&str> =
        status["not_offered"].as_array().expect("names").iter().filter_map(|name| name.as_str()).collect();
    assert!(names.contains(&"hset") && names.contains(&"zadd") && !names.contains(&"set"), "{names:?}");
    // And of no other.
    let settings = ServeSettings { threads: 1, http, ..ServeSettings::default() };
    let ordered = Served::of(firn::EngineKind::Tree, settings);
    let address = ordered.server.http_address().expect("it answers");
    assert!(!get(address, "/metrics").contains("firn_hashlog_"));
    assert!(!get(address, "/status").contains("not_offered"));
}

/// One step of SCAN: the next cursor, and the keys.
fn step(client: &mut Client, cursor: &str, options: &str) -> (String, Vec<String>) {
    let Value::Array(reply) = client.say(&format!("SCAN {cursor} {options}")) else { panic!("an array") };
    let [Value::Bulk(next), Value::Array(keys)] = &reply[..] else { panic!("{reply:?}") };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).expect("a text"),
        other => panic!("{other:?}"),
    };
    (String::from_utf8(next.clone()).expect("digits"), keys.iter().map(text).collect())
}

#[test]
fn scan_returns_what_stays_while_the_database_grows() {
    let served = Served::start(2);
    let (client, writer) = (&mut served.connect(), &mut served.connect());
    (0..300).for_each(|number| _ = client.say(&format!("SET stays:{number} v")));
    let (mut cursor, mut found, mut number) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let (next, keys) = step(client, &cursor, "COUNT 20");
        assert!(keys.len() < 60, "{} keys in a step of 20", keys.len());
        found.extend(keys.into_iter().filter(|key| key.starts_with("stays:")));
        // The index of a slot grows, and each key that stays is changed.
        for _ in 0..100 {
            writer.say(&format!("SET new:{number} v"));
            writer.say(&format!("SET stays:{} changed", number % 300));
            writer.say(&format!("DEL new:{}", number / 2));
            number = (number + 1) % 3000;
        }
        // The server remembers nothing: any connection goes on.
        *client = served.connect();
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 300);
}

#[test]
fn a_transaction_walks_over_its_own_writes() {
    let served = Served::start(1);
    let client = &mut served.connect();
    (0..50).for_each(|number| _ = client.say(&format!("SET old:{number} v")));
    client.say("MULTI");
    for line in ["SET own v", "DEL old:7", "SET old:8 w", "DBSIZE", "KEYS *", "SCAN 0 COUNT 1000"] {
        assert_eq!(client.say(line), Value::Simple("QUEUED".into()));
    }
    let Value::Array(replies) = client.say("EXEC") else { panic!("an array") };
    assert_eq!(replies[3], Value::Integer(50));
    let Value::Array(keys) = &replies[4] else { panic!("{replies:?}") };
    let keys: BTreeSet<_> = keys.iter().map(|key| format!("{key:?}")).collect();
    assert_eq!(keys.len(), 50, "each once");
    assert!(keys.contains(&format!("{:?}", bulk("own"))) && !keys.contains(&format!("{:?}", bulk("old:7"))));
    let Value::Array(scanned) = &replies[5] else { panic!("{replies:?}") };
    assert!(matches!(&scanned[1], Value::Array(keys) if keys.len() == 50), "{scanned:?}");
}

#[test]
fn databases_are_walked_over_apart() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for database in [0, 3] {
        client.say(&format!("SELECT {database}"));
        (0..100 + database).for_each(|number| _ = client.say(&format!("SET {database}:{number} v")));
    }
    for database in [0, 3, 5] {
        client.say(&format!("SELECT {database}"));
        let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
        loop {
            let (next, keys) = step(client, &cursor, "COUNT 7");
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        let expected = if database == 5 { 0 } else { 100 + database };
        assert_eq!(found.len(), expected, "database {database}");
        assert!(found.iter().all(|key| key.starts_with(&format!("{database}:"))));
        assert_eq!(client.say("DBSIZE"), Value::Integer(expected as i64));
        let drawn = client.say("RANDOMKEY");
        assert_eq!(drawn == Value::Null, expected == 0, "{drawn:?}");
    }
    let Value::Bulk(info) = client.say("INFO keyspace") else { panic!("a text") };
    let info = String::from_utf8_lossy(&info).into_owned();
    assert!(info.contains("db0:keys=100,") && info.contains("db3:keys=103,"), "{info}");
    client.say("SELECT 3");
    client.say("FLUSHDB");
    let start = Instant::now();
    while served.records("keys") > 100 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", served.counts());
        std::thread::sleep(Duration::from_millis(10));
    }
    client.say("SELECT 0");
    assert_eq!(client.say("DBSIZE"), Value::Integer(100));
}

#[test]
fn long_strings_are_changed_and_copied_part_by_part() {
    let served = Served::start(2);
    let client = &mut served.connect();
    let long: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    assert_eq!(client.call(&[&b"SET"[..], b"k", &long]), ok());
    assert_eq!(client.call(&["GETRANGE", "k", "16380", "16389"]), Value::Bulk(long[16380..16390].to_vec()));
    assert_eq!(client.say("SETRANGE k 400000 end"), Value::Integer(400_003));
    let mut expected = long.clone();
    expected.resize(400_000, 0);
    expected.extend_from_slice(b"end");
    assert_eq!(client.say("GET k"), Value::Bulk(expected.clone()));
    assert_eq!(client.say("COPY k {k}copy"), Value::Integer(1));
    assert_eq!(client.say("COPY k elsewhere DB 2"), Value::Integer(1));
    assert_eq!(client.say("RENAME k other"), ok());
    assert_eq!(client.say("APPEND {k}copy !"), Value::Integer(400_004));
    assert_eq!(client.say("GET other"), Value::Bulk(expected.clone()));
    assert!(matches!(client.say("MEMORY USAGE other"), Value::Integer(400_000..410_000)));
    let served = served.restart();
    let client = &mut served.connect();
    assert_eq!(client.say("GET other"), Value::Bulk(expected.clone()));
    client.say("SELECT 2");
    assert_eq!(client.say("GET elsewhere"), Value::Bulk(expected));
    client.say("FLUSHALL");
    let start = Instant::now();
    while served.records("fields") > 0 || served.records("keys") > 0 {
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", served.counts());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Those of a pipeline are no batch of the engine, which makes a new record of each part.
#[test]
fn pipelined_sets_change_values_where_they_lie() {
    let served = Served::start(1);
    let client = &mut served.connect();
    let mut send = |value: &str| {
        let line = |number| format!("SET key:{number} {}\r\n", value.repeat(100));
        let pipeline: String = (0..200).map(line).collect();
        client.stream.write_all(pipeline.as_bytes()).expect("sent");
        (0..200).for_each(|_| assert_eq!(client.reply(), Some(ok())));
    };
    send("a");
    let resident = || served.db.stats().hash.expect("the hashed engine").resident_bytes;
    let before = resident();
    (0..500).for_each(|round| send(if round % 2 == 0 { "b" } else { "c" }));
    assert_eq!(resident(), before, "100 000 records would be 15 MB");
    assert_eq!(client.say("GET key:7"), bulk(&"c".repeat(100)));
}

/// The reply is longer than what is kept for a client: while it reads, others write the same key.
#[test]
fn who_reads_slowly_keeps_no_key_locked() {
    let settings = ServeSettings { threads: 1, unread_bytes_max: 1 << 20, ..ServeSettings::default() };
    let served = Served::of(ENGINE, settings);
    let (slow, other) = (&mut served.connect(), &mut served.connect());
    let value = vec![b'v'; 1 << 20];
    assert_eq!(other.call(&[&b"SET"[..], b"k", &value]), ok());
    let words: Vec<&str> = std::iter::once("MGET").chain(std::iter::repeat_n("k", 64)).collect();
    slow.stream.write_all(&request(&words)).expect("it is sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(other.say("SET k later"), ok());
    assert_eq!(other.say("APPEND k !"), Value::Integer(6));
    let one = [b"$1048576\r\n".as_slice(), &value, b"\r\n"].concat();
    let expected = [b"*64\r\n".as_slice(), &one.repeat(64)].concat();
    let mut found = vec![0; expected.len()];
    slow.stream.read_exact(&mut found).expect("the reply");
    assert!(found == expected, "all of one moment");
}

/// Keys of clients that the engine has in a slot of its own.
fn keys_of_slot(served: &Served, slot: u16) -> Vec<Vec<u8>> {
    let id = served.db.keyspace("keys").expect("it is there");
    let engine = served.db.engine().hashed().expect("it has slots");
    let mut session = Blocking::new(engine.hashed_session());
    let (mut batch, mut next, mut keys) = (HashBatch::new(), HashCursor::new(slot, 0), Vec::new());
    while let Some(from) = next.filter(|from| from.slot() == slot) {
        let limit = BatchLimit { records: 1, bytes: 1 << 20 };
        let scan = HashScan { keyspace: id, from, limit, has_values: false };
        session.scan_by_hash(ReadAt::Latest, scan, &mut batch).expect("a scan");
        next = batch.next();
        let found = batch.records().records().filter_map(|(record, _)| UserKey::decode(record).ok());
        // The last batch may go on into the next slot that has a key.
        keys.extend(found.filter(|key| key.slot().number() == slot).map(|key| key.bytes().to_vec()));
    }
    keys
}

/// What a cluster will move: each slot's keys, and no others, are found from its cursor on.
#[test]
fn slots_of_redis_cluster_are_slots_of_the_engine() {
    let served = Served::start(1);
    let client = &mut served.connect();
    for number in 0..200 {
        client.say(&format!("SET {{tag}}:{number} v"));
        client.say(&format!("SET key:{number} v"));
    }
    let slot = Slot::of(b"{tag}:1").number();
    let keys = keys_of_slot(&served, slot);
    assert!(keys.len() >= 200 && keys.iter().all(|key| Slot::of(key).number() == slot), "{}", keys.len());
    assert!(keys_of_slot(&served, Slot::of(b"key:7").number()).contains(&b"key:7".to_vec()));
}

#[test]
fn users_and_what_they_wrote_are_there_again() {
    let served = Served::start(1);
    let client = &mut served.connect();
    (0..40).for_each(|number| _ = client.say(&format!("ACL SETUSER user{number} on >secret ~* +@all")));
    client.say("SET k v");
    client.say("SET soon v PX 100000");
    let served = served.restart();
    let client = &mut served.connect();
    assert!(matches!(client.say("ACL USERS"), Value::Array(users) if users.len() == 41));
    assert_eq!(client.say("AUTH user7 secret"), ok());
    assert_eq!(client.say("GET k"), bulk("v"));
    assert!(matches!(client.say("PTTL soon"), Value::Integer(1..=100_000)));
}
