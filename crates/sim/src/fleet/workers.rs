//! Workers that are not all alike.

use std::time::Duration;

use firn_job_service::control::{Elsewhere, Speed, Worker, WorkerId, Zone};

const MIB: f64 = (1 << 20) as f64;
/// Files of another zone are read so much slower.
const FAR: f64 = 3.0;

/// The zone of whatever has this number, of `zones`; nothing is in all of them.
pub(super) fn zone_of(index: u32, zones: u32) -> Zone {
    Zone(1 + index % zones)
}

/// `count` workers with `slots` each in `zones` zones: 80 to 120 MiB a second for a job with files
/// of the same zone, each tenth of them a third of that.
pub(super) fn workers(count: u32, slots: u32, zones: u32, seed: u64) -> Vec<Worker> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut worker = |id: u32| {
        let slow = if id % 10 == 9 { 3.0 } else { 1.0 };
        let near = (80.0 + 40.0 * random.f64()) * MIB / slow;
        let speed = |bytes_per_second| Speed { bytes_per_second, open: Duration::from_millis(50) };
        Worker {
            id: WorkerId(u64::from(id)),
            zone: zone_of(id, zones),
            slots,
            running: Vec::new(),
            elsewhere: Elsewhere::default(),
            near: speed(near),
            far: speed(near / FAR),
        }
    };
    (0..count).map(&mut worker).collect()
}
