//! Calls that answer futures: on a runtime and on none, from many threads, and dropped half-way.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fastrand::Rng;
use firn::storage::backend::Memory;
use firn::{
    AsyncDb, AsyncKeyspace, AsyncScan, Batch, Change, Compression, Db, ErrorKind, KeyspaceSettings,
    OrderedBatch, Record, WriteOptions,
};
use futures_util::StreamExt;

fn open() -> Db {
    Db::builder("x").storage(Arc::new(Memory::new())).open().expect("opened")
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// A keyspace whose reads have to wait: its tables are compressed, so that none is read in place,
/// and nothing of them is in memory yet.
fn slow_keyspace(count: u32) -> (tempfile::TempDir, AsyncKeyspace) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path()).expect("opened");
    let compressed = KeyspaceSettings { compression: Some(Compression::Zstd), ..KeyspaceSettings::default() };
    let keyspace = db.in_keyspace(db.create_keyspace("slow", compressed).expect("created"));
    for number in 0..count {
        keyspace.put(number.to_be_bytes(), [number as u8; 100]).expect("put");
    }
    keyspace.compact_range("", None).expect("compacted");
    db.close().expect("closed");
    let db = Db::open(dir.path()).expect("opened again");
    (dir, db.futures().in_keyspace(keyspace.id()))
}

#[test]
fn every_call_does_what_its_namesake_does() {
    let opened = open();
    let orders = opened.keyspace("orders").expect("created");
    let db = opened.futures();
    run(async {
        db.put("a", "1").await?;
        db.put("b", "2").await?;
        assert_eq!(db.get("a").await?.as_deref(), Some(&b"1"[..]));
        assert!(db.contains_key("a").await? && !db.contains_key("x").await?);
        let values = db.multi_get(&["b", "x"]).await?;
        assert_eq!(values.iter().collect::<Vec<_>>(), [Some(&b"2"[..]), None]);
        assert_eq!(db.first().await?.expect("some").0, b"a");
        assert_eq!(db.last().await?.expect("some").0, b"b");
        let before = db.snapshot()?;
        let had = db.update("a", |value| (Change::Put(b"3".to_vec()), value.map(<[u8]>::to_vec))).await?;
        assert_eq!(had.as_deref(), Some(&b"1"[..]));
        assert_eq!(db.in_default().at(&before).get("a").await?.as_deref(), Some(&b"1"[..]));
        assert!(db.in_default().at(&before).contains_key("a").await?);
        db.delete("a").await?;
        assert_eq!(db.get("a").await?, None);
        db.delete_range("a", "z").await?;
        assert_eq!(db.first().await?, None);

        let orders = db.in_keyspace(orders);
        db.write(Batch::new().put(orders.id(), b"1", b"x")).await?;
        let mut batch = OrderedBatch::default();
        batch.delete_range(orders.id(), b"0", b"9").put(orders.id(), b"2", b"y");
        db.write_ordered(&batch, WriteOptions::default()).await?;
        assert_eq!(orders.first().await?, Some((b"2".to_vec(), b"y".to_vec())));
        assert_eq!(orders.append("2", "z").await?, 2);
        assert_eq!(orders.set_range("2", 1, "!").await?, 2);
        assert!(orders.compare_and_set("2", Some(b"y!"), None).await?);
        assert_eq!(orders.add("n", 7).await?, 7);
        assert_eq!(orders.merge("n", "1").await.expect_err("no operator").kind(), ErrorKind::Invalid);
        orders.put("k", "v").await?;
        orders.delete("n").await?;
        let stream: Vec<Record> = orders.range(..)?.map(|record| record.expect("sound")).collect().await;
        assert_eq!(stream, [(b"k".to_vec(), b"v".to_vec())]);
        assert_eq!(
            orders.database().blocking().in_keyspace(orders.id()).get("k")?.as_deref(),
            Some(&b"v"[..])
        );
        firn::Result::Ok(())
    })
    .expect("done");
    opened.close().expect("closed");
    let refused = run(async { (db.get("a").await, db.put("a", "").await, db.range(..).err()) });
    let kinds = (
        refused.0.expect_err("closed").kind(),
        refused.1.expect_err("closed").kind(),
        refused.2.expect("closed").kind(),
    );
    assert_eq!(kinds, (ErrorKind::Closed, ErrorKind::Closed, ErrorKind::Closed));
}

#[test]
fn tasks_of_many_threads_share_a_database() {
    let db = open().futures();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let db = db.clone();
            scope.spawn(move || run(tasks(db, thread)));
        }
    });
    let count = |key: &str| {
        db.blocking().get(key).expect("read").map(|value| u64::from_le_bytes(value.try_into().expect("8")))
    };
    assert_eq!(count("transacted"), Some(4 * 50), "transactions were lost");
    assert_eq!(count("updated"), Some(4 * 50), "updates were lost");
    assert_eq!(db.blocking().prefix("own").expect("scan").count(), 200);
}

/// Fifty tasks, which a runtime may move between threads: their futures are `Send`.
async fn tasks(db: AsyncDb, thread: u32) {
    let grown = |value: Option<&[u8]>| {
        let number = value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("8 bytes")));
        (number + 1).to_le_bytes().to_vec()
    };
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let db = db.clone();
            tokio::spawn(async move {
                db.put(format!("own {thread} {number}"), "").await?;
                db.update("updated", move |value| (Change::Put(grown(value)), ())).await?;
                db.transact(|transaction| async move {
                    let value = transaction.get("transacted").await?;
                    transaction.put("transacted", grown(value.as_deref()));
                    Ok(())
                })
                .await?;
                let mut own = db.prefix(format!("own {thread} {number}"))?;
                assert!(own.next().await.expect("its own").is_ok());
                firn::Result::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it ends").expect("done");
    }
}

/// Polls `future` so often; whether it was ready.
fn poll_times<F: Future>(future: F, times: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    (0..times).find_map(|_| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    })
}

#[test]
fn reads_that_have_to_wait_are_woken() {
    let (_dir, db) = slow_keyspace(2000);
    let first = db.range(..).expect("scan");
    assert!(poll_times(pin!(first).next(), 1).is_none(), "this test is about reads that wait");
    run(async {
        let read = |number: u32| {
            let mut scan = db.range(number.to_be_bytes()..).expect("scan");
            async move { (number, scan.next().await.expect("there are more").expect("sound")) }
        };
        for (number, record) in futures_util::future::join_all((0..2000).map(read)).await {
            assert_eq!(record, (number.to_be_bytes().to_vec(), vec![number as u8; 100]));
        }
    });
}

#[test]
fn a_dropped_future_of_a_scan_loses_no_record() {
    let (_dir, db) = slow_keyspace(3000);
    for seed in 0..30 {
        let mut rng = Rng::with_seed(seed);
        let mut scan = db.range(..).expect("scan");
        let (mut front, mut back, mut dropped) = (0_u32, 3000_u32, 0);
        while front < back {
            let is_front = rng.u8(0..3) > 0;
            let times = rng.u32(0..3);
            // Dropped if it is not ready by then.
            let taken = match is_front {
                true => poll_times(scan.next(), times),
                false => poll_times(scan.next_back(), times),
            };
            let Some(record) = taken else {
                dropped += 1;
                if rng.u8(0..4) == 0 {
                    // A seek waits for what is under way.
                    run(scan.seek(front.to_be_bytes())).expect("sought");
                }
                std::thread::yield_now();
                continue;
            };
            let (key, _) = record.expect("there are more").expect("sound");
            back -= u32::from(!is_front);
            assert_eq!(key, (if is_front { front } else { back }).to_be_bytes(), "seed {seed}");
            front += u32::from(is_front);
        }
        assert!(dropped > 0);
        assert!(run(scan.next()).is_none() && run(scan.next_back()).is_none());
    }
}

#[test]
fn a_write_whose_future_was_dropped_is_done_whole_or_not() {
    let opened = open();
    let db = opened.futures();
    for number in 0..500_u32 {
        let mut rng = Rng::with_seed(u64::from(number));
        let mut batch = Batch::new();
        for part in 0..3_u32 {
            batch.put(firn::KEYSPACE_DEFAULT, &[number.to_be_bytes(), part.to_be_bytes()].concat(), b"v");
        }
        let on_disk = WriteOptions { durability: Some(firn::Durability::Disk), ..WriteOptions::default() };
        let times = rng.u32(0..2);
        let is_begun = times > 0;
        let answer = poll_times(db.write_with(&batch, on_disk), times);
        let key = |part: u32| [number.to_be_bytes(), part.to_be_bytes()].concat();
        let there = run(async {
            let found =
                [db.contains_key(key(0)).await, db.contains_key(key(1)).await, db.contains_key(key(2)).await];
            found.map(|found| found.expect("read"))
        });
        assert!(there == [true; 3] || there == [false; 3], "half of a batch: {there:?}");
        assert!(is_begun || there == [false; 3], "it had not begun");
        assert!(answer.is_none_or(|answer| answer.is_ok() && there[0]));
    }
    opened.close().expect("closed");
}

#[test]
fn scans_of_transactions_show_their_writes_and_count_as_read() {
    let db = open().futures();
    run(async {
        db.put("a", "1").await.expect("put");
        db.put("c", "3").await.expect("put");
        let transaction = db.transaction().expect("begun");
        transaction.put("b", "2");
        transaction.delete("c");
        transaction.put("d", "4");
        assert!(transaction.contains_key("b").await.expect("read"));
        assert!(!transaction.contains_key("c").await.expect("read"));
        assert_eq!(transaction.get("a").await.expect("read").as_deref(), Some(&b"1"[..]));
        let mut scan: AsyncScan = transaction.range(..).expect("scan");
        assert_eq!(scan.next().await.expect("a").expect("sound").0, b"a");
        assert_eq!(scan.next_back().await.expect("d").expect("sound").0, b"d");
        assert_eq!(scan.next_back().await.expect("b").expect("sound").0, b"b");
        assert!(scan.next().await.is_none());
        db.put("e", "5").await.expect("put");
        assert_eq!(transaction.commit().await.expect_err("a key came").kind(), ErrorKind::Conflict);
        assert_eq!(db.get("b").await.expect("read"), None, "nothing of it is done");

        let transaction = db.transaction().expect("begun");
        assert!(transaction.prefix("x").expect("scan").next().await.is_none());
        transaction.put("f", "6");
        transaction.commit().await.expect("done");
        assert!(db.contains_key("f").await.expect("read"));
    });
}

#[test]
fn a_transaction_that_something_still_has_is_not_committed() {
    let db = open().futures();
    run(async {
        let kept = std::sync::Mutex::new(None);
        let refused = db.transact(|transaction| {
            transaction.put("a", "1");
            *kept.lock().expect("sound") = Some(transaction);
            async { Ok(()) }
        });
        let refused = refused.await.expect_err("it is in use");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.message().contains("keeps it no longer"), "{refused}");
        let refused = db.transact(|transaction| async move {
            transaction.put("a", "1");
            transaction.commit().await
        });
        assert_eq!(refused.await.expect_err("it is not its to commit").kind(), ErrorKind::Invalid);
        assert_eq!(db.first().await.expect("read"), None);
    });
}

#[test]
fn the_last_handle_may_be_one_for_tasks() {
    let memory = Memory::new();
    let db = Db::builder("x").storage(Arc::new(memory.clone())).open().expect("opened").futures();
    let scan = run(async {
        db.put("k", "v").await.expect("put");
        db.range(..).expect("scan")
    });
    drop(db);
    let mut scan = scan;
    assert_eq!(run(scan.next()).expect("an answer").expect_err("closed").kind(), ErrorKind::Closed);
    drop(scan);
    let again = Db::builder("x").storage(Arc::new(memory)).open().expect("opened again");
    assert!(again.contains_key("k").expect("read"));
}
