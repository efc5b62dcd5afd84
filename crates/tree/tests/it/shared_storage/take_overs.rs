//! Taking a database over from a machine that writes to it all the time, at the same time as
//! others, and in vain.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use firn_engine::{Engine, ErrorKind, KEYSPACE_DEFAULT, KeyspaceSettings};
use firn_storage::backend::{Crash, Divided, Effect, Fault, Faulty, Memory, Operation, When};
use firn_storage::{ErrorKind as Kind, Storage};
use firn_tree::{Settings, Tree, TreeOptions};

use crate::support::machine::{HERE, Machine, Model, SHARED, all, settings};
use crate::support::watched::Watched;
use crate::support::world::{describe, session};

/// A database on `shared`, open on machine 7: rows in tables, in log objects, and in the log alone.
/// What another machine is to find of it.
fn begin(settings: Settings, shared: &Memory) -> (Machine, Arc<Tree>, Model) {
    let machine = Machine::new(settings, shared, 7);
    let tree = machine.open();
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(1000)).unwrap();
    let mut writer = session(&tree);
    for round in 0..4_u8 {
        for key in 0..20_u8 {
            writer
                .put(KEYSPACE_DEFAULT, &[round, key], &vec![key; 40 + usize::from(key) * 100], HERE)
                .unwrap();
        }
        tree.flush().unwrap();
    }
    writer.put(KEYSPACE_DEFAULT, b"shared", &[1; 3000], SHARED).unwrap();
    let model = all(&tree);
    writer.put(KEYSPACE_DEFAULT, b"here", &[2; 3000], HERE).unwrap();
    drop(writer);
    (machine, tree, model)
}

/// Every edit of a test stays.
fn restated_rarely() -> Settings {
    Settings { manifest_edits_max: 60, ..settings() }
}

/// Opens the database of which `shared` is a part on the machine `home`, a new one, and takes it
/// over.
fn take_over(shared: Arc<dyn Storage>, home: u128) -> firn_engine::Result<Arc<Tree>> {
    let machine = Machine::new(restated_rarely(), &Memory::new(), home);
    let storage = Arc::new(Divided::open(Arc::new(machine.local.clone()), shared, home).unwrap());
    Tree::open(TreeOptions { storage, take_over: true, ..machine.options() })
}

/// Writes an edit.
fn edit(tree: &Tree) -> firn_engine::Result<()> {
    // What says nothing new writes none.
    static EDITS: AtomicU32 = AtomicU32::new(0);
    tree.set_separate_bytes(KEYSPACE_DEFAULT, Some(2000 + EDITS.fetch_add(1, Ordering::SeqCst)))
}

fn assert_ended(tree: &Tree, what: &str) {
    let error = edit(tree).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {}", describe(&error));
    assert!(error.to_string().contains("another machine"), "{what}: {}", describe(&error));
}

/// An edit of its own takes a writer two requests at least, and finding a number taken costs a
/// contender one. Between two of those there is time for half an edit.
#[test]
fn a_machine_that_writes_an_edit_between_any_two_steps_of_another_one_is_taken_over_from() {
    for manifest_edits_max in [6, 13, 64] {
        let shared = Memory::new();
        let (_machine, tree, model) = begin(Settings { manifest_edits_max, ..settings() }, &shared);
        let (steps, edits, tries) = <[Arc<AtomicU32>; 3]>::default().into();
        let backend = {
            let (tree, steps) = (Arc::clone(&tree), Arc::clone(&steps));
            let (edits, tries) = (Arc::clone(&edits), Arc::clone(&tries));
            Watched::new(&shared, move |on, file| {
                steps.fetch_add(1, Ordering::SeqCst);
                let is_try = on == Operation::Publish && file.starts_with("manifest-");
                if is_try && tries.fetch_add(1, Ordering::SeqCst) % 2 == 1 {
                    return;
                }
                if edit(&tree).is_ok() {
                    edits.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let what = format!("{manifest_edits_max} edits");
        let taken = take_over(backend, 8).unwrap_or_else(|error| panic!("{what}: {}", describe(&error)));
        assert!(all(&taken) == model, "{what}");
        assert_ended(&tree, &what);
        edit(&taken).unwrap();
        let [steps, edits, tries] = [steps, edits, tries].map(|count| count.load(Ordering::SeqCst));
        assert!(
            edits > 10 && edits < 200 && tries < 200,
            "{what}: {edits} edits, {tries} tries, {steps} steps"
        );
    }
}

/// The order in which two machines do their next steps.
struct Turns {
    order: Vec<usize>,
    state: Mutex<(usize, [bool; 2])>,
    moved: Condvar,
}

impl Turns {
    fn wait(&self, machine: usize) {
        let mut state = self.state.lock().unwrap();
        while !state.1[1 - machine] && self.order[state.0 % self.order.len()] != machine {
            state = self.moved.wait(state).unwrap();
        }
        state.0 += 1;
        self.moved.notify_all();
    }

    fn end(&self, machine: usize) {
        self.state.lock().unwrap().1[machine] = true;
        self.moved.notify_all();
    }
}

/// Two machines that take over at the same time, step by step, one as fast as the other or several
/// times as fast. The second one begins a while later.
#[test]
fn of_two_that_take_over_at_the_same_time_each_gets_it_and_one_has_it() {
    for order in [vec![0, 1], vec![0, 0, 1], vec![0, 1, 1], vec![0, 0, 0, 1, 1], vec![0, 1, 1, 1, 1]] {
        for late in (0..40).step_by(3) {
            let shared = Memory::new();
            let (_machine, old, model) = begin(restated_rarely(), &shared);
            let order = [vec![0; late], order.repeat(2000)].concat();
            let what = format!("{:?}, {late} steps late", &order[late..late + 5]);
            let turns = Arc::new(Turns { order, state: Mutex::default(), moved: Condvar::new() });
            let open = &|machine: usize| {
                let (watching, steps) = (Arc::clone(&turns), AtomicU32::new(0));
                let backend = Watched::new(&shared, move |_, _| {
                    assert!(steps.fetch_add(1, Ordering::SeqCst) < 2000, "it never ends");
                    watching.wait(machine);
                });
                let opened = take_over(backend, 8 + machine as u128);
                turns.end(machine);
                opened
            };
            let opened = std::thread::scope(|scope| {
                let both = [0, 1].map(|machine| scope.spawn(move || open(machine)));
                both.map(|one| one.join().unwrap())
            });
            let opened = opened.map(|one| one.unwrap_or_else(|error| panic!("{what}: {}", describe(&error))));
            assert_ended(&old, &what);
            let has = opened.iter().filter(|tree| edit(tree).is_ok()).count();
            assert_eq!(has, 1, "{what}");
            opened.iter().for_each(|tree| assert!(all(tree) == model, "{what}"));
            let left = shared.crash(Crash::Kill);
            drop(opened);
            let last = Machine::new(restated_rarely(), &left, 11);
            let tree = last.take_over().unwrap();
            assert!(all(&tree) == model, "{what}");
            tree.close().unwrap();
            last.check_files(&what);
        }
    }
}

/// Reading by name is never old: a machine that finds a number taken reads on from there.
#[test]
fn lists_that_stay_old_keep_nobody_from_taking_over() {
    let shared = Memory::new();
    let (_machine, tree, mut model) = begin(restated_rarely(), &shared);
    let old = shared.list().unwrap();
    (0..10).for_each(|_| edit(&tree).unwrap());
    session(&tree).put(KEYSPACE_DEFAULT, b"later", b"in a table", HERE).unwrap();
    tree.flush().unwrap();
    model.extend([(b"here".to_vec(), vec![2; 3000]), (b"later".to_vec(), b"in a table".to_vec())]);
    let taken = take_over(Watched::with_old_lists(&shared, 1000, old), 8);
    let taken = taken.unwrap_or_else(|error| panic!("{}", describe(&error)));
    assert!(all(&taken) == model);
    assert_ended(&tree, "old lists");
}

/// It takes the next number, and no more: the machine that had the database goes on with all its
/// data once it opens it again.
#[test]
fn whoever_begins_to_take_over_and_fails_has_ended_the_writer_and_nothing_else() {
    let shared = Memory::new();
    let (first, tree, model) = begin(settings(), &shared);
    let faulty = Faulty::new(Arc::new(shared.clone()));
    let effect = Effect::Fail(Kind::Io);
    let (on, when) = (Operation::OpenRead, When::Always { after: 0 });
    faulty.inject(Fault { on, file: "*.table".to_owned(), when, effect });
    let edits = || shared.list().unwrap().iter().filter(|(name, _)| name.starts_with("manifest-")).count();
    let before = edits();
    // Twice: the second time the number is taken for this purpose already.
    for _ in 0..2 {
        let failed = take_over(Arc::new(faulty.clone()), 8).unwrap_err();
        assert!(failed.to_string().contains(".table"), "{}", describe(&failed));
    }
    assert_eq!(edits(), before + 1, "two that failed wrote one edit together");
    assert_ended(&tree, "a fence");
    let here = all(&tree);
    assert!(here.len() == model.len() + 1);
    let local = first.local.crash(Crash::Kill);
    drop(tree);
    first.check_files("a fence");
    // Only this machine has what was not shared, and it need not take anything over.
    let first = Machine { local, ..first };
    let tree = first.open();
    assert!(all(&tree) == here);
    tree.create_keyspace("more", KeyspaceSettings::default()).unwrap();
    drop(tree);
    first.check_files("opened again");
}
