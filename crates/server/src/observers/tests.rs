//! Watchers and waiters of keys, told one by one.

use super::*;

const fn waiter(number: u64) -> ClientAddress {
    ClientAddress { worker: 0, id: 0, number }
}

#[test]
fn waiters_are_told_in_the_order_they_came() {
    let observers = Observers::default();
    assert!(observers.is_empty());
    observers.wait(b"k", waiter(1), None);
    observers.wait(b"k", waiter(2), Some(b"d"));
    observers.wait(b"k", waiter(1), None);
    assert!(!observers.changed(b"other"));
    assert!(observers.changed(b"k"));
    assert_eq!(observers.first_but(b"k", &[]), Some(waiter(1)));
    assert_eq!(observers.first_but(b"k", &[waiter(1)]), Some(waiter(2)));
    assert_eq!(observers.first_but(b"k", &[waiter(1), waiter(2)]), None);
    assert_eq!(observers.destinations(b"k", 1), Vec::<Vec<u8>>::new());
    assert_eq!(observers.destinations(b"k", 2), [b"d".to_vec()]);
    assert_eq!(observers.behind(b"k", waiter(1)), Some(waiter(2)));
    assert_eq!(observers.behind(b"k", waiter(2)), None);
    assert_eq!(observers.leave(b"k", waiter(1)), Some(waiter(2)));
    assert!(!observers.is_empty());
    assert_eq!(observers.leave(b"k", waiter(2)), None);
    assert!(observers.is_empty());
}

#[test]
fn who_watches_for_what_is_not_there_watches_on_when_databases_are_flushed() {
    let observers = Observers::default();
    let (missing, there) = (Arc::new(WatchFlag::default()), Arc::new(WatchFlag::default()));
    let id = |count| (0..count).fold(DatabaseId::FIRST, |id, _| id.next().unwrap());
    let key = |id: DatabaseId| [&id.number().to_be_bytes()[..], b"k"].concat();
    observers.watch(&key(id(0)), &missing, false);
    observers.watch(&key(id(0)), &there, true);
    observers.databases_flushed(&[(id(0), id(9))]);
    let late = Arc::new(WatchFlag::default());
    observers.watch(&key(id(0)), &late, false);
    observers.databases_changed(&[id(0)], |_| Some(id(9)));
    assert!(late.is_raised(), "it came after the flush had begun");
    observers.unwatch(&key(id(0)), &late);
    assert!(there.is_raised() && !missing.is_raised());
    assert_eq!(missing.moved(), [key(id(9))]);
    // Again and again: what a client watches does not become more.
    for number in 9..12 {
        observers.databases_flushed(&[(id(number), id(number + 1))]);
        observers.databases_changed(&[id(number)], |_| Some(id(number + 1)));
    }
    assert_eq!(missing.moved(), [key(id(12))]);
    assert_eq!(observers.keys().len(), 2, "one of each client");
    assert!(!missing.is_raised());
    observers.changed(&key(id(12)));
    assert!(missing.is_raised());
    for key in missing.moved() {
        observers.unwatch(&key, &missing);
    }
    observers.unwatch(&key(id(0)), &missing);
    observers.unwatch(&key(id(0)), &there);
    assert!(observers.is_empty());
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
    assert!(observers.is_empty());
}
