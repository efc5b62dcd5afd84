//! How urgent it is that expired values go, and the room that this takes.

use super::*;
use crate::compact::expired::pick_expired;
use crate::compact::pick::FAR_BEHIND;

/// The reader of a table of ten values, of which the first expire at `times`.
pub(super) fn expiring(times: &[u64]) -> Arc<TableReader> {
    let memory = Memory::new();
    let mut builder = TableBuilder::new("any", memory.create("any").unwrap(), TableForm::default());
    for number in 0..10 {
        let (key, value) = ([number as u8], [b'v'; 99]);
        let expires_at_ms = times.get(number).copied().unwrap_or(0);
        let entry = Entry { key: &key, sequence: Sequence(1), kind: Kind::Put, expires_at_ms, value: &value };
        builder.add(&entry).unwrap();
    }
    builder.finish().unwrap();
    let cache = Arc::new(BlockCache::new(1 << 20));
    let file = memory.open_read("any").unwrap();
    Arc::new(TableReader::open_file("any", file, &cache, ReaderOptions::default()).unwrap())
}

#[test]
fn it_is_never_so_urgent_that_flushes_wait_and_needs_room_for_what_lives() {
    let mut levels = Levels::default();
    let meta = table("all".to_owned(), b"a", b"f", 1000, 0.0).meta().clone();
    levels.add(6, 0, Arc::new(Table::new(meta, expiring(&[50; 10]), (0.0, 0), Arc::default())));
    let choose = |now_ms| pick_expired(&levels, &PickRules { now_ms, ..RULES }, &busy(&[]));
    let choice = choose(50).unwrap();
    assert!((1.0..FAR_BEHIND).contains(&choice.score), "{}", choice.score);
    let fits = |now_ms| choice.fits(&PickRules { room_bytes: 100, now_ms, ..RULES });
    assert!(fits(50) && !fits(49));
}
