use super::*;

#[test]
fn the_keyspace_that_is_full_first_says_when_writers_stop() {
    let inflow = Inflow { bytes_per_second: 100.0, held_up: 0.0 };
    let seconds = |keyspaces: &[Filling], room| {
        stalls_in(keyspaces, 24, room, inflow).map(|stalls_in| stalls_in.as_millis())
    };
    let one = Filling { depth: 4, run_bytes: 50, records: 7 };
    assert_eq!(seconds(&[one], 1000), Some(20_000), "20 runs of 50 bytes, and the buffer's room");
    // A quarter of what is written is this keyspace's; both fill the buffer.
    let other = Filling { depth: 23, run_bytes: 500, records: 21 };
    assert_eq!(seconds(&[one, other], 1000), Some(16_666));
    assert_eq!(seconds(&[one, Filling { depth: 0, ..other }], 1000), Some(50_000));
    let rests = Filling { depth: 24, records: 0, ..other };
    assert_eq!(seconds(&[one, rests], 0), Some(10_000), "nobody writes there");
    assert_eq!(seconds(&[Filling { depth: 30, ..one }], 0), Some(0));
    assert_eq!(seconds(&[rests], 0), None);
    assert_eq!(stalls_in(&[one], 24, 0, Inflow::default()), None);
    assert_eq!(stalls_in(&[one], 24, 0, Inflow { held_up: 0.5, ..inflow }), Some(Duration::ZERO));
    assert_eq!(stalls_in(&[one], 24, 0, Inflow { held_up: 0.4, ..inflow }), Some(Duration::from_secs(10)));
}
