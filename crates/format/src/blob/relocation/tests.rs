//! Relocations in both forms, composed, and with every bit flipped.

use super::*;

fn of(ordinals: impl IntoIterator<Item = u32>) -> Ordinals {
    ordinals.into_iter().collect()
}

fn relocation(survivors: &Ordinals) -> Relocation {
    Relocation::new(SegmentNumber(1), 2000, survivors, SegmentNumber(2), 77).unwrap()
}

fn encoded(relocation: &Relocation) -> Vec<u8> {
    let mut out = Vec::new();
    relocation.encode(&mut out);
    out
}

#[test]
fn survivors_are_found_in_their_order_in_both_forms() {
    for survivors in [of([5, 479, 480, 1999]), of((0..2000).filter(|at| at % 3 != 0)), of(0..2000)] {
        let relocation = relocation(&survivors);
        let mut next = 77;
        for ordinal in 0..2100 {
            let is_there = survivors.contains(ordinal);
            assert_eq!(relocation.translate(ordinal), is_there.then_some(next), "{ordinal}");
            next += u32::from(is_there);
        }
        assert_eq!(u64::from(relocation.survivor_count()), survivors.len());
        assert_eq!(relocation.survivors(), survivors);
        let bytes = encoded(&relocation);
        assert_eq!(Relocation::decode(&bytes), Ok((relocation, bytes.len())));
    }
}

#[test]
fn nothing_that_survived_and_what_does_not_fit_are_no_relocation() {
    let new =
        |survivors: &Ordinals, base| Relocation::new(SegmentNumber(1), 10, survivors, SegmentNumber(2), base);
    assert!(new(&of([]), 0).is_none());
    assert!(new(&of([10]), 0).is_none());
    assert!(new(&of([9]), u32::MAX).is_none());
    assert!(new(&of([9]), u32::MAX - 1).is_some());
}

#[test]
fn two_gcs_lead_where_the_second_one_put_it() {
    let first = relocation(&of((0..2000).filter(|at| at % 2 == 0)));
    // The second victim has values of others before and behind.
    let second =
        Relocation::new(SegmentNumber(2), 3000, &of((0..3000).filter(|at| at % 5 == 0)), SegmentNumber(3), 9)
            .unwrap();
    let both = first.then(&second).unwrap();
    assert_eq!((both.victim, both.segment), (SegmentNumber(1), SegmentNumber(3)));
    for ordinal in 0..2000 {
        let step_by_step = first.translate(ordinal).and_then(|now| second.translate(now));
        assert_eq!(both.translate(ordinal), step_by_step, "{ordinal}");
    }
    assert_eq!(both.then(&second), None, "it leads past that victim");
    let nothing = Relocation::new(SegmentNumber(2), 3000, &of([2999]), SegmentNumber(3), 0).unwrap();
    assert_eq!(first.then(&nothing), None);
}

#[test]
fn gcs_compose_in_every_form() {
    let every = |step: u32, count: u32| of((0..count).filter(move |at| at % step == step / 2));
    for first_step in [1, 3, 24, 25, 400] {
        let first = relocation(&every(first_step, 2000));
        for second_step in [1, 2, 37, 38, 700] {
            let second =
                Relocation::new(SegmentNumber(2), 3000, &every(second_step, 3000), SegmentNumber(3), 9)
                    .unwrap();
            let twice = |at| Some((at, second.translate(first.translate(at)?)?));
            let twice: Vec<(u32, u32)> = (0..2000).filter_map(twice).collect();
            let expected = twice.first().and_then(|(_, base)| {
                let survivors = of(twice.iter().map(|(at, _)| *at));
                Relocation::new(SegmentNumber(1), 2000, &survivors, SegmentNumber(3), *base)
            });
            assert_eq!(first.then(&second), expected, "every {first_step}. value, and every {second_step}.");
        }
    }
}

#[test]
fn every_flip_is_noticed_and_only_what_is_written_is_read() {
    let dense = relocation(&of((0..2000).filter(|at| at % 3 != 0)));
    for relocation in [relocation(&of([5, 1000])), dense.clone()] {
        let mut bytes = encoded(&relocation);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(Relocation::decode(&bytes).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        for cut in 0..bytes.len() {
            assert!(Relocation::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
    // Whole, but not rising, with one behind the last ordinal, and in the longer form.
    let longer = Survivors::Lines(lines(5, &of([5, 1000])));
    for survivors in [Survivors::List(vec![1000, 5]), Survivors::List(vec![5, 2000]), longer] {
        let wrong = Relocation { survivors, ..relocation(&of([5, 1000])) };
        assert!(Relocation::decode(&encoded(&wrong)).is_err());
    }
    let longer =
        Relocation { survivors: Survivors::List(dense.survivors().iter().collect()), ..dense.clone() };
    assert!(Relocation::decode(&encoded(&longer)).is_err());
    let nothing =
        Relocation { survivor_count: 0, survivors: Survivors::List(vec![]), ..relocation(&of([5])) };
    let nowhere = Relocation { base: u32::MAX, ..relocation(&of([5])) };
    for wrong in [nothing, nowhere] {
        assert!(Relocation::decode(&encoded(&wrong)).is_err());
    }
    // Whole, but with a count of others, and with one more of them, behind the last ordinal.
    let mut wrong = Relocation { survivor_count: dense.survivor_count + 1, ..dense.clone() };
    assert!(Relocation::decode(&encoded(&wrong)).is_err());
    let Survivors::Lines(lines) = &mut wrong.survivors else { panic!("lines") };
    lines[4][3] |= 1 << 31;
    assert!(Relocation::decode(&encoded(&wrong)).is_err());
    // With a rank that is none, and with one behind the last ordinal that is not counted.
    for (line, word, bits) in [(1, 0, 1), (4, 3, 1 << 31)] {
        let mut wrong = dense.clone();
        let Survivors::Lines(lines) = &mut wrong.survivors else { panic!("lines") };
        lines[line][word] ^= bits;
        assert!(Relocation::decode(&encoded(&wrong)).is_err());
    }
}
