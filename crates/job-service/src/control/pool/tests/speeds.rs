//! How fast workers are, as their jobs tell.

use super::*;

/// Bytes a second with near files and with others, as people see them. Before, `A`, in `zone`, has
/// done a job of `bytes` on files in `zone_of_files`.
fn speeds(zone: &str, zone_of_files: &str, bytes: u64) -> [Option<f64>; 2] {
    let mut pool = pool();
    pool.hear(seconds(0), Profile { zone: zone.to_owned(), ..profile(A, 1) }, &[]);
    let shown = |pool: &Pool| {
        let row = rows(pool, seconds(0)).workers.remove(0);
        (row.jobs_done, [row.near_bytes_per_second, row.far_bytes_per_second])
    };
    assert_eq!(shown(&pool), (0, [None, None]));
    pool.submit(seconds(0), key(1), Order { zone: zone_of_files.to_owned(), bytes, ..order() }).unwrap();
    let lease = only(pool.take(seconds(0), A));
    assert!(finish(&mut pool, seconds(0), A, &lease, done()));
    let (jobs_done, speeds) = shown(&pool);
    assert_eq!(jobs_done, 1);
    speeds
}

#[test]
fn what_nobody_has_said_where_it_is_is_near_to_everybody() {
    for (zone, zone_of_files) in [("", ""), ("a", ""), ("", "a"), ("a", "a")] {
        let [near, far] = speeds(zone, zone_of_files, 1 << 20);
        assert!(near.is_some() && far.is_none(), "{zone:?} {zone_of_files:?}: {near:?} {far:?}");
    }
    let [near, far] = speeds("a", "b", 1 << 20);
    assert!(near.is_none() && far.is_some(), "{near:?} {far:?}");
}

#[test]
fn of_jobs_that_are_too_short_to_tell_no_speed_is_shown() {
    assert_eq!(speeds("", "", (1 << 20) - 1), [None, None]);
}
