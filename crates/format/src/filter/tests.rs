//! The filter against its promises.

use super::{BITS_PER_KEY_MAX, Filter, build, check, contains, filter_hash};

fn hashes(range: std::ops::Range<u64>) -> Vec<u32> {
    range.map(|number| filter_hash(&number.to_le_bytes())).collect()
}

fn false_positives(keys: u64, bits_per_key: u32) -> f64 {
    let filter = build(&hashes(0..keys), bits_per_key);
    let probes = hashes(keys..keys + 400_000);
    let hits = probes.iter().filter(|hash| contains(&filter, **hash)).count();
    hits as f64 / probes.len() as f64
}

#[test]
fn everything_added_is_contained() {
    for keys in [1, 2, 51, 52, 1_000, 100_000] {
        for bits_per_key in [0, 1, 5, 10, 16, 64, 1_000] {
            let hashes = hashes(0..keys);
            let bytes = build(&hashes, bits_per_key);
            let mut filter = Filter::with_room(hashes.len(), bits_per_key);
            filter.add(&hashes);
            assert!(check(&bytes).is_ok());
            assert_eq!(bytes.len() % 64, 8);
            assert_eq!(bytes.len(), filter.memory_bytes() + 8);
            // At any alignment.
            let mut moved = vec![0xff; 3];
            moved.extend_from_slice(&bytes);
            for hash in hashes {
                assert!(contains(&bytes, hash));
                assert!(contains(&moved[3..], hash));
                assert!(filter.contains(hash));
            }
        }
    }
}

#[test]
fn both_forms_answer_alike() {
    let added = hashes(0..5_000);
    let bytes = build(&added, 10);
    let mut filter = Filter::with_room(added.len(), 10);
    added.chunks(777).for_each(|part| filter.add(part));
    for hash in hashes(5_000..100_000) {
        assert_eq!(contains(&bytes, hash), filter.contains(hash));
    }
}

#[test]
fn ten_bits_a_key_let_one_in_eighty_through() {
    for keys in [1_000, 50_000, 1_000_000] {
        let rate = false_positives(keys, 10);
        assert!(rate < 0.012, "{keys} keys: {rate}");
        assert!(rate > 0.001, "{keys} keys: {rate} is too good to be true");
    }
    assert!(false_positives(50_000, 16) < 0.002);
    assert!(false_positives(50_000, 6) < 0.12);
}

#[test]
fn ten_million_keys_suffer_little_from_short_hashes() {
    let rate = false_positives(10_000_000, 10);
    assert!(rate < 0.0145, "{rate}");
}

#[test]
fn no_bytes_hurt() {
    assert!(contains(&[], 7));
    assert!(build(&[], 10).is_empty());
    assert!(check(&[]).is_ok());
    assert!(Filter::default().contains(7));
    let good = build(&hashes(0..1_000), 10);
    for length in 0..good.len() {
        assert!(check(&good[..length]).is_err() || length == 0, "{length}");
        contains(&good[..length], length as u32);
        // No length but a filter's own may deny a key.
        assert!(length % 64 == 8 || contains(&good[..length], length as u32));
    }
    let trailer = good.len() - 8;
    for (at, byte) in [(0, 2), (1, 0), (1, BITS_PER_KEY_MAX as u8 + 1), (2, 1), (3, 1)] {
        let mut bad = good.clone();
        bad[trailer + at] = byte;
        assert!(check(&bad).is_err(), "{at} {byte}");
    }
}

#[test]
fn the_layout_is_frozen() {
    let filter = build(&[0, 1, 0x8000_0000, u32::MAX], 64 + 64);
    let golden: String = filter.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(golden, GOLDEN);
}

const GOLDEN: &str = "01009004000000000100010008400000210008000000400081000200000001001100008000000100010100000000000a010800040000020021000000000000200140000004000000";
