use firn_format::Position;

use super::*;

const ONE: SegmentNumber = SegmentNumber(1);

fn add(number: u32) -> Change {
    let segment = BlobSegmentMeta {
        number: SegmentNumber(number),
        file: format!("{number:08x}.blobs"),
        ordinals: 10,
        sealed_at: Position(8),
        ..BlobSegmentMeta::default()
    };
    Change::AddBlobSegment { segment }
}

fn die(number: u32, ordinals: &[u32]) -> Change {
    Change::DeadMap { number: SegmentNumber(number), dead: ordinals.iter().copied().collect() }
}

fn relocation(victim: u32, holder: u32) -> Change {
    let place = RelocationTarget { holder: SegmentNumber(holder), offset: 64, bytes: 8 };
    Change::Relocation { victim: SegmentNumber(victim), place }
}

fn references(values: &[(u32, u32)]) -> ReferenceSet {
    let values = values.iter().map(|(segment, ordinal)| (SegmentNumber(*segment), *ordinal));
    ReferenceSet::from_values(values.collect()).unwrap()
}

#[test]
fn references_become_obsolete_once_and_are_not_any_more_once() {
    let mut state = BlobsState::default();
    let obsolete = |keyspace, values| Change::AddObsolete { keyspace, references: references(values) };
    let not_obsolete = |keyspace, values| Change::RemoveObsolete { keyspace, references: references(values) };
    for change in [obsolete(3, &[(1, 2), (1, 3), (9, 1)]), obsolete(4, &[(1, 4)]), not_obsolete(3, &[(1, 2)])]
    {
        state.apply(&change).unwrap();
    }
    assert_eq!([3, 4, 5].map(|keyspace| state.obsolete_count(keyspace)), [2, 1, 0]);
    let (mut restated, mut again) = (Vec::new(), BlobsState::default());
    state.restate(&mut |change| restated.push(change));
    restated.iter().try_for_each(|change| again.apply(change)).unwrap();
    assert_eq!(again, state);
    let twice = again.apply(&obsolete(3, &[(1, 3)])).unwrap_err();
    assert!(twice.contains("obsolete twice"), "{twice}");
    for never in [not_obsolete(3, &[(1, 2)]), not_obsolete(7, &[(1, 2)])] {
        let error = again.apply(&never).unwrap_err();
        assert!(error.contains("that never were"), "{error}");
    }
    for change in [not_obsolete(3, &[(1, 3), (9, 1)]), Change::DropKeyspace { id: 4 }] {
        state.apply(&change).unwrap();
    }
    assert_eq!(state, BlobsState::default());
}

#[test]
fn what_is_restated_adds_up_to_the_same() {
    let mut state = BlobsState::default();
    let remove = Change::RemoveBlobSegment { number: ONE };
    let changes = [
        add(1),
        add(2),
        die(1, &[0, 3]),
        die(1, &[9]),
        add(7),
        relocation(1, 7),
        remove,
        relocation(3, 2),
        Change::DropRelocation { victim: SegmentNumber(3) },
        die(7, &[1]),
    ];
    changes.iter().try_for_each(|change| state.apply(change)).unwrap();
    assert_eq!((state.next, state.segments.len(), state.relocations.len()), (SegmentNumber(8), 2, 1));
    let mut restated = Vec::new();
    state.restate(&mut |change| restated.push(change));
    let mut again = BlobsState::default();
    restated.iter().try_for_each(|change| again.apply(change)).unwrap();
    assert_eq!(again, state);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut state = BlobsState::default();
    [add(1), die(1, &[2]), add(3), relocation(9, 3)]
        .iter()
        .try_for_each(|change| state.apply(change))
        .unwrap();
    for (change, why) in [
        (add(1), "twice"),
        (die(1, &[2]), "twice"),
        (die(1, &[10]), "does not have"),
        (die(2, &[0]), "unknown"),
        (relocation(5, 6), "unknown"),
        (Change::DropRelocation { victim: ONE }, "unknown"),
        (Change::RemoveBlobSegment { number: SegmentNumber(3) }, "leads there"),
        (Change::RemoveBlobSegment { number: SegmentNumber(2) }, "unknown"),
    ] {
        assert!(state.apply(&change).unwrap_err().contains(why), "{change:?}");
    }
}
