//! Ingestions among keys that are being compacted.

use std::fmt;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use firn_engine::{Engine, KeyspaceId, Ordered, WriteOptions};
use firn_jobs::{Executor, JobHandle, JobSpec, Local};
use firn_storage::Storage;
use firn_storage::backend::Operation;
use firn_tree::{Settings, Tree, TreeOptions};

use super::{Model, compare, ingest, key, keyspaces, levels, value};
use crate::support::in_time::in_time;
use crate::support::scene::assert_sound;
use crate::support::world::{Hook, World, session, settle, tiny};

type Meanwhile = Box<dyn FnOnce() + Send>;

/// Does jobs here; something else happens in the middle of the first one that there is from then
/// on.
struct Amid {
    inner: Local,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Amid {
    fn set(&self, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(happens));
    }
}

impl fmt::Debug for Amid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amid").finish_non_exhaustive()
    }
}

impl Executor for Amid {
    fn submit(&self, spec: JobSpec) -> firn_jobs::Result<JobHandle> {
        let done = self.inner.submit(spec);
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        done
    }
}

/// With tables of few records, and so many runs in level 0 at most.
fn settings(level0_runs_max: usize) -> Settings {
    tiny().with_engine(|tree| (tree.table_bytes, tree.level0_runs_max) = (64 << 10, level0_runs_max))
}

/// A database whose compactions are interrupted, and whose storage is.
struct Scene {
    world: World,
    hook: Arc<Hook>,
    amid: Arc<Amid>,
    tree: Arc<Tree>,
    keyspace: KeyspaceId,
    model: Model,
}

/// The keys that are not there between those that are.
const GAP: std::ops::Range<u32> = 400..600;
/// All of them.
const KEYS: u32 = 1000;

impl Scene {
    /// Tables of the last level and, over all of them, more runs in level 0 than there may be; none
    /// of any level has a key of [`GAP`] or reaches over it. What happens by `hook` does so before
    /// each operation `on` files called so.
    fn new(on: Operation, file: &str) -> Self {
        let mut world = World::new(settings(100));
        let tree = world.open().unwrap();
        let [_, keyspace] = keyspaces(&tree);
        let mut model = Model::new();
        for part in [0..GAP.start, GAP.end..KEYS] {
            ingest(&tree, keyspace, part, 1, &mut model).unwrap();
        }
        let mut writer = session(&tree);
        for round in 10..16 {
            for part in [0..GAP.start, GAP.end..KEYS] {
                for number in part.step_by(usize::from(round)) {
                    let value = value(number, round);
                    writer.put(keyspace, &key(number), &value, WriteOptions::default()).unwrap();
                    model.insert(key(number), value);
                }
                // By itself, so that no table reaches over the gap.
                tree.flush().unwrap();
            }
        }
        drop(writer);
        tree.close().unwrap();
        world.settings = settings(4);
        let (options, hook) = (world.options(), Arc::new(Hook::default()));
        let storage: Arc<dyn Storage> = Arc::new(hook.before(&world.storage, on, file));
        let inner = Local::inline(Arc::clone(&storage), Arc::new(options.semantics.clone()));
        let amid = Arc::new(Amid { inner, meanwhile: Mutex::default() });
        let executor = Some(Arc::clone(&amid) as Arc<dyn Executor>);
        let tree = Tree::open(TreeOptions { storage, executor, ..options }).unwrap();
        assert_eq!(levels(&tree, keyspace)[0], 12, "{:?}", levels(&tree, keyspace));
        Self { world, hook, amid, tree, keyspace, model }
    }

    fn compaction_count(&self) -> u64 {
        self.tree.stats().tree.unwrap().compaction_count
    }

    /// Everything is there, whatever is compacted from now on, and when it is opened again.
    fn check(&self) {
        let Self { world, tree, keyspace, model, .. } = self;
        compare(tree, *keyspace, model, "ingested");
        settle(tree);
        compare(tree, *keyspace, model, "settled");
        tree.compact_range(*keyspace, b"", None).unwrap();
        compare(tree, *keyspace, model, "compacted");
        tree.close().unwrap();
        assert_sound(world);
        compare(&world.open().unwrap(), *keyspace, model, "reopened");
    }
}

/// Levels of the tables that come, of keys in the gap and of keys around it.
type Placed = [usize; 2];

/// Ingests while a job of a compaction that `compact` begins has been done, and is not committed.
fn ingest_amid(compact: impl FnOnce(&Tree, KeyspaceId)) -> (Scene, Placed) {
    let mut scene = Scene::new(Operation::SyncDir, "none");
    let (tree, keyspace, mut model) = (Arc::clone(&scene.tree), scene.keyspace, scene.model.clone());
    let (sends, hears) = channel();
    scene.amid.set(move || {
        let mut placed = [0; 2];
        for (round, numbers) in [450..550, 300..700].into_iter().enumerate() {
            let before = levels(&tree, keyspace);
            ingest(&tree, keyspace, numbers, 20 + round as u8, &mut model).unwrap();
            let after = levels(&tree, keyspace);
            placed[round] = (0..7).find(|level| after[*level] > before[*level]).unwrap();
            compare(&tree, keyspace, &model, "amid a compaction");
        }
        sends.send((model, placed, tree.stats().tree.unwrap().compaction_count)).unwrap();
    });
    compact(&scene.tree, scene.keyspace);
    let (model, placed, compaction_count) = hears.try_recv().expect("a job");
    assert!(scene.compaction_count() > compaction_count, "nothing was compacted after the ingestion");
    scene.model = model;
    (scene, placed)
}

#[test]
fn tables_come_to_lie_above_what_is_being_compacted_and_stay_there() {
    let (scene, placed) = ingest_amid(|tree, _| settle(tree));
    assert_eq!(placed, [6, 0]);
    scene.check();
}

#[test]
fn tables_lie_above_all_that_a_call_that_compacts_a_range_may_write() {
    let (scene, placed) = in_time("an ingestion amid a call", || {
        ingest_amid(|tree, keyspace| tree.compact_range(keyspace, b"", None).unwrap())
    });
    // Its outputs may reach over the gap.
    assert_eq!(placed, [0, 0]);
    scene.check();
}

#[test]
fn a_compaction_that_ends_before_the_place_is_taken_is_seen() {
    let mut scene = Scene::new(Operation::SyncDir, "");
    let (tree, keyspace, mut count) = (Arc::clone(&scene.tree), scene.keyspace, 0);
    let before = scene.compaction_count();
    scene.hook.set(move || {
        count += 1;
        // The names of the tables, then those of the edit: all files are whole.
        if count == 2 {
            tree.compact_range(keyspace, b"", None).unwrap();
        }
    });
    let short = (300..700).filter(|number| number % 5 > 0);
    ingest(&scene.tree, keyspace, short, 20, &mut scene.model).unwrap();
    scene.hook.set(|| ());
    assert!(scene.compaction_count() > before, "nothing was compacted meanwhile");
    let placed = levels(&scene.tree, keyspace);
    assert!(placed[..5].iter().all(|tables| *tables == 0) && placed[5] == 1, "{placed:?}");
    scene.check();
}

#[test]
fn no_compaction_begins_between_the_place_and_the_edit() {
    in_time("a compaction and the edit of an ingestion", || {
        let mut scene = Scene::new(Operation::Publish, "manifest-*");
        let ((comes, at_edit), (go, may_go)) = (channel(), channel::<()>());
        scene.hook.set(move || {
            // Of later edits nothing is heard, and they go on at once.
            _ = comes.send(());
            _ = may_go.recv();
        });
        let (happens, what) = channel();
        let begins = happens.clone();
        scene.amid.set(move || begins.send("a compaction").unwrap());
        let (before, count) = (levels(&scene.tree, scene.keyspace), scene.compaction_count());
        let (tree, keyspace, model) = (&*scene.tree, scene.keyspace, &mut scene.model);
        std::thread::scope(|scope| {
            let ingesting = scope.spawn(|| ingest(tree, keyspace, 450..550, 20, model));
            at_edit.recv().unwrap();
            scope.spawn(move || {
                settle(tree);
                happens.send("nothing").unwrap();
            });
            let first = what.recv().unwrap();
            drop(go);
            ingesting.join().unwrap().unwrap();
            assert_eq!(first, "nothing", "what there was to do");
        });
        assert_eq!(levels(&scene.tree, keyspace)[6], before[6] + 1);
        settle(&scene.tree);
        assert!(scene.compaction_count() > count, "there was nothing to compact");
        scene.check();
    });
}
