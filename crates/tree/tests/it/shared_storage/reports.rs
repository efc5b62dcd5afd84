//! Statistics of a database, answered whatever the database waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::{Engine, KEYSPACE_DEFAULT, WriteOptions};
use firn_storage::backend::{Divided, Memory, Operation};
use firn_tree::{Tree, TreeOptions};

use crate::support::in_time::{in_time, until};
use crate::support::machine::Machine;
use crate::support::watched::Watched;
use crate::support::world::{get, put, session, threads, tiny};

/// A backend that is away takes minutes to say what became of an edit.
#[test]
fn it_answers_while_an_edit_is_on_its_way() {
    let machine = Machine::new(tiny(), &Memory::new(), 7);
    let (is_away, is_met) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let backend = Watched::new(&machine.shared, {
        let (is_away, is_met) = (Arc::clone(&is_away), Arc::clone(&is_met));
        move |on, _| {
            if on == Operation::Publish && is_away.load(Ordering::SeqCst) {
                is_met.store(true, Ordering::SeqCst);
                until("the backend is back", || !is_away.load(Ordering::SeqCst));
            }
        }
    });
    let storage = Arc::new(Divided::open(Arc::new(machine.local.clone()), backend, machine.home).unwrap());
    let options = TreeOptions { storage, background: threads(), ..machine.world.options() };
    let tree = Tree::open(options).unwrap();
    let before = tree.stats().manifest_write_bytes_total;
    assert!(before > 0);
    put(&mut session(&tree), b"key", b"value");
    is_away.store(true, Ordering::SeqCst);
    let flushing = std::thread::scope(|scope| {
        let flushing = scope.spawn(|| tree.flush());
        until("an edit is on its way", || is_met.load(Ordering::SeqCst));
        let (stats, is_written) = in_time("an answer", {
            let tree = Arc::clone(&tree);
            move || {
                let put = session(&tree).put(KEYSPACE_DEFAULT, b"other", b"value", WriteOptions::default());
                (tree.stats(), put.is_ok())
            }
        });
        let is_still_away = !flushing.is_finished();
        is_away.store(false, Ordering::SeqCst);
        assert!(is_still_away && is_written);
        assert_eq!(stats.manifest_write_bytes_total, before);
        flushing.join().unwrap()
    });
    flushing.unwrap();
    assert!(tree.stats().manifest_write_bytes_total > before);
    assert_eq!(get(&mut session(&tree), b"other").as_deref(), Some(&b"value"[..]));
    tree.close().unwrap();
}
