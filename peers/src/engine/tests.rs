use std::path::Path;

use firn_bench::suite::BenchDir;
use firn_bench::target::{OpenOptions, SortedRecords, Target};

use super::*;
use crate::args::SuiteName;
use crate::native;

fn args() -> CompareArgs {
    CompareArgs {
        engines: Vec::new(),
        suite: SuiteName::Ycsb,
        repetitions: 1,
        baseline: None,
        limit_bytes: None,
        rocksdb_library: native::rocksdb(),
    }
}

fn open(name: &str, dir: &Path) -> Box<dyn Target> {
    let options = OpenOptions {
        dir: dir.to_owned(),
        memory_bytes: Some(64 << 20),
        separate_bytes: None,
        worker: None,
        space_amplification_max: None,
        read_compaction_price: None,
        compression: None,
        durability: firn_engine::Durability::Process,
        threads: 2,
    };
    factory(name, &args()).unwrap().open(&options).unwrap()
}

/// Engines that can run here: all but those whose library `peers/setup` has not brought.
fn present() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| !name.starts_with("rocksdb") || native::rocksdb().exists())
}

#[test]
fn every_engine_keeps_what_it_is_given() {
    for name in present() {
        let dir = BenchDir::new(None).unwrap();
        let target = open(name, dir.path());
        let mut client = target.client().unwrap();
        for number in 0..3_000u32 {
            client.load(format!("key{number:06}").as_bytes(), &[number as u8; 600]).unwrap();
        }
        client.finish().unwrap();
        client.update(b"key000007", b"new").unwrap();
        client.delete(b"key000008").unwrap();
        client.insert(b"key000009a", &[]).unwrap();
        target.drain().unwrap();

        let mut value = b"left over".to_vec();
        assert!(client.read(b"key000007", &mut value).unwrap(), "{name}");
        assert_eq!(value, b"new", "{name}");
        assert!(!client.read(b"key000008", &mut value).unwrap(), "{name}");
        assert!(value.is_empty(), "{name}");
        assert!(client.read(b"key000009a", &mut value).unwrap() && value.is_empty(), "{name}");
        assert!(client.read(b"key002999", &mut value).unwrap(), "{name}");
        assert_eq!(value, [2_999u32 as u8; 600], "{name}");

        let mut keys = Vec::new();
        let seen =
            client.scan(b"key000007", 4, &mut |key, _| keys.push(String::from_utf8_lossy(key).into_owned()));
        assert_eq!(seen.unwrap(), 4, "{name}");
        assert_eq!(keys, ["key000007", "key000009", "key000009a", "key000010"], "{name}");
        assert_eq!(client.scan(b"key002998", 10, &mut |_, _| {}).unwrap(), 2, "{name}");
        assert!(target.disk_bytes() > 3_000 * 500, "{name}: {} bytes on disk", target.disk_bytes());
        drop(client);
        target.close().unwrap();
    }
}

/// Records in order, by their numbers.
struct Numbered {
    left: std::ops::Range<u32>,
    key: String,
}

impl SortedRecords for Numbered {
    fn next(&mut self) -> Option<(&[u8], &[u8])> {
        self.key = format!("key{:06}", self.left.next()?);
        Some((self.key.as_bytes(), self.key.as_bytes()))
    }
}

#[test]
fn batches_and_ingestions_are_all_there_and_those_of_other_engines_are_refused() {
    for name in present() {
        let dir = BenchDir::new(None).unwrap();
        let target = open(name, dir.path());
        let mut client = target.client().unwrap();
        let records = |left| Numbered { left, key: String::new() };
        let written = [client.write_batch(&mut records(0..500)), client.ingest(&mut records(500..20_000))];
        let are_known = !["lmdb", "redb"].contains(&name);
        for result in written {
            assert_eq!(result.is_ok(), are_known, "{name}: {result:?}");
        }
        if are_known {
            let mut seen = 0;
            let count = client.scan(b"", 30_000, &mut |key, value| seen += u32::from(key == value));
            assert_eq!((count.unwrap(), seen), (20_000, 20_000), "{name}");
        }
        drop(client);
        target.close().unwrap();
    }
}

#[test]
fn every_engine_opens_again_with_its_data() {
    for name in present() {
        let dir = BenchDir::new(None).unwrap();
        let target = open(name, dir.path());
        target.client().unwrap().insert(b"key", b"value").unwrap();
        target.drain().unwrap();
        target.close().unwrap();
        let again = open(name, dir.path());
        let mut value = Vec::new();
        assert!(again.client().unwrap().read(b"key", &mut value).unwrap(), "{name}");
        assert_eq!(value, b"value", "{name}");
        again.close().unwrap();
    }
}

#[test]
fn unknown_engines_and_missing_libraries_are_named() {
    let error = factory("leveldb", &args()).err().unwrap();
    assert!(error.message().contains("leveldb") && error.message().contains("fjall-kvsep"));
    let missing = CompareArgs { rocksdb_library: "/nowhere/librocksdb.so".into(), ..args() };
    assert!(factory("rocksdb", &missing).err().unwrap().message().contains("peers/setup"));
}
