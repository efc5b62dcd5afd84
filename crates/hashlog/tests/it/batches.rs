//! Batches are recovered whole, whatever others make of their values meanwhile.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::blocking::Blocking;
use firn_engine::{Batch, Engine, KEYSPACE_DEFAULT, ReadAt, Rmw, WriteOptions};
use firn_storage::backend::{Crash, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{ManualClock, SystemClock};

use crate::support::{open, tiny};

/// One session's batch is visible, and not in the redo log yet, when another one changes a value
/// of it. What that makes survives, so the batch must.
#[test]
fn what_is_made_of_a_batch_survives_with_all_of_it() {
    for rmw in [Rmw::Add(1), Rmw::Append(b"+")] {
        let memory = Memory::new();
        let faulty = Faulty::with_clock(Arc::new(memory.clone()), Arc::new(SystemClock::new()));
        let storage = Arc::new(faulty.clone());
        let database = open(storage, Arc::new(ManualClock::new(1)), true, tiny()).expect("open");
        let mut sessions = [(); 2].map(|()| Blocking::new(database.session()));
        for (session, key) in sessions.iter_mut().zip([b"x", b"y"]) {
            session.put(KEYSPACE_DEFAULT, key, b"", WriteOptions::default()).expect("put");
        }
        let [batching, changing] = &mut sessions;
        let (file, effect) = ("*.redo".to_owned(), Effect::Delay(Duration::from_millis(300)));
        faulty.inject(Fault { on: Operation::Write, file, when: When::Once { after: 0 }, effect });
        let left = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut batch = Batch::new();
                let value = 100_u64.to_le_bytes();
                batch.put(KEYSPACE_DEFAULT, b"first", &value).put(KEYSPACE_DEFAULT, b"second", &value);
                batching.write(&batch, WriteOptions::default()).expect("write");
            });
            while faulty.struck_count() == 0 {
                std::thread::yield_now();
            }
            changing.rmw(KEYSPACE_DEFAULT, b"first", rmw, WriteOptions::default()).expect("rmw");
            memory.crash(Crash::Kill)
        });
        let database =
            open(Arc::new(left), Arc::new(ManualClock::new(1)), false, tiny()).expect("open again");
        let mut session = Blocking::new(database.session());
        let mut get = |key: &[u8]| session.get(ReadAt::Latest, KEYSPACE_DEFAULT, key).expect("get");
        let (first, second) = (get(b"first").expect("it was acknowledged"), get(b"second"));
        assert!(first.first() != Some(&100) || first.len() == 9, "{rmw:?}: nothing was changed: {first:?}");
        assert_eq!(second.as_deref(), Some(&100_u64.to_le_bytes()[..]), "{rmw:?}: half of a batch");
    }
}
