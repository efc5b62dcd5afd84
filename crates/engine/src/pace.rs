//! How fast writers may go while background work is behind: one pace, fed by two debts.
//!
//! ```text
//!   what no flush has written out, room left ─► RoomDebt ──► RoomPace ──┐
//!   what flushes free ──────────────────────────────────────────┘       ├─► Pace: the longer delay
//!   blobs that are dead, segments not sealed ─► SpaceDebt ─► SpacePace ─┘
//!   what GC gives back ──────────────────────────────────────────┘
//! ```
//! Background work that keeps up gives no pace. Where it does not, writers get about what it
//! achieves. An engine looks at its debts when it is told to, and says what was freed; what a debt
//! consists of is its own. Reads are never slowed.
//!
//! For engines to embed: nothing here is part of the contract with callers.

mod due;
mod room;
mod space;
mod forecast;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::queue::HeldTime;

pub use forecast::{Inflow, Sample, StallForecast};
pub use room::{RoomDebt, RoomPace};
pub use space::{Brought, SpaceDebt, SpacePace};

/// The pace of a database's writers; counts what it costs them.
///
/// Shared by all threads. A write asks it as the write comes, or once it is published, and is
/// acknowledged later by what this answers.
#[derive(Debug, Default)]
pub struct Pace {
    /// By the room that is left.
    pub room: RoomPace,
    /// By the space that files take.
    pub space: SpacePace,
    slowdown_us: AtomicU64,
    slowdown_time: HeldTime,
}

impl Pace {
    /// Whether writers have a pace, or are to look whether they get one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.room.is_on() || !self.space.is_off()
    }

    /// How long a write of `bytes` has to wait. It is charged to both debts, and counts as slowed
    /// by the longer of their delays.
    pub fn delay(&self, bytes: u64, now: Duration) -> Duration {
        let delay = self.space.delay(bytes, now).max(self.room.delay(bytes, now));
        self.slowdown_us.fetch_add(delay.as_micros() as u64, Ordering::Relaxed);
        if !delay.is_zero() {
            self.slowdown_time.note(now, now + delay);
        }
        delay
    }

    /// Microseconds of the clock, until `now`, in which at least one write was slowed.
    pub fn slowdown_wall_us(&self, now: Duration) -> u64 {
        self.slowdown_time.us(now)
    }

    /// Microseconds that writers were slowed, all together.
    pub fn slowdown_us(&self) -> u64 {
        self.slowdown_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_longer_delay_counts_and_both_debts_are_charged() {
        let pace = Pace::default();
        assert!(!pace.is_on() && pace.delay(1 << 40, MS).is_zero());
        // 32 MiB a second by room, 64 by space.
        pace.room.set(&RoomDebt { is_pressed: true, room_bytes: 6 << 20, flush_bytes: 24 << 20 }, MS);
        let over = SpaceDebt { over: Some(9.0), is_collecting: true, waiting_segments: 0 };
        pace.space.set(&over, 2.0, MS);
        assert!(pace.is_on());
        let by_room = Duration::from_millis(1000 / 32);
        let delay = pace.delay(1 << 20, MS);
        assert_eq!(
            (delay, pace.slowdown_us()),
            (25 * MS, 25_000),
            "of {by_room:?} what a write waits at most"
        );
        // By room no write waits longer, and by space this one waits for the first, too.
        let second = pace.delay(4 << 20, MS);
        assert!((75 * MS..80 * MS).contains(&second), "{second:?}");
        assert_eq!(pace.slowdown_us(), 25_000 + second.as_micros() as u64);
        // Both wait at the same time.
        let later = Duration::from_secs(1);
        assert_eq!(pace.slowdown_wall_us(later), second.as_micros() as u64);
        assert_eq!(pace.slowdown_wall_us(MS + 10 * MS), 10_000);
    }

    #[test]
    fn either_debt_gives_a_pace() {
        let pace = Pace::default();
        pace.space.doubt();
        assert!(pace.is_on(), "a writer is to look");
        pace.space.set(&SpaceDebt::default(), 1.0, MS);
        assert!(!pace.is_on());
        pace.room.set(&RoomDebt { is_pressed: true, room_bytes: u64::MAX, flush_bytes: 1 }, MS);
        assert!(
            pace.is_on() && pace.delay(1 << 40, MS).is_zero(),
            "with so much room, it is looked again and again"
        );
        pace.room.set(&RoomDebt { is_pressed: false, room_bytes: 0, flush_bytes: 1 }, MS);
        assert!(!pace.is_on());
    }
}
