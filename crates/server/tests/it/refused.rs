//! Disks that fail while clients work: no client is told of what is lost, and what was told is
//! there afterwards.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn::Durability;
use firn::storage::ErrorKind;
use firn::storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};
use firn_protocol::resp::Value;
use firn_server::{ServeSettings, Server};

use super::client::{Client, bulk, ok, request, serve};

/// A server whose files lie in memory, on a disk that fails on command.
struct Faulted {
    memory: Memory,
    faulty: Faulty,
    server: Server,
}

impl Faulted {
    fn start(threads: usize) -> Self {
        Self::with(threads, Durability::Process)
    }

    fn with(threads: usize, durability: Durability) -> Self {
        let memory = Memory::new();
        let faulty = Faulty::new(Arc::new(memory.clone()));
        let server = serve_from(Arc::new(faulty.clone()), threads, durability);
        Self { memory, faulty, server }
    }

    fn connect(&self) -> Client {
        Client::connect(self.server.address())
    }

    /// Each write to the log fails from now on.
    fn fail_writes(&self, kind: ErrorKind) {
        let (when, effect) = (When::Always { after: 0 }, Effect::Fail(kind));
        self.faulty.inject(Fault { on: Operation::Write, file: "*.log".into(), when, effect });
    }

    /// What another server finds if this process is killed now.
    fn killed(&self) -> Server {
        serve_from(Arc::new(self.memory.crash(Crash::Kill)), 1, Durability::Process)
    }
}

fn serve_from(storage: Arc<dyn firn::storage::Storage>, threads: usize, durability: Durability) -> Server {
    let settings = firn::Settings { durability, ..firn::Settings::for_memory(64 << 20) };
    let db = firn::Db::builder("faults").settings(settings).storage(storage).open().expect("a database");
    serve(&db, ServeSettings { threads, ..ServeSettings::default() })
}

/// What `client` gets for `line`; `None` if the connection is over.
fn try_say(client: &mut Client, line: &[&str]) -> Option<Value> {
    // Sending to a connection that is closed is no news.
    client.stream.write_all(&request(line)).ok()?;
    client.reply()
}

fn is_refusal(reply: &Value) -> bool {
    matches!(reply, Value::Error(line) if line.starts_with("MISCONF "))
}

fn is_there(client: &Client) -> bool {
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).expect("an option");
    let is_there = client.stream.peek(&mut [0]).is_ok();
    client.stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    is_there
}

/// A reply that waits behind a long command, when another client learns that writes fail.
#[test]
fn no_reply_comes_late_that_was_not_kept() {
    for kind in [ErrorKind::Full, ErrorKind::Io] {
        let faulted = Faulted::start(1);
        let client = &mut faulted.connect();
        assert_eq!(client.say("SET before 1"), ok());
        faulted.fail_writes(kind);
        let pipeline = [request(&["SET", "a", "1"]), request(&["EVAL", "while true do end", "0"])].concat();
        client.stream.write_all(&pipeline).unwrap();
        let start = Instant::now();
        while !is_there(client) {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing comes");
            try_say(&mut faulted.connect(), &["SCRIPT", "KILL"]);
        }
        let reply = client.reply().unwrap();
        assert!(is_refusal(&reply), "{kind:?}: {reply:?}");
        assert_eq!(client.reply(), None, "what follows could be taken for something else");

        let killed = faulted.killed();
        let client = &mut Client::connect(killed.address());
        assert_eq!(client.say("MGET before a"), Value::Array(vec![bulk("1"), Value::Null]));
        killed.stop().unwrap();
        faulted.faulty.clear_faults();
        faulted.server.stop().unwrap();
    }
}

#[test]
fn a_failed_log_refuses_what_it_cannot_keep() {
    let faulted = Faulted::start(2);
    assert_eq!(faulted.connect().say("SET a 1"), ok());
    faulted.fail_writes(ErrorKind::Io);
    let reply = try_say(&mut faulted.connect(), &["SET", "a", "2"]).unwrap();
    assert!(is_refusal(&reply), "{reply:?}");
    faulted.faulty.clear_faults();
    for _ in 0..20 {
        // Two is visible, and no client may be told.
        for line in [&["GET", "a"][..], &["SET", "b", "1"], &["PING"]] {
            let reply = try_say(&mut faulted.connect(), line).unwrap();
            assert!(is_refusal(&reply), "{line:?}: {reply:?}");
        }
    }
    let killed = faulted.killed();
    assert_eq!(Client::connect(killed.address()).say("MGET a b"), Value::Array(vec![bulk("1"), Value::Null]));
}

/// The engine has written what it could not let survive: the server goes on from there.
#[test]
fn a_flush_that_failed_late_is_not_half_done() {
    for flush in ["FLUSHALL", "SWAPDB 0 1", "DEL long"] {
        let faulted = Faulted::with(2, Durability::Disk);
        let client = &mut faulted.connect();
        assert_eq!(client.say("SET a 1"), ok());
        assert_eq!(client.call(&["SET", "long", &"x".repeat(50_000)]), ok());
        faulted.fail_writes(ErrorKind::Full);
        let words: Vec<&str> = flush.split(' ').collect();
        let reply = try_say(client, &words);
        assert!(reply.as_ref().is_some_and(is_refusal), "{flush}: {reply:?}");
        faulted.faulty.clear_faults();
        let client = &mut faulted.connect();
        assert_eq!(client.say("SET b 2"), ok(), "{flush}");
        let seen = ["GET a", "GET b", "EXISTS long", "DBSIZE"].map(|line| client.say(line));

        let killed = faulted.killed();
        let client = &mut Client::connect(killed.address());
        let found = ["GET a", "GET b", "EXISTS long", "DBSIZE"].map(|line| client.say(line));
        assert_eq!(found, seen, "{flush}");
        assert_eq!(found[1], bulk("2"), "{flush}");
        assert_eq!(found[2], Value::Integer(0), "it was done: {flush}");
    }
}

/// What one connection after the other was answered while the disk filled, and afterwards.
#[derive(Default)]
struct Replies {
    /// By key: what was acknowledged last.
    kept: HashMap<String, String>,
    /// Keys whose state is unknown.
    unknown: Vec<String>,
    refusals: usize,
}

impl Replies {
    /// Writes its own keys, and reads them, until `is_over`.
    fn work(&mut self, faulted: &Faulted, thread: usize, is_over: &AtomicBool) {
        let mut client = faulted.connect();
        let value = "x".repeat(20_000);
        for number in 0.. {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            let (key, value) = (format!("{thread}:{number}"), format!("{value}{number}"));
            match try_say(&mut client, &["SET", &key, &value]) {
                Some(Value::Simple(_)) => drop(self.kept.insert(key.clone(), value.clone())),
                other => {
                    self.unknown.push(key.clone());
                    self.refuse(faulted, &mut client, other);
                }
            }
            match try_say(&mut client, &["GET", &key]) {
                Some(Value::Bulk(bytes)) => assert!(bytes == value.as_bytes(), "{key} is something else"),
                Some(Value::Null) => assert!(!self.kept.contains_key(&key), "{key} is gone"),
                other => self.refuse(faulted, &mut client, other),
            }
        }
    }

    fn refuse(&mut self, faulted: &Faulted, client: &mut Client, reply: Option<Value>) {
        self.refusals += 1;
        match reply {
            Some(reply) => assert!(is_refusal(&reply), "{reply:?}"),
            None => *client = faulted.connect(),
        }
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let faulted = Faulted::start(2);
    assert_eq!(faulted.connect().say("SET before 1"), ok());
    faulted.faulty.limit_space(Some(24 << 20)).unwrap();
    let (is_over, refused) = (AtomicBool::new(false), AtomicBool::new(false));
    let replies: Vec<Replies> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let (faulted, is_over) = (&faulted, &is_over);
                scope.spawn(move || {
                    let mut replies = Replies::default();
                    replies.work(faulted, thread, is_over);
                    replies
                })
            })
            .collect();
        let observer = scope.spawn(|| {
            let start = Instant::now();
            let resumes = || {
                let reply = try_say(&mut faulted.connect(), &["SET", "after", "1"]);
                reply == Some(ok())
            };
            while resumes() {
                assert!(start.elapsed() < Duration::from_secs(60), "the disk never filled");
            }
            refused.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(300));
            faulted.faulty.limit_space(None).expect("the limit is lifted");
            while !resumes() {
                assert!(start.elapsed() < Duration::from_secs(60), "nothing resumes");
            }
            is_over.store(true, Ordering::Release);
        });
        observer.join().expect("it resumes");
        threads.into_iter().map(|thread| thread.join().expect("it works")).collect()
    });
    assert!(refused.into_inner());
    assert!(replies.iter().map(|replies| replies.refusals).sum::<usize>() > 0, "nobody was refused anything");

    let killed = faulted.killed();
    let client = &mut Client::connect(killed.address());
    assert_eq!(client.say("MGET before after"), Value::Array(vec![bulk("1"), bulk("1")]));
    for (key, value) in replies.iter().flat_map(|replies| &replies.kept) {
        assert!(client.call(&["GET", key]) == bulk(value), "{key} was acknowledged and is gone");
    }
    let expected: usize = replies.iter().map(|replies| replies.kept.len()).sum();
    let unknown: usize = replies.iter().map(|replies| replies.unknown.len()).sum();
    let Value::Integer(found) = client.say("DBSIZE") else { panic!("no count") };
    let found = found as usize - 2;
    assert!((expected..=expected + unknown).contains(&found), "{expected} of {found}, {unknown} unknown");
}

/// Writes of a client that wants no replies reach the kernel although no client is told of
/// anything.
#[test]
fn what_nobody_is_told_of_is_kept_too() {
    let faulted = Faulted::start(1);
    let client = &mut faulted.connect();
    let pipeline = [request(&["CLIENT", "REPLY", "OFF"]), request(&["SET", "a", "1"])].concat();
    client.stream.write_all(&pipeline).unwrap();
    let start = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(150));
        let killed = faulted.killed();
        if Client::connect(killed.address()).say("GET a") == bulk("1") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "it is not written");
    }
}
