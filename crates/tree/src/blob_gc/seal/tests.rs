//! What happens between the sealing of two segments.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use firn_engine::{Engine, KeyspaceId, KeyspaceSettings, Outcome, WriteOptions};
use firn_storage::backend::{Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{Clock, ManualClock};

use crate::settings::{Settings, TreeOptions};
use crate::tree::Tree;
use crate::tree::tests::manual;

const VALUE: [u8; 3000] = [1; 3000];

/// The clock of a backend that is slow where values are synced: then, once, a keyspace is created,
/// and gets a value.
#[derive(Debug, Default)]
struct Creates(Mutex<Weak<Tree>>);

impl Clock for Creates {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _time: Duration) {
        let tree = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(tree) = tree.upgrade() {
            let new = create(&tree, "new");
            put(&tree, new, b"first");
        }
    }
}

fn create(tree: &Tree, name: &str) -> KeyspaceId {
    let settings = KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() };
    tree.create_keyspace(name, settings).expect("created")
}

fn put(tree: &Tree, keyspace: KeyspaceId, key: &[u8]) {
    let mut session = tree.session();
    session.set_inline(true);
    let outcome = session.put(keyspace, key, &VALUE, WriteOptions::default()).expect("written");
    assert!(matches!(outcome, Outcome::Done(_)));
}

#[test]
fn values_of_a_keyspace_that_is_new_meanwhile_live() {
    let creates = Arc::<Creates>::default();
    let backend = Faulty::with_clock(Arc::new(Memory::new()), Arc::clone(&creates) as Arc<dyn Clock>);
    let (effect, when) = (Effect::Delay(Duration::from_millis(1)), When::Always { after: 0 });
    backend.inject(Fault { on: Operation::Sync, file: "*.blobs".to_owned(), when, effect });
    let settings = Settings::default().with_engine(|tree| {
        tree.log_segment_bytes = 4 << 20;
        tree.blob_segment_bytes = 64 << 10;
    });
    let options = manual(Memory::new(), settings, Arc::new(ManualClock::new(1_000_000)));
    let tree = Tree::open(TreeOptions { storage: Arc::new(backend), ..options }).expect("opens");
    let old = create(&tree, "old");
    let blobs = &tree.shared.blobs;
    let mut count = 0_u32;
    while blobs.open_numbers().len() < 2 {
        put(&tree, old, &count.to_be_bytes());
        count += 1;
    }
    *creates.0.lock().unwrap() = Arc::downgrade(&tree);
    let sealed = blobs.seal(&blobs.open_numbers(), &tree.shared.catalog.version).expect("sealed");
    let held: u32 = sealed.iter().map(|sealed| sealed.meta.ordinals).sum();
    assert_eq!((sealed.len(), held), (2, count + 1), "the new keyspace's value is in the second one");
    assert!(sealed.iter().all(|sealed| sealed.dead.is_empty()), "{sealed:?}");
}
