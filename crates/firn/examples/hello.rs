//! A database in a directory: put, get, delete, scan in order, and find it all again.
//!
//! `cargo run --release -p firn --example hello`

use firn::{Db, ScanRange};

/// Opens, writes, reads, closes, and opens again.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-hello-{}", std::process::id()));
    // Missing directories are created; what is there already is opened.
    let db = Db::open(&directory)?;

    // Keys and values are bytes; anything that is bytes will do.
    db.put("city/stockholm", "59.33 18.07")?;
    db.put("city/uppsala", "59.86 17.64")?;
    db.put("lake/vänern", "58.91 13.25")?;
    db.put([0xff, 0x00], [1, 2, 3])?;

    assert_eq!(db.get("city/uppsala")?.as_deref(), Some(&b"59.86 17.64"[..]));
    assert_eq!(db.get("city/atlantis")?, None);
    let found = db.multi_get(&["lake/vänern", "lake/ness"])?;
    assert!(found.get(0).is_some() && found.get(1).is_none());

    // Removing what is not there is no error.
    db.delete("city/uppsala")?;
    db.delete("city/uppsala")?;

    // A scan sees the database as it was when the scan was opened.
    db.put("city/kiruna", "67.86 20.23")?;
    let cities = db.prefix(b"city/")?;
    db.delete("city/kiruna")?;
    for record in cities {
        let (key, value) = record?;
        println!("{} lies at {}", key.escape_ascii(), value.escape_ascii());
    }

    // What was acknowledged is there after closing, and after a crash of the process.
    db.close()?;
    let db = Db::open(&directory)?;
    let names = |range| -> firn::Result<Vec<String>> {
        db.range(range)?.map(|record| Ok(String::from_utf8_lossy(&record?.0).into_owned())).collect()
    };
    let up = names(ScanRange::between(b"a", b"z"))?;
    let down = names(ScanRange::between(b"a", b"z").backward())?;
    db.close()?;
    remove(&directory);

    assert_eq!(up, ["city/stockholm", "lake/vänern"]);
    assert_eq!(down, ["lake/vänern", "city/stockholm"]);
    Ok(())
}

/// A database is its directory.
fn remove(directory: &std::path::Path) {
    std::fs::remove_dir_all(directory).expect("the example's directory can be removed");
}
