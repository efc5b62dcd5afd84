//! What a worker may touch.

use std::sync::Arc;

use firn_format::Sequence;
use firn_format::manifest::TableMeta;
use firn_job_service::Scoped;
use firn_jobs::{CompactSpec, JobInput, JobSpec};
use firn_storage::backend::Memory;
use firn_storage::{Storage, SystemClock};

#[test]
fn an_attempt_reads_its_inputs_creates_under_its_stem_and_nothing_else() {
    let backend = Arc::new(Memory::new());
    for name in ["in-000000.table", "other-000000.table", "manifest-0000000000000001"] {
        backend.publish(name, b"bytes").unwrap();
    }
    let table = TableMeta {
        file: "in-000000.table".to_owned(),
        bytes: 5,
        file_checksum: 0,
        smallest: Vec::new(),
        largest: Vec::new(),
        sequence_min: Sequence(0),
        sequence_max: Sequence(0),
        entry_count: 0,
        tombstone_count: 0,
        range_tombstone_count: 0,
        data_bytes: 0,
        content_hash: 0,
    };
    let inputs = vec![JobInput { table, level: 0, run: 1 }];
    let spec: JobSpec =
        CompactSpec { inputs, output_stem: "out-e-00ff".to_owned(), ..Default::default() }.into();
    let scoped = Scoped::new(Arc::<Memory>::clone(&backend), &spec, Arc::new(SystemClock::new()));
    let mut bytes = [0; 5];
    scoped.open_read("in-000000.table").unwrap().read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
    assert!(
        scoped.open_read("in-000000.table").unwrap().bytes().unwrap().is_none(),
        "what is mapped is not counted"
    );
    scoped.create("out-e-00ff-000000.table").unwrap().write_at(0, b"more").unwrap();
    scoped.open_read("out-e-00ff-000000.table").unwrap();
    for other in ["other-000000.table", "manifest-0000000000000001", "LOCK"] {
        assert!(scoped.open_read(other).is_err() && scoped.open_read_known(other, 5).is_err(), "{other}");
    }
    for other in ["out-e-000000.table", "out-000000.table", "in-000000.table", "LOCK", "out-e-00ff.log"] {
        assert!(scoped.create(other).is_err(), "{other}");
    }
    let mine = "out-e-00ff-000000.table";
    assert!(scoped.remove(mine).is_err() && scoped.rename(mine, "out-e-00ff-000001.table").is_err());
    assert!(scoped.list().is_err() && scoped.lock(false).is_err() && scoped.open_write(mine).is_err());
    assert!(scoped.publish("manifest-0000000000000002", b"mine").is_err());
    assert!(scoped.unfinished_uploads().is_err());
    assert!(scoped.link_into(&[], std::path::Path::new("/")).is_err());
    assert_eq!(backend.list().unwrap().len(), 4);
}
