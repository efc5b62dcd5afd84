//! What workers make of a database is what a database makes of itself: the same entries, by the hashes of its tables.
//!
//! Values lie in the tree: what refers to one beside it has the number of a segment, which is as chance has it.

use std::collections::BTreeMap;
use std::path::Path;

use firn::{Db, Settings};
use firn_engine::Semantics;
use firn_format::manifest::{Change, ManifestEdit, TableMeta};

use crate::scene::{Scene, any_port, check, done_by, settings, write};

/// The tables of the database in `directory`, which nobody has open.
fn tables(directory: &Path) -> Vec<TableMeta> {
    let mut edits = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("manifest-")) {
            let edit = ManifestEdit::decode(&std::fs::read(entry.path()).unwrap()).unwrap();
            edits.insert(edit.number, edit);
        }
    }
    let mut tables = BTreeMap::new();
    for edit in edits.into_values() {
        if edit.base {
            tables.clear();
        }
        for change in edit.changes {
            match change {
                Change::AddTable { table, .. } => drop(tables.insert(table.file.clone(), table)),
                Change::RemoveTable { file } => drop(tables.remove(&file)),
                _ => {}
            }
        }
    }
    tables.into_values().collect()
}

/// Writes the same to `db` as to each other, has it compacted as a whole, and closes it.
fn fill(db: &Db, seed: u64) {
    let (mut model, random) = (vec![None; 2000], &mut fastrand::Rng::with_seed(seed));
    for _ in 0..3 {
        write(db, &mut model, random, 2000);
        db.wait_idle().unwrap();
    }
    db.flush().unwrap();
    db.in_default().compact_range("", None).unwrap();
    db.wait_idle().unwrap();
    check(db, &model);
    db.close().unwrap();
}

#[test]
fn a_database_whose_jobs_workers_do_has_the_content_of_one_that_does_its_own() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let _workers = ["one", "two"].map(|name| scene.worker(name, &at, Semantics::new()));
    let in_tree = || Settings { separate_bytes: 0, ..settings() };
    let served = scene.builder(&at).settings(in_tree()).open().unwrap();
    fill(&served, 5);
    let done: u32 = done_by(&scene.look(at[0])).values().sum();
    assert!(done > 10, "{done} jobs by workers, {:?}", served.stats());
    let own = Db::builder(scene.place.path().join("own")).settings(in_tree()).open().unwrap();
    fill(&own, 5);
    let of = |tables: &[TableMeta]| {
        let hash = tables.iter().fold(0_u128, |sum, table| sum.wrapping_add(table.content_hash));
        (tables.iter().map(|table| table.entry_count).sum::<u64>(), hash)
    };
    let [theirs, mine] = [Path::new(&scene.shared_name()), &scene.place.path().join("own")].map(tables);
    assert!(of(&theirs).0 > 1000, "{theirs:?}");
    assert_eq!(of(&theirs), of(&mine));
    let other = Db::builder(scene.place.path().join("other")).settings(in_tree()).open().unwrap();
    fill(&other, 6);
    assert_ne!(of(&tables(&scene.place.path().join("other"))).1, of(&mine).1, "others have another");
}
