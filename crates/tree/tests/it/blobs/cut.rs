//! Blob segments that were sealed behind the end of the log that a copy has.

use std::sync::Arc;

use firn_engine::{Engine, KeyspaceSettings, WriteOptions};
use firn_storage::backend::Operation;
use firn_tree::{Background, Settings};

use crate::support::in_time::in_time;
use crate::support::world::{self, Hook, World, get_in, settle, tiny};

fn settings() -> Settings {
    Settings { space_amplification_max: 1.1, ..tiny() }.with_engine(|tree| tree.blob_segment_bytes = 1 << 20)
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; 3000]
}

/// What the copy does not have is collected, and nothing else.
fn collects(world: &World) {
    let tree = world.open().unwrap();
    let keyspace = tree.keyspace("large").unwrap();
    let collecting = Arc::clone(&tree);
    in_time("collecting", move || settle(&collecting));
    assert!(tree.stats().tree.expect("a tree").blobs.gc_count > 0, "{:?}", tree.stats());
    let session = &mut world::session(&tree);
    for key in 0..200_u32 {
        let expected = (key < 100).then(|| value(key));
        assert_eq!(get_in(session, keyspace, &key.to_be_bytes()), expected, "{key}");
    }
}

#[test]
fn a_copy_made_while_others_write_collects_by_itself() {
    let world = World::new(settings());
    let hook = Arc::new(Hook::default());
    let faulty = hook.before(&world.storage, Operation::Sync, "*.log");
    let tree = world.open_on(Arc::new(faulty), Background::Manual);
    let separated = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    let keyspace = tree.create_keyspace("large", separated).unwrap();
    let mut session = world::session(&tree);
    let mut put = move |keys: std::ops::Range<u32>| {
        for key in keys {
            session.put(keyspace, &key.to_be_bytes(), &value(key), WriteOptions::default()).unwrap();
        }
    };
    put(0..100);
    // When the log that the copy has is ended, and the values of what follows go to the same
    // segment.
    let mut is_written = false;
    hook.set(move || {
        if !std::mem::replace(&mut is_written, true) {
            put(100..200);
        }
    });
    tree.copy_to("copy".as_ref()).unwrap();
    let copy = World { storage: world.storage.directory("copy".as_ref()).unwrap(), ..world.clone() };
    collects(&copy);
}
