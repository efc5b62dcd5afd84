//! Outcomes, tickets, waiting and waking.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::Check;
use super::database::{Database, key};
use crate::{
    BatchLimit, Completion, Durability, Outcome, Position, ReadAt, ScanBatch, ScanRange, Session, Ticket,
    Values, WriteOptions,
};

pub(super) const CHECKS: &[Check] = &[
    ("outcomes::each ticket completes exactly once", false, each_ticket_completes_once),
    ("outcomes::positions grow in call order", false, positions_grow),
    ("outcomes::waiting ends with nothing pending", false, waiting_ends),
    ("outcomes::the notifier wakes waiters", false, the_notifier_wakes),
    ("outcomes::pending reads leave out empty and complete", false, pending_reads_complete),
    ("outcomes::pending scans complete at their session", true, pending_scans_complete),
    ("outcomes::a session sees its own writes at once", false, own_writes_are_seen),
    ("outcomes::acknowledged writes are seen by every session", false, others_see_acknowledged_writes),
    ("outcomes::a dropped session abandons its tickets only", false, dropped_sessions_abandon),
    ("outcomes::sessions on many threads keep their own order", false, many_threads),
];

const DISK: WriteOptions = WriteOptions { durability: Some(Durability::Disk), expires_at_ms: 0 };

/// Waits until every ticket of `tickets` has completed; panics on an unknown or repeated ticket, or
/// an end of waiting.
pub(super) fn settle(
    session: &mut dyn Session,
    mut tickets: BTreeSet<Ticket>,
) -> BTreeMap<Ticket, Completion> {
    let mut settled = BTreeMap::new();
    loop {
        session.poll(&mut |ticket, completion| {
            assert!(
                tickets.remove(&ticket),
                "{ticket:?} completed but is not under way (a twin or a stranger)"
            );
            settled.insert(ticket, completion);
        });
        if tickets.is_empty() {
            break;
        }
        assert!(session.wait(None), "wait says that nothing is pending, but {tickets:?} are");
    }
    assert_eq!(session.poll(&mut |ticket, _| panic!("{ticket:?} completed after all tickets had")), 0);
    settled
}

fn each_ticket_completes_once(database: &mut Database) {
    let mut session = database.engine().session();
    let mut tickets = BTreeSet::new();
    for number in 0..200 {
        let options = if number % 3 == 0 { DISK } else { WriteOptions::default() };
        match session.put(database.keyspace, &key(number), b"value", options).expect("put") {
            Outcome::Done(_) => {}
            Outcome::Pending(ticket) => assert!(tickets.insert(ticket), "{ticket:?} was given twice"),
        }
        // Polling in between must not lose or repeat anything.
        if number % 50 == 49 {
            let settled = settle(&mut *session, std::mem::take(&mut tickets));
            assert!(settled.values().all(|completion| matches!(completion, Completion::Written(_))));
        }
    }
    for number in 0..200 {
        database.assert_value(ReadAt::Latest, &key(number), Some(b"value"));
    }
}

fn positions_grow(database: &mut Database) {
    let mut session = database.engine().session();
    let mut positions = BTreeMap::new();
    let mut tickets = BTreeMap::new();
    for number in 0..100 {
        let options = if number % 7 == 0 { DISK } else { WriteOptions::default() };
        match session.put(database.keyspace, b"same key", &key(number), options).expect("put") {
            Outcome::Done(position) => drop(positions.insert(number, position)),
            Outcome::Pending(ticket) => drop(tickets.insert(ticket, number)),
        }
    }
    for (ticket, completion) in settle(&mut *session, tickets.keys().copied().collect()) {
        let Completion::Written(position) = completion else { panic!("a write completed as {completion:?}") };
        positions.insert(tickets[&ticket], position);
    }
    let positions: Vec<Position> = positions.into_values().collect();
    assert!(positions.is_sorted_by(|one, next| one < next), "positions in call order: {positions:?}");
    assert_eq!(database.get(b"same key"), Some(key(99)), "the last write in call order wins");
    let snapshot = database.engine().snapshot().expect("snapshot");
    assert!(snapshot.position() >= positions[99], "a snapshot covers what was acknowledged before it");
    let synced = database.engine().sync().expect("sync");
    assert!(synced >= positions[99], "sync covers what was acknowledged before it");
}

fn waiting_ends(database: &mut Database) {
    let mut session = database.engine().session();
    assert!(!session.wait(None), "with nothing pending and no deadline wait returns false");
    assert_eq!(session.poll(&mut |_, _| panic!("a completion without an operation")), 0);
    let put = session.put(database.keyspace, b"a", b"1", DISK).expect("put");
    if let Outcome::Pending(ticket) = put {
        assert!(session.wait(None), "wait returns true when there is something to deliver");
        assert!(session.wait(None), "waiting takes nothing away");
        settle(&mut *session, BTreeSet::from([ticket]));
    }
    #[expect(clippy::disallowed_methods, reason = "a deadline is wall time by its meaning")]
    let past = std::time::Instant::now();
    assert!(!session.wait(Some(past)), "wait returns false when its deadline has passed");
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn the_notifier_wakes(database: &mut Database) {
    let mut session = database.engine().session();
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    for number in 0..20 {
        flag.0.store(false, Ordering::SeqCst);
        let Outcome::Pending(ticket) = session.put(database.keyspace, &key(number), b"1", DISK).expect("put")
        else {
            continue;
        };
        session.notifier().register(&Waker::from(Arc::clone(&flag)));
        let notifier = session.notifier();
        #[expect(clippy::disallowed_methods, reason = "a deadline is wall time by its meaning")]
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let woken = std::thread::scope(|scope| {
            let waiter = scope.spawn(move || notifier.wait(Some(deadline)));
            waiter.join().expect("the waiting thread")
        });
        assert!(woken, "a thread that waits for a notifier is woken when the completion arrives");
        // The sender queues, then wakes: the waiter may see the first before the second has
        // happened.
        let is_flagged = (0..10_000_000).any(|_| {
            std::thread::yield_now();
            flag.0.load(Ordering::SeqCst)
        });
        assert!(is_flagged, "a registered waker is woken when the completion arrives");
        settle(&mut *session, BTreeSet::from([ticket]));
    }
}

fn pending_reads_complete(database: &mut Database) {
    for number in 0..50 {
        database.put(&key(number), &key(number + 1000));
    }
    database.everywhere(&mut |database| {
        let mut session = database.engine().session();
        for number in 0..60 {
            let expected = (number < 50).then(|| key(number + 1000));
            let mut out = b"left over".to_vec();
            let got = session.get(ReadAt::Latest, database.keyspace, &key(number), &mut out).expect("get");
            match got {
                Outcome::Done(found) => assert_eq!(found.then_some(out), expected, "get of key {number}"),
                Outcome::Pending(ticket) => {
                    assert!(out.is_empty(), "a pending read leaves `out` empty");
                    let completion = settle(&mut *session, BTreeSet::from([ticket])).remove(&ticket);
                    let Some(Completion::Value(value)) = completion else {
                        panic!("completed as {completion:?}")
                    };
                    assert_eq!(value, expected, "pending get of key {number}");
                }
            }
        }
        let (present, absent) = (key(7), key(999));
        // As many as wanted, and no more once there are bytes enough.
        for (mut values, count) in [(Values::new(), 2), (Values::with_bytes_max(1), 1)] {
            values.push(Some(b"left over"));
            let keys = [&present[..], &absent[..]];
            match session.multi_get(ReadAt::Latest, database.keyspace, &keys, &mut values).expect("multi_get")
            {
                Outcome::Done(()) => {}
                Outcome::Pending(ticket) => {
                    match settle(&mut *session, BTreeSet::from([ticket])).remove(&ticket) {
                        Some(Completion::Values(completed)) => values = completed,
                        other => panic!("a multi_get completed as {other:?}"),
                    }
                }
            }
            assert_eq!((values.len(), values.get(0), values.get(1)), (count, Some(&key(1007)[..]), None));
        }
    });
}

fn pending_scans_complete(database: &mut Database) {
    for number in 0..50 {
        database.put(&key(number), b"value");
    }
    database.everywhere(&mut |database| {
        let mut session = database.ordered().ordered_session();
        let mut scan = session.scan(ReadAt::Latest, database.keyspace, ScanRange::all()).expect("scan");
        let mut count = 0;
        let mut batch = ScanBatch::new();
        while !batch.is_finished() {
            let limit = BatchLimit { records: 8, bytes: 1 << 20 };
            if let Outcome::Pending(ticket) = scan.next_batch(limit, &mut batch).expect("next_batch") {
                assert!(batch.is_empty(), "a pending batch leaves `out` empty");
                match settle(&mut *session, BTreeSet::from([ticket])).remove(&ticket) {
                    Some(Completion::Scanned(completed)) => batch = completed,
                    other => panic!("a scan completed as {other:?}"),
                }
            }
            assert!(batch.len() <= 8, "a batch has at most the records asked for");
            count += batch.len();
        }
        assert_eq!(count, 50);
    });
}

fn own_writes_are_seen(database: &mut Database) {
    let mut session = database.engine().session();
    session.set_inline(true);
    let mut blocking = database.session();
    let mut tickets = BTreeSet::new();
    let mut out = Vec::new();
    for number in 0..50 {
        let options = if number % 2 == 0 { DISK } else { WriteOptions::default() };
        if let Outcome::Pending(ticket) =
            session.put(database.keyspace, b"own", &key(number), options).expect("put")
        {
            tickets.insert(ticket);
        }
        match session.get(ReadAt::Latest, database.keyspace, b"own", &mut out).expect("get") {
            Outcome::Done(found) => assert!(found && out == key(number), "own write {number} is not seen"),
            Outcome::Pending(ticket) => drop(tickets.insert(ticket)),
        }
    }
    settle(&mut *session, tickets);
    assert_eq!(blocking.get(ReadAt::Latest, database.keyspace, b"own").expect("get"), Some(key(49)));
}

fn others_see_acknowledged_writes(database: &mut Database) {
    let mut others = [database.session(), database.session()];
    for number in 0..100 {
        database.put(b"seen", &key(number));
        for other in &mut others {
            let value = other.get(ReadAt::Latest, database.keyspace, b"seen").expect("get");
            assert_eq!(value, Some(key(number)), "another session misses acknowledged write {number}");
        }
    }
}

fn dropped_sessions_abandon(database: &mut Database) {
    for number in 0..20 {
        let mut session = database.engine().session();
        for index in 0..10 {
            let _ =
                session.put(database.keyspace, &key(number * 10 + index), b"abandoned", DISK).expect("put");
        }
    }
    database.put(b"after", b"1");
    assert_eq!(database.get(b"after").as_deref(), Some(&b"1"[..]), "the engine goes on");
    database.reopen();
    for number in 0..200 {
        let value = database.get(&key(number));
        assert!(
            value.is_none() || value.as_deref() == Some(b"abandoned"),
            "an abandoned write is whole or absent"
        );
    }
}

fn many_threads(database: &mut Database) {
    let (threads, rounds) = (4, 200);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut session = database.session();
            let keyspace = database.keyspace;
            scope.spawn(move || {
                for round in 0..rounds {
                    let own = key(thread * 1000 + round % 10);
                    session.put(keyspace, &own, &key(round), WriteOptions::default()).expect("put");
                    let value = session.get(ReadAt::Latest, keyspace, &own).expect("get");
                    assert_eq!(value, Some(key(round)), "thread {thread} misses its own write {round}");
                }
            });
        }
    });
    for thread in 0..threads {
        for slot in 0..10 {
            database.assert_value(ReadAt::Latest, &key(thread * 1000 + slot), Some(&key(rounds - 10 + slot)));
        }
    }
}
