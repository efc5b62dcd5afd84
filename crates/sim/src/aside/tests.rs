use firn_storage::backend::Memory;
use firn_storage::{Clock, Storage};

use super::*;
use crate::generate::{Profile, script};
use crate::runner::Runner;
use crate::world::{Knobs, Opened, TreeWorld, World};

/// The ordered engine; what does its units aside is remembered.
#[derive(Debug, Default)]
struct Watched(Mutex<Vec<Arc<Aside>>>);

impl World for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn open(&self, storage: Arc<dyn Storage>, knobs: &Knobs, clock: Arc<dyn Clock>) -> Result<Opened> {
        let opened = TreeWorld.open(storage, knobs, clock)?;
        self.0.lock().unwrap().extend(opened.aside.iter().map(|Ending(aside)| Arc::clone(aside)));
        Ok(opened)
    }
}

#[test]
fn scripts_go_on_in_the_middle_of_jobs_and_repeat() {
    let mut all = 0;
    for seed in 1..=11 {
        let run = || {
            let plain = Knobs { buffer_bytes: 0, memtable_bytes: 4 << 10, steps_max: 4, ..Knobs::draw(0) };
            let knobs = Knobs { goes_on: true, elsewhere: seed % 2 == 0, ..plain };
            let world = Watched::default();
            let mut runner = Runner::new(&world, knobs, Memory::new(), seed).unwrap();
            assert_eq!(runner.run(&script(seed, Profile::Everything)), Ok(()), "seed {seed}");
            let operations = runner.memory().operations();
            let gcs = runner.end();
            let stops: Vec<u64> = world.0.lock().unwrap().iter().map(|aside| aside.stop_count()).collect();
            (operations, gcs, stops)
        };
        let once = run();
        assert_eq!(once, run(), "seed {seed}");
        all += once.2.iter().sum::<u64>();
    }
    assert!(all > 20, "{all} times a script went on in the middle of a job");
}
