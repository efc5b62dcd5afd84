//! Workers and control planes come and go while a database is written to.

use firn_engine::Semantics;

use crate::scene::{Scene, any_port, check, write};

#[test]
fn whoever_comes_and_goes_costs_time_and_no_entry() {
    let seed = std::env::var("FIRN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FIRN_SEED={seed}");
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut scene = Scene::new();
    let mut planes: Vec<_> = (0..2).map(|_| Some(scene.plane(any_port()))).collect();
    let at: Vec<_> = planes.iter().flatten().map(|plane| plane.address()).collect();
    let mut workers: Vec<_> =
        (0..2).map(|index| Some(scene.worker(&format!("w{index}"), &at, Semantics::new()))).collect();
    let db = scene.open(&at);
    let mut model = vec![None; 2000];
    for round in 0..30 {
        write(&db, &mut model, random, 1000);
        let index = random.usize(0..2);
        match random.u32(0..4) {
            0 => workers[index] = None,
            1 => workers[index] = Some(scene.worker(&format!("w{index}r{round}"), &at, Semantics::new())),
            2 => planes[index] = None,
            _ => {
                planes[index] = None;
                planes[index] = Some(scene.plane(at[index]));
            }
        }
        if round % 10 == 9 {
            db.wait_idle().unwrap();
            check(&db, &model);
        }
    }
    let stats = db.stats();
    let jobs = stats.tree.as_ref().expect("a tree").compaction_count
        + stats.tree.as_ref().expect("a tree").blobs.gc_count;
    println!("{jobs} jobs, of them {} here", stats.jobs_passed_on_count);
    assert!(jobs > stats.jobs_passed_on_count, "none was done elsewhere");
    db.close().unwrap();
    drop(db);
    drop(workers);
    let db = scene.open(&at);
    check(&db, &model);
    db.close().unwrap();
}
