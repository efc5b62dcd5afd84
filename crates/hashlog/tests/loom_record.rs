//! Schedules of a record's latch:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-hashlog --test loom_record`.
//!
//! Records are private to their crate, so this test takes them in by their path.
#![cfg(loom)]
#![expect(dead_code, unused_imports, reason = "each test of a private module uses a part of it")]

#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/log/record.rs"]
mod record;

use std::sync::Arc;

use firn_arena::Words;
use firn_format::hybrid::Shape;
use loom::thread;
use record::{NewRecord, Parts, Record};

const KEY: &[u8] = b"key";

fn parts(value: &[u8]) -> Parts<'_> {
    let shape = Shape { key_bytes: KEY.len(), value_bytes: value.len(), ..Shape::default() }.fitted();
    Parts { shape, keyspace: 0, key: KEY, value, expires_at_ms: 0 }
}

/// A record with a value of `value`, at the beginning of words of its own.
fn words_with(value: &[u8]) -> Arc<Words> {
    let parts = parts(value);
    let words = Words::zeroed(parts.shape.words()).unwrap();
    NewRecord::over(words.words(0..parts.shape.words())).fill(&parts, 0);
    Arc::new(words)
}

/// A reader beside a writer sees one of two values and never a part of each.
#[test]
fn values_are_read_whole() {
    loom::model(|| {
        let words = words_with(&[1; 16]);
        let writer = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let latched = Record::at(&words, 0).latch().expect("nothing seals it");
                assert!(latched.fits(&parts(&[2; 16])));
                latched.put(&parts(&[2; 16]));
            })
        };
        let mut out = Vec::new();
        Record::at(&words, 0).read(&mut out);
        assert!(out == [1; 16] || out == [2; 16], "{out:?}");
        writer.join().unwrap();
        Record::at(&words, 0).read(&mut out);
        assert_eq!(out, [2; 16]);
    });
}

/// The same of a value that grows where it lies: its length comes with it.
#[test]
fn values_that_grow_are_read_whole() {
    loom::model(|| {
        let words = words_with(&[1; 9]);
        let writer = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let latched = Record::at(&words, 0).latch().expect("nothing seals it");
                assert!(latched.fits(&parts(&[2; 16])) && !latched.fits(&parts(&[2; 17])));
                latched.put(&parts(&[2; 16]));
            })
        };
        let mut out = Vec::new();
        Record::at(&words, 0).read(&mut out);
        assert!(out == [1; 9] || out == [2; 16], "{out:?}");
        writer.join().unwrap();
    });
}

/// Two threads that add, and one that seals and copies: no addition is lost.
#[test]
fn no_change_comes_between_a_seal_and_the_copy() {
    loom::model(|| {
        let words = words_with(&0_u64.to_le_bytes());
        let adder = {
            let words = Arc::clone(&words);
            thread::spawn(move || match Record::at(&words, 0).latch() {
                Some(latched) => {
                    let sum = latched.number().expect("a number") + 1;
                    latched.put_number(sum);
                    true
                }
                None => false,
            })
        };
        Record::at(&words, 0).latch().expect("nothing else seals it").seal();
        let mut copy = Vec::new();
        Record::at(&words, 0).read(&mut copy);
        let added = adder.join().unwrap();
        assert_eq!(copy, u64::from(added).to_le_bytes(), "an addition that was made is in the copy");
    });
}
