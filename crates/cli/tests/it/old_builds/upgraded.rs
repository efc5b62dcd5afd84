//! A fleet that is upgraded while it works, one after another, and taken back where that is
//! possible.
//!
//! ```text
//!   all old ─► a worker ─► the control plane ─► the other worker ─► the database ─► all new ─► all old again, one after another ─► all new
//! ```
//! Workers and the control plane are exchanged while jobs are under way. One of the workers is told
//! to end, the other and the control plane are killed. The database is closed.

use std::time::Instant;

use super::{Build, Builds, Database, JOBS, PATIENCE};
use crate::bad_store::{jobs_done, status};
use crate::job_service::{Process, Scene};
use crate::rounds;
use crate::serve::Serving;

/// Which process is exchanged.
#[derive(Clone, Copy, Debug)]
enum Who {
    Plane,
    /// By its number; the first is told to end, the other is killed.
    Worker(usize),
    Database,
}

struct Fleet<'b> {
    database: Database<'b>,
    plane: Option<Process>,
    workers: [Option<Process>; 2],
    serving: Option<Serving>,
    /// Workers that were told to end, and may be at it.
    ending: Vec<Process>,
}

impl<'b> Fleet<'b> {
    /// All of it old, on a store.
    fn new(builds: &'b Builds) -> Self {
        let mut database = Database::of(builds, Scene::new(true), true);
        database.give(&["control-plane", "worker"], Build::Old);
        let plane = Some(database.scene.plane());
        let workers = [0, 1].map(|number| Some(worker(&database.scene, number)));
        let serving = database.open_with_all(Build::Old);
        Self { database, plane, workers, serving, ending: Vec::new() }
    }

    /// Whether a process of `build` may open the database.
    fn may_have(&self, build: Build) -> bool {
        self.database.builds.format(build) >= self.database.format
    }

    /// Exchanges one for one of `build` while clients write; jobs go on, and nothing is lost.
    fn exchange(&mut self, who: Who, build: Build) {
        let began = Instant::now();
        let serving = self.serving.take().expect("it is there");
        let serving = match who {
            Who::Database => {
                self.database.end(serving);
                self.database.open_with_all(build).expect("it may have it")
            }
            _ => serving,
        };
        let Self { database, plane, workers, ending, .. } = self;
        let (scene, old, address) = (&mut database.scene, &database.builds.old, &serving.address);
        let mut is_done = matches!(who, Who::Database);
        while !is_done {
            assert!(began.elapsed() < PATIENCE, "no job is under way, and {who:?} is not exchanged");
            database.clients.write(address.clone(), &mut database.random, |_, _| {
                if !is_done && scene.is_job_running() {
                    exchange(scene, old, (who, build), (plane, workers, ending));
                    is_done = true;
                }
                address.clone()
            });
        }
        let [old, new] = self.database.builds.formats;
        // Workers of another format may do nothing for it; in the end all are new.
        let is_for_workers = old == new || matches!((who, build), (Who::Database, Build::New));
        let before = self.done(&serving);
        let mut done = before;
        while done.0 + done.1 < before.0 + before.1 + JOBS || is_for_workers && done.0 == before.0 {
            assert!(began.elapsed() < PATIENCE, "{who:?} is {build:?}: {before:?} jobs before, {done:?} now");
            self.database.write(&serving);
            done = self.done(&serving);
        }
        self.database.check(&serving);
        println!(
            "{who:?} is {build:?}: {} jobs by workers and {} here after that; {:.1} s",
            done.0 - before.0,
            done.1 - before.1,
            began.elapsed().as_secs_f64()
        );
        self.serving = Some(serving);
    }

    /// Jobs that workers did, and the database; of none that was done twice something else came.
    fn done(&self, serving: &Serving) -> (u64, u64) {
        let mut client = rounds::connect(&serving.address);
        let info: String = redis::cmd("INFO").arg("firn").query(&mut client).expect("it tells");
        assert_eq!(status(&mut client, "jobs_differed_count"), "0");
        jobs_done(&info)
    }

    fn end(mut self) {
        self.database.end(self.serving.take().expect("it is there"));
    }
}

fn worker(scene: &Scene, number: usize) -> Process {
    scene.worker(&format!("worker-{number}"))
}

fn exchange(
    scene: &mut Scene,
    old: &str,
    (who, build): (Who, Build),
    (plane, workers, ending): (&mut Option<Process>, &mut [Option<Process>; 2], &mut Vec<Process>),
) {
    let command = match who {
        Who::Plane => "control-plane",
        Who::Worker(_) => "worker",
        Who::Database => return,
    };
    match build {
        Build::Old => scene.of_other_builds.insert(command, old.to_owned()),
        Build::New => scene.of_other_builds.remove(command),
    };
    match who {
        Who::Worker(number) => {
            let before = workers[number].take().expect("it is there");
            if number == 0 {
                before.ask_to_end();
                ending.push(before);
            }
            workers[number] = Some(worker(scene, number));
        }
        _ => {
            *plane = None;
            *plane = Some(scene.plane());
        }
    }
}

#[test]
#[ignore = "wants the program of another build: cargo x skew makes one"]
fn a_fleet_on_a_store_is_upgraded_and_taken_back_while_it_works() {
    let builds = Builds::given();
    let mut fleet = Fleet::new(&builds);
    for who in [Who::Worker(0), Who::Plane, Who::Worker(1), Who::Database] {
        fleet.exchange(who, Build::New);
    }
    if fleet.may_have(Build::Old) {
        for who in [Who::Plane, Who::Worker(1), Who::Database, Who::Worker(0)] {
            fleet.exchange(who, Build::Old);
        }
        for who in [Who::Database, Who::Worker(0), Who::Worker(1), Who::Plane] {
            fleet.exchange(who, Build::New);
        }
    }
    fleet.end();
}
