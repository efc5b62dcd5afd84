//! A session that does not block writes in call order, updates included.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_engine::{
    Change, Completion, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, Position, Ticket, WriteOptions,
};

use crate::support::world::{World, get, session, tiny};

const PLAIN: WriteOptions = WriteOptions { durability: None, expires_at_ms: 0 };

/// Polls until every ticket has its completion; their positions.
fn finish(session: &mut dyn OrderedSession, tickets: &[Ticket]) -> BTreeMap<Ticket, Position> {
    let mut done = BTreeMap::new();
    while done.len() < tickets.len() {
        assert!(session.wait(Some(deadline())), "no answer in ten seconds: {tickets:?}, {done:?}");
        session.poll(&mut |ticket, completion| match completion {
            Completion::Written(position) => drop(done.insert(ticket, position)),
            other => panic!("{other:?}"),
        });
    }
    done
}

#[expect(clippy::disallowed_methods, reason = "`wait` takes its deadline as an Instant")]
fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[test]
fn what_follows_an_update_is_written_after_it() {
    let world = World::new(tiny());
    let tree = world.open_threads();
    let mut writer = tree.ordered_session();
    for round in 0..300_u32 {
        let slow = Box::new(move |_: Option<&[u8]>| {
            // Long enough for what follows to be called, and to overtake where it can.
            (0..round % 3 * 20_000).for_each(|_| std::hint::spin_loop());
            Change::Put(round.to_be_bytes().to_vec())
        });
        let mut tickets = Vec::new();
        let mut take = |outcome: Outcome<Position>| match outcome {
            Outcome::Pending(ticket) => tickets.push(ticket),
            Outcome::Done(_) => {}
        };
        take(writer.update(KEYSPACE_DEFAULT, b"key", slow, PLAIN).unwrap());
        take(writer.put(KEYSPACE_DEFAULT, b"key", &(round + 1000).to_be_bytes(), PLAIN).unwrap());
        let add = move |old: Option<&[u8]>| {
            assert_eq!(old, Some(&(round + 1000).to_be_bytes()[..]), "the put before it is there");
            Change::Put((round + 2000).to_be_bytes().to_vec())
        };
        take(writer.update(KEYSPACE_DEFAULT, b"key", Box::new(add), PLAIN).unwrap());
        let done = finish(&mut *writer, &tickets);
        let positions: Vec<_> = done.values().collect();
        assert!(positions.is_sorted(), "round {round}: {done:?}");
        assert_eq!(get(&mut session(&tree), b"key").as_deref(), Some(&(round + 2000).to_be_bytes()[..]));
    }
}

#[test]
fn an_updates_function_never_runs_in_a_poll() {
    let world = World::new(tiny());
    let tree = world.open_threads();
    let mut writer = tree.ordered_session();
    let here = std::thread::current().id();
    let ran_here = Arc::new(AtomicBool::new(false));
    let mut tickets = Vec::new();
    for _ in 0..200 {
        let ran_here = Arc::clone(&ran_here);
        let f = Box::new(move |_: Option<&[u8]>| {
            ran_here.fetch_or(std::thread::current().id() == here, Ordering::Relaxed);
            Change::Put(vec![1])
        });
        match writer.update(KEYSPACE_DEFAULT, b"key", f, PLAIN).unwrap() {
            Outcome::Pending(ticket) => tickets.push(ticket),
            Outcome::Done(_) => {}
        }
    }
    finish(&mut *writer, &tickets);
    assert!(!ran_here.load(Ordering::Relaxed));
}
