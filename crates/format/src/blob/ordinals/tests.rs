use super::*;

fn of(ordinals: impl IntoIterator<Item = u32>) -> Ordinals {
    ordinals.into_iter().collect()
}

fn encoded(set: &Ordinals) -> Vec<u8> {
    let mut out = Vec::new();
    set.encode(&mut out);
    out
}

fn decoded(bytes: &[u8]) -> Result<Ordinals> {
    let mut input = Reader::new(bytes, 0);
    let set = Ordinals::decode(&mut input)?;
    input.end("a set").map(|()| set)
}

#[test]
fn sets_come_back_in_the_shorter_form() {
    let sparse = (0..1000).map(|at| at * 1000);
    for (set, form, bytes_max) in [
        (of([]), None, 1),
        (of([0]), Some(STEPS), 3),
        (of([u32::MAX]), Some(STEPS), 7),
        (of(0..16), Some(BITMAP), 5),
        (of(100_000..200_000), Some(BITMAP), 13_000),
        (of(sparse), Some(STEPS), 2100),
        (of((u32::MAX - 100)..=u32::MAX), Some(BITMAP), 25),
    ] {
        let bytes = encoded(&set);
        assert_eq!(decoded(&bytes), Ok(set.clone()));
        assert!(bytes.len() <= bytes_max, "{} bytes", bytes.len());
        let at = varint::encoded_bytes(set.len());
        assert_eq!(bytes.get(at).copied(), form);
        for cut in 0..bytes.len() {
            assert!(decoded(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn a_long_bitmap_comes_back() {
    let mut set = Ordinals::first(PART_BITS + 100);
    set.remove_all(&of([0, 7, PART_BITS - 1, PART_BITS + 1]));
    let bytes = encoded(&set);
    assert_eq!(bytes.len(), varint::encoded_bytes(set.len()) + 2 + PART_BYTES + 13);
    assert!(decoded(&bytes) == Ok(set));
    assert!(Ordinals::first(0).is_empty());
}

#[test]
fn only_what_is_written_is_read() {
    // One ordinal as a bitmap, which is as long as steps; sixteen as steps; a bitmap that begins
    // with nothing.
    let longer = [1, BITMAP, 0, 1];
    let mut steps = vec![16, STEPS];
    steps.extend([0; 16]);
    let empty_begin = [9, BITMAP, 0, 0, 0xff, 1];
    let too_many = [9, BITMAP, 0, 0xff, 0xff];
    for bytes in [&longer[..], &steps, &empty_begin, &too_many, &[1, 2, 0], &[2, STEPS, 0xff]] {
        assert!(decoded(bytes).is_err(), "{bytes:?}");
    }
    for first in [1_u64 << 29, 1 << 61, u64::MAX] {
        let mut beyond = vec![9, BITMAP];
        varint::encode(first, &mut beyond);
        beyond.extend([0xff, 1]);
        assert!(decoded(&beyond).is_err(), "{first}");
    }
    let mut beyond = vec![2, STEPS];
    varint::encode(u64::from(u32::MAX), &mut beyond);
    beyond.push(0);
    assert!(decoded(&beyond).is_err());
}

#[test]
fn a_rank_counts_what_lies_below() {
    let set = of([3, 5, 70_000]);
    assert_eq!([0, 3, 4, 6, u32::MAX].map(|ordinal| set.rank(ordinal)), [0, 0, 1, 2, 3]);
}
