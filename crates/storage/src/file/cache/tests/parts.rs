//! The index and the ghosts by themselves.

use std::collections::HashMap;

use super::{BlockCache, CachedBlock, FileNumber, block, seed};
use crate::file::cache::chunk::EntryKey;
use crate::file::cache::ghost::Ghosts;
use crate::file::cache::index::{Index, Place, TAG_BITS};

#[test]
fn the_index_is_a_map() {
    let mut random = fastrand::Rng::with_seed(seed(1));
    for round in 0..200 {
        let mut index = Index::default();
        let mut model = HashMap::<u32, (Place, u64)>::new();
        for _ in 0..2_000 {
            let chunk = random.u32(0..400);
            let place = Place { chunk, offset: random.usize(0..1 << 19) * 8 };
            // Places begin with their chunk's number, so that one tag can stand for several
            // entries. Tags crowd at the table's end, where the search goes on at its beginning.
            let tag = if round % 2 == 0 { u32::MAX >> (32 - TAG_BITS) } else { chunk << 17 };
            let slot = index.find(tag, |known| known.chunk == chunk);
            assert_eq!(
                slot.map(|slot| (index.place(slot), index.frequency(slot))),
                model.get(&chunk).copied()
            );
            match (slot, random.u32(0..4)) {
                (None, _) => {
                    if let Some(slots) = index.wants_more() {
                        let mut larger = Index::new(slots);
                        larger.take_all(&index);
                        index = larger;
                    }
                    index.insert(tag, place);
                    model.insert(chunk, (place, 0));
                }
                (Some(slot), 0) => {
                    index.count_read(slot);
                    model.entry(chunk).and_modify(|known| known.1 = (known.1 + 1).min(3));
                }
                (Some(slot), 1) => {
                    index.relocate(slot, place, 2);
                    model.insert(chunk, (place, 2));
                }
                (Some(slot), _) => {
                    index.remove(slot);
                    model.remove(&chunk);
                }
            }
            assert_eq!(index.len(), model.len());
        }
    }
}

#[test]
fn ghosts_are_the_latest() {
    let mut ghosts = Ghosts::new(1024);
    assert_eq!(ghosts.memory_bytes(), Ghosts::bytes_for(1024));
    let mut random = fastrand::Rng::with_seed(seed(2));
    let known: Vec<(u32, u16)> =
        (0..20_000).map(|_| (random.u32(0..1 << TAG_BITS), random.u16(..))).collect();
    known.iter().for_each(|(tag, print)| ghosts.insert(*tag, *print));
    let mut remembered = |from: usize, until: usize| {
        let (tags, count) = (&known[from..until], until - from);
        tags.iter().filter(|(tag, print)| ghosts.remove(*tag, *print)).count() as f64 / count as f64
    };
    assert!(remembered(0, 15_000) < 0.01, "of those long gone only mistakes");
    assert!(remembered(19_500, 20_000) > 0.97, "of the latest half nearly all");
    assert!(remembered(19_500, 20_000) < 0.01, "whoever came back is no ghost");
    assert!(!Ghosts::default().remove(1, 1), "none where there is no room");
}

#[test]
fn entries_of_one_tag_do_not_meet() {
    let cache = BlockCache::new(1 << 20);
    let mut files = HashMap::new();
    let twins = (0..1 << 20).find_map(|file| {
        let tag = EntryKey { file, number: 14 }.hash() >> 22 & ((1 << TAG_BITS) - 1);
        files.insert(tag, file).map(|twin| [twin, file].map(FileNumber))
    });
    let [one, other] = twins.unwrap();
    let payload = |file| cache.get(file, 7).map(|block: CachedBlock| block.payload.len());
    cache.insert(one, 7, &block(100));
    assert_eq!((payload(one), payload(other)), (Some(100), None));
    cache.insert(other, 7, &block(200));
    assert_eq!((payload(one), payload(other)), (Some(100), Some(200)));
}
