use firn_format::Position;

use super::*;

const ONE: SegmentNumber = SegmentNumber(1);

fn add(number: u32) -> Change {
    let segment = ValueSegmentMeta {
        number: SegmentNumber(number),
        file: format!("{number:08x}.values"),
        ordinals: 10,
        sealed_at: Position(8),
        ..ValueSegmentMeta::default()
    };
    Change::AddValueSegment { segment }
}

fn die(number: u32, ordinals: &[u32]) -> Change {
    Change::DeadMap { number: SegmentNumber(number), dead: ordinals.iter().copied().collect() }
}

fn redirect(victim: u32, holder: u32) -> Change {
    let place = RedirectPlace { holder: SegmentNumber(holder), offset: 64, bytes: 8 };
    Change::Redirect { victim: SegmentNumber(victim), place }
}

fn references(values: &[(u32, u32)]) -> ReferenceSet {
    let values = values.iter().map(|(segment, ordinal)| (SegmentNumber(*segment), *ordinal));
    ReferenceSet::from_values(values.collect()).unwrap()
}

#[test]
fn references_become_stale_once_and_are_not_any_more_once() {
    let mut state = ValuesState::default();
    let stale = |keyspace, values| Change::Stale { keyspace, references: references(values) };
    let not_stale = |keyspace, values| Change::NotStale { keyspace, references: references(values) };
    for change in [stale(3, &[(1, 2), (1, 3), (9, 1)]), stale(4, &[(1, 4)]), not_stale(3, &[(1, 2)])] {
        state.apply(&change).unwrap();
    }
    assert_eq!([3, 4, 5].map(|keyspace| state.stale_count(keyspace)), [2, 1, 0]);
    let (mut restated, mut again) = (Vec::new(), ValuesState::default());
    state.restate(&mut |change| restated.push(change));
    restated.iter().try_for_each(|change| again.apply(change)).unwrap();
    assert_eq!(again, state);
    let twice = again.apply(&stale(3, &[(1, 3)])).unwrap_err();
    assert!(twice.contains("stale twice"), "{twice}");
    for never in [not_stale(3, &[(1, 2)]), not_stale(7, &[(1, 2)])] {
        let error = again.apply(&never).unwrap_err();
        assert!(error.contains("that never were"), "{error}");
    }
    for change in [not_stale(3, &[(1, 3), (9, 1)]), Change::DropKeyspace { id: 4 }] {
        state.apply(&change).unwrap();
    }
    assert_eq!(state, ValuesState::default());
}

#[test]
fn what_is_restated_adds_up_to_the_same() {
    let mut state = ValuesState::default();
    let remove = Change::RemoveValueSegment { number: ONE };
    let changes = [
        add(1),
        add(2),
        die(1, &[0, 3]),
        die(1, &[9]),
        add(7),
        redirect(1, 7),
        remove,
        redirect(3, 2),
        Change::DropRedirect { victim: SegmentNumber(3) },
        die(7, &[1]),
    ];
    changes.iter().try_for_each(|change| state.apply(change)).unwrap();
    assert_eq!((state.next, state.segments.len(), state.redirects.len()), (SegmentNumber(8), 2, 1));
    let mut restated = Vec::new();
    state.restate(&mut |change| restated.push(change));
    let mut again = ValuesState::default();
    restated.iter().try_for_each(|change| again.apply(change)).unwrap();
    assert_eq!(again, state);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut state = ValuesState::default();
    [add(1), die(1, &[2]), add(3), redirect(9, 3)].iter().try_for_each(|change| state.apply(change)).unwrap();
    for (change, why) in [
        (add(1), "twice"),
        (die(1, &[2]), "twice"),
        (die(1, &[10]), "does not have"),
        (die(2, &[0]), "unknown"),
        (redirect(5, 6), "unknown"),
        (Change::DropRedirect { victim: ONE }, "unknown"),
        (Change::RemoveValueSegment { number: SegmentNumber(3) }, "leads there"),
        (Change::RemoveValueSegment { number: SegmentNumber(2) }, "unknown"),
    ] {
        assert!(state.apply(&change).unwrap_err().contains(why), "{change:?}");
    }
}
