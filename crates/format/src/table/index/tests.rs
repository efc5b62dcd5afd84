use super::*;
use crate::table::block::{self, Checked};
use crate::table::tests::Random;
use crate::varint;

fn build(separators: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>, u64) {
    let mut builder = IndexBuilder::default();
    let mut total = 0;
    for (number, separator) in separators.iter().enumerate() {
        builder.add(separator, 100 + number as u64);
        total += 100 + number as u64;
    }
    let (region, top) = builder.finish();
    (region, top, total)
}

fn separators(random: &mut Random, count: u64, prefix: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<_> = (0..count).map(|_| [prefix, &random.key()].concat()).collect();
    all.sort();
    all
}

#[test]
fn finds_the_first_separator_not_below() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let prefixes: [&[u8]; 3] = [b"", b"a", b"long common prefix "];
        let prefix = prefixes[random.below(3) as usize];
        let count = random.below(400);
        let all = separators(&mut random, count, prefix);
        let (region, top, total) = build(&all);
        let index = Index::decode(&top, &region, total).unwrap();
        assert_eq!(index.block_count(), all.len());
        for _ in 0..200 {
            let key = match random.below(3) {
                0 => random.key(),
                _ => [prefix, &random.key()].concat(),
            };
            let expected = all.partition_point(|separator| *separator < key);
            assert_eq!(index.find(&key), expected, "seed {seed} {key:?}");
            assert_eq!(index.is_separator(expected, &key), all.get(expected) == Some(&key), "seed {seed}");
        }
        let mut offset = 0;
        for (number, separator) in all.iter().enumerate() {
            assert_eq!(index.block(number), Some((offset, 100 + number as u64)));
            assert_eq!(&index.separator(number), separator);
            offset += 100 + number as u64;
        }
        assert_eq!(index.block(all.len()), None);
    }
}

#[test]
fn separators_are_short_and_between() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let (mut last, mut next) = (random.key(), random.key());
        if random.below(4) == 0 {
            last.extend([0xff; 3]);
        }
        if last >= next {
            (last, next) = (next, last);
        }
        if last == next {
            continue;
        }
        let mut out = b"dirty".to_vec();
        shortest_separator(&last, &next, &mut out);
        assert!(last <= out && out < next, "seed {seed}: {last:?} {out:?} {next:?}");
        assert!(out.len() <= last.len().max(1), "seed {seed}: {last:?} {out:?} {next:?}");
    }
    let mut out = Vec::new();
    shortest_separator(b"user00001999", b"user00002000", &mut out);
    assert_eq!(out, b"user00002");
    shortest_separator(b"ab", b"b", &mut out);
    assert_eq!(out, b"ac");
}

#[test]
fn mangled_indexes_are_refused_or_searched_without_panic() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let count = 1 + random.below(60);
        let all = separators(&mut random, count, b"p");
        let (region, top, total) = build(&all);
        // Damage below the checksum: reseal a mangled payload.
        let Ok(Checked::Raw(payload)) = block::check(&region) else { panic!("one block") };
        let mut payload = payload.to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(payload.len() as u64) as usize;
            payload[at] = random.next() as u8;
        }
        block::seal_raw(&mut payload, 0);
        if let Ok(index) = Index::decode(&top, &payload, total) {
            index.find(&random.key());
        }
        let mut top = top;
        let at = random.below(top.len() as u64) as usize;
        top[at] ^= 1 << random.below(8);
        assert!(Index::decode(&top, &region, total).is_err(), "seed {seed}");
    }
}

/// An index block and a top that were never built: `count` separators of `bytes` bytes that share
/// all but the last one.
fn hostile(count: u32, bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut region = [&0_u64.to_le_bytes()[..], &count.to_le_bytes()].concat();
    let mut last = vec![b'x'; bytes];
    for number in 0..count {
        last[bytes - 1] = number as u8;
        let shared = if number == 0 { 0 } else { bytes - 1 };
        [shared, bytes - shared, 1].iter().for_each(|number| varint::encode(*number as u64, &mut region));
        region.extend_from_slice(&last[shared..]);
    }
    block::seal_raw(&mut region, 0);
    let mut top = [&u64::from(count).to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
    [region.len(), count as usize, bytes].iter().for_each(|number| varint::encode(*number as u64, &mut top));
    top.extend_from_slice(&last);
    (region, top)
}

#[test]
fn hostile_prefix_compression_is_refused() {
    let (region, top) = hostile(60, 50_000);
    assert_eq!(Index::decode(&top, &region, 60).unwrap().block_count(), 60);
    let (region, top) = hostile(200, 50_000);
    let error = Index::decode(&top, &region, 200).unwrap_err();
    assert!(error.expected.contains("64 times"), "{error}");
}

#[test]
fn what_is_built_is_read_however_long_keys_are_and_much_they_share() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let bytes = [1, 60, 130, 1000, 2048, 4090, 4096, 65_535][random.below(8) as usize];
        let (families, count) = (1 + random.below(3), 1 + random.below(120));
        let mut all: Vec<Vec<u8>> = (0..families * count)
            .map(|number| {
                let mut key = vec![(number / count) as u8; bytes.max(5)];
                let end = key.len();
                key[end - 4..].copy_from_slice(&(number as u32).to_be_bytes());
                key
            })
            .collect();
        all.sort();
        let (region, top, total) = build(&all);
        let index =
            Index::decode(&top, &region, total).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(index.block_count(), all.len());
        for (number, separator) in all.iter().enumerate().step_by(7) {
            assert_eq!(index.find(separator), number, "seed {seed}");
            assert_eq!(&index.separator(number), separator, "seed {seed}");
        }
        let whole: usize = all.iter().map(Vec::len).sum();
        assert!(index.memory_bytes() <= 64 * region.len() + 40 * all.len() + 8192, "{whole} bytes");
        assert!(families > 1 || index.memory_bytes() < 80 * all.len() + bytes, "what all share is held once");
    }
}
