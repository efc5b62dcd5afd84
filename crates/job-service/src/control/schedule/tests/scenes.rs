//! Decisions as text, in `control/schedule/scenes`.
//!
//! ```text
//! schedule                              what is decided, by the rule that is given or the default
//!   worker 1 slots=2 zone=east          a worker; next to it, `near`, `far`, `open`, `others`, `gives_way`
//!     runs 9 deep done=300MiB           a job of 1000 MiB that it has, unless `bytes` says otherwise
//!   job 1 l0 100MiB stalls_in=20s       a job that waits; next to it, `tenant`, `zone`, `waited`, `barred`
//!   owed a 100MiB                       what the tenant is owed for each unit of its weight
//! shares                                accounts of tenants, which `schedule` goes by from then on
//!   weight a 3                          the tenant's weight
//!   waiting a b                         which tenants have jobs that wait
//!   lease a 16GiB                       a job of that size was leased
//! ```
//! Without a zone files and workers are everywhere, without a tenant a job has one of its own. A
//! worker does 100 MiB a second of near files and 10 of far ones, after 50 ms.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::super::{Ledger, Scheduler};
use super::*;

#[path = "../../../../../jobs/tests/it/scenes.rs"]
mod script;

use script::Command;

/// What is kept from one command to the next.
#[derive(Default)]
struct Scene {
    tenants: Vec<String>,
    zones: Vec<String>,
    ledger: Ledger,
    owed: BTreeMap<TenantId, f64>,
}

#[test]
fn decisions_are_those_that_their_scenes_show() {
    script::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/schedule/scenes"), Scene::answer);
}

impl Scene {
    fn answer(&mut self, command: &Command<'_>) -> String {
        match (command.name, &command.arguments[..]) {
            ("schedule", []) => self.decide(Scheduler::default(), &command.input),
            ("schedule", [rule]) => {
                self.decide(Scheduler::from_name(rule).expect("a scheduler"), &command.input)
            }
            ("shares", []) => self.share(&command.input),
            other => panic!("no command {other:?}"),
        }
    }

    fn decide(&mut self, scheduler: Scheduler, lines: &[&str]) -> String {
        let mut view = View { owed: self.owed.clone(), ..View::default() };
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["worker", id, ref rest @ ..] => view.workers.push(self.worker(id, rest)),
                ["runs", id, lane, ref rest @ ..] => {
                    let running = self.running(id, lane, rest);
                    view.workers.last_mut().expect("a worker that runs it").running.push(running);
                }
                ["job", id, lane, size, ref rest @ ..] => view.waiting.push(self.job(id, lane, size, rest)),
                ["owed", tenant, size] => drop(view.owed.insert(self.tenant(tenant), bytes(size))),
                _ => panic!("no line of a schedule: `{line}`"),
            }
        }
        shown(&view, &scheduler.decide(&view, 0))
    }

    fn share(&mut self, lines: &[&str]) -> String {
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["weight", tenant, weight] => {
                    let tenant = self.tenant(tenant);
                    self.ledger.set_weight(tenant, weight.parse().unwrap());
                }
                ["waiting", ref tenants @ ..] => {
                    let tenants = tenants.iter().map(|tenant| self.tenant(tenant)).collect();
                    self.ledger.set_waiting(&tenants);
                }
                ["lease", tenant, size] => {
                    let tenant = self.tenant(tenant);
                    self.ledger.lease(tenant, bytes(size) as u64);
                }
                _ => panic!("no line of shares: `{line}`"),
            }
        }
        self.owed = self.ledger.owed();
        let shown = |name: &String| {
            let owed = self.owed.get(&self.known(name)).map_or(0.0, |owed| owed / MIB as f64);
            match owed {
                behind if behind > 0.0 => format!("{name}: {behind:.0} MiB behind"),
                ahead if ahead < 0.0 => format!("{name}: {:.0} MiB ahead", -ahead),
                _ => format!("{name}: even"),
            }
        };
        self.tenants.iter().map(shown).collect::<Vec<_>>().join("\n")
    }

    fn worker(&mut self, id: &str, attributes: &[&str]) -> Worker {
        let mut worker = worker(id.parse().unwrap(), 0, 1);
        for (key, value) in pairs(attributes) {
            match key {
                "slots" => worker.slots = value.parse().unwrap(),
                "zone" => worker.zone = self.zone(value),
                "near" => worker.near.bytes_per_second = bytes(value.strip_suffix("/s").expect("a second")),
                "far" => worker.far.bytes_per_second = bytes(value.strip_suffix("/s").expect("a second")),
                "open" => (worker.near.open, worker.far.open) = (time(value), time(value)),
                "others" => worker.elsewhere.slots = value.parse().unwrap(),
                "gives_way" => worker.elsewhere.gives_way = value.split(',').map(time).collect(),
                other => panic!("no attribute `{other}` of a worker"),
            }
        }
        worker
    }

    fn running(&mut self, id: &str, lane: &str, attributes: &[&str]) -> Running {
        let mut running = running(id.parse().unwrap(), self::lane(lane), 0);
        running.zone = Zone::EVERYWHERE;
        for (key, value) in pairs(attributes) {
            match key {
                "done" => running.bytes_done = bytes(value) as u64,
                "bytes" => running.bytes = bytes(value) as u64,
                "zone" => running.zone = self.zone(value),
                "tenant" => running.tenant = self.tenant(value),
                "waited" => running.waited = time(value),
                other => panic!("no attribute `{other}` of a job that runs"),
            }
        }
        running
    }

    fn job(&mut self, id: &str, lane: &str, size: &str, attributes: &[&str]) -> Waiting {
        let mut job = job(id.parse().unwrap(), self::lane(lane), 0);
        (job.bytes, job.zone) = (bytes(size) as u64, Zone::EVERYWHERE);
        for (key, value) in pairs(attributes) {
            match key {
                "stalls_in" => job.stalls_in = Some(time(value)),
                "zone" => job.zone = self.zone(value),
                "tenant" => job.tenant = self.tenant(value),
                "waited" => job.waited = time(value),
                "barred" => {
                    job.refused_by = value.split(',').map(|id| WorkerId(id.parse().unwrap())).collect()
                }
                other => panic!("no attribute `{other}` of a job that waits"),
            }
        }
        job
    }

    fn tenant(&mut self, name: &str) -> TenantId {
        if !self.tenants.iter().any(|known| known == name) {
            self.tenants.push(name.to_owned());
        }
        self.known(name)
    }

    /// Above the numbers that jobs without a tenant have for it.
    fn known(&self, name: &str) -> TenantId {
        let at = self.tenants.iter().position(|known| known == name);
        TenantId(1_000_000 + at.expect("a tenant that was named") as u32)
    }

    fn zone(&mut self, name: &str) -> Zone {
        let at = self.zones.iter().position(|known| known == name).unwrap_or_else(|| {
            self.zones.push(name.to_owned());
            self.zones.len() - 1
        });
        Zone(1 + at as u32)
    }
}

/// The decisions, in order, and the jobs that go on waiting.
fn shown(view: &View, decisions: &[Decision]) -> String {
    let mut free: BTreeMap<WorkerId, u32> =
        view.workers.iter().map(|worker| (worker.id, worker.free())).collect();
    let mut waiting: Vec<u64> = view.waiting.iter().map(|job| job.id.0).collect();
    let mut lines = Vec::new();
    for decision in decisions {
        match decision {
            Decision::Lease { job, worker } => {
                let left = free.get_mut(worker).expect("a worker of the view");
                let instead = if *left == 0 { " in place of deep work of another control plane" } else { "" };
                lines.push(format!("worker {} takes job {}{instead}", worker.0, job.0));
                *left = left.saturating_sub(1);
                waiting.retain(|id| *id != job.0);
            }
            Decision::Preempt { job, worker, l0 } => {
                lines.push(format!("worker {} stops job {} for job {}", worker.0, job.0, l0.0));
            }
        }
    }
    if !waiting.is_empty() {
        let waiting: Vec<String> = waiting.iter().map(u64::to_string).collect();
        lines.push(format!("waiting: {}", waiting.join(", ")));
    }
    lines.join("\n")
}

fn pairs<'s>(attributes: &[&'s str]) -> impl Iterator<Item = (&'s str, &'s str)> {
    attributes.iter().map(|word| word.split_once('=').expect("an attribute, as `slots=2`"))
}

fn lane(name: &str) -> Lane {
    match name {
        "l0" => Lane::L0,
        "deep" => Lane::Deep,
        other => panic!("no lane `{other}`"),
    }
}

/// Of `100MiB` or `-2GiB`.
fn bytes(text: &str) -> f64 {
    let of = |unit: &str| text.strip_suffix(unit).map(|count| count.parse::<f64>().unwrap());
    of("MiB").or_else(|| of("GiB").map(|count| count * 1024.0)).expect("MiB or GiB") * MIB as f64
}

/// Of `20s` or `50ms`.
fn time(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(count) => Duration::from_millis(count.parse().unwrap()),
        None => Duration::from_secs(text.strip_suffix('s').expect("s or ms").parse().unwrap()),
    }
}
