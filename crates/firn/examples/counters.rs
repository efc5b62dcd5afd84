//! Changing a value that is there already: blind merges with an operator, and atomic updates.
//!
//! `cargo run --release -p firn --example counters`

use std::sync::Arc;

use firn::{Change, Db, KeyspaceSettings, MergeOperator};

/// Adds numbers. The name is stored with the keyspace, so it carries a version: the meaning of old
/// records must never change.
#[derive(Debug)]
struct Add;

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "u64-add.1"
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let sum = base.into_iter().chain(operands.iter().copied()).try_fold(0, |sum, number| {
            // `None` says that a number is none: the read fails instead of answering something made
            // up.
            Some(u64::wrapping_add(sum, number_of(number)?))
        })?;
        Some(sum.to_le_bytes().to_vec())
    }
}

fn number_of(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// Counts visits from four threads, and takes numbered tickets from four threads.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-counters-{}", std::process::id()));
    let db = Db::builder(&directory).merge_operator(Arc::new(Add)).open()?;
    let counting =
        KeyspaceSettings { merge_operator: Some("u64-add.1".into()), ..KeyspaceSettings::default() };
    let visits = db.in_keyspace(db.create_keyspace("visits", counting)?);

    let mut tickets = std::thread::scope(|scope| {
        let threads = [1_u64, 2, 3, 4].map(|visitors| {
            // A handle is cheap to clone, and all clones are one keyspace.
            let (db, visits) = (db.clone(), visits.clone());
            scope.spawn(move || -> firn::Result<Vec<u64>> {
                let mut taken = Vec::new();
                for _ in 0..1000 {
                    // A merge reads nothing: as cheap as a put, however many threads write the same
                    // key.
                    visits.merge("home", visitors.to_le_bytes())?;
                    // An update reads, and its function may answer something; it may be called
                    // again if it raced.
                    taken.push(db.update("next ticket", |current| {
                        let ticket = current.and_then(number_of).unwrap_or(0);
                        (Change::Put((ticket + 1).to_le_bytes().to_vec()), ticket)
                    })?);
                }
                Ok(taken)
            })
        });
        let taken = threads.map(|thread| thread.join().expect("the thread counts"));
        taken.into_iter().collect::<firn::Result<Vec<_>>>().map(|lists| lists.concat())
    })?;
    let counted = visits.get("home")?.as_deref().and_then(number_of);
    println!("{} visits, {} tickets", counted.unwrap_or(0), tickets.len());
    db.close()?;
    std::fs::remove_dir_all(&directory).expect("the example's directory can be removed");

    assert_eq!(counted, Some(1000 * (1 + 2 + 3 + 4)), "no merge was lost");
    tickets.sort_unstable();
    assert!(tickets.into_iter().eq(0..4000), "every ticket was given once");
    Ok(())
}
