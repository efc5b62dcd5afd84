//! A database that `firn serve` has written, under the other commands.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use firn_format::datatype::{DatabaseId, Field, FieldKey, Generation, Slot, UserKey, Value};
use redis::Connection;

use crate::program::{Answer, firn, text};
use crate::rounds;
use crate::serve::Serving;

struct Served {
    home: tempfile::TempDir,
}

impl Served {
    /// What `write` writes through a server, which has ended then.
    fn with(write: impl FnOnce(&mut Connection)) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let serving = Serving::start(&home.path().join("db"));
        write(&mut rounds::connect(&serving.address));
        serving.end();
        Self { home }
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("db")
    }

    fn call(&self, command: &str, rest: &[&str]) -> Answer {
        firn(&[&[command, "--dir", text(&self.dir())], rest].concat())
    }

    /// Writes to it past every server.
    fn write_past(&self, write: impl FnOnce(&firn::Db)) {
        let db = firn::Db::open(self.dir()).expect("opened");
        write(&db);
        db.close().expect("closed");
    }
}

/// One of each type, and what is long or expires.
fn one_of_each(client: &mut Connection) {
    let long = "x".repeat(100_000);
    for command in [
        "SET city Göteborg",
        "SET soon 1 EX 1000",
        "HSET h a 1 b two",
        "RPUSH l one two one",
        "SADD s m",
        "ZADD z 1.5 low 20 high",
        "EXPIRE z 5000",
        "SET gone 1 PX 1",
    ] {
        let mut words = command.split(' ');
        let mut request = redis::cmd(words.next().expect("a name"));
        for word in words {
            request.arg(word);
        }
        request.exec(client).expect(command);
    }
    redis::cmd("SET").arg("long").arg(&long).exec(client).expect("set");
    redis::cmd("SETRANGE").arg("holes").arg(80_000).arg("end").exec(client).expect("set");
    redis::cmd("SELECT").arg(3).exec(client).expect("selected");
    redis::cmd("SET").arg("other\n").arg("3").exec(client).expect("set");
    std::thread::sleep(std::time::Duration::from_millis(20));
}

#[test]
fn the_tools_show_what_clients_have_written() {
    let served = Served::with(one_of_each);
    let get = |key: &str, rest: &[&str]| served.call("get", &[&[key], rest].concat());
    assert_eq!(get("city", &[]).ended(0), "Göteborg\n");
    assert_eq!(get("city", &["--raw"]).ended(0), "Göteborg");
    assert_eq!(
        get("h", &[]).ended(0).lines().collect::<std::collections::BTreeSet<_>>(),
        ["a\t1", "b\ttwo"].into()
    );
    assert_eq!(get("l", &[]).ended(0), "one\ntwo\none\n");
    assert_eq!(get("s", &[]).ended(0), "m\n");
    assert_eq!(get("z", &[]).ended(0), "1.5\tlow\n20\thigh\n");
    assert_eq!(get("other\\n", &["--database", "3"]).ended(0), "3\n");
    get("other\\n", &[]).complained(4, &["has no value"]);
    get("gone", &[]).complained(4, &["has no value"]);
    get("h", &["--raw"]).complained(1, &["holds a hash", "without --raw"]);
    get("city", &["--database", "16"]).ended(2);
    let copy = served.home.path().join("copy");
    get("long", &["--file", text(&copy)]).ended(0);
    assert_eq!(std::fs::read(&copy).expect("written"), vec![b'x'; 100_000]);
    let holes = get("holes", &["--raw"]).ended(0);
    assert_eq!(holes, "\0".repeat(80_000) + "end");
    // A part of the layout can be looked at by its name.
    assert_ne!(served.call("scan", &["--keyspace", "catalog"]).ended(0), "");

    let scanned = served.call("scan", &[]).ended(0);
    let mut lines: Vec<&str> = scanned.lines().collect();
    lines.sort_unstable();
    let within = |line: &str, start: &str, least: u64, most: u64, end: &str| {
        let rest = line.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)).expect(line);
        let seconds: u64 = rest.strip_suffix(" s").expect(line).parse().expect(line);
        assert!((least..=most).contains(&seconds), "{line}");
    };
    assert_eq!(
        lines[..6],
        [
            "0\tcity\tstring\t-\tGöteborg",
            "0\th\thash\t-\t2 fields",
            "0\tholes\tstring\t-\t80003 bytes",
            "0\tl\tlist\t-\t3 elements",
            "0\tlong\tstring\t-\t100000 bytes",
            "0\ts\tset\t-\t1 member",
        ]
    );
    within(lines[6], "0\tsoon\tstring\t", 900, 1000, "\t1");
    within(lines[7], "0\tz\tzset\t", 4900, 5000, "\t2 members");
    assert_eq!(lines[8..], ["3\tother\\n\tstring\t-\t3"]);
    assert_eq!(served.call("scan", &["--prefix", "lo", "--keys"]).ended(0), "0\tlong\tstring\t-\n");
    assert_eq!(served.call("scan", &["--limit", "2"]).ended(0).lines().count(), 2);
    assert_eq!(served.call("scan", &["--database", "3"]).ended(0).lines().count(), 1);
    served.call("scan", &["--reverse"]).complained(2, &["order of their slots", "--prefix"]);

    let stats = served.call("stats", &[]).ended(0);
    assert!(stats.contains("written by `firn serve`: keys in databases 0, 3"), "{stats}");
    let sound = served.call("verify", &[]).ended(0);
    assert!(sound.starts_with("sound: ") && sound.contains(" parts of clients"), "{sound}");
}

/// What the program writes to a terminal.
fn on_a_terminal(arguments: &[&str]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("a terminal");
    let name = ptsname(&ours, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let theirs = std::fs::File::options().read(true).write(true).open(name).expect("a terminal");
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).stdout(theirs);
    let mut child = command.spawn().expect("it starts");
    // It holds the other end.
    drop(command);
    let mut out = Vec::new();
    // A terminal whose other end is closed ends with an error.
    let _ = std::fs::File::from(ours).read_to_end(&mut out);
    assert!(child.wait().expect("it ends").success());
    String::from_utf8(out).expect("UTF-8").replace("\r\n", "\n")
}

#[test]
fn a_terminal_is_shown_the_names_of_columns() {
    let served = Served::with(|client| redis::cmd("SET").arg("k").arg("v").exec(client).expect("set"));
    let dir = served.dir();
    let scan = ["scan", "--dir", text(&dir)];
    let shown = on_a_terminal(&scan);
    // Terminals put columns where tabs are.
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [vec!["DATABASE", "KEY", "TYPE", "EXPIRES", "VALUE"], vec!["0", "k", "string", "-", "v"]]
    );
    let keys = on_a_terminal(&[&scan[..], &["--keys"]].concat());
    assert_eq!(keys.lines().next().map(|line| line.contains("VALUE")), Some(false), "{keys}");
    // A program counts lines.
    assert_eq!(firn(&scan).ended(0), "0\tk\tstring\t-\tv\n");
    // Records of others have a key and a value, and no columns by name.
    let plain = tempfile::tempdir().expect("a directory");
    firn(&["put", "--create", "--dir", text(plain.path()), "k", "v"]).ended(0);
    assert_eq!(on_a_terminal(&["scan", "--dir", text(plain.path())]).lines().count(), 1);
}

#[test]
fn records_that_clients_do_not_see_are_told() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("db");
    firn(&["put", "--create", "--dir", text(&dir), "k", "v"]).ended(0);
    let stats = firn(&["stats", "--dir", text(&dir)]).ended(0);
    assert!(stats.contains("memtable 1 record;"), "{stats}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
    command.arg("serve").stderr(Stdio::piped());
    let mut serving = Serving::start_as(&mut command, &dir).expect("it serves");
    let mut said = serving.process.stderr.take().expect("piped");
    redis::cmd("SET").arg("k").arg("of a client").exec(&mut rounds::connect(&serving.address)).expect("set");
    serving.end();
    let mut lines = String::new();
    said.read_to_string(&mut lines).expect("read");
    let warning = "holds records that clients of `firn serve` do not see";
    assert_eq!(lines.matches(warning).count(), 1, "{lines}");
    for (command, rest, shown) in
        [("get", &["k"][..], "of a client\n"), ("scan", &[], "0\tk\tstring\t-\tof a client\n")]
    {
        let answer = firn(&[&[command, "--dir", text(&dir)], rest].concat());
        assert!(answer.complaint.contains(warning), "{answer:?}");
        assert_eq!(answer.ended(0), shown);
    }
    // Those that are asked for are no surprise.
    let answer = firn(&["scan", "--dir", text(&dir), "--keyspace", "default"]);
    assert_eq!((answer.out.as_str(), answer.complaint.as_str()), ("k\tv\n", ""));
    // Where there is none, nothing is told.
    let answer = Served::with(|client| redis::cmd("SET").arg("k").arg("v").exec(client).expect("set"));
    assert_eq!(answer.call("get", &["k"]).complaint, "");
}

#[test]
fn nothing_is_written_past_a_server() {
    let served = Served::with(|client| redis::cmd("SET").arg("k").arg("v").exec(client).expect("set"));
    let words = ["written by `firn serve`", "redis-cli SET KEY VALUE"];
    served.call("put", &["k", "w"]).complained(1, &words);
    served.call("put", &["--create", "--keyspace", "keys", "y", "1"]).complained(1, &words);
    served.call("put", &["--create", "--keyspace", "mine", "y", "1"]).complained(1, &words);
    served.call("delete", &["k"]).complained(1, &words);
    assert_eq!(served.call("scan", &[]).ended(0), "0\tk\tstring\t-\tv\n");
    // Elsewhere there are no numbers of databases.
    let plain = tempfile::tempdir().expect("a directory");
    firn(&["put", "--create", "--dir", text(plain.path()), "k", "v"]).ended(0);
    firn(&["get", "--dir", text(plain.path()), "--database", "0", "k"]).complained(2, &["`firn serve`"]);
}

/// The keyspace `name` of the server's.
fn keyspace_of(db: &firn::Db, name: &str) -> firn::Keyspace {
    db.in_keyspace(db.keyspace(name).expect("there"))
}

/// The engine's key of `key` in the first database.
fn record_of(key: &str) -> Vec<u8> {
    let mut record = Vec::new();
    UserKey::of(DatabaseId::FIRST, key.as_bytes()).expect("short").encode(&mut record);
    record
}

/// The engine's keys of the parts of what stands at `key`, with their values.
fn parts_of(db: &firn::Db, key: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let value = keyspace_of(db, "keys").get(record_of(key)).expect("read").expect("a value");
    let generation = Value::decode(&value).expect("a value").collection().expect("a collection").generation;
    let all = keyspace_of(db, "fields").range(..).expect("begun");
    let all = all.map(|record| record.expect("read"));
    all.filter(|(record, _)| FieldKey::decode(record).expect("a part").collection.generation == generation)
        .collect()
}

/// `firn verify` names each of `words` in one line, and nothing else is wrong.
#[track_caller]
fn found(dir: &Path, words: &[&str]) {
    let answer = firn(&["verify", "--dir", text(dir)]);
    assert_eq!(answer.code, 3, "{answer:?}");
    let lines: Vec<&str> = answer.out.lines().filter(|line| line.starts_with("damage: ")).collect();
    assert!(lines.len() == 1 && words.iter().all(|word| lines[0].contains(word)), "{words:?}: {answer:?}");
    assert!(answer.out.lines().last().is_some_and(|line| line.starts_with("damaged: ")), "{answer:?}");
}

#[test]
fn verify_names_what_no_server_has_written() {
    let put = |db: &firn::Db, keyspace: &str, key: &[u8], value: &[u8]| {
        keyspace_of(db, keyspace).put(key, value).expect("written");
    };
    type Write<'w> = &'w dyn Fn(&firn::Db);
    let part = |field: Field<'_>, generation: u64| {
        let database = DatabaseId::FIRST;
        let collection = firn_format::datatype::CollectionId {
            database,
            slot: Slot::of(b"h"),
            generation: Generation(generation),
        };
        let mut record = Vec::new();
        FieldKey { collection, field }.encode(&mut record);
        record
    };
    let first_of = |db: &firn::Db, key: &str| parts_of(db, key).swap_remove(0).0;
    let cases: [(Write<'_>, &[&str]); 9] = [
        (
            &|db: &firn::Db| put(db, "keys", b"y", b"1"),
            &["record \"y\" of keyspace `keys`", "none that `firn serve` writes"],
        ),
        (
            &|db: &firn::Db| put(db, "keys", &record_of("city"), b"\x09"),
            &["key \"city\" of database 0", "a tag of a value"],
        ),
        (&|db: &firn::Db| put(db, "fields", b"y", b"1"), &["record \"y\" of keyspace `fields`"]),
        (&|db: &firn::Db| put(db, "purges", b"y", b"1"), &["record \"y\" of keyspace `purges`"]),
        (&|db: &firn::Db| put(db, "expiry", b"y", b"1"), &["record \"y\" of keyspace `expiry`"]),
        (
            &|db: &firn::Db| put(db, "fields", &part(Field::HashField(b"x"), 1 << 50), b"1"),
            &["collection", "no key has it"],
        ),
        (
            &|db: &firn::Db| {
                let first = first_of(db, "h");
                keyspace_of(db, "fields").delete(first).expect("deleted");
            },
            &["hash \"h\" of database 0", "it says 2 fields, and 1 are there"],
        ),
        (
            &|db: &firn::Db| {
                // Found by another score than it has.
                let records = parts_of(db, "z");
                let fields = keyspace_of(db, "fields");
                let by_name = |record: &&(Vec<u8>, Vec<u8>)| !record.1.is_empty();
                let named: Vec<_> = records.iter().filter(by_name).collect();
                fields.put(&named[0].0, &named[1].1).expect("written");
            },
            &["zset \"z\" of database 0", "a member is not found by its score"],
        ),
        (
            &|db: &firn::Db| {
                let expiry = keyspace_of(db, "expiry");
                let all: Vec<_> = expiry.range(..).expect("begun").collect();
                all.into_iter().for_each(|record| {
                    expiry.delete(record.expect("read").0).expect("deleted");
                });
            },
            &["key \"z\" of database 0", "no record of `expiry`"],
        ),
    ];
    for (write, words) in cases {
        let served = Served::with(one_of_each);
        served.write_past(write);
        found(&served.dir(), words);
    }
}
