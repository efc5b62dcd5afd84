//! Full disks and failed syncs: what is refused, what is kept, and what goes on.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT};
use firn_storage::Storage;
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_tree::Background;

use crate::support::world::{World, describe, get, put, put_disk, session, settle, tiny};

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_resumes() {
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    faulty.limit_space(Some(24 << 20)).unwrap();
    let mut session = session(&tree);
    let value = vec![5; 100_000];
    let mut kept = 0_u32;
    let refused = loop {
        match session.put(KEYSPACE_DEFAULT, &kept.to_be_bytes(), &value, Default::default()) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 2000, "the disk never filled");
    };
    assert!(kept > 20, "{kept}");
    let is_there = get(&mut session, &kept.to_be_bytes()).is_some();
    let expected = if is_there { ErrorKind::NotDurable } else { ErrorKind::Retry };
    assert_eq!(refused.kind(), expected, "{}", describe(&refused));
    for number in 0..kept {
        assert_eq!(get(&mut session, &number.to_be_bytes()).as_deref(), Some(&value[..]), "{number}");
    }
    faulty.limit_space(None).unwrap();
    put(&mut session, b"after", b"resumed");
    tree.flush().unwrap();
    drop((session, tree));
    let tree = world.crash(Crash::Kill).open().unwrap();
    let mut session = crate::support::world::session(&tree);
    for number in 0..kept {
        assert_eq!(get(&mut session, &number.to_be_bytes()).as_deref(), Some(&value[..]), "{number}");
    }
    assert_eq!(get(&mut session, b"after").as_deref(), Some(&b"resumed"[..]));
}

#[test]
fn why_a_flush_finds_no_room_is_told_with_what_to_do_and_what_holds_meanwhile() {
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    let (on, file) = (Operation::Write, "*.table".to_owned());
    let effect = Effect::Fail(firn_storage::ErrorKind::Full);
    faulty.inject(Fault { on, file, when: When::Always { after: 0 }, effect });
    let mut session = session(&tree);
    put(&mut session, b"before", b"kept");
    assert_eq!(tree.flush().unwrap_err().kind(), ErrorKind::Retry);
    let why = tree.stats().background_refusal.unwrap();
    let words =
        [".table", "free some space", "tried again by itself", "nothing that was acknowledged is given up"];
    assert!(words.iter().all(|words| why.contains(words)), "{why}");
    put(&mut session, b"meanwhile", b"taken");
    faulty.clear_faults();
    tree.flush().unwrap();
    assert_eq!(tree.stats().background_refusal, None);
    for (key, value) in [(&b"before"[..], &b"kept"[..]), (b"meanwhile", b"taken")] {
        assert_eq!(get(&mut session, key).as_deref(), Some(value));
    }
}

#[test]
fn a_failed_sync_refuses_later_writes_with_the_first_cause_and_reads_go_on() {
    let world = World::new(tiny());
    let faulty = Faulty::new(Arc::new(world.storage.clone()));
    let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
    let mut session = session(&tree);
    put_disk(&mut session, b"before", b"kept").unwrap();
    faulty.inject(Fault {
        on: Operation::Sync,
        file: "*.log".to_owned(),
        when: When::Once { after: 0 },
        effect: Effect::Fail(firn_storage::ErrorKind::Io),
    });
    let failed = put_disk(&mut session, b"lost", b"perhaps").unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Closed, "{}", describe(&failed));
    for _ in 0..2 {
        let refused = put_disk(&mut session, b"later", b"no").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Closed, "{}", describe(&refused));
        assert!(describe(&refused).contains("sync"), "the first cause: {}", describe(&refused));
    }
    assert_eq!(get(&mut session, b"before").as_deref(), Some(&b"kept"[..]));
    drop((session, tree));
    let tree = world.crash(Crash::PowerLoss { seed: 3 }).open().unwrap();
    assert_eq!(get(&mut crate::support::world::session(&tree), b"before").as_deref(), Some(&b"kept"[..]));
}

/// A backend that cannot say whether an edit was published is asked what is there.
#[test]
fn an_edit_of_unknown_fate_is_looked_up() {
    let kind = firn_storage::ErrorKind::Undecided;
    for (effect, is_there) in [(Effect::Fail(kind), false), (Effect::FailAfter(kind), true)] {
        let world = World::new(tiny());
        let faulty = Faulty::new(Arc::new(world.storage.clone()));
        let tree = world.open_on(Arc::new(faulty.clone()), Background::Manual);
        put(&mut session(&tree), b"a", b"1");
        let (on, file) = (Operation::Publish, "manifest-*".to_owned());
        faulty.inject(Fault { on, file, when: When::Once { after: 0 }, effect });
        match tree.flush() {
            Ok(()) => assert!(is_there),
            Err(error) => assert!(!is_there && error.kind() == ErrorKind::Retry, "{error}"),
        }
        assert_eq!(faulty.struck_count(), 1);
        put(&mut session(&tree), b"b", b"2");
        tree.flush().unwrap();
        settle(&tree);
        let files = world.storage.list().unwrap();
        let files = files.iter().filter(|(name, _)| name.ends_with(".table")).count() as u64;
        assert_eq!(
            files,
            tree.stats().tree.expect("a tree").table_count,
            "tables of an edit that is not there are removed"
        );
        for tree in [tree, world.crash(Crash::PowerLoss { seed: 3 }).open().unwrap()] {
            let mut session = session(&tree);
            assert_eq!(get(&mut session, b"a").as_deref(), Some(&b"1"[..]));
            assert_eq!(get(&mut session, b"b").as_deref(), Some(&b"2"[..]));
        }
    }
}
