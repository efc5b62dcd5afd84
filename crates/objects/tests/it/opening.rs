//! How many requests it takes to open a file of which the manifest knows the length, and how long
//! to open many.

use std::sync::Arc;
use std::time::Duration;

use firn::{Db, Settings};
use firn_format::manifest::TableMeta;
use firn_storage::ErrorKind;
use firn_storage::file::blob::BlobSegment;
use firn_storage::file::cache::BlockCache;
use firn_storage::file::table::{ReaderOptions, TableReader};

use crate::content::{table, values};
use crate::world::{World, clock};
use firn_s3_server::Faults;
use firn_storage::Storage;

#[test]
fn a_table_is_opened_by_as_many_requests_as_its_parts_need() {
    let world = World::new();
    let backend = world.backend("a");
    let cache = Arc::new(BlockCache::new(1 << 20));
    // Of the second one filter and index are more than what is asked for at first.
    for (name, records, requests) in [("1.table", 1000, 1), ("2.table", 100_000, 2)] {
        let meta = table(&backend, name, 1, 0..records, 20);
        let before = world.server.counts();
        TableReader::open(&backend, &meta, &cache, ReaderOptions::default()).unwrap();
        let after = world.server.counts();
        let asked = (after.heads - before.heads, after.reads - before.reads);
        assert_eq!(asked, (0, requests), "{records} records, {} bytes", meta.bytes);
    }
}

#[test]
fn a_blob_segment_is_opened_by_as_many_requests_as_its_parts_need() {
    let world = World::new();
    let backend = world.backend("a");
    for (name, count, value_bytes, requests) in
        [("1.blobs", 10, 100, 1), ("2.blobs", 100, 10_000, 2), ("3.blobs", 40_000, 20, 3)]
    {
        let (meta, _) = values(&backend, name, count, value_bytes);
        let before = world.server.counts();
        BlobSegment::open(&backend, &meta, true).unwrap();
        let after = world.server.counts();
        let asked = (after.heads - before.heads, after.reads - before.reads);
        assert_eq!(asked, (0, requests), "{count} values, {} bytes", meta.bytes);
    }
}

#[test]
fn a_file_that_is_gone_or_has_another_length_is_not_opened() {
    let world = World::new();
    let backend = world.backend("a");
    let meta = table(&backend, "1.table", 1, 0..5000, 50);
    let (value_meta, _) = values(&backend, "2.blobs", 100, 2000);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let open = |meta: &TableMeta| TableReader::open(&backend, meta, &cache, ReaderOptions::default());
    for bytes in [meta.bytes - 1, meta.bytes + 1, 10 * meta.bytes, meta.bytes / 10] {
        let error = open(&TableMeta { bytes, ..meta.clone() }).unwrap_err();
        assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, "1.table"), "{error}");
        let text = format!("expected {bytes} bytes, found {}", meta.bytes);
        assert!(error.to_string().contains(&text), "{error}");
    }
    let mut other = value_meta.clone();
    other.bytes += 8;
    let error = BlobSegment::open(&backend, &other, true).unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (ErrorKind::Corrupt, "2.blobs"), "{error}");
    let missing = TableMeta { file: "3.table".to_owned(), ..meta };
    assert_eq!(open(&missing).unwrap_err().kind, ErrorKind::NotFound);
    other.file = "4.blobs".to_owned();
    assert_eq!(BlobSegment::open(&backend, &other, true).unwrap_err().kind, ErrorKind::NotFound);
}

/// How long it takes to open a database on a store that holds every answer back for `delay`. And
/// how many tables and blob segments it has.
fn open_again(delay: Duration) -> (Duration, usize) {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings::for_memory(64 << 20).with_engine(|tree| {
        tree.table_bytes = 64 << 10;
        tree.separate_bytes = 1000;
        tree.blob_segment_bytes = 256 << 10;
    });
    let backend = Arc::new(world.backend("db"));
    let builder = || {
        Db::builder(directory.path().join("db")).settings(settings.clone()).shared(Arc::clone(&backend) as _)
    };
    let value = |number: usize| vec![number as u8; if number.is_multiple_of(10) { 5000 } else { 600 }];
    let db = builder().create(true).open().unwrap();
    for number in 0..10_000_usize {
        db.put(number.to_be_bytes(), value(number)).unwrap();
    }
    db.in_default().compact_range([], None).unwrap();
    db.close().unwrap();

    world.server.set_faults(Faults { delay, ..Faults::default() });
    let clock = clock();
    let begin = clock.now();
    let db = builder().open().unwrap();
    let time = clock.now() - begin;
    world.server.set_faults(Faults::default());
    for number in (0..10_000_usize).step_by(7) {
        assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), Some(&*value(number)));
    }
    db.close().unwrap();
    let names = backend.list().unwrap();
    (time, names.iter().filter(|(name, _)| name.ends_with(".table") || name.ends_with(".blobs")).count())
}

#[test]
fn files_of_a_database_are_opened_while_others_are_on_their_way() {
    let delay = Duration::from_millis(100);
    let (time, files) = open_again(delay);
    println!("{time:?} for {files} files");
    assert!(files > 80, "{files} files");
    assert!(time < files as u32 * delay / 2, "{time:?} for {files} files");
}

#[test]
#[ignore = "figures: `cargo test -p firn-objects --test it -- --ignored --nocapture opening`"]
fn figures_of_opening() {
    for delay in [0, 5, 20, 50, 100].map(Duration::from_millis) {
        let (time, files) = open_again(delay);
        println!("{files} files, answers after {delay:?}: {time:?}");
    }
}
