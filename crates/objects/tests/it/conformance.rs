//! The contract of backends of objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use firn_objects::{ObjectBackend, ObjectOptions};
use firn_s3_server::Faults;
use firn_storage::Storage;
use firn_storage::backend::conformance::check_objects;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::world::{PART_BYTES, World, runtime};

#[test]
fn a_backend_on_s3_keeps_the_contract() {
    let world = World::new();
    let next = AtomicU32::new(0);
    let make = || {
        let prefix = format!("a/{}", next.fetch_add(1, Ordering::Relaxed));
        Arc::new(world.backend(&prefix)) as Arc<dyn Storage>
    };
    check_objects(&make, 2 * PART_BYTES + 1);
}

#[test]
fn a_backend_on_s3_keeps_the_contract_where_requests_fail() {
    let world = World::new();
    world.server.set_faults(Faults { refused_per_mille: 50, lost_per_mille: 50, ..Faults::default() });
    let next = AtomicU32::new(0);
    let make = || {
        let prefix = next.fetch_add(1, Ordering::Relaxed).to_string();
        Arc::new(world.backend(&prefix)) as Arc<dyn Storage>
    };
    check_objects(&make, 2 * PART_BYTES + 1);
    let counts = world.server.counts();
    assert!(counts.refused > 0 && counts.lost > 0, "{counts:?}");
}

#[test]
fn a_backend_in_memory_keeps_the_contract() {
    let runtime = runtime();
    let make = || {
        let options = ObjectOptions { part_bytes: 1000, ..ObjectOptions::new("memory") };
        let backend = ObjectBackend::over(Arc::new(InMemory::new()), Path::from("x/y"), &options, &runtime);
        Arc::new(backend) as Arc<dyn Storage>
    };
    check_objects(&make, 300_000);
}

#[test]
fn backends_below_one_bucket_do_not_meet() {
    let world = World::new();
    let backends = ["a", "a/b", "a-b", ""].map(|prefix| world.backend(prefix));
    for (index, backend) in backends.iter().enumerate() {
        backend.publish("1.manifest", &[index as u8]).unwrap();
        backend.publish(&format!("own-{index}"), b"").unwrap();
    }
    for (index, backend) in backends.iter().enumerate() {
        let expected = [("1.manifest".to_owned(), 1), (format!("own-{index}"), 0)];
        assert_eq!(backend.list().unwrap(), expected);
    }
}

#[test]
fn what_is_asked_for_ahead_is_not_asked_for_again() {
    let world = World::new();
    let backend = world.backend("a");
    backend.publish("1.table", &vec![7; 100_000]).unwrap();
    let file = backend.open_read("1.table").unwrap();
    let before = world.server.counts().reads;
    file.will_need(1000, 50_000);
    file.will_need(2000, 1000);
    for offset in (1000..51_000).step_by(5000) {
        let mut out = [0; 5000];
        file.read_at(offset, &mut out).unwrap();
        assert_eq!(out, [7; 5000]);
    }
    assert_eq!(world.server.counts().reads - before, 1);
    file.read_at(1000, &mut [0; 10]).unwrap();
    assert_eq!(world.server.counts().reads - before, 2, "what was read is forgotten");
}
