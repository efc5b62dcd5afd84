//! Decisions: in scenes, in random views, and by chance.

use std::collections::BTreeSet;

use super::super::{Elsewhere, JobId, Running, Speed, TenantId, WorkerId, Zone, random};
use super::*;

mod scenes; // decisions as text
mod whole; // against all jobs one after the other

const MIB: u64 = 1 << 20;

fn job(id: u64, lane: Lane, mib: u64) -> Waiting {
    Waiting {
        id: JobId(id),
        tenant: TenantId(id as u32),
        lane,
        bytes: mib * MIB,
        zone: Zone(1),
        waited: Duration::ZERO,
        stalls_in: None,
        refused_by: BTreeSet::new(),
    }
}

/// 100 MiB a second near, a tenth of that far. Jobs' files are in zone 1; near to them are 1 and 0.
fn worker(id: u64, zone: u32, slots: u32) -> Worker {
    let speed = |mib: u64| Speed { bytes_per_second: (mib * MIB) as f64, open: Duration::from_millis(50) };
    Worker {
        id: WorkerId(id),
        zone: Zone(zone),
        slots,
        running: Vec::new(),
        elsewhere: Elsewhere::default(),
        near: speed(100),
        far: speed(10),
    }
}

fn running(id: u64, lane: Lane, done: u64) -> Running {
    Running {
        id: JobId(id),
        tenant: TenantId(id as u32),
        waited: Duration::ZERO,
        lane,
        zone: Zone(1),
        bytes: 1000 * MIB,
        bytes_done: done * MIB,
    }
}

#[test]
fn any_job_may_be_drawn_for_any_free_slot() {
    let waiting = vec![job(1, Lane::Deep, 100), job(2, Lane::L0, 100), job(3, Lane::Deep, 100)];
    let mut busy = worker(1, 0, 2);
    busy.running.push(running(90, Lane::Deep, 0));
    let view = View { waiting, workers: vec![busy, worker(2, 0, 1)], ..View::default() };
    let drawn: BTreeSet<String> = (0..50).map(|seed| format!("{:?}", random(&view, seed))).collect();
    assert!(drawn.len() > 4 && (0..50).all(|seed| random(&view, seed).len() == 2), "{drawn:?}");
}
