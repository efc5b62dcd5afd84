//! Which obsolete files are kept, which go, and which wait.

use std::sync::Arc;

use firn_engine::Semantics;
use firn_format::file_name;
use firn_jobs::Local;
use firn_storage::ManualClock;
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};

use super::*;

/// A storage with files, all that is known of them, and what may keep them.
struct Engine {
    storage: Arc<Faulty>,
    obsolete: ObsoleteFiles,
    log: RecycledSegments,
    outputs: Reusing,
    jobs: Submitter,
}

const SEGMENT_BYTES: u64 = 1 << 20;

impl Engine {
    fn with(names: &[&str]) -> Self {
        let storage = Arc::new(Faulty::new(Arc::new(Memory::new())));
        for name in names {
            storage.publish(name, b"bytes").unwrap();
        }
        let outputs = Reusing::new(Arc::<Faulty>::clone(&storage));
        let local = Local::inline(Arc::<Faulty>::clone(&storage), Arc::new(Semantics::default()));
        let jobs = Submitter::new(Arc::new(local), None, Arc::new(ManualClock::new(0)));
        let log = RecycledSegments::new(SEGMENT_BYTES, 8).unwrap();
        Self { storage, obsolete: ObsoleteFiles::default(), log, outputs, jobs }
    }

    fn gc(&self) -> ObsoleteGc<'_> {
        let Self { storage, obsolete, log, outputs, jobs } = self;
        ObsoleteGc { storage: &**storage, obsolete, log, outputs, jobs }
    }

    fn remove(&self, recycled_max: Option<RecycledMax>, is_closed: bool) -> bool {
        self.gc().remove(self.obsolete.take(), recycled_max, is_closed)
    }

    fn names(&self) -> Vec<String> {
        self.storage.list().unwrap().into_iter().map(|(name, _)| name).collect()
    }

    fn refuse(&self, name: &str) {
        let (on, file, when) = (Operation::Remove, name.to_owned(), When::Once { after: 0 });
        self.storage.inject(Fault { on, file, when, effect: Effect::Fail(ErrorKind::Refused) });
    }
}

const ONE_SEGMENT: Option<RecycledMax> = Some(RecycledMax { log_files: 1, table_bytes: 0, blob_bytes: 0 });

#[test]
fn as_many_log_files_are_kept_as_may_be_and_the_rest_goes() {
    let engine = Engine::with(&["a", "b", "c", "lives"]);
    engine.obsolete.remove_later("a".to_owned());
    engine.obsolete.recycle_segment("b".to_owned());
    engine.obsolete.recycle_segment("c".to_owned());
    assert!(engine.remove(ONE_SEGMENT, false));
    assert_eq!(engine.names(), ["b", "lives"]);
    assert_eq!(engine.log.file_bytes(), SEGMENT_BYTES);
    assert!(!engine.remove(ONE_SEGMENT, false), "there is nothing to do");
    engine.gc().give_up();
    assert_eq!(engine.log.file_bytes(), 0);
    assert!(engine.remove(ONE_SEGMENT, false));
    assert_eq!(engine.names(), ["lives"]);
}

#[test]
fn what_is_recyclable_is_removed_where_nothing_may_be_kept_or_it_is_given_up() {
    let engine = Engine::with(&["a", "b"]);
    engine.obsolete.recycle_segment("a".to_owned());
    assert!(engine.remove(None, false));
    engine.obsolete.recycle_segment("b".to_owned());
    engine.gc().give_up();
    assert!(engine.remove(ONE_SEGMENT, false));
    assert!(engine.names().is_empty() && engine.log.file_bytes() == 0);
}

#[test]
fn what_cannot_be_removed_waits_behind_all_that_was_to_follow() {
    let engine = Engine::with(&["a", "b", "c"]);
    ["a", "b", "c"].into_iter().for_each(|name| engine.obsolete.remove_later(name.to_owned()));
    engine.refuse("b");
    assert!(engine.remove(None, false), "the first one went");
    assert_eq!((engine.names(), engine.jobs.left_count()), (vec!["b".to_owned(), "c".to_owned()], 1));
    assert!(engine.obsolete.is_empty(), "it is not tried at once");
    engine.obsolete.retry_now();
    assert_eq!(engine.obsolete.take().removable, ["c", "b"]);
}

#[test]
fn a_close_leaves_log_objects_and_what_cannot_be_removed_to_the_next_opening() {
    let object = file_name::log_object(1, 0);
    let engine = Engine::with(&["a", "b", &object]);
    ["a", &object, "b"].into_iter().for_each(|name| engine.obsolete.remove_later(name.to_owned()));
    engine.refuse("a");
    assert!(engine.remove(None, true));
    assert_eq!(engine.names(), [object.clone(), "a".to_owned()]);
    assert!(engine.obsolete.take().removable.is_empty());
    assert_eq!(engine.jobs.left_count(), 0);
}
