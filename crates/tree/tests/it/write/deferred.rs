//! Writes that are answered before the kernel has them.

use firn_engine::{Durability, KEYSPACE_DEFAULT, Ordered, OrderedSession, Outcome, ReadAt, WriteOptions};
use firn_storage::backend::Crash;

use crate::support::world::{World, get, session, tiny};

fn put(session: &mut dyn OrderedSession, key: &[u8]) {
    let options = WriteOptions { durability: Some(Durability::Process), ..WriteOptions::default() };
    let outcome = session.put(KEYSPACE_DEFAULT, key, b"v", options).expect("it is written");
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

fn sees(session: &mut dyn OrderedSession, key: &[u8]) -> bool {
    let mut value = Vec::new();
    let outcome = session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key, &mut value).expect("it is read");
    outcome.done().expect("it is resident")
}

#[test]
fn what_is_deferred_is_visible_at_once_and_survives_a_kill_once_it_is_settled() {
    let world = World::new(tiny());
    let tree = world.open().unwrap();
    let (mut writer, mut reader) = (tree.ordered_session(), tree.ordered_session());
    writer.set_deferred(true);
    put(&mut *writer, b"first");
    assert!(sees(&mut *writer, b"first") && sees(&mut *reader, b"first"));
    let killed = world.crash(Crash::Kill).open().unwrap();
    assert_eq!(get(&mut session(&killed), b"first"), None, "or nothing was deferred");
    // A session that has seen it may settle it.
    reader.settle().unwrap();
    let killed = world.crash(Crash::Kill).open().unwrap();
    assert_eq!(get(&mut session(&killed), b"first").as_deref(), Some(&b"v"[..]));
    put(&mut *writer, b"second");
    writer.set_deferred(false);
    put(&mut *writer, b"third");
    let killed = world.crash(Crash::Kill).open().unwrap();
    for key in [&b"second"[..], b"third"] {
        assert!(
            get(&mut session(&killed), key).is_some(),
            "what comes before survives with what comes after"
        );
    }
}
