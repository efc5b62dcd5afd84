//! Databases whose store goes away, may be read only, or is full, while workers run jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_s3_server::Faults;

use crate::job_service::{Process, Scene};
use crate::rounds::{self, Model};
use crate::serve::Serving;

/// Keys that are written again and again.
const KEYS: u32 = 2000;

/// A database on a store, with a control plane and one worker, that has had jobs done.
pub(crate) struct Busy {
    pub(crate) scene: Scene,
    serving: Serving,
    pub(crate) model: Model,
    batch: u32,
    /// Killed as it ends.
    _helpers: [Process; 2],
}

/// What the database says of itself as `name`.
pub(crate) fn status(client: &mut redis::Connection, name: &str) -> String {
    line(&redis::cmd("INFO").arg("firn").query::<String>(client).expect("it tells"), name)
}

/// What `info`, which a database has said of itself, has as `name`.
pub(crate) fn line(info: &str, name: &str) -> String {
    let lines = info.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(of, _)| of.trim_start_matches("firn_") == name)
        .map(|(_, value)| value.trim().to_owned())
        .collect()
}

/// Jobs that workers have done for a database since it was opened, and jobs that it has done
/// itself; by what `info` says.
pub(crate) fn jobs_done(info: &str) -> (u64, u64) {
    let sum = |name: &str| {
        let counts = info.split([':', ',', '\n']).filter_map(|field| field.strip_prefix(name));
        counts.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
    };
    (sum("elsewhere_count="), sum("here_count="))
}

/// Jobs that workers have done for it.
pub(crate) fn done_elsewhere(client: &mut redis::Connection) -> u64 {
    jobs_done(&redis::cmd("INFO").arg("firn").query::<String>(client).expect("it tells")).0
}

impl Busy {
    pub(crate) fn new(durability: &str) -> Self {
        Self::on(Scene::new(true), durability)
    }

    /// With what is shared as `scene` has it.
    pub(crate) fn on(mut scene: Scene, durability: &str) -> Self {
        let settings = scene.path("settings.toml");
        let text = format!("durability = \"{durability}\"\n{}", rounds::SETTINGS);
        std::fs::write(settings, text).expect("written");
        let helpers = [scene.plane(), scene.worker("one")];
        let serving = scene.serve();
        let mut busy = Self { scene, serving, model: Model::new(), batch: 0, _helpers: helpers };
        busy.write_until_jobs_are_done(3);
        busy
    }

    pub(crate) fn client(&self) -> redis::Connection {
        rounds::connect(&self.serving.address)
    }

    fn write(&mut self, client: &mut redis::Connection) {
        rounds::write(client, &mut self.model, (self.batch / 100, self.batch), KEYS);
        self.batch += 1;
    }

    /// Writes until the worker has done `more` jobs.
    fn write_until_jobs_are_done(&mut self, more: u64) {
        let mut client = self.client();
        let end = Instant::now() + Duration::from_secs(60);
        let enough = done_elsewhere(&mut client) + more;
        while done_elsewhere(&mut client) < enough {
            assert!(Instant::now() < end, "{}", status(&mut client, "jobs_passed_on_reason"));
            (0..5).for_each(|_| self.write(&mut client));
        }
    }

    /// Waits until the worker has a job.
    fn wait_for_job(&mut self) {
        let mut client = self.client();
        let end = Instant::now() + Duration::from_secs(60);
        while !self.scene.is_job_running() {
            assert!(Instant::now() < end, "no job runs");
            self.write(&mut client);
        }
    }

    /// Everything that was acknowledged is there, and after another opening still.
    fn check_and_end(self) {
        rounds::check(&mut self.client(), &self.model, "as it goes on");
        self.serving.end();
        let again = self.scene.serve();
        rounds::check(&mut rounds::connect(&again.address), &self.model, "after another opening");
        again.end();
    }
}

#[test]
fn a_store_that_starts_again_amid_jobs_is_waited_for_and_workers_go_on() {
    let mut busy = Busy::new("process");
    // Each request takes a while, so that the job that is seen still runs when the store goes.
    busy.scene.store().set_faults(Faults { delay: Duration::from_millis(50), ..Faults::default() });
    busy.wait_for_job();
    let port = busy.scene.stop_store();
    let address = busy.serving.address.clone();
    let (mut model, first) = (std::mem::take(&mut busy.model), busy.batch);
    let is_back = AtomicBool::new(false);
    // Writes go on, and wait once there is no room for them.
    let (model, batch) = std::thread::scope(|scope| {
        let is_back = &is_back;
        let writer = scope.spawn(move || {
            let mut client = rounds::connect(&address);
            let began = Instant::now();
            let mut batch = first;
            // A test that fails before the store is back ends too.
            while !is_back.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(60) {
                rounds::write(&mut client, &mut model, (batch / 100, batch), KEYS);
                batch += 1;
            }
            (model, batch)
        });
        std::thread::sleep(Duration::from_secs(2));
        assert!(!writer.is_finished(), "writes are refused");
        busy.scene.start_store(port);
        is_back.store(true, Ordering::SeqCst);
        writer.join().expect("it writes")
    });
    (busy.model, busy.batch) = (model, batch);
    assert!(busy.batch > first);
    busy.write_until_jobs_are_done(5);
    assert_eq!(busy.scene.doers(), ["one".to_owned()].into());
    busy.check_and_end();
}

impl Busy {
    /// Waits until a quarter of the buffer is empty, a log segment, so that writes are taken for a
    /// while without a store.
    pub(crate) fn wait_for_room(&self) {
        let (mut client, began) = (self.client(), Instant::now());
        while status(&mut client, "buffer_bytes").parse::<u64>().expect("bytes") > 12 << 20 {
            assert!(began.elapsed() < Duration::from_secs(60), "the buffer is not flushed");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The worker has a job that meets what happens next: it takes seconds, and writes what it has
    /// at its end.
    pub(crate) fn have_job_run(&mut self) {
        self.scene.store().set_faults(Faults { delay: Duration::from_millis(200), ..GOOD });
        self.wait_for_job();
    }

    /// Writes a hundred new keys at once; what the database says if it takes none of them.
    pub(crate) fn write_more(&mut self, client: &mut redis::Connection) -> Result<(), String> {
        self.batch += 1;
        let keys = (0..100).map(|at| KEYS + self.batch * 100 + at);
        let mut command = redis::cmd("MSET");
        for key in keys.clone() {
            command.arg(key).arg(rounds::value(key, 1));
        }
        match command.query::<()>(client) {
            Ok(()) => self.model.extend(keys.map(|key| (key, 1))),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Makes the store as `faults` say, under a database that acknowledges what its own log has. It
    /// goes on for as long as that has room, what it refuses it refuses with the `advice`, and no
    /// job is done. `is_said`: why a job that runs then failed is told, with the advice.
    fn goes_on_meanwhile(mut self, faults: Faults, advice: &str, is_said: bool) {
        self.wait_for_room();
        if is_said {
            self.have_job_run();
        }
        self.scene.store().set_faults(faults);
        let mut client = self.client();
        let began = Instant::now();
        let (mut taken, mut done) = (0, None);
        let gives_advice = |client: &mut redis::Connection| {
            // Why the worker's job failed, and the database's own flush.
            let whys = ["jobs_passed_on_reason", "background_refusal"];
            whys.into_iter().all(|why| status(client, why).contains(advice))
        };
        while began.elapsed() < MEANWHILE || (is_said && !gives_advice(&mut client)) {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody says why");
            match self.write_more(&mut client) {
                Ok(()) => taken += 1,
                Err(text) => assert!(text.contains(advice), "{text}"),
            }
            if began.elapsed() > MEANWHILE / 3 {
                // What was made before is done by now, but for a job or two on a busy machine.
                done.get_or_insert_with(|| done_elsewhere(&mut client));
            }
        }
        assert!(taken >= 10, "{taken} taken");
        let more = done_elsewhere(&mut client) - done.unwrap_or_default();
        assert!(more <= 2, "{more} jobs were done without a store");
        self.heals();
    }

    /// Makes the store as `faults` say, under a database whose writes go there: the first of them
    /// is refused with the `advice`.
    fn refuses_meanwhile(mut self, faults: Faults, advice: &str) {
        self.scene.store().set_faults(faults);
        let text = self.write_more(&mut self.client()).expect_err("it cannot be shared");
        assert!(text.contains("not `shared` yet") && text.contains(advice), "{text}");
        self.heals();
    }

    /// Reads answer. Once the store is as it should be writes and jobs go on by themselves, and
    /// nothing is lost.
    pub(crate) fn heals(self) {
        self.heals_once(|scene| scene.store().set_faults(Faults::default()));
    }

    /// The same of whatever `mend` mends.
    pub(crate) fn heals_once(mut self, mend: impl FnOnce(&Scene)) {
        rounds::check(&mut self.client(), &self.model, "meanwhile");
        mend(&self.scene);
        let (mut client, healed) = (self.client(), Instant::now());
        while let Err(text) = self.write_more(&mut client) {
            assert!(healed.elapsed() < Duration::from_secs(60), "{text}");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.write_until_jobs_are_done(3);
        self.check_and_end();
    }
}

/// How long a store is bad under a database that has a log of its own.
const MEANWHILE: Duration = Duration::from_secs(6);

pub(crate) const GOOD: Faults = Faults {
    refused_per_mille: 0,
    lost_per_mille: 0,
    lost_ends_per_mille: 0,
    is_read_only: false,
    is_full: false,
    is_bucket_missing: false,
    delay: Duration::ZERO,
};
const READ_ONLY: Faults = Faults { is_read_only: true, ..GOOD };
const FULL: Faults = Faults { is_full: true, ..GOOD };

const READ_ONLY_ADVICE: &str = "check the credentials and what they allow";
const FULL_ADVICE: &str = "the store is full; make room there";

#[test]
fn a_store_that_becomes_read_only_is_waited_for_by_who_has_a_log() {
    Busy::new("process").goes_on_meanwhile(READ_ONLY, READ_ONLY_ADVICE, true);
}

#[test]
fn a_store_that_becomes_read_only_is_waited_for_by_who_writes_there() {
    Busy::new("shared").refuses_meanwhile(READ_ONLY, READ_ONLY_ADVICE);
}

#[test]
fn a_store_that_is_full_is_waited_for_by_who_has_a_log() {
    Busy::new("process").goes_on_meanwhile(FULL, FULL_ADVICE, true);
}

#[test]
fn a_store_that_is_full_is_waited_for_by_who_writes_there() {
    Busy::new("shared").refuses_meanwhile(FULL, FULL_ADVICE);
}
