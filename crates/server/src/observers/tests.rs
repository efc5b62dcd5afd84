//! Watchers of keys, told one by one.

use super::*;

/// Passes over all, in pieces; the last key of the last but one.
fn pass(mut piece: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut last: Option<Vec<u8>> = None;
    while let Some(key) = piece(last.as_deref()) {
        last = Some(key);
    }
    last
}

fn flush(observers: &Observers, id: DatabaseId, new: DatabaseId) {
    observers.begin_changes([id].into_iter());
    pass(|after| observers.keys_change(id, Some(new), after));
    pass(|after| observers.keys_changed(id, Some(new), after));
    observers.have_changed();
}

#[test]
fn many_keys_are_passed_over_in_pieces_each_once() {
    let observers = Observers::default();
    let id = DatabaseId::FIRST;
    let next = id.next().unwrap();
    let flags: Vec<_> = (0..1000_u32).map(|_| Arc::new(WatchFlag::default())).collect();
    for (number, flag) in (0..1000_u32).zip(&flags) {
        let key = |id: DatabaseId| [&id.number().to_be_bytes()[..], &number.to_be_bytes()].concat();
        observers.watch(&key(id), flag, number % 2 == 0);
        observers.watch(&key(next), &Arc::new(WatchFlag::default()), true);
    }
    let mut pieces = 0;
    pass(|after| {
        pieces += 1;
        observers.keys_change(id, None, after)
    });
    assert_eq!(pieces, 1000 / KEYS_TOGETHER + 2);
    assert!(flags.iter().all(|flag| flag.is_raised()), "a database that is swapped has no successor");
    let mut pieces = 0;
    pass(|after| {
        pieces += 1;
        observers.keys_changed(id, None, after)
    });
    assert_eq!(pieces, 1000 / KEYS_TOGETHER + 2);
}

#[test]
fn who_watches_for_what_is_not_there_watches_on_when_databases_are_flushed() {
    let observers = Observers::default();
    let (missing, there) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
    let id = |count| (0..count).fold(DatabaseId::FIRST, |id, _| id.next().unwrap());
    let key = |id: DatabaseId| [&id.number().to_be_bytes()[..], b"k"].concat();
    observers.watch(&key(id(0)), &missing, false);
    observers.watch(&key(id(0)), &there, true);
    observers.begin_changes([id(0)].into_iter());
    assert!(pass(|after| observers.keys_change(id(0), Some(id(9)), after)).is_some());
    assert!(there.is_raised() && !missing.is_raised(), "before anything can be read of it");
    let late = Arc::new(WatchFlag::default());
    observers.watch(&key(id(0)), &late, false);
    assert!(late.is_raised(), "it came after the flush had begun");
    pass(|after| observers.keys_changed(id(0), Some(id(9)), after));
    observers.have_changed();
    observers.unwatch(&key(id(0)), &late);
    assert!(there.is_raised() && !missing.is_raised());
    assert_eq!(missing.moved(), [key(id(9))]);
    // Again and again: what a client watches does not become more.
    for number in 9..12 {
        flush(&observers, id(number), id(number + 1));
    }
    assert_eq!(missing.moved(), [key(id(12))]);
    assert_eq!(missing.moved_bytes(), name_memory_bytes(&key(id(12))));
    assert_eq!(observers.state().keys.len(), 2, "one of each client");
    assert!(!missing.is_raised());
    observers.changed(&key(id(12)));
    assert!(missing.is_raised());
    for key in missing.end() {
        observers.unwatch(&key, &missing);
    }
    flush(&observers, id(0), id(13));
    assert_eq!(missing.moved(), Vec::<Vec<u8>>::new(), "what has ended is not moved");
    assert_eq!(missing.moved_bytes(), 0);
    observers.unwatch(&key(id(0)), &missing);
    observers.unwatch(&key(id(0)), &there);
    assert!(!observers.is_any());
}

#[test]
fn watchers_are_told_once_and_of_their_keys_only() {
    let observers = Observers::default();
    let (a, b) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
    observers.watch(b"k", &a, false);
    observers.watch(b"k", &a, true);
    observers.watch(b"m", &b, true);
    observers.rid_of_expired(b"k");
    assert!(!a.is_raised(), "there was nothing when it was watched first");
    observers.changed(b"k");
    assert!(a.is_raised());
    assert!(!b.is_raised());
    observers.unwatch(b"k", &a);
    observers.unwatch(b"m", &b);
    observers.changed(b"m");
    assert!(!b.is_raised(), "it watches no more");
    assert!(!observers.is_any());
}
