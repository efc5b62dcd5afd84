//! Schedules of the region's protocol, all of them:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-arena --test loom_region`.
#![cfg(loom)]

use firn_arena::{Full, Region};
use loom::sync::Arc;
use loom::thread;

fn publish(region: &Region, bytes: usize, byte: u8) -> Result<(), Full> {
    let mut frame = region.reserve(bytes)?;
    frame.bytes_mut().fill(byte);
    frame.publish(bytes as u64);
    region.advance();
    Ok(())
}

/// Whole frames, each of one byte repeated, up to the published end; their bodies' bytes in order.
fn bodies(region: &Region) -> Vec<u8> {
    let (end, mut offset, mut found) = (region.published(), 0, Vec::new());
    while offset < end {
        let word = region.read(offset, 8).unwrap();
        let bytes = usize::from(word[0]);
        let body = region.read(offset + 8, bytes - 8).unwrap();
        assert!(body.iter().all(|&byte| byte == body[0] && byte != 0), "{body:?}");
        found.push(body[0]);
        offset += bytes;
    }
    assert_eq!(offset, end);
    found
}

/// Of two writers that publish out of order, at least one moves the prefix over both frames.
#[test]
fn no_publication_is_missed() {
    loom::model(|| {
        let region = Arc::new(Region::anonymous(64).unwrap());
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || publish(&region, 16, 1).unwrap())
        };
        publish(&region, 24, 2).unwrap();
        writer.join().unwrap();
        assert_eq!(region.published(), 40);
        let mut found = bodies(&region);
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
    });
}

/// A reader sees whole frames only, however far the writers are.
#[test]
fn readers_see_whole_frames() {
    loom::model(|| {
        let region = Arc::new(Region::anonymous(48).unwrap());
        let writers = [1, 2].map(|byte| {
            let region = Arc::clone(&region);
            thread::spawn(move || publish(&region, 16, byte).unwrap())
        });
        assert!(bodies(&region).len() <= 2);
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(bodies(&region).len(), 2);
    });
}

/// Several threads overflow at once: one of them is first, and the region ends at the end of the
/// last success.
#[test]
fn one_thread_seals() {
    loom::model(|| {
        let region = Arc::new(Region::anonymous(32).unwrap());
        publish(&region, 16, 9).unwrap();
        let threads = [24, 32].map(|bytes| {
            let region = Arc::clone(&region);
            thread::spawn(move || publish(&region, bytes, 1).unwrap_err().first)
        });
        let mine = publish(&region, 16, 2);
        let others = threads.map(|thread| thread.join().unwrap());
        let firsts =
            others.into_iter().chain(mine.err().map(|full| full.first)).filter(|&first| first).count();
        assert_eq!(firsts, 1);
        let end = if mine.is_ok() { 32 } else { 16 };
        assert_eq!((region.sealed_end(), region.published()), (Some(end), end));
    });
}

/// `seal` against a reservation: either it comes before the end or it is refused.
#[test]
fn sealing_and_reserving_exclude_each_other() {
    loom::model(|| {
        let region = Arc::new(Region::anonymous(64).unwrap());
        let sealer = {
            let region = Arc::clone(&region);
            thread::spawn(move || region.seal())
        };
        let end = match publish(&region, 16, 1) {
            Ok(()) => 16,
            Err(full) => {
                assert!(!full.first, "the sealer was first");
                0
            }
        };
        assert_eq!(sealer.join().unwrap(), end);
        assert_eq!((region.seal(), region.published()), (end, end));
    });
}

/// `seal` against an overflow: both know the same end, and `seal` does not wait for ever.
#[test]
fn sealing_waits_for_the_thread_that_overflows() {
    loom::model(|| {
        let region = Arc::new(Region::anonymous(32).unwrap());
        let writer = {
            let region = Arc::clone(&region);
            thread::spawn(move || publish(&region, 48, 1).is_err())
        };
        assert_eq!(region.seal(), 0);
        assert!(writer.join().unwrap());
        assert_eq!(region.sealed_end(), Some(0));
    });
}
