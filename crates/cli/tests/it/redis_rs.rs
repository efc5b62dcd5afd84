//! What people do with redis-rs, in both protocols and on both engines.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::{Client, Commands, ConnectionLike, ErrorKind, ServerErrorKind, transaction};

use crate::serve::Serving;

fn connect(serving: &Serving, protocol: &str) -> redis::Connection {
    let url = format!("redis://{}/?protocol={protocol}", serving.address);
    let connection = Client::open(url).expect("an address").get_connection().expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    connection
}

fn text(r: &mut redis::Connection, key: &str) -> Option<String> {
    r.get(key).expect("a reply")
}

/// On each engine.
fn with_servers(test: impl Fn(&Serving, &str)) {
    ["tree", "hashlog"].into_iter().for_each(|engine| with_server(engine, &test));
}

fn with_server(engine: &str, test: impl Fn(&Serving, &str)) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut serving = Serving::start_with(&["--engine", engine], dir.path());
    for protocol in ["resp2", "resp3"] {
        redis::cmd("FLUSHALL").exec(&mut connect(&serving, protocol)).expect("it is flushed");
        test(&serving, protocol);
    }
    serving.signal("TERM");
    assert!(serving.process.wait().expect("it ends").success());
}

#[test]
fn strings() {
    with_servers(|serving, protocol| {
        let r = &mut connect(serving, protocol);
        r.set::<_, _, ()>("k", "v").unwrap();
        assert_eq!(text(r, "k").as_deref(), Some("v"));
        assert_eq!(text(r, "none"), None);
        assert_eq!(r.incr::<_, _, i64>("n", 42).unwrap(), 42);
        assert!(r.expire::<_, bool>("k", 100).unwrap());
        let bytes: Vec<u8> = (0..=255).collect();
        r.set::<_, _, ()>("bytes", &bytes).unwrap();
        assert_eq!(r.get::<_, Vec<u8>>("bytes").unwrap(), bytes);
        let values: Vec<Option<String>> = r.mget(&["k", "none"]).unwrap();
        assert_eq!(values, [Some("v".to_owned()), None]);
        assert!(r.is_open());
    });
}

#[test]
fn collections() {
    with_server("tree", |serving, protocol| {
        let r = &mut connect(serving, protocol);
        r.hset_multiple::<_, _, _, ()>("h", &[("f", "1"), ("g", "2")]).unwrap();
        let pairs: HashMap<String, i64> = r.hgetall("h").unwrap();
        assert_eq!(pairs, HashMap::from([("f".to_owned(), 1), ("g".to_owned(), 2)]));
        let sum: f64 = r.hincr("h", "f", 0.5).unwrap();
        assert_eq!(sum, 1.5);
        let _: usize = r.zadd_multiple("z", &[(1.0, "one"), (2.5, "two")]).unwrap();
        let scores: Vec<(String, f64)> = r.zrange_withscores("z", 0, -1).unwrap();
        assert_eq!(scores, [("one".to_owned(), 1.0), ("two".to_owned(), 2.5)]);
        let members: HashSet<String> = {
            let _: usize = r.sadd("s", &["a", "b"]).unwrap();
            r.smembers("s").unwrap()
        };
        assert_eq!(members, HashSet::from(["a".to_owned(), "b".to_owned()]));
        let error = r.incr::<_, _, i64>("h", 1).unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"));
        let fields: Vec<(String, i64)> = (0..700).map(|number| (format!("f{number}"), number)).collect();
        r.hset_multiple::<_, _, _, ()>("many", &fields).unwrap();
        let found: HashMap<String, i64> = r.hscan("many").unwrap().map(Result::unwrap).collect();
        assert_eq!(found, fields.into_iter().collect());
        assert!(r.is_open());
    });
}

#[test]
fn what_needs_order_is_refused_without_it() {
    with_server("hashlog", |serving, protocol| {
        let r = &mut connect(serving, protocol);
        let refusals = [
            r.hset::<_, _, _, i64>("h", "f", 1).unwrap_err(),
            r.rpush::<_, _, i64>("l", 1).unwrap_err(),
            r.sadd::<_, _, i64>("s", 1).unwrap_err(),
            r.zadd::<_, _, _, i64>("z", "m", 1).unwrap_err(),
        ];
        for error in refusals {
            assert!(error.to_string().contains("--engine tree"), "{error}");
        }
        assert_eq!(r.exists::<_, i64>(&["h", "l", "s", "z"]).unwrap(), 0);
        assert!(r.is_open());
    });
}

#[test]
fn pipelines_and_the_scan_iterator() {
    with_servers(|serving, protocol| {
        let r = &mut connect(serving, protocol);
        let mut pipe = redis::pipe();
        for number in 0..1000 {
            pipe.set(format!("p:{number}"), number).ignore();
        }
        let (last, none): (i64, Option<i64>) = pipe.get("p:999").get("p:1000").query(r).unwrap();
        assert_eq!((last, none), (999, None));
        let keys: Vec<String> = r.scan_match("p:*").unwrap().map(Result::unwrap).collect();
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), 1000);
    });
}

#[test]
fn transactions_are_done_whole_or_again() {
    with_servers(|serving, protocol| {
        let (r, other) = (&mut connect(serving, protocol), &mut connect(serving, protocol));
        let (a, b): (i64, i64) = redis::pipe().atomic().incr("a", 1).incr("a", 1).query(r).unwrap();
        assert_eq!((a, b), (1, 2));
        // Another client is quicker the first time.
        let mut tries = 0;
        let (new,): (i64,) = transaction(r, &["a"], |r, pipe| {
            tries += 1;
            let old: i64 = r.get("a")?;
            if tries == 1 {
                other.set::<_, _, ()>("a", 100)?;
            }
            pipe.set("a", old * 2).ignore().get("a").query(r)
        })
        .unwrap();
        assert_eq!((tries, new), (2, 200));
        // A command that fails leaves the others.
        let failed = redis::pipe().atomic().set("s", "text").incr("s", 1).query::<()>(r).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Server(ServerErrorKind::ResponseError), "{failed}");
        assert_eq!(text(r, "s").as_deref(), Some("text"));
    });
}

#[test]
fn messages_are_published_and_heard() {
    with_servers(|serving, protocol| {
        let (subscriber, r) = (&mut connect(serving, protocol), &mut connect(serving, protocol));
        let mut listening = subscriber.as_pubsub();
        listening.subscribe("news").unwrap();
        listening.psubscribe("n*").unwrap();
        assert_eq!(r.publish::<_, _, i64>("news", "hello").unwrap(), 2);
        let mut heard: Vec<(bool, String)> = (0..2)
            .map(|_| {
                let message = listening.get_message().unwrap();
                assert_eq!(message.get_channel_name(), "news");
                (message.from_pattern(), message.get_payload().unwrap())
            })
            .collect();
        heard.sort();
        assert_eq!(heard, [(false, "hello".to_owned()), (true, "hello".to_owned())]);
    });
}
