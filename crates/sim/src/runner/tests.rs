mod restless;

use firn_storage::SystemClock;
use firn_storage::backend::{Effect, Fault as Scripted, Faulty, Operation, When};

use super::*;
use crate::generate::{Profile, script};
use crate::reference::Fault;
use crate::world::{ReferenceWorld, TreeWorld};

fn run(fault: Option<Fault>, seed: u64, profile: Profile) -> Result<(), Stop> {
    let world = ReferenceWorld { fault };
    Runner::new(&world, Knobs::draw(seed), Memory::new(), seed)?.run(&script(seed, profile))
}

#[test]
fn the_reference_runs_every_profile() {
    for seed in 0..60 {
        for profile in [Profile::Everything, Profile::Short, Profile::Tail] {
            assert_eq!(run(None, seed, profile), Ok(()), "seed {seed}, {profile:?}");
        }
    }
}

#[test]
fn scripts_print_and_parse_back() {
    for seed in 0..200 {
        let script = script(seed, Profile::Everything);
        let text = script.to_string();
        assert_eq!(text.parse::<Script>().as_ref(), Ok(&script), "seed {seed}: {text}");
    }
    assert!("flush now".parse::<Script>().unwrap_err().contains("left over"));
    assert!("fly".parse::<Script>().unwrap_err().contains("line 1"));
    assert!("ingest_begin 0 1 2:3".parse::<Script>().unwrap_err().contains("fields"));
    assert!("batch - put:1:2".parse::<Script>().unwrap_err().contains("fields"));
}

#[test]
fn a_short_script_can_be_written_by_hand() {
    let text = "
        seed 7      # a comment
        create 1
        one disk put:1:17:300:9001:0
        batch - put:0:3:10:9002:500 delete:1:17 merge:1:4:8:9003 range:0:5:9
        update 1 17 grow 9004
        snapshot_open 0
        one - delete:1:17
        get 0 1 17
        scan 0 1 start=3 prefix=17:4 backward records=7
        ingest_begin 0 1 40:10:9005:0 41:10:9006:500
        ingest_begin 1 0 40:10:9007:0 40:10:9008:0
        one - delete:1:40
        ingest_finish 0
        ingest_drop 1
        kill
        verify";
    let script: Script = text.parse().unwrap();
    let world = ReferenceWorld::default();
    let mut runner = Runner::new(&world, Knobs::draw(0), Memory::new(), 0).unwrap();
    assert_eq!(runner.run(&script), Ok(()));
}

/// The filter of keyspace 4 drops values whose seed is a multiple of 3.
#[test]
fn what_a_compaction_filter_drops_may_be_gone_and_nothing_else() {
    let text = "
        create 4
        one - put:4:40:50:3:0
        one - put:4:41:50:4:0
        one - put:4:42:50:6:0
        snapshot_open 0
        one - put:4:42:50:9:0
        one - put:4:43:50:7:0
        flush
        compact 4 - -
        get - 4 40
        update 4 40 grow 5
        verify";
    let script: Script = text.parse().unwrap();
    let run = |world: &dyn World, text: &str| {
        let mut runner = Runner::new(world, Knobs::draw(0).stepped(), Memory::new(), 0).unwrap();
        let script: Script = text.parse().unwrap();
        (runner.run(&script), runner.gone_count)
    };
    assert_eq!(run(&ReferenceWorld::default(), text), (Ok(()), 0), "the reference drops nothing");
    let (ran, gone_count) = run(&TreeWorld, text);
    assert_eq!(ran, Ok(()), "{script}");
    assert!(gone_count > 0, "nothing was dropped");
    // A value that the filter keeps must be there, and so must a dropped one's neighbours.
    let mut runner = Runner::new(&TreeWorld, Knobs::draw(0).stepped(), Memory::new(), 0).unwrap();
    let kept = crate::ops::value(4, 50, 4);
    assert!(runner.same("get", 4, b"k", None, Some(&kept)).is_err());
    assert!(runner.same("get", 1, b"k", None, Some(b"drop it")).is_err(), "no filter there");
    let record = |value: &[u8]| (b"k".to_vec(), value.to_vec());
    let mut expected = VecDeque::from([record(b"drop it"), record(&kept), record(b"drop it too")]);
    assert!(runner.same_records(4, &vec![record(b"drop it too")], &mut expected.clone()).is_err());
    assert_eq!(runner.same_records(4, &vec![record(&kept)], &mut expected), Ok(()));
    assert_eq!(runner.is_exhausted(4, &expected), Ok(()));
    expected.push_back(record(&kept));
    assert!(runner.is_exhausted(4, &expected).is_err());
}

#[test]
fn scripts_on_the_tree_meet_what_filters_dropped() {
    let mut gone_count = 0;
    for seed in 0..12 {
        let mut runner = Runner::new(&TreeWorld, Knobs::draw(seed).stepped(), Memory::new(), seed).unwrap();
        assert_eq!(runner.run(&script(seed, Profile::Everything)), Ok(()), "seed {seed}");
        gone_count += runner.gone_count;
    }
    assert!(gone_count > 0, "no script saw a filter drop anything");
}

#[test]
fn scripts_on_the_tree_ingest() {
    let mut ingest_count = 0;
    for seed in 0..12 {
        let mut runner = Runner::new(&TreeWorld, Knobs::draw(seed).stepped(), Memory::new(), seed).unwrap();
        assert_eq!(runner.run(&script(seed, Profile::Everything)), Ok(()), "seed {seed}");
        ingest_count += runner.ingest_count;
    }
    assert!(ingest_count > 40, "{ingest_count} ingestions");
}

/// The reference engine, counting how often it is asked for background work.
#[derive(Debug, Default)]
struct Counting {
    steps: Arc<std::sync::atomic::AtomicU32>,
}

impl World for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn open(
        &self,
        storage: Arc<dyn firn_storage::Storage>,
        knobs: &Knobs,
        clock: Arc<dyn Clock>,
    ) -> firn_engine::Result<Opened> {
        let engine = ReferenceWorld::default().open(storage, knobs, clock)?.engine;
        let steps = Arc::clone(&self.steps);
        let step = Box::new(move || Ok(steps.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 3 != 2));
        Ok(Opened { engine, step, workers: None, aside: None })
    }
}

#[test]
fn background_work_runs_between_operations_and_when_asked() {
    let world = Counting::default();
    let knobs = Knobs { steps_max: 0, ..Knobs::draw(0) };
    let run = |knobs: &Knobs, text: &str| {
        let script: Script = text.parse().unwrap();
        let mut runner = Runner::new(&world, knobs.clone(), Memory::new(), 1).unwrap();
        assert_eq!(runner.run(&script), Ok(()));
        world.steps.swap(0, std::sync::atomic::Ordering::SeqCst)
    };
    assert_eq!(run(&knobs, "flush"), 0);
    assert_eq!(run(&knobs, "step 2"), 2);
    assert_eq!(run(&knobs, "step 20"), 3, "stepping ends when there is no work");
    assert!(run(&Knobs { steps_max: 2, ..knobs }, &"sync\n".repeat(50)) > 10);
}

/// The ordered engine on a device whose syncs take a while.
#[derive(Debug)]
struct SlowSyncs;

impl World for SlowSyncs {
    fn name(&self) -> &'static str {
        "slow syncs"
    }

    fn open(
        &self,
        storage: Arc<dyn firn_storage::Storage>,
        knobs: &Knobs,
        clock: Arc<dyn Clock>,
    ) -> firn_engine::Result<Opened> {
        let slow = Faulty::with_clock(storage, Arc::new(SystemClock::new()));
        let effect = Effect::Delay(Duration::from_millis(100));
        let (on, file, when) = (Operation::Sync, "*.log".to_owned(), When::Always { after: 0 });
        slow.inject(Scripted { on, file, when, effect });
        TreeWorld.open(Arc::new(slow), knobs, clock)
    }
}

/// A write that waits for the device takes time on the script's clock, and a record expires
/// meanwhile.
#[test]
fn an_open_scan_ends_when_a_write_takes_time() {
    let text = "
        one - put:0:40:10:2:50
        iter_open 0 - 0 records=7
        one disk put:0:41:10:4:0
        iter_next 0
        verify";
    let script: Script = text.parse().unwrap();
    let knobs = Knobs { has_threads: true, steps_max: 0, ..Knobs::draw(0) };
    let mut runner = Runner::new(&SlowSyncs, knobs, Memory::new(), 0).unwrap();
    assert_eq!(runner.run(&script), Ok(()));
    assert!(runner.now_ms() > START_MS + 50, "the write took no time");
}

/// A session that is woken for nothing does not keep the script's clock from moving.
#[test]
fn time_passes_while_a_session_is_woken_for_nothing() {
    let world = ReferenceWorld::default();
    let mut runner = Runner::new(&world, Knobs::draw(0), Memory::new(), 0).unwrap();
    let clock = Arc::clone(&runner.clock);
    let open = runner.opened().unwrap();
    let inner = open.opened.ordered().unwrap().ordered_session();
    open.session = AnySession::Ordered(Box::new(restless::Restless { inner, clock }));
    let done = runner.wait_for(restless::TICKET, TakeTime::Yes);
    assert!(matches!(done, Ok(Completion::Written(_))), "{done:?}");
    assert!(runner.clock.now() < restless::TIME * 2, "more time passed than had to");
}
