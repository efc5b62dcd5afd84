//! P10, T13: `firn repair` by hand, on a directory.
//!
//! Neighbours: a dry run; a second run; a database that is open; a sound database.

use std::fs;

use crate::program::{firn, text};

#[test]
fn p10_the_program_repairs() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("db");
    let db = firn::Db::open(&dir).expect("opened");
    db.put("key", "value").expect("written");
    firn(&["repair", "--dir", text(&dir)]).complained(5, &["db"]);
    db.close().expect("closed");
    drop(db);
    let nothing = firn(&["repair", "--dir", text(&dir)]).ended(0);
    assert!(nothing.starts_with("no edit is torn and no log is damaged"), "{nothing}");

    // The edit that closing wrote.
    let names = fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("listed").path());
    let newest = names.filter(|path| text(path).contains("/manifest-")).max().expect("an edit");
    let whole = fs::read(&newest).expect("read");
    fs::write(&newest, &whole[..whole.len() - 1]).expect("written");
    firn(&["get", "--dir", text(&dir), "key"]).complained(3, &["manifest-"]);
    let planned = firn(&["repair", "--dry-run", "--dir", text(&dir)]).ended(0);
    assert!(planned.contains(".aside") && planned.contains("nothing was changed"), "{planned}");
    assert!(newest.exists());
    let done = firn(&["repair", "--dir", text(&dir)]).ended(0);
    assert!(done.contains("repaired"), "{done}");
    assert!(!newest.exists() && newest.with_extension("aside").exists());
    firn(&["verify", "--dir", text(&dir)]).ended(0);
    assert_eq!(firn(&["get", "--dir", text(&dir), "key"]).ended(0).trim(), "value");
}
