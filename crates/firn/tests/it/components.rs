//! Components in place of the defaults: storage, clock, filters, extractors, executor.

use std::sync::Arc;

use firn::storage::backend::{
    BackendUrl, Crash, Effect, Fault, Faulty, Memory, OpenWith, Opener, Operation, Registry, Throttling, When,
};
use firn::storage::{ManualClock, Storage};
use firn::{CompactionFilter, Db, ErrorKind, FilterVerdict, KeyspaceSettings, PrefixExtractor, WriteOptions};

#[test]
fn a_database_in_memory() {
    let memory = Memory::new();
    let open = |memory: &Memory| Db::builder("in memory").storage(Arc::new(memory.clone())).open();
    let db = open(&memory).expect("opened");
    db.put("a", "1").expect("put");
    assert_eq!(open(&memory).expect_err("it is open").kind(), ErrorKind::Conflict);
    assert!(!std::path::Path::new("in memory").exists(), "the path is only a name");
    // What a killed process would leave, while this one goes on.
    let killed = memory.crash(Crash::Kill);
    db.put("b", "2").expect("put");
    drop(db);
    assert_eq!(open(&killed).expect("opened").range(..).expect("scan").count(), 1);
    assert_eq!(open(&memory).expect("opened").range(..).expect("scan").count(), 2);
}

#[test]
fn time_is_the_clocks() {
    let clock = Arc::new(ManualClock::new(10_000));
    let db = Db::builder("clock").storage(Arc::new(Memory::new())).clock(Arc::clone(&clock) as _);
    let db = db.open().expect("opened");
    let until = WriteOptions { expires_at_ms: 20_000, ..WriteOptions::default() };
    db.in_default().with_options(until).put("a", "1").expect("put");
    assert!(db.get("a").expect("get").is_some());
    clock.advance(std::time::Duration::from_secs(10));
    assert_eq!(db.get("a").expect("get"), None);
}

/// Closing tells what dropping would hide.
#[test]
fn a_failed_sync_shows_at_close() {
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let db = Db::builder("faulty").storage(Arc::clone(&faulty) as _).open().expect("opened");
    db.put("a", "1").expect("put");
    let effect = Effect::Fail(firn::storage::ErrorKind::Io);
    faulty.inject(Fault {
        on: Operation::Sync,
        file: "*.log".into(),
        when: When::Always { after: 0 },
        effect,
    });
    let error = db.close().expect_err("the log cannot be made durable");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(error.to_string().contains("sync"), "{error}");
    assert!(faulty.struck_count() > 0);
    db.close().expect("it is closed nevertheless");
    faulty.clear_faults();
    Db::builder("faulty").storage(faulty).open().expect("the directory is free");
}

/// What a failed sync leaves cannot be known, so nothing is acknowledged after it.
#[test]
fn a_failed_sync_is_final() {
    let faulty = Arc::new(Faulty::new(Arc::new(Memory::new())));
    let db = Db::builder("faulty").storage(Arc::clone(&faulty) as _).open().expect("opened");
    db.put("a", "1").expect("put");
    let effect = Effect::Fail(firn::storage::ErrorKind::Io);
    faulty.inject(Fault { on: Operation::Sync, file: "*.log".into(), when: When::Once { after: 0 }, effect });
    assert_eq!(db.sync().expect_err("the sync failed").kind(), ErrorKind::Closed);
    for _ in 0..2 {
        let refused = db.put("b", "2").expect_err("refused for good");
        assert_eq!(refused.kind(), ErrorKind::Closed);
        assert!(refused.to_string().contains("sync"), "the first cause is told: {refused}");
    }
    assert_eq!(db.get("a").expect("reads go on").as_deref(), Some(&b"1"[..]));
    db.close().expect_err("nothing can be made durable");
}

/// Drops values that say so.
#[derive(Debug)]
struct Forget;

impl CompactionFilter for Forget {
    fn name(&self) -> &str {
        "test.forget.1"
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        if value == b"forget me" { FilterVerdict::Drop } else { FilterVerdict::Keep }
    }
}

/// The first four bytes.
#[derive(Debug)]
struct Four;

impl PrefixExtractor for Four {
    fn name(&self) -> &str {
        "test.fixed.1:4"
    }

    fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
        (key.len() >= 4).then_some(4)
    }
}

#[test]
fn filters_and_extractors_are_named_by_keyspaces() {
    let db = Db::builder("named").storage(Arc::new(Memory::new()));
    let db = db.compaction_filter(Arc::new(Forget)).prefix_extractor(Arc::new(Four)).open().expect("opened");
    let settings = KeyspaceSettings {
        compaction_filter: Some("test.forget.1".into()),
        prefix_extractor: Some("test.fixed.1:4".into()),
        ..KeyspaceSettings::default()
    };
    let notes = db.in_keyspace(db.create_keyspace("notes", settings).expect("created"));
    for number in 0..100 {
        let value = if number % 2 == 0 { "forget me" } else { "keep me" };
        notes.put(format!("no{:02} {number}", number % 10), value).expect("put");
    }
    notes.compact_range("", None).expect("compacted");
    assert_eq!(notes.range(..).expect("scan").count(), 50);
    assert_eq!(notes.prefix(b"no03").expect("scan").count(), 10);
    assert_eq!(notes.prefix(b"no77").expect("scan").count(), 0);
    let unknown =
        KeyspaceSettings { compaction_filter: Some("nobody".into()), ..KeyspaceSettings::default() };
    let error = db.create_keyspace("other", unknown).expect_err("no code has that name");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("nobody"), "{error}");
}

/// Drops values of its length, which its name does not say.
#[derive(Debug)]
struct OfLength(usize);

impl CompactionFilter for OfLength {
    fn name(&self) -> &str {
        "test.length.1"
    }

    fn parameters_hash(&self) -> u64 {
        self.0 as u64
    }

    fn verdict(&self, _key: &[u8], value: &[u8]) -> FilterVerdict {
        if value.len() == self.0 { FilterVerdict::Drop } else { FilterVerdict::Keep }
    }
}

/// Keyspaces keep its name alone.
#[test]
fn a_filter_may_have_other_parameters_whenever_a_database_is_opened() {
    let memory = Memory::new();
    for length in [1, 2] {
        let db = Db::builder("parameters").storage(Arc::new(memory.clone()));
        let db = db.compaction_filter(Arc::new(OfLength(length))).open().expect("opened");
        let settings = KeyspaceSettings {
            compaction_filter: Some("test.length.1".into()),
            ..KeyspaceSettings::default()
        };
        let notes = db.in_keyspace(db.create_keyspace("notes", settings).expect("created, or there"));
        for key in ["a", "b", "c"] {
            notes.put(key, "n".repeat(1 + usize::from(key.as_bytes()[0] - b'a'))).expect("put");
        }
        notes.compact_range("", None).expect("compacted");
        let lengths: Vec<usize> =
            ["a", "b", "c"].iter().filter_map(|key| Some(notes.get(key).expect("read")?.len())).collect();
        let kept: Vec<usize> = (1..=3).filter(|one| *one != length).collect();
        assert_eq!(lengths, kept);
        db.close().expect("closed");
    }
}

/// Counts jobs and runs them in the caller.
#[derive(Debug)]
struct Counting {
    inner: firn::jobs::Local,
    count: std::sync::atomic::AtomicUsize,
}

impl firn::jobs::Executor for Counting {
    fn submit(&self, spec: firn::jobs::JobSpec) -> firn::jobs::Result<firn::jobs::JobHandle> {
        self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.inner.submit(spec)
    }
}

#[test]
fn compactions_run_on_the_executor_given() {
    let memory: Arc<dyn firn::storage::Storage> = Arc::new(Memory::new());
    let inner = firn::jobs::Local::inline(Arc::clone(&memory), Arc::default());
    let executor = Arc::new(Counting { inner, count: Default::default() });
    let db = Db::builder("counted").storage(memory).executor(Arc::clone(&executor) as _);
    let db = db.open().expect("opened");
    for round in ["1", "2"] {
        db.put("a", round).expect("put");
        db.flush().expect("flushed");
    }
    db.in_default().compact_range("", None).expect("compacted");
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"2"[..]));
    assert!(executor.count.load(std::sync::atomic::Ordering::Relaxed) > 0);
}

/// Opens one directory in memory by every name of its scheme.
#[derive(Debug)]
struct InMemory(Memory);

impl Opener for InMemory {
    fn form(&self) -> &str {
        "mem://NAME"
    }

    fn throttling(&self) -> Throttling {
        Throttling::ByCall
    }

    fn open(&self, _url: &BackendUrl<'_>, _with: &OpenWith) -> firn::storage::Result<Arc<dyn Storage>> {
        Ok(Arc::new(self.0.clone()))
    }
}

#[test]
fn a_shared_backend_is_opened_by_the_registry() {
    let (home, memory) = (tempfile::tempdir().expect("a directory"), Memory::new());
    let mut registry = Registry::new();
    registry.register("mem", Arc::new(InMemory(memory.clone())));
    let open = |name: &str| {
        let builder = Db::builder(home.path().join("db")).registry(registry.clone());
        builder.shared_at(name, OpenWith::default()).open()
    };
    let db = open("mem://a").expect("opened");
    db.put("a", "1").expect("put");
    db.close().expect("closed");
    let shared = memory.list().expect("listed");
    assert!(shared.iter().any(|(name, _)| name.starts_with("manifest-")), "{shared:?}");
    assert_eq!(open("mem://a").expect("again").get("a").expect("get").as_deref(), Some(&b"1"[..]));
    let error = open("s3://bucket/prefix").expect_err("no opener");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("file:///DIRECTORY or mem://NAME, found"), "{error}");
}

#[test]
fn a_database_that_is_opened_to_be_read_makes_no_shared_directory() {
    let (home, elsewhere) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("another"));
    let shared = elsewhere.path().join("shared");
    let open = |name: &str, read_only: bool| {
        let with = OpenWith { create: true, ..OpenWith::default() };
        let builder = Db::builder(home.path().join(name)).read_only(read_only);
        builder.shared_at(shared.to_str().expect("text"), with).open()
    };
    Db::open(home.path().join("known")).expect("opened").close().expect("closed");
    open("known", true).expect_err("its shared part is missing");
    assert!(!shared.exists());
    open("new", false).expect("a new database").close().expect("closed");
    open("new", true).expect("a database to read");
}
