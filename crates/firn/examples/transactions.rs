//! Several keys read and written as one: money that moves between accounts on many threads.
//!
//! `cargo run --release -p firn --example transactions`

use firn::{Db, Error, ErrorKind};

/// Moves money to and fro. None is lost or made, and no account goes below nothing.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-transactions-{}", std::process::id()));
    let db = Db::open(&directory)?;
    for name in NAMES {
        db.put(name, 100_u64.to_le_bytes())?;
    }

    // Nothing is locked: a transaction that others came in between of is done again by `transact`.
    let refused = std::thread::scope(|scope| {
        let movers = [1_usize, 2, 3].map(|step| {
            let db = db.clone();
            scope.spawn(move || {
                let mut refused = 0;
                for round in 0..200 {
                    let (from, to) = (NAMES[round % 4], NAMES[(round + step) % 4]);
                    match transfer(&db, from, to, 30) {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::Invalid => refused += 1,
                        Err(error) => return Err(error),
                    }
                }
                Ok(refused)
            })
        });
        let refused = movers.map(|mover| mover.join().expect("it moves"));
        refused.into_iter().sum::<firn::Result<u32>>()
    })?;

    // By hand: begin, read and write, commit. All reads see one moment, so the sum is right while
    // others write.
    let mut audit = db.transaction()?;
    let mut sum = 0;
    for account in audit.range(..)? {
        sum += number(&account?.1);
    }
    audit.put("audit", sum.to_le_bytes());
    // A conflict would say that an account was written since: the sum would be an old one.
    audit.commit()?;
    println!("{sum} in all; {refused} transfers were refused");
    db.close()?;
    std::fs::remove_dir_all(&directory).expect("the example's directory can be removed");

    assert_eq!(sum, 400, "money was lost or made");
    Ok(())
}

const NAMES: [&str; 4] = ["anna", "bo", "cleo", "dag"];

fn transfer(db: &Db, from: &str, to: &str, amount: u64) -> firn::Result<()> {
    db.transact(|transaction| {
        let left = transaction.get(from)?.map_or(0, |value| number(&value)).checked_sub(amount);
        // An error ends the transaction, and nothing of it is done.
        let left = left.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{from} has too little")))?;
        let there = transaction.get(to)?.map_or(0, |value| number(&value));
        transaction.put(from, left.to_le_bytes());
        transaction.put(to, (there + amount).to_le_bytes());
        Ok(())
    })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}
