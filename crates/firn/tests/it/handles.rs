//! Handles: cloned, kept, sent to threads; with order and without.

use firn::{Db, ErrorKind, Keyspace, OrderedBatch, PointDb, PointKeyspace, ScanRange, WriteOptions};

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
    assert_eq!(orders.scan(ScanRange::all()).expect("scan").count(), 1);
    // The last handle is still there, so that no other one opens the directory.
    assert_eq!(Db::open(dir.path()).expect_err("it is open").kind(), ErrorKind::Conflict);
    drop(orders);
    let db = Db::open(dir.path()).expect("opened again");
    let orders = db.in_keyspace(db.keyspace("orders").expect("it is there"));
    assert_eq!(orders.get("17").expect("get").as_deref(), Some(&b"open"[..]));
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
    let keys: Vec<Vec<u8>> =
        db.scan(ScanRange::all()).expect("scan").map(|record| record.unwrap().0).collect();
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
