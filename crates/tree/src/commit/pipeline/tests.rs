//! Writers without room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::{Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, OrderedOp, OrderedOpKind};
use firn_storage::ManualClock;
use firn_storage::place::Memory;

use crate::commit::Appended;
use crate::settings::TreeSettings;
use crate::tree::Tree;
use crate::tree::tests::manual;

#[test]
fn who_waits_for_room_writes_its_values_once() {
    let settings = TreeSettings {
        segment_bytes: 4 << 20,
        memtable_bytes: 4 << 20,
        buffer_bytes: 8 << 20,
        buffer_bytes_max: 16 << 20,
        ..TreeSettings::default()
    };
    let tree =
        Tree::open(manual(Memory::new(), settings, Arc::new(ManualClock::new(1_000_000)))).expect("opens");
    let beside = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let large = tree.create_keyspace("large", beside).expect("created");
    let value = vec![7; 100 << 10];
    let append = |keyspace: KeyspaceId, key: &[u8]| {
        let op = OrderedOp { keyspace, kind: OrderedOpKind::Put, key, value: &value, expires_at_ms: 0 };
        tree.shared.commit.append_ops(&*tree.shared, std::iter::once(op)).expect("no failure")
    };
    let mut key = 0_u32;
    while matches!(append(KEYSPACE_DEFAULT, &key.to_be_bytes()), Appended::At(_)) {
        key += 1;
        assert!(key < 1000, "16 MiB are never full");
    }
    let written = || tree.shared.values.counters.written_bytes.load(Ordering::Relaxed);
    let before = written();
    for _ in 0..10 {
        assert!(matches!(append(large, b"key"), Appended::Stopped));
    }
    assert_eq!(written(), before, "it is written once there is room");
    while tree.step().expect("no failure") {}
    assert!(matches!(append(large, b"key"), Appended::At(_)));
    assert!((100 << 10..110 << 10).contains(&(written() - before)));
    tree.close().expect("closed");
}
