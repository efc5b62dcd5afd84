use super::*;

use firn_format::key::Trailer;

mod model;
mod parts;
mod policy;

fn block(bytes: usize) -> CachedBlock {
    // A tail of zeros: no keys, no restarts.
    CachedBlock { payload: vec![0; bytes], shape: Shape::default() }
}

/// A block whose bytes say where it belongs.
fn block_of(file: FileNumber, offset: u64, version: u64, bytes: usize) -> CachedBlock {
    let words = [file.0, offset, version].map(u64::to_le_bytes).concat();
    let mut payload: Vec<u8> = words.iter().copied().cycle().take(bytes).collect();
    payload.extend([0; 8]);
    CachedBlock { payload, shape: Shape::default() }
}

/// The seed of a random test: from `FIRN_SEED` if it is there, else `seed`. Printed, so that a
/// failure can be repeated.
fn seed(seed: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's seed comes from its caller")]
    let given = std::env::var("FIRN_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(seed);
    println!("FIRN_SEED={seed}");
    seed
}

#[test]
fn capacity_is_strict() {
    for capacity in [0, 1, 4000, 100_000, 50 << 20] {
        let cache = BlockCache::new(capacity);
        let file = cache.new_file();
        for offset in 0..30_000 {
            cache.insert(file, offset, &block(4096));
            assert!(cache.memory_bytes() <= capacity, "{} of {capacity}", cache.memory_bytes());
        }
        assert_eq!(cache.capacity_bytes(), capacity);
        assert!(capacity < 100_000 || cache.memory_bytes() > capacity / 2);
        assert!(capacity < 1 << 20 || cache.memory_bytes() > capacity / 100 * 95, "{}", cache.memory_bytes());
        assert!(capacity < 1 << 20 || cache.len() as u64 * 4096 > capacity / 100 * 85, "{}", cache.len());
    }
}

#[test]
fn capacity_is_strict_while_it_changes() {
    let mut random = fastrand::Rng::with_seed(seed(11));
    for round in 0..20 {
        let most = [64 << 10, 1 << 20, 20 << 20, 40 << 20][round % 4];
        let cache = BlockCache::new(most);
        let file = cache.new_file();
        let mut capacity = most;
        for step in 0..6_000 {
            let offset = random.u64(0..3_000);
            match random.u32(0..1000) {
                0..10 => {
                    let share = [0, 1, 30, 100, 300, 900, 1000][random.usize(0..7)];
                    capacity = most / 1000 * share;
                    cache.set_capacity_bytes(capacity);
                    assert_eq!(cache.capacity_bytes(), capacity);
                }
                10..300 => drop(cache.get(file, offset)),
                // Large enough for chunks of their own, or too large to be kept.
                300..310 => cache.insert(file, offset, &block(random.usize(1 << 14..1 << 19))),
                310..600 => {
                    let record = CachedRecord::found(Trailer(step), 0, &vec![1; random.usize(0..200)]);
                    cache.insert_record(file, offset as u32, b"key", &record);
                }
                _ => cache.insert(file, offset, &block(random.usize(8..9_000))),
            }
            let held = cache.memory_bytes();
            assert!(held <= capacity, "round {round} step {step}: {held} of {capacity}");
        }
        cache.set_capacity_bytes(0);
        assert_eq!((cache.memory_bytes(), cache.len(), cache.is_empty()), (0, 0, true));
    }
}

#[test]
fn a_scan_does_not_push_out_what_is_read_again() {
    let cache = BlockCache::new(4 << 20);
    let (hot, scanned) = (cache.new_file(), cache.new_file());
    let read = |file, offset| {
        if cache.get(file, offset).is_none() {
            cache.insert(file, offset, &block(4096));
        }
    };
    for _ in 0..10 {
        (0..500).for_each(|offset| read(hot, offset));
    }
    (0..20_000).for_each(|offset| read(scanned, offset));
    let kept = (0..500).filter(|offset| cache.contains(hot, *offset)).count();
    assert!(kept > 450, "only {kept} of 500 hot blocks left");
}

#[test]
fn a_record_answers_for_its_key_and_for_who_sees_it() {
    let cache = BlockCache::new(1 << 20);
    let (file, trailer) = (cache.new_file(), Trailer::new(Sequence(7), firn_format::Kind::Put));
    let put = |key: &[u8], record: &CachedRecord| cache.insert_record(file, 9, key, record);
    let answer = |key: &[u8], before| {
        let found = cache.record(file, 9, key, Sequence(before));
        found.map(|record| (record.version(), record.value().to_vec()))
    };
    put(b"key", &CachedRecord::found(trailer, 5, b"value"));
    assert_eq!(answer(b"key", 8), Some((Some((trailer, 5)), b"value".to_vec())));
    assert_eq!(answer(b"key", 7), None, "a snapshot before it");
    assert_eq!(answer(b"keyv", 8), None, "another key of the same hash");
    assert_eq!(answer(b"ke", 8), None, "another key of the same hash");
    put(b"keyv", &CachedRecord::absent());
    assert_eq!(answer(b"keyv", 1), Some((None, Vec::new())));
    assert_eq!(answer(b"key", 8), None, "of the keys of a hash the last one stays");
    assert!(cache.record(cache.new_file(), 9, b"keyv", Sequence(1)).is_none(), "another file");
    put(b"", &CachedRecord::found(trailer, 0, b""));
    assert_eq!(answer(b"", 8), Some((Some((trailer, 0)), Vec::new())));
}

#[test]
fn records_and_blocks_share_the_capacity() {
    let cache = BlockCache::new(1 << 20);
    let file = cache.new_file();
    for number in 0..4000 {
        cache.insert(file, u64::from(number), &block(4096));
        cache.insert_record(file, number, &[0; 1000], &CachedRecord::absent());
        assert!(cache.memory_bytes() <= 1 << 20);
    }
    assert!((0..4000).any(|hash| cache.record(file, hash, &[0; 1000], Sequence(1)).is_some()));
    assert!((0..4000).any(|offset| cache.contains(file, offset)));
    assert!((1..cache.len()).contains(&cache.record_count()));
}

#[test]
fn files_do_not_meet() {
    let cache = BlockCache::new(1 << 20);
    let (one, two) = (cache.new_file(), cache.new_file());
    cache.insert(one, 0, &block(8));
    assert!(cache.get(one, 0).is_some());
    assert!(cache.get(two, 0).is_none());
    cache.set_capacity_bytes(0);
    assert_eq!((cache.memory_bytes(), cache.len()), (0, 0));
}

#[test]
fn what_is_large_is_kept_up_to_an_eighth_of_a_shard() {
    let cache = BlockCache::new(15 << 20);
    let file = cache.new_file();
    let most = (15 << 20) / 8;
    for (offset, bytes, kept) in [(1, most, false), (2, most - 64, true), (3, 100_000, true)] {
        cache.insert(file, offset, &block_of(file, offset, 0, bytes));
        let found = cache.get(file, offset).map(|block| block.payload.len());
        assert_eq!(found, kept.then_some(bytes + 8));
    }
    // Read once, it outlives what comes later; and what was never read goes.
    (10..40).for_each(|offset| cache.insert(file, offset, &block(1 << 20)));
    assert!(cache.get(file, 2).is_some() && cache.get(file, 3).is_some());
    assert!(!cache.contains(file, 10));
}

#[test]
fn what_is_large_shares_its_memory_with_nobody() {
    let cache = BlockCache::new(16 << 20);
    let file = cache.new_file();
    // There is room behind it, up to the end of the page.
    cache.insert(file, 0, &block(70_000));
    for offset in 1..20 {
        cache.insert(file, offset, &block_of(file, offset, 0, 100));
        assert!(cache.get(file, offset).is_some());
    }
    (20..5_000).for_each(|offset| cache.insert(file, offset, &block(8_000)));
    assert!(!cache.contains(file, 0), "it was not read");
    for offset in 1..20 {
        let found = cache.get(file, offset).map(|block| block.payload);
        assert_eq!(found, Some(block_of(file, offset, 0, 100).payload));
    }
    let kept = (0..5_000).filter(|offset| cache.contains(file, *offset)).count();
    assert_eq!(kept, cache.len());
}

#[test]
fn what_comes_back_soon_after_it_went_stays() {
    let cache = BlockCache::new(4 << 20);
    let (hot, other) = (cache.new_file(), cache.new_file());
    for offset in 0..600 {
        cache.insert(hot, offset, &block(4096));
        assert!(cache.get(hot, offset).is_some());
    }
    let scan =
        |from: u64, count| (from..from + count).for_each(|offset| cache.insert(other, offset, &block(4096)));
    let back = |offset| {
        cache.insert(hot, offset, &block(4096));
        scan(offset, 300);
        cache.contains(hot, offset)
    };
    scan(0, 1_000);
    assert!(!back(10_000), "it was not read before the scan was over");
    assert!(back(10_000), "it was remembered");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_is_given_up_is_the_system_s_again() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as u64
    };
    let cache = BlockCache::new(256 << 20);
    let file = cache.new_file();
    let empty = resident();
    for number in 0..500_000 {
        cache.insert_record(file, number, b"key", &CachedRecord::found(Trailer(1), 0, &[7; 900]));
    }
    let full = resident();
    assert!(full > empty + (200 << 20), "{full} after {empty}");
    for capacity in [192 << 20, 64 << 20, 0] {
        cache.set_capacity_bytes(capacity);
        let (left, slack) = (resident(), 24 << 20);
        assert!(left < empty + capacity + slack, "{left} of {full}, empty {empty}, at {capacity}");
    }
}

#[test]
fn a_small_share_of_the_first_capacity_is_used_too() {
    for mib in [16, 56, 64, 180, 256, 512, 1000, 1024] {
        let cache = BlockCache::new(mib << 20);
        cache.set_capacity_bytes((mib << 20) / 32);
        let file = cache.new_file();
        (0..60_000).for_each(|offset| cache.insert(file, offset, &block(500)));
        let kept = cache.len() as u64 * 500;
        let least = if mib < 50 { 0 } else { cache.capacity_bytes() / 8 };
        assert!(kept > least, "{kept} bytes kept of {mib} / 32 MiB");
    }
}
