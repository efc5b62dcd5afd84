//! Schedules of the watermark over several segments:
//! `RUSTFLAGS="--cfg loom" cargo test -p firn-tree --test loom_watermark`.
//!
//! `Log` of `firn_storage` holds its segments by `ArcSwap`, which loom cannot see into. So this is
//! a model of `Log::advance` and of the roll, line by line, over the real regions of `firn_arena`.
//! Pointers to segments are indexes here.
#![cfg(loom)]

use firn_arena::Region;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Positions from one segment's base to the next.
const SPAN: usize = 1000;

struct Log {
    segments: [Region; 2],
    active: AtomicUsize,
    publishing: AtomicUsize,
    watermark: AtomicUsize,
    /// How many segments are open; the thread that holds the lock may roll.
    open: Mutex<usize>,
}

impl Log {
    fn new() -> Self {
        Self {
            segments: [16, 32].map(|bytes| Region::anonymous(bytes).unwrap()),
            active: AtomicUsize::new(0),
            publishing: AtomicUsize::new(0),
            watermark: AtomicUsize::new(0),
            open: Mutex::new(1),
        }
    }

    /// One frame in the active segment, or in the next where that is full; the position after it.
    fn write(&self) -> usize {
        loop {
            let index = self.active.load(Ordering::SeqCst);
            if let Ok(mut frame) = self.segments[index].reserve(16) {
                let end = index * SPAN + frame.offset() + 16;
                frame.bytes_mut().fill(1);
                frame.publish(16);
                return end;
            }
            let mut open = self.open.lock().unwrap();
            if self.active.load(Ordering::SeqCst) == index {
                self.segments[index].seal();
                *open = index + 2;
                self.active.store(index + 1, Ordering::SeqCst);
            }
        }
    }

    fn advance(&self) -> usize {
        loop {
            let index = self.publishing.load(Ordering::SeqCst);
            let end = self.segments[index].advance();
            let position = index * SPAN + end;
            let seen = self.watermark.fetch_max(position, Ordering::AcqRel).max(position);
            if self.segments[index].sealed_end() != Some(end) {
                return seen;
            }
            if index + 1 >= *self.open.lock().unwrap() {
                return seen;
            }
            self.watermark.fetch_max((index + 1) * SPAN, Ordering::AcqRel);
            let _moved =
                self.publishing.compare_exchange(index, index + 1, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Fails unless everything below `watermark` can be read.
    fn assert_readable(&self, watermark: usize) {
        let (index, offset) = (watermark / SPAN, watermark % SPAN);
        assert!(self.segments[index].read(0, offset).is_some(), "{watermark}");
        if index > 0 {
            let end = self.segments[0].sealed_end().expect("a successor begins after the seal");
            assert_eq!(self.segments[0].published(), end, "{watermark}");
        }
    }
}

/// The writer that is the last to publish moves the watermark over everything, across the roll.
#[test]
fn no_publication_is_missed_across_a_roll() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let writer = {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                let end = log.write();
                log.advance();
                end
            })
        };
        let mine = log.write();
        log.assert_readable(log.advance());
        let other = writer.join().unwrap();
        assert_eq!(mine.max(other), SPAN + 16, "one of the two rolled");
        assert_eq!(log.watermark.load(Ordering::Acquire), SPAN + 16);
    });
}

/// A reader never sees a watermark beyond what is published, nor one that goes back.
#[test]
fn a_reader_sees_only_what_is_published() {
    loom::model(|| {
        let log = Arc::new(Log::new());
        let writers = [(); 2].map(|()| {
            let log = Arc::clone(&log);
            thread::spawn(move || {
                log.write();
                log.advance();
            })
        });
        let first = log.watermark.load(Ordering::Acquire);
        log.assert_readable(first);
        let second = log.watermark.load(Ordering::Acquire);
        assert!(second >= first);
        log.assert_readable(second);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
