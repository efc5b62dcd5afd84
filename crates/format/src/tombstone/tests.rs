use super::*;
use crate::key::Sequence;

/// Deterministic numbers for tests; prints nothing, seeds are in the test.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

type Owned = (Vec<u8>, Vec<u8>, u64);

fn span(owned: &Owned) -> Span<'_> {
    Span { start: &owned.0, end: &owned.1, sequence: Sequence(owned.2) }
}

fn list(spans: &[Owned]) -> FragmentList {
    FragmentList::from_spans(spans.iter().map(span))
}

fn random_spans(random: &mut Random, count: u64) -> Vec<Owned> {
    let key = |random: &mut Random| {
        let bytes = random.below(3) as usize;
        (0..bytes).map(|_| b'a' + random.below(6) as u8).collect::<Vec<u8>>()
    };
    (0..count).map(|_| (key(random), key(random), random.below(20))).collect()
}

fn probes() -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new()];
    for a in b'a'..=b'g' {
        keys.push(vec![a]);
        for b in b'a'..=b'g' {
            keys.push(vec![a, b]);
            keys.push(vec![a, b, 0]);
        }
    }
    keys
}

fn naive(spans: &[Owned], key: &[u8], before: u64) -> Option<Sequence> {
    let covers = |span: &&Owned| span.0.as_slice() <= key && key < span.1.as_slice() && span.2 < before;
    spans.iter().filter(covers).map(|span| Sequence(span.2)).max()
}

#[test]
fn answers_as_a_naive_search_does() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let count = random.below(14);
        let spans = random_spans(&mut random, count);
        let list = list(&spans);
        for key in probes() {
            for before in [0, 1, 7, 13, 20, 100] {
                let expected = naive(&spans, &key, before);
                assert_eq!(
                    list.newest_covering(&key, Sequence(before)),
                    expected,
                    "seed {seed} {spans:?} {key:?}"
                );
                let fragment = list.fragment_covering(&key, Sequence(before));
                assert_eq!(fragment.map(|fragment| fragment.newest), expected, "seed {seed}");
                assert!(
                    fragment.is_none_or(|fragment| fragment.start <= &key[..] && &key[..] < fragment.end)
                );
            }
        }
    }
}

#[test]
fn merge_clip_and_bytes_keep_the_set() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let spans = random_spans(&mut random, 12);
        let whole = list(&spans);
        let mut parts = [list(&spans[..5]), list(&spans[5..6]), list(&spans[6..])];
        parts.reverse();
        assert_eq!(FragmentList::merge(&parts.each_ref()), whole, "seed {seed}");
        let cut = probes()[random.below(57) as usize].clone();
        let (low, high) = (whole.clip(b"", Some(&cut)), whole.clip(&cut, None));
        assert_eq!(FragmentList::merge(&[&high, &low]), whole, "seed {seed}");
        assert_eq!(low.content_hash().wrapping_add(high.content_hash()), whole.content_hash(), "seed {seed}");
        for key in probes() {
            let expected = naive(&spans, &key, 100).filter(|_| key < cut);
            assert_eq!(low.newest_covering(&key, Sequence(100)), expected, "seed {seed}");
        }
        let mut bytes = Vec::new();
        whole.encode(&mut bytes);
        assert_eq!(FragmentList::decode(&bytes), Ok(whole), "seed {seed}");
    }
}

#[test]
fn there_is_one_empty_list() {
    let mut bytes = Vec::new();
    FragmentList::default().encode(&mut bytes);
    assert_eq!(FragmentList::decode(&bytes), Ok(FragmentList::default()));
    assert_eq!(list(&[]), FragmentList::default());
}

#[test]
fn thinning_is_invisible_at_every_snapshot() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let spans = random_spans(&mut random, 12);
        let snapshots: Vec<Sequence> = (0..random.below(4)).map(|_| Sequence(random.below(20))).collect();
        let whole = list(&spans);
        let thin = whole.retain_for_snapshots(&snapshots);
        for key in probes() {
            for before in snapshots.iter().copied().chain([Sequence::MAX]) {
                let answers = (thin.newest_covering(&key, before), whole.newest_covering(&key, before));
                assert_eq!(answers.0, answers.1, "seed {seed} {whole:?} at {before}");
            }
            let left = thin.spans().filter(|span| span.start <= &key[..] && &key[..] < span.end).count();
            assert!(
                left <= snapshots.len() + 1,
                "seed {seed}: {left} sequences for {} snapshots",
                snapshots.len()
            );
        }
    }
}

#[test]
fn bottom_keeps_only_where_older_data_may_lie() {
    let spans = vec![(b"a".to_vec(), b"m".to_vec(), 5), (b"c".to_vec(), b"z".to_vec(), 9)];
    let list = list(&spans);
    let kept = list.retain_within(&[(b"b", Some(b"d")), (b"x", None)], Sequence(9));
    let kept: Vec<_> = kept.spans().map(|span| (span.start, span.end, span.sequence.0)).collect();
    assert_eq!(kept, [(&b"b"[..], &b"d"[..], 5), (b"c", b"z", 9)]);
}

#[test]
fn a_hundred_thousand_that_all_overlap() {
    // Trimming a queue: each deletion begins at the front and reaches further than the last one.
    let owned: Vec<Owned> =
        (0..100_000_u64).map(|index| (b"q".to_vec(), format!("q{index:08}").into_bytes(), index)).collect();
    let list = list(&owned);
    assert_eq!(list.len(), 100_000);
    assert!(list.memory_bytes() < 100_000 * 256, "{} bytes", list.memory_bytes());
    for index in (0..99_999_u64).step_by(101) {
        let key = format!("q{index:08}");
        assert_eq!(list.newest_covering(key.as_bytes(), Sequence::MAX), Some(Sequence(99_999)));
        assert_eq!(list.newest_covering(key.as_bytes(), Sequence(index + 2)), Some(Sequence(index + 1)));
        assert_eq!(list.newest_covering(key.as_bytes(), Sequence(index + 1)), None);
    }
    let thin = list.retain_for_snapshots(&[Sequence(50_000)]);
    assert_eq!(thin.len(), 2);
    let mut bytes = Vec::new();
    list.encode(&mut bytes);
    assert_eq!(FragmentList::decode(&bytes).map(|list| list.len()), Ok(100_000));
}

#[test]
fn mangled_bytes_are_refused_or_canonical() {
    let mut refused = 0;
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let spans = random_spans(&mut random, 6);
        let mut bytes = Vec::new();
        list(&spans).encode(&mut bytes);
        for _ in 0..=random.below(2) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next() as u8;
        }
        match FragmentList::decode(&bytes) {
            Ok(list) => {
                let mut again = Vec::new();
                list.encode(&mut again);
                assert_eq!(again, bytes, "seed {seed}");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500, "only {refused} refused");
}

#[test]
fn a_covered_stretch_ends_where_the_first_key_is_not() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let count = random.below(14);
        let spans = random_spans(&mut random, count);
        let list = list(&spans);
        for key in probes() {
            let (above, before) = (random.below(20), random.below(22));
            let is_covered = |key: &[u8]| naive(&spans, key, before) > Some(Sequence(above));
            let end = list.covered_through(&key, Sequence(above), Sequence(before));
            assert_eq!(end.is_some(), is_covered(&key), "seed {seed} {spans:?} {key:?}");
            let Some(end) = end else { continue };
            assert!(end > &key[..] && !is_covered(end), "seed {seed} {spans:?} {key:?} to {end:?}");
            let inside = |probe: &&Vec<u8>| key <= **probe && probe.as_slice() < end;
            assert!(probes().iter().filter(inside).all(|probe| is_covered(probe)), "seed {seed} {key:?}");
        }
    }
}

#[test]
fn the_keys_of_a_stretch_are_covered_alike() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let count = random.below(8);
        let spans = random_spans(&mut random, count);
        let list = list(&spans);
        for key in probes() {
            let before = random.below(22);
            let stretch = list.stretch_around(&key, Sequence(before));
            let holds = |key: &[u8]| stretch.start <= key && stretch.end.is_none_or(|end| key < end);
            assert!(holds(&key), "seed {seed} {spans:?} {key:?} {stretch:?}");
            for probe in probes().iter().filter(|probe| holds(probe)) {
                assert_eq!(naive(&spans, probe, before), stretch.newest, "seed {seed} {spans:?} {key:?}");
            }
        }
    }
    let whole = Stretch { start: &[], end: None, newest: None };
    assert_eq!(FragmentList::new().stretch_around(b"k", Sequence::MAX), whole);
}
