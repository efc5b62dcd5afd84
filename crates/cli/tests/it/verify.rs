//! `firn verify`.

use std::fs;

use crate::program::{firn, text};

#[test]
fn a_sound_database_is_told_so_and_damage_is_found() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("db");
    let db = firn::Db::open(&dir).expect("opened");
    for number in 0..100 {
        db.put(format!("key{number}"), [b'v'; 100]).expect("written");
    }
    firn(&["verify", "--dir", text(&dir)]).complained(5, &["db"]);
    db.close().expect("closed");
    drop(db);
    let out = firn(&["verify", "--dir", text(&dir)]).ended(0);
    assert!(out.starts_with("sound: ") && out.contains("with 100 records"), "{out}");

    let log = fs::read_dir(&dir).expect("listed").map(|entry| entry.expect("listed").path());
    let log = log
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .min()
        .expect("a log segment");
    let mut bytes = fs::read(&log).expect("read");
    bytes[4000] ^= 1;
    fs::write(&log, bytes).expect("written");
    let answer = firn(&["verify", "--dir", text(&dir)]);
    let name = log.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(answer.out.contains(&format!("damage: {name} at offset ")), "{answer:?}");
    answer.complained(3, &["is damaged in"]);
}

#[test]
fn what_is_no_database_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    firn(&["verify", "--dir", text(home.path())]).complained(1, &["holds no database"]);
    assert_eq!(fs::read_dir(home.path()).expect("listed").count(), 0);
    firn(&["verify", "--dir", text(&home.path().join("gone"))]).complained(1, &["does not exist"]);
}
