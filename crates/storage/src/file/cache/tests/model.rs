//! Against a map: never a wrong value, by one thread and by several.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn whatever_is_found_is_what_was_put_last() {
    let mut random = fastrand::Rng::with_seed(seed(3));
    for round in 0..12 {
        let (most, offsets) = [(200 << 10, 40), (3 << 20, 200), (40 << 20, 200)][round % 3];
        let cache = BlockCache::new(most);
        let mut files: Vec<_> = (0..3).map(|_| cache.new_file()).collect();
        let mut blocks = HashMap::<(u64, u64), Vec<u8>>::new();
        let mut records = HashMap::<(u64, u32), (Vec<u8>, u64)>::new();
        let (mut found, mut version) = (0, 0);
        for step in 0..20_000 {
            let slot = random.usize(0..files.len());
            let (file, offset) = (files[slot], random.u64(0..offsets));
            version += 1;
            match random.u32(0..1000) {
                // A file goes, its number never comes back, and what it held is never seen again.
                0..2 => files[slot] = cache.new_file(),
                2..12 => cache.set_capacity_bytes(most / 8 * random.u64(0..=8)),
                12..300 => {
                    let bytes = if random.u32(0..50) == 0 { 20_000 } else { random.usize(0..3_000) };
                    let block = block_of(file, offset, version, bytes);
                    cache.insert(file, offset, &block);
                    blocks.insert((file.0, offset), block.payload);
                }
                300..500 => {
                    let key = random.u64(0..3).to_le_bytes().to_vec();
                    let value = version.to_le_bytes().repeat(random.usize(1..100));
                    let record = CachedRecord::found(
                        Trailer::new(Sequence(9), firn_format::Kind::Put),
                        version,
                        &value,
                    );
                    cache.insert_record(file, offset as u32, &key, &record);
                    records.insert((file.0, offset as u32), (key, version));
                }
                500..750 => {
                    if let Some(block) = cache.get(file, offset) {
                        found += 1;
                        assert!(cache.contains(file, offset));
                        let is_last = blocks.get(&(file.0, offset)) == Some(&block.payload);
                        assert!(is_last, "round {round} step {step}");
                    }
                }
                _ => {
                    let key = random.u64(0..3).to_le_bytes();
                    if let Some(record) = cache.record(file, offset as u32, &key, Sequence(10)) {
                        found += 1;
                        let (known, version) = &records[&(file.0, offset as u32)];
                        assert_eq!(
                            (&key[..], record.version().map(|(_, at)| at)),
                            (&known[..], Some(*version))
                        );
                        assert_eq!(&record.value()[..8], &version.to_le_bytes());
                    }
                }
            }
        }
        assert!(found > 500, "round {round}: only {found} hits, little was compared");
    }
}

#[test]
fn threads_find_what_threads_put() {
    let cache = BlockCache::new(32 << 20);
    let files: Vec<_> = (0..4).map(|_| cache.new_file()).collect();
    let done = AtomicBool::new(false);
    let seed = seed(5);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|thread| {
                let (cache, files) = (&cache, &files);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed + thread);
                    let mut found = 0;
                    for _ in 0..40_000 {
                        let (file, offset) = (files[random.usize(0..4)], random.u64(0..2_000));
                        let bytes = 100 + offset as usize * 7 % 9_000;
                        match cache.get(file, offset) {
                            Some(block) => {
                                found += 1;
                                let expected = block_of(file, offset, 0, bytes).payload;
                                assert!(block.payload == expected, "{file:?} {offset}");
                            }
                            None => cache.insert(file, offset, &block_of(file, offset, 0, bytes)),
                        }
                    }
                    found
                })
            })
            .collect();
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(seed + 9);
            while !done.load(Ordering::Relaxed) {
                let capacity = (4 << 20) + random.u64(0..28 << 20);
                cache.set_capacity_bytes(capacity);
                // No other thread sets it.
                (0..10).for_each(|_| assert!(cache.memory_bytes() <= capacity));
            }
        });
        let found: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        done.store(true, Ordering::Relaxed);
        for found in found {
            assert!(found.unwrap() > 1000);
        }
    });
}
