//! Databases of the hashed engine in a bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn::{Durability, EngineKind, HashSettings, PointDb, Settings, WriteOptions};
use firn_engine::settings::{EngineSettings as _, MIB};
use firn_storage::Storage;
use firn_storage::backend::{Local, LocalOptions};

use crate::world::World;
use firn_s3_server::Faults;

const SHARED: WriteOptions = WriteOptions { durability: Some(Durability::Shared), expires_at_ms: 0 };

/// Opens the database in the bucket from a directory of the machine `name`, taking it over.
fn open(world: &World, name: &str) -> PointDb {
    let settings = Settings::for_memory(16 * MIB);
    let own = HashSettings {
        segment_bytes: MIB,
        // All that is sealed is read from the bucket.
        local_bytes_max: 0,
        ..HashSettings::for_memory(settings.memory_bytes)
    };
    let directory = world.directory.path().join(format!("machine-{name}"));
    let builder = PointDb::builder(directory).engine(EngineKind::Hash).settings(settings).hash_settings(own);
    builder.shared(Arc::new(world.backend("db"))).take_over(true).open_points().expect("opened")
}

fn value(round: u32, number: u32) -> Vec<u8> {
    // Some lie alone, one of them in more than one part.
    let bytes = match number {
        7 | 57 => 300_000,
        9 | 59 => 6_000_000,
        _ => 30_000,
    };
    vec![(round * 7 + number) as u8; bytes]
}

#[test]
fn what_was_acknowledged_survives_machines_on_a_failing_store() {
    let world = World::new();
    let (mut model, mut before) = (BTreeMap::new(), None);
    for round in 0..3_u32 {
        world.server.set_faults(Faults { refused_per_mille: 25, lost_per_mille: 25, ..Faults::default() });
        let db = open(&world, &round.to_string());
        drop(before.take());
        for (number, value) in &model {
            let found = db.get(u32::to_be_bytes(*number)).expect("get");
            assert!(found.as_ref() == Some(value), "round {round}: {number}");
        }
        let (keyspace, mut session) = (db.in_default().id(), db.session());
        for number in (round * 20..round * 20 + 60).filter(|number| number % 50 < 10) {
            for put in [number, number + 1000, number + 2000, number + 3000] {
                db.put(put.to_be_bytes(), value(round, put)).expect("put");
                model.insert(put, value(round, put));
            }
            session.put(keyspace, &number.to_be_bytes(), &value(round, number), SHARED).expect("shared");
        }
        let stats = db.stats().hash.expect("a hashed engine");
        assert!(stats.segment_count + stats.cold.segment_count > 2, "{stats:?}");
        let directory = world.directory.path().join(format!("machine-{round}"));
        let local = Local::open(directory, LocalOptions { create: false }).expect("a directory");
        let here = local.list().expect("list");
        let sealed = here.iter().filter(|(name, bytes)| name.ends_with(".hybrid") && *bytes > MIB).count();
        assert!(sealed <= 1, "{here:?}");
        // The next machine takes over from it.
        before = Some(db);
    }
}
