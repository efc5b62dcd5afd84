use firn_format::blob::BlobSegmentHeader;
use firn_format::blob::segment::Origin;
use firn_storage::backend::{Memory, RecycledFiles};

use super::*;

fn active(capacity: u64) -> Arc<Active> {
    let header =
        BlobSegmentHeader { database: 1, number: SegmentNumber(3), origin: Origin::Written, generation: 1 };
    let open =
        OpenBlobs::create(&Memory::new(), &RecycledFiles::default(), "00000003.blobs", &header, capacity)
            .unwrap();
    Arc::new(Active::new(open, capacity))
}

#[test]
fn places_follow_one_another_until_there_is_no_room() {
    let active = active(1000);
    let first = active.give(1, 400).unwrap();
    let second = active.give(3, 800).unwrap();
    assert_eq!(first, Given { ordinal: 0, offset: 64, count: 1, bytes: 400 });
    assert_eq!(second, Given { ordinal: 1, offset: 464, count: 3, bytes: 800 });
    assert_eq!(active.give(1, 8), None, "the last one reached over the capacity");
}

fn written(ordinal: u32) -> Written {
    Written { ordinal, keyspace: 0, offset: 64 + 40 * u64::from(ordinal), value_bytes: 8 }
}

#[test]
fn a_sealed_segment_is_settled_when_all_places_are() {
    let active = active(1 << 20);
    let write = |count, bytes| {
        let mut places = Places::default();
        let given = active.give(count, bytes).unwrap();
        let values: Vec<_> = (0..count).map(|index| written(given.ordinal + index)).collect();
        active.wrote(&values);
        places.push(Arc::clone(&active), given);
        places
    };
    let (published, lost, late) = (write(2, 80), write(1, 40), write(1, 40));
    assert_eq!(active.settled(), None);
    active.seal();
    assert_eq!(active.give(1, 8), None);
    published.published(Position(800));
    assert_eq!(active.settled(), None, "a writer is not done");
    drop(lost);
    assert!(!active.is_settled(), "another writer is not done");
    late.published(Position(700));
    assert!(active.is_settled());
    let settled = Settled {
        ordinals: 4,
        end: 64 + 160,
        frames_end: Position(800),
        values: [0, 1, 3].map(written).to_vec(),
        given_up: 1,
    };
    assert_eq!(active.settled(), Some(settled));
}

#[test]
fn nobody_gets_the_place_of_another() {
    let active = active(1 << 20);
    let places = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|writer| {
                let active = &active;
                scope.spawn(move || (0..2000).map_while(|_| active.give(1 + writer, 48)).collect::<Vec<_>>())
            })
            .collect();
        let mut places: Vec<Given> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        places.sort_unstable_by_key(|given| given.offset);
        places
    });
    assert_eq!(places.len(), 8000);
    let follow = |pair: &[Given]| {
        pair[0].offset + pair[0].bytes == pair[1].offset && pair[0].ordinal + pair[0].count == pair[1].ordinal
    };
    assert!(places.windows(2).all(follow));
}
