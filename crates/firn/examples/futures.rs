//! A database for tasks: many calls under way at once, scans and transactions that are awaited. Any
//! runtime will do; here it is Tokio's.
//!
//! `cargo run --release -p firn --example futures`

use std::time::Duration;

use firn::{AsyncDb, Db, Durability, Record, WriteOptions};

/// Serves visitors: each has a session that ends by itself, and a place in a queue.
pub fn main() -> firn::Result<()> {
    let directory = std::env::temp_dir().join(format!("firn-futures-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");

    // Opening blocks, as all does that is done once: before the tasks begin, or on a thread that
    // the runtime has for such calls.
    let opened = Db::open(&directory)?;
    let places = runtime.block_on(serve(opened.futures()))?;
    let syncs = opened.stats().sync_count;
    opened.close()?;
    std::fs::remove_dir_all(&directory).expect("the example's directory can be removed");

    println!("the first three in the queue: {places:?}; {syncs} syncs for 200 writes to disk");
    assert_eq!(places, ["visitor 000", "visitor 001", "visitor 002"]);
    assert!(syncs < 200, "{syncs} syncs: writes under way at once share them");
    Ok(())
}

async fn serve(db: AsyncDb) -> firn::Result<Vec<String>> {
    // Tasks own handles: they are cheap to clone, and all clones are one database.
    let visitors: Vec<_> = (0..200_u32)
        .map(|number| {
            let db = db.clone();
            tokio::spawn(async move { visit(&db, number).await })
        })
        .collect();
    for visitor in visitors {
        visitor.await.expect("it ends")?;
    }
    assert_eq!(db.in_default().add("visits", 0).await?, 200, "no visit was lost");

    // A scan shows one moment, and gives its records as they come.
    let mut first = Vec::new();
    let mut queue = db.prefix("queue/")?;
    while let Some(record) = queue.next().await {
        let (_, name): Record = record?;
        first.push(String::from_utf8_lossy(&name).into_owned());
        if first.len() == 3 {
            break;
        }
    }
    Ok(first)
}

async fn visit(db: &AsyncDb, number: u32) -> firn::Result<()> {
    let name = format!("visitor {number:03}");
    db.in_default().add("visits", 1).await?;
    db.put_for(format!("session/{number}"), &name, Duration::from_secs(3600)).await?;

    // Acknowledged once it would survive loss of power. No thread waits for that.
    let on_disk = WriteOptions { durability: Some(Durability::Disk), ..WriteOptions::default() };
    db.in_default().with_options(on_disk).put(format!("queue/{number:03}"), &name).await?;

    // Reads and writes of several keys as one; done again if another task was in between.
    db.transact(|transaction| async move {
        let waiting = transaction.get("waiting").await?.unwrap_or_default();
        transaction.put("waiting", [&waiting[..], b"|"].concat());
        Ok(())
    })
    .await
}
