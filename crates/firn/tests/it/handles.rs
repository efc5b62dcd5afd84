//! Handles: cloned, kept, sent to threads; with order and without.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use firn::{
    Builder, Change, CompactionFilter, Db, ErrorKind, FilterVerdict, KEYSPACE_DEFAULT, Keyspace,
    KeyspaceSettings, OrderedBatch, Outcome, PointDb, PointKeyspace, WriteOptions,
};

fn owned<T: Clone + Send + Sync + 'static>(handle: &T) -> T {
    handle.clone()
}

/// A keyspace keeps its database open, whatever becomes of the handle that it came from.
#[test]
fn handles_outlive_one_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let orders: Keyspace = owned(&db.in_keyspace(db.keyspace("orders").expect("created")));
    let points: PointKeyspace = owned(&*orders);
    drop(owned(&db));
    drop(db);
    #[expect(clippy::disallowed_methods, reason = "a test wants a real second thread")]
    let writer = std::thread::spawn(move || points.put("17", "open").map(drop));
    writer.join().expect("a thread").expect("put");
    assert_eq!(orders.range(..).expect("scan").count(), 1);
    // The last handle is still there, so that no other one opens the directory.
    assert_eq!(Db::open(dir.path()).expect_err("it is open").kind(), ErrorKind::Conflict);
    drop(orders);
    let db = Db::open(dir.path()).expect("opened again");
    let orders = db.in_keyspace(db.keyspace("orders").expect("it is there"));
    assert_eq!(orders.get("17").expect("get").as_deref(), Some(&b"open"[..]));
}

/// A transaction keeps its database open; scans and snapshots do not.
#[test]
fn scans_and_snapshots_leave_a_database_to_its_handles() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    for number in 0..5_000_u32 {
        db.put(number.to_be_bytes(), "v").expect("put");
    }
    let (scan, snapshot) = (db.range(..).expect("scan"), db.snapshot().expect("snapshot"));
    let transaction = db.transaction().expect("begun");
    drop(db);
    assert_eq!(Db::open(dir.path()).expect_err("a transaction is left").kind(), ErrorKind::Conflict);
    drop(transaction);
    assert_eq!(scan.count_records().expect_err("the database is closed").kind(), ErrorKind::Closed);
    Db::open(dir.path()).expect("opened again");
    drop(snapshot);
}

/// One handle closes the database for all.
#[test]
fn closing_is_for_all_handles() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let other = db.clone();
    db.close().expect("closed");
    assert_eq!(other.put("a", "1").expect_err("closed").kind(), ErrorKind::Closed);
}

/// What needs no order leads to what does, where the engine has it.
#[test]
fn a_database_without_order_leads_to_its_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let points: PointDb = owned(&*Db::open(dir.path()).expect("opened"));
    points.put("b", "2").expect("put");
    points.in_default().put("a", "1").expect("put");
    let db = points.ordered().expect("the tree keeps its keys in order");
    let mut batch = OrderedBatch::default();
    batch.delete_range(firn::KEYSPACE_DEFAULT, b"a", b"b").put(firn::KEYSPACE_DEFAULT, b"c", b"3");
    db.write_ordered(&batch, WriteOptions::default()).expect("written");
    let keys: Vec<Vec<u8>> = db.range(..).expect("scan").map(|record| record.unwrap().0).collect();
    assert_eq!(keys, [b"b", b"c"]);
}

/// Changes by name answer what they made.
#[test]
fn values_are_changed_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let all = db.in_default();
    assert_eq!((all.add("n", 40).expect("add"), all.add("n", 2).expect("add")), (40, 42));
    assert_eq!(all.append("text", "abc").expect("append"), 3);
    assert_eq!(all.set_range("text", 1, "XYZ").expect("set_range"), 4);
    assert_eq!(all.get("text").expect("get").as_deref(), Some(&b"aXYZ"[..]));
    assert!(!all.compare_and_set("text", Some(b"abc"), None).expect("compared"));
    assert!(all.compare_and_set("text", Some(b"aXYZ"), None).expect("compared"));
    assert_eq!(all.get("text").expect("get"), None);
    let error = all.append("n", "!").and_then(|_| all.add("n", 1)).expect_err("nine bytes");
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("9 bytes"), "{error}");
}

/// Opens the directory once another thread has closed it, within a minute.
fn open_when_closed(builder: impl Fn() -> Builder) -> Db {
    let (never, waits) = mpsc::channel::<()>();
    for _ in 0..6000 {
        match builder().open() {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                let _timed_out = waits.recv_timeout(Duration::from_millis(10));
            }
            opened => return opened.expect("the database was closed"),
        }
    }
    drop(never);
    panic!("no thread has closed the database");
}

/// Has a thread of `db` call `function` in an update; what it answers, within a minute.
fn in_an_update<T: Send + 'static>(db: Db, function: impl FnOnce(Db) -> T + Send + 'static) -> T {
    let mut session = db.engine().session();
    let (sender, receiver) = mpsc::channel();
    // The handle of this thread is gone before the function goes on.
    let (begin, begun) = mpsc::channel::<()>();
    let mut once = Some((function, db.clone()));
    let update = Box::new(move |_: Option<&[u8]>| {
        if let Some((function, held)) = once.take() {
            let _ended = begun.recv();
            sender.send(function(held)).expect("sent");
        }
        Change::Put(b"v".to_vec())
    });
    let outcome = session.update(KEYSPACE_DEFAULT, b"k", update, WriteOptions::default()).expect("begun");
    assert!(matches!(outcome, Outcome::Pending(_)), "done by a thread of the database");
    drop(db);
    drop(begin);
    let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("the function ended");
    drop(session);
    answer
}

#[test]
fn the_last_handle_may_be_dropped_by_an_update() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    db.put("a", "1").expect("put");
    in_an_update(db, drop);
    let db = open_when_closed(|| Db::builder(dir.path()));
    assert_eq!(db.get("a").expect("get").as_deref(), Some(&b"1"[..]));
}

#[test]
fn an_update_cannot_close_the_database_that_calls_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let (db, refused) = in_an_update(db, |db| {
        let refused = db.close().expect_err("it would wait for itself");
        (db, refused)
    });
    assert!(
        refused.kind() == ErrorKind::Invalid && refused.to_string().contains("drop the handle"),
        "{refused}"
    );
    db.put("a", "1").expect("it is open");
    db.close().expect("closed");
}

/// Drops the handle that it holds when it is first asked.
#[derive(Debug)]
struct Dropping(Mutex<Option<Db>>);

impl CompactionFilter for Dropping {
    fn name(&self) -> &str {
        "dropping.1"
    }

    fn verdict(&self, _key: &[u8], _value: &[u8]) -> FilterVerdict {
        drop(self.0.lock().expect("locked").take());
        FilterVerdict::Keep
    }
}

#[test]
fn the_last_handle_may_be_dropped_by_a_compaction_filter() {
    let dir = tempfile::tempdir().expect("a directory");
    let filter = Arc::new(Dropping(Mutex::default()));
    let db = Db::builder(dir.path()).compaction_filter(Arc::clone(&filter) as _).open().expect("opened");
    let settings =
        KeyspaceSettings { compaction_filter: Some("dropping.1".to_owned()), ..KeyspaceSettings::default() };
    let id = db.create_keyspace("filtered", settings).expect("created");
    let keyspace = db.in_keyspace(id);
    for number in 0..1000 {
        keyspace.put(format!("{number:04}"), [1; 300]).expect("put");
    }
    let engine = db.engine();
    *filter.0.lock().expect("locked") = Some(db);
    drop(keyspace);
    // The filter drops the last handle while these wait for what it does; either may be refused.
    let _refused = engine.flush();
    let _refused = Arc::clone(&engine).ordered().expect("a tree").compact_range(id, b"", None);
    assert!(filter.0.lock().expect("locked").is_none(), "the filter was asked");
    drop(engine);
    drop(open_when_closed(|| Db::builder(dir.path()).compaction_filter(Arc::clone(&filter) as _)));
}
