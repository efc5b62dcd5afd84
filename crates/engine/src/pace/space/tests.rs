use super::*;

const MS: Duration = Duration::from_millis(1);
const NOTHING: SpaceDebt = SpaceDebt { over: None, is_collecting: false, waiting_segments: 0 };

/// Something is to be collected, and space is that much over.
fn over(over: f64) -> SpaceDebt {
    SpaceDebt { over: Some(over), is_collecting: true, waiting_segments: 0 }
}

#[test]
fn writers_get_what_gcs_give_back_about_where_those_begin() {
    assert_eq!([rate(-1.0, 1e9), rate(OVER_MIN, 1e9)], [0, 0]);
    assert_eq!(rate(OVER_EVEN, 1e9), 1_000_000_000);
    assert!(rate(OVER_EVEN - 0.01, 1e9) > 1_300_000_000 && rate(OVER_EVEN + 0.015, 1e9) < 600_000_000);
    assert!(rate(0.0, 1e9) < 1_000_000_000, "what is begun is done before much more comes");
    assert_eq!([rate(0.3, 1e9), rate(9.0, 1e9)], [250_000_000; 2]);
    assert_eq!(rate(9.0, 0.0), 1 << 20);
}

#[test]
fn whoever_writes_after_much_was_written_is_to_look_once() {
    let pace = SpacePace::default();
    pace.doubt();
    assert!(!pace.is_off() && pace.delay(1 << 30, MS).is_zero());
    assert!(pace.is_to_look(MS) && !pace.is_to_look(MS));
    pace.set(&NOTHING, 1.0, MS);
    assert!(!pace.is_to_look(100 * MS) && pace.is_off());
    // A writer that goes at a pace looks now and then.
    pace.set(&over(1.0), 1.0, MS);
    pace.doubt();
    assert!(!pace.is_to_look(2 * MS));
    assert!(pace.is_to_look(7 * MS) && !pace.is_to_look(7 * MS));
}

#[test]
fn what_shrinks_is_charged_for_what_is_written_of_it() {
    let (pace, brought, second) = (SpacePace::default(), Brought::default(), Duration::from_secs(1));
    assert_eq!(brought.for_each_written(), 1.0);
    brought.add(400 << 20, 100 << 20);
    pace.set(&over(OVER_EVEN), brought.for_each_written(), Duration::ZERO);
    pace.freed(10 << 20, second);
    pace.set(&over(OVER_EVEN), brought.for_each_written(), second);
    assert_eq!(pace.rate.load(Ordering::Relaxed), 40 << 20);
    // What comes now does not shrink: after a few segments that counts.
    for _ in 0..8 {
        brought.fade();
        brought.add(16 << 20, 16 << 20);
    }
    assert!(brought.for_each_written() < 1.1);
}

/// One long and many short ones are as fast as all of them together.
#[test]
fn gcs_that_end_together_do_not_count_as_fast_ones() {
    let pace = SpacePace::default();
    pace.set(&over(OVER_EVEN), 1.0, Duration::ZERO);
    for at in 1..=20 {
        for later in [0, 1] {
            pace.freed(10 << 20, Duration::from_secs(at) + later * MS);
        }
    }
    pace.set(&over(OVER_EVEN), 1.0, Duration::from_secs(21));
    let rate = pace.rate.load(Ordering::Relaxed) >> 20;
    assert!((18..25).contains(&rate), "{rate} MiB a second where 20 are given back");
}

#[test]
fn a_paced_writer_writes_as_fast_as_that() {
    let pace = SpacePace::default();
    assert!(pace.is_off() && pace.delay(1 << 40, MS).is_zero());
    let second = Duration::from_secs(1);
    // A quarter of a second's work, and then nothing for the rest of it.
    pace.set(&over(1.0), 1.0, Duration::ZERO);
    pace.gone(4 << 20);
    pace.freed(6 << 20, second);
    pace.set(&over(OVER_EVEN), 1.0, second);
    let (mut now, mut bytes) = (MS, 0_u64);
    while now < Duration::from_secs(2) {
        now += pace.delay(16 << 10, now);
        now += Duration::from_micros(10);
        bytes += 16 << 10;
    }
    assert!((18 << 20..22 << 20).contains(&bytes), "{bytes} bytes in two seconds");
    assert!(pace.delay(1 << 40, now) <= Duration::from_nanos(DEBT_NS_MAX));
    pace.set(&NOTHING, 1.0, now);
    assert!(pace.is_off());
    // Time without anything to collect says nothing of how fast that is.
    pace.set(&over(OVER_EVEN), 1.0, 100 * second);
    pace.freed(10 << 20, 101 * second);
    pace.set(&over(OVER_EVEN), 1.0, 101 * second);
    assert_eq!(pace.rate.load(Ordering::Relaxed), 10 << 20);
}

/// What is hidden in the buffer is too much, and no GC can give it back: that is no measure
/// of how fast they are.
#[test]
fn time_without_anything_to_collect_does_not_count() {
    let (pace, second) = (SpacePace::default(), Duration::from_secs(1));
    let hidden = SpaceDebt { is_collecting: false, ..over(OVER_EVEN) };
    for at in (0..100).step_by(10) {
        pace.set(&over(OVER_EVEN), 1.0, at * second);
        pace.freed(10 << 20, (at + 1) * second);
        pace.set(&hidden, 1.0, (at + 1) * second);
        assert_eq!(
            pace.rate.load(Ordering::Relaxed),
            10 << 20,
            "ten times as much as is given back in all of the time"
        );
    }
}

#[test]
fn segments_that_wait_to_be_sealed_slow_writers_by_their_number() {
    assert_eq!([0, 8, 9, 10].map(waiting_rate), [0, 0, 1 << 30, 1 << 29]);
    assert_eq!([19, 20, 1 << 40].map(waiting_rate), [1 << 20; 3]);
    let pace = SpacePace::default();
    pace.set(&SpaceDebt { waiting_segments: 11, ..NOTHING }, 1.0, MS);
    assert_eq!(pace.rate.load(Ordering::Relaxed), 1 << 28);
    pace.set(&SpaceDebt { waiting_segments: 11, ..over(9.0) }, 1.0, MS);
    assert_eq!(pace.rate.load(Ordering::Relaxed), 32 << 20, "the slower of both");
    pace.set(&NOTHING, 1.0, MS);
    assert!(pace.is_off());
}
