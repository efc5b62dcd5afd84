use super::*;
use crate::table::block::{self, Checked};
use crate::table::tests::Random;

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

#[test]
fn hostile_prefix_compression_is_refused() {
    let mut builder = IndexBuilder::default();
    let mut separator = vec![b'x'; 60_000];
    let mut total = 0;
    for number in 0..200_u32 {
        separator.truncate(60_000);
        separator.extend(number.to_be_bytes());
        builder.add(&separator, 1);
        total += 1;
    }
    let (region, top) = builder.finish();
    assert!(Index::decode(&top, &region, total).is_err());
}
