use super::*;

fn sample(at_ms: u64, log_bytes: u64, held_up_us: u64) -> Sample {
    Sample { at: Duration::from_millis(at_ms), log_bytes, held_up_us }
}

#[test]
fn a_window_shows_what_was_written_of_late() {
    let mut window = Window::default();
    assert_eq!(window.inflow(), Inflow::default());
    window.add(sample(0, 1 << 40, 0));
    assert_eq!(window.inflow(), Inflow::default(), "one look shows nothing");
    assert!(!window.is_due(Duration::from_millis(249)) && window.is_due(Duration::from_millis(250)));
    for step in 1..=40 {
        window.add(sample(250 * step, (1 << 40) + 100 * step, 25_000 * step));
    }
    assert_eq!(window.inflow(), Inflow { bytes_per_second: 400.0, held_up: 0.1 });
    // Writers rest: half of the span later half of the pace is left.
    window.add(sample(15_000, (1 << 40) + 4000, 1_000_000));
    assert_eq!(window.inflow(), Inflow { bytes_per_second: 200.0, held_up: 0.05 });
    assert!(window.samples.len() <= 22, "{}", window.samples.len());
    window.add(sample(60_000, (1 << 40) + 4000, 1_000_000));
    window.add(sample(61_000, (1 << 40) + 4000, 1_000_000));
    assert_eq!(window.inflow(), Inflow::default());
}
