//! Several writes as one: keyspaces, atomic batches, snapshots, and a copy that opens by itself.
//!
//! `cargo run --release -p firn --example batches`

use firn::{Batch, Compression, Db, Durability, KeyspaceSettings, WriteOptions};

/// Moves money between accounts and keeps a journal of it, so that neither is ever seen without the
/// other.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-batches-{}", std::process::id()));
    let copy = directory.with_extension("copy");
    let db = Db::open(&directory)?;

    // Keyspaces share one log and one order of writes; each has its keys to itself, and settings of
    // its own.
    let accounts = db.in_keyspace(db.keyspace("accounts")?);
    let compressed = KeyspaceSettings { compression: Some(Compression::Zstd), ..KeyspaceSettings::default() };
    let journal = db.in_keyspace(db.create_keyspace("journal", compressed)?);
    accounts.put("anna", "100")?;
    accounts.put("bo", "20")?;

    // A snapshot is a point in the order of writes. Nothing written later shows in it.
    let before = db.snapshot()?;

    // All of a batch becomes visible at once, in every keyspace, and survives a crash whole or not
    // at all.
    let mut transfer = Batch::new();
    transfer.put(accounts.id(), b"anna", b"70");
    transfer.put(accounts.id(), b"bo", b"50");
    transfer.put(journal.id(), b"0001", b"anna to bo: 30");
    // This one is acknowledged only when it would survive loss of power.
    let on_disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
    db.write_with(&transfer, on_disk)?;

    let then = balances(&accounts.at(&before))?;
    let now = balances(&accounts)?;
    println!("before: {then:?}\nafter:  {now:?}");
    assert_eq!(journal.at(&before).get("0001")?, None);

    // A copy links files instead of copying them; the copy is a database that goes its own
    // way.
    let made = db.copy_to(&copy)?;
    accounts.put("anna", "0")?;
    let copied = Db::open(&copy)?;
    let in_copy = balances(&copied.in_keyspace(copied.keyspace("accounts")?))?;
    println!("{} holds every write before {:?}", made.path.display(), made.position);

    copied.close()?;
    db.close()?;
    for path in [&directory, &copy] {
        std::fs::remove_dir_all(path).expect("the example's directory can be removed");
    }

    assert_eq!(then, ["anna has 100", "bo has 20"]);
    assert_eq!(now, ["anna has 70", "bo has 50"]);
    assert_eq!(in_copy, now);
    Ok(())
}

fn balances(accounts: &firn::Keyspace) -> firn::Result<Vec<String>> {
    let line = |record: firn::Result<(Vec<u8>, Vec<u8>)>| {
        record.map(|(name, sum)| format!("{} has {}", name.escape_ascii(), sum.escape_ascii()))
    };
    accounts.range(..)?.map(line).collect()
}
