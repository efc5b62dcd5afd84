//! Writes that were acknowledged as `shared` on a failing store: killed, stopped and taken over by
//! the real program.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use firn_s3_server::Faults;
use rustix::process::{Pid, Signal, kill_process};

use crate::object_store::{LOCATION, Scene};
use crate::program::text;
use crate::rounds::{self, SETTINGS, value};
use crate::serve::Serving;

/// Clients that write at once.
const CLIENTS: u32 = 4;

fn start(scene: &Scene, machine: usize) -> Serving {
    let settings = scene.path("settings.toml");
    std::fs::write(&settings, format!("durability = \"shared\"\n{SETTINGS}")).expect("written");
    let mut command = scene.command();
    command.args(["serve", "--shared", LOCATION, "--take-over", "--config", text(&settings)]);
    Serving::start_as(&mut command, &scene.path(&format!("machine-{machine}"))).expect("it serves")
}

fn signal(serving: &Serving, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(serving.process.id()).expect("an id")).expect("an id");
    kill_process(pid, signal).expect("it is there");
}

/// What each key was when a write to it was last acknowledged, and what it was to become when the
/// answer did not come.
#[derive(Clone, Default)]
struct Written {
    acknowledged: BTreeMap<u32, u32>,
    unanswered: BTreeMap<u32, Vec<u32>>,
}

impl Written {
    /// Writes the keys of client `number` until there is no answer, or an error.
    fn write(&mut self, serving: &Serving, number: u32, load: &Load) -> Option<redis::RedisError> {
        let mut client = rounds::connect(&serving.address);
        client.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        for round in 0.. {
            if load.stops.load(Ordering::Relaxed) {
                break;
            }
            let key = (round * 7 % 150) * CLIENTS + number;
            let before = self.acknowledged.get(&key).copied().unwrap_or(0);
            let last = self.unanswered.get(&key).and_then(|tried| tried.last().copied()).unwrap_or(0);
            let next = before.max(last) + 1;
            let answer: redis::RedisResult<()> =
                redis::cmd("SET").arg(key).arg(value(key, next)).query(&mut client);
            match answer {
                Ok(()) => {
                    load.acknowledged.fetch_add(1, Ordering::Relaxed);
                    self.acknowledged.insert(key, next);
                    self.unanswered.remove(&key);
                }
                Err(error) => {
                    self.unanswered.entry(key).or_default().push(next);
                    return Some(error);
                }
            }
        }
        None
    }

    /// Each key is what it was acknowledged to be, or what was tried since.
    fn check(&mut self, serving: &Serving, what: &str) {
        let mut client = rounds::connect(&serving.address);
        for (key, written) in &mut self.acknowledged {
            let found: Option<Vec<u8>> = redis::cmd("GET").arg(key).query(&mut client).expect("a reply");
            let tried = self.unanswered.remove(key).unwrap_or_default();
            let is = |round: &u32| found.as_deref() == Some(&value(*key, *round)[..]);
            let is_there = std::iter::once(*written).chain(tried).find(is);
            *written = is_there.unwrap_or_else(|| {
                let head =
                    found.map(|found| String::from_utf8_lossy(&found[..10.min(found.len())]).into_owned());
                panic!("{what}: key {key} of round {written} is {head:?}")
            });
        }
    }
}

/// Clients at work.
#[derive(Debug, Default)]
struct Load {
    stops: AtomicBool,
    /// Writes of all of them.
    acknowledged: AtomicU32,
}

impl Load {
    /// Waits a while, and until there are more acknowledged writes than a few.
    fn wait(&self) {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(1500));
        while self.acknowledged.load(Ordering::Relaxed) <= 20 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{self:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// All clients write until `end` has happened and they have noticed; what they were told at the
/// end.
fn load(
    serving: &Serving,
    written: &mut [Written],
    end: impl FnOnce(&Load),
) -> Vec<Option<redis::RedisError>> {
    let load = Load::default();
    std::thread::scope(|scope| {
        let load = &load;
        let clients: Vec<_> = written
            .iter_mut()
            .zip(0..)
            .map(|(written, number)| scope.spawn(move || written.write(serving, number, load)))
            .collect();
        end(load);
        load.stops.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    })
}

#[test]
fn no_machine_that_is_lost_takes_an_acknowledged_write_with_it() {
    let scene = Scene::new();
    let mut written = vec![Written::default(); CLIENTS as usize];
    let mut stopped: Option<Serving> = None;
    for machine in 0..5 {
        scene.server().set_faults(Faults { refused_per_mille: 25, lost_per_mille: 25, ..Faults::default() });
        let mut serving = start(&scene, machine);
        for written in &mut written {
            written.check(&serving, &format!("machine {machine}"));
        }
        if let Some(mut before) = stopped.take() {
            // It sleeps no more, and does not know what it missed.
            signal(&before, Signal::CONT);
            let errors = load(&before, &mut written.clone(), |_| std::thread::sleep(Duration::from_secs(2)));
            for error in errors {
                let error = error.expect("it acknowledges nothing").to_string();
                assert!(
                    error.contains("opened on another machine") || error.contains("writes are refused"),
                    "{error}"
                );
            }
            before.process.kill().expect("it is killed");
            before.process.wait().expect("it ends");
        }
        if machine % 2 == 0 {
            load(&serving, &mut written, |load| {
                load.wait();
                signal(&serving, Signal::KILL);
            });
            serving.process.wait().expect("it ends");
        } else {
            load(&serving, &mut written, Load::wait);
            signal(&serving, Signal::STOP);
            stopped = Some(serving);
        }
    }
}
