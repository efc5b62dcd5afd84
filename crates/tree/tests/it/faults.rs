//! Full disks and failed syncs: what is refused, what is kept, and what goes on.

use std::sync::Arc;

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT};
use firn_storage::place::{Crash, Effect, Fault, Faulty, Operation, When};
use firn_tree::Background;

use crate::world::{World, describe, get, put, put_disk, session, tiny};

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
    assert_eq!(refused.kind(), ErrorKind::Retry, "{}", describe(&refused));
    assert!(kept > 20, "{kept}");
    for number in 0..kept {
        assert_eq!(get(&mut session, &number.to_be_bytes()).as_deref(), Some(&value[..]), "{number}");
    }
    faulty.limit_space(None).unwrap();
    put(&mut session, b"after", b"resumed");
    tree.flush().unwrap();
    drop((session, tree));
    let tree = world.crash(Crash::Kill).open().unwrap();
    let mut session = crate::world::session(&tree);
    for number in 0..kept {
        assert_eq!(get(&mut session, &number.to_be_bytes()).as_deref(), Some(&value[..]), "{number}");
    }
    assert_eq!(get(&mut session, b"after").as_deref(), Some(&b"resumed"[..]));
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
    assert_eq!(get(&mut crate::world::session(&tree), b"before").as_deref(), Some(&b"kept"[..]));
}
