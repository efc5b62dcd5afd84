//! What waits elsewhere, done meanwhile on processors here that idle.
//!
//! A burst of writes leaves more jobs than the workers do at once, while the database's own
//! processors idle. Of the jobs that wait there the last one is taken back if it is expected to end
//! sooner here, at the lowest priority. The estimate rests on how long opening files and reading
//! bytes takes there, and on how much the processors idled before. A job that proves too slow here
//! is given away again, unless what is left takes less here than all of it there. The next job is
//! then tried later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;
use firn_storage::Load;

use super::super::caught::caught;
use super::super::ran::Ran;
use super::state::{Job, Place, Ready, Running, State};
use super::{Shared, submit};
use crate::error::Result;
use crate::spec::{JobResult, JobSpec};

/// An attempt on idle processors.
#[derive(Debug)]
pub(super) struct Idle {
    stem: String,
    /// When it is given away again, if too much of it is left.
    pub(super) deadline: Duration,
    /// It was, and is asked to stop.
    pub(super) is_late: bool,
    /// When it was looked at last how far it is, and how many entries it had gone over.
    looked: (Duration, u64),
}

/// How long jobs took of late, at one slot there and on idle processors here; for compactions and
/// for collections.
#[derive(Debug, Default)]
pub(super) struct Rates {
    there: [Option<There>; 2],
    /// Seconds for a byte of inputs, opening apart, and when that was found.
    here: [Option<(f64, Duration)>; 2],
}

/// What jobs take there: small ones are mostly opening.
#[derive(Clone, Copy, Debug)]
struct There {
    /// Seconds until the first byte is read.
    open: f64,
    /// Seconds after that and bytes of inputs, over all jobs, later ones weighing more. A small job
    /// that took long says little of large ones.
    seconds: f64,
    bytes: f64,
}

/// How many processors idle.
#[derive(Debug)]
pub(super) struct Idleness {
    /// When looking began, and the processor time taken by then; `None` while something is done on
    /// what idles.
    mark: Option<(Duration, Duration)>,
    /// As was found last.
    processors: f64,
    /// How long a look takes.
    look: Duration,
}

/// Share of the latest job in what is expected of the next, where all are alike.
const LATEST: f64 = 0.3;

/// What jobs took here tells of the next one for so long.
const HERE_HOLDS: Duration = Duration::from_secs(10);

/// An attempt here may take so many times as long as was expected, and [`LATE_MIN`] at least.
const LATE: f64 = 2.0;
const LATE_MIN: Duration = Duration::from_millis(500);

/// Of one processor so much has to idle.
const PROCESSORS_MIN: f64 = 0.25;

/// How long a look takes: doubled after each job that took too long, and back at `LOOK_MIN` after
/// one that did not.
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(10);

impl There {
    /// What was `known`, and one more job that read so many `bytes` and `ran` so.
    fn learned(known: Option<Self>, bytes: u64, ran: &Ran) -> Self {
        let opened = ran.opened.min(ran.ran);
        let (open, seconds) = (opened.as_secs_f64(), (ran.ran - opened).as_secs_f64());
        let bytes = bytes as f64;
        let Some(known) = known else { return Self { open, seconds, bytes } };
        // What is small beside those before it tells the less, and has them forgotten the less.
        let weight = (bytes / (LATEST * known.bytes)).min(1.0);
        let kept = 1.0 - LATEST * weight;
        Self {
            open: known.open + LATEST * (open - known.open),
            seconds: known.seconds * kept + weight * seconds,
            bytes: known.bytes * kept + weight * bytes,
        }
    }

    /// Seconds for a byte of inputs after the first.
    fn byte(&self) -> f64 {
        self.seconds / self.bytes
    }
}

impl Rates {
    /// A job that reads what `spec` does took so long at a slot there.
    pub(super) fn was_done_there(&mut self, spec: &JobSpec, ran: &Ran) {
        if spec.input_bytes() > 0 {
            let known = &mut self.there[kind_of(spec)];
            *known = Some(There::learned(*known, spec.input_bytes(), ran));
        }
    }

    /// What opening takes here is not measured: as much as there is assumed.
    fn was_done_here(&mut self, spec: &JobSpec, ran: Duration, now: Duration) {
        let open = self.there[kind_of(spec)].map_or(0.0, |there| there.open);
        let worked = ran.saturating_sub(Duration::try_from_secs_f64(open).unwrap_or(Duration::MAX));
        if let Some(rate) = rate_of(spec, worked) {
            self.here[kind_of(spec)] = Some((rate, now));
        }
    }

    /// How long `spec` takes there once it has begun.
    pub(super) fn alone(&self, spec: &JobSpec) -> Option<Duration> {
        let there = self.there[kind_of(spec)]?;
        Duration::try_from_secs_f64(there.open + spec.input_bytes() as f64 * there.byte()).ok()
    }

    /// How long `spec` may take here where so many `processors` idle, if it is expected to be done
    /// sooner here than there. Before it there come so many jobs of so many bytes (`jobs_before`,
    /// `bytes_before`), done at `width` slots.
    fn allow(
        &self,
        spec: &JobSpec,
        (jobs_before, bytes_before): (usize, u64),
        width: usize,
        processors: f64,
        now: Duration,
    ) -> Option<Duration> {
        let there = self.there[kind_of(spec)]?;
        let found = self.here[kind_of(spec)].filter(|(_, at)| now.saturating_sub(*at) < HERE_HOLDS);
        let here = found.map_or(there.byte() / processors.min(1.0), |(here, _)| here);
        let bytes = spec.input_bytes() as f64;
        let before = jobs_before as f64 * there.open + bytes_before as f64 * there.byte();
        let ends_here = there.open + bytes * here;
        let ends_there = before / width as f64 + there.open + bytes * there.byte();
        let late = Duration::try_from_secs_f64(LATE * ends_here).unwrap_or(Duration::MAX);
        (ends_here < ends_there).then_some(late.max(LATE_MIN))
    }
}

impl Default for Idleness {
    fn default() -> Self {
        Self { mark: None, processors: 0.0, look: LOOK_MIN }
    }
}

impl Idleness {
    /// Looks at `load` while `jobs` are done on what idles; how many more may be.
    fn room(&mut self, load: &dyn Load, jobs: usize, now: Duration) -> usize {
        if jobs > 0 {
            // What they take is not to be told from the rest.
            self.mark = None;
        } else {
            let used = load.used();
            let (since, before) = *self.mark.get_or_insert((now, used));
            let looked = now.saturating_sub(since);
            if looked >= self.look {
                let busy = used.saturating_sub(before).as_secs_f64() / looked.as_secs_f64();
                self.processors = load.processors() - busy;
                self.mark = Some((now, used));
            }
        }
        let jobs_max = if self.processors < PROCESSORS_MIN { 0 } else { (self.processors as usize).max(1) };
        jobs_max.saturating_sub(jobs)
    }

    /// A job that was done on what idles has ended, or took too long.
    fn learn(&mut self, is_late: bool) {
        self.look = if is_late { (self.look * 2).min(LOOK_MAX) } else { LOOK_MIN };
        if is_late {
            self.processors = 0.0;
        }
    }
}

fn kind_of(spec: &JobSpec) -> usize {
    usize::from(matches!(spec, JobSpec::Collect(_)))
}

fn rate_of(spec: &JobSpec, ran: Duration) -> Option<f64> {
    (spec.input_bytes() > 0).then(|| ran.as_secs_f64() / spec.input_bytes() as f64)
}

/// How long what is left of a compaction will take that has gone over `passed` entries until `now`.
/// The rate is that since it was `looked` at last; `None` where it does not say.
fn left_of(
    spec: &JobSpec,
    (since, before): (Duration, u64),
    (now, passed): (Duration, u64),
) -> Option<Duration> {
    let JobSpec::Compact(spec) = spec else { return None };
    // A job over a part of the keys goes over less than all entries, so that it seems to have more
    // left than it has.
    let all: u64 = spec.inputs.iter().map(|input| input.table.entry_count).sum();
    let lately = Some(passed.saturating_sub(before)).filter(|lately| *lately > 0)?;
    let left = all.saturating_sub(passed) as f64 / lately as f64;
    Duration::try_from_secs_f64(now.saturating_sub(since).as_secs_f64() * left).ok()
}

impl State {
    /// Asks what takes too long on idle processors to stop, but for what has less left than all of
    /// it would take there.
    pub(super) fn stop_late(&mut self, now: Duration) {
        for running in self.jobs.values_mut() {
            let Place::Idle(idle) = &mut running.place else { continue };
            if now < idle.deadline || idle.is_late {
                continue;
            }
            let (spec, passed) = (&running.job.spec, running.handle.passed_count());
            let there = self.rates.alone(spec);
            let left = left_of(spec, idle.looked, (now, passed));
            match left.filter(|left| there.is_some_and(|there| *left <= there)) {
                Some(left) => {
                    idle.deadline = now.saturating_add(left.mul_f64(LATE).max(LATE_MIN / 5));
                    idle.looked = (now, passed);
                }
                None => {
                    idle.is_late = true;
                    running.handle.cancel();
                }
            }
        }
    }
}

impl Shared {
    /// Jobs that the first executor does at a time, if it says.
    pub(super) fn first_width(&self) -> Option<usize> {
        let width = caught("asking how many jobs run", || Ok(self.first.width()));
        width.ok().flatten().map(|width| width.max(1))
    }

    /// The waiting job that would begin last there, and how long idle processors here may take.
    /// Where writers are about to stop it is the last relief. `None` unless they are expected to
    /// end it sooner.
    pub(super) fn take_waiting(&self, state: &mut State, now: Duration) -> Option<Ready> {
        let (idle, load) = self.idle.get()?;
        let jobs = state.idle_count();
        let room = state.idleness.room(&**load, jobs, now);
        if room == 0 || jobs >= idle.width().unwrap_or(1) || state.trust.is_doubted() || state.is_closed {
            return None;
        }
        let width = self.first_width().unwrap_or(1);
        if state.away().count() <= width {
            return None;
        }
        let is_urgent = |running: &&Running| running.job.spec.is_relief() && running.handle.is_waiting();
        let is_near = state.turn.is_stall_near(now, &self.patience);
        let urgent = is_near.then(|| state.away().rev().find(is_urgent)).flatten();
        // Bulk work is begun after relief.
        let last =
            urgent.or_else(|| state.away().rev().min_by_key(|running| running.job.spec.is_relief()))?;
        // The first executor's trust waits for the result of a probe.
        let is_probe = matches!(&last.place, Place::Away(away) if away.is_probe);
        let is_done = last.is_cancelled || last.handle.poll().is_some();
        let is_free = !is_done && !is_probe && !last.job.was_shared;
        let (number, spec) = (last.job.number, &last.job.spec);
        let (jobs, bytes) = state.before(spec);
        let before = (jobs.saturating_sub(1), bytes.saturating_sub(spec.input_bytes()));
        let allowed = state.rates.allow(spec, before, width, state.idleness.processors, now)?;
        let running = is_free.then(|| state.jobs.remove(&number)).flatten()?;
        Some(Ready::Share(running, allowed))
    }

    /// Takes a job back that waits, and does it on idle processors.
    pub(super) fn share(self: &Arc<Self>, running: Running, allowed: Duration) {
        let Running { mut job, handle, place, .. } = running;
        let Place::Away(away) = place else { return };
        // It may have begun all the same: what it leaves is removed once it has ended.
        handle.cancel();
        self.given_up.fetch_add(1, Ordering::Relaxed);
        self.lock().dead.push((handle, away.stem));
        job.was_shared = true;
        let stem = format!("{}-i", job.spec.output_stem());
        let idle = self.idle.get().filter(|_| stem.len() <= STEM_BYTES_MAX);
        // A spare file that it names may be with the attempt at the first executor.
        let spec = job.spec.with_stem(&stem).without_spare();
        let Some(Ok(handle)) = idle.map(|(idle, _)| submit(&**idle, spec)) else {
            return self.go_on(job, false);
        };
        let begun = self.clock.now();
        let deadline = begun.saturating_add(allowed);
        let place = Place::Idle(Idle { stem, deadline, is_late: false, looked: (begun, 0) });
        self.follow(Running { job, handle, begun, place, is_cancelled: false });
    }

    /// Gives a job its result that was tried on idle processors, or gives it away again.
    pub(super) fn settle_idle(
        self: &Arc<Self>,
        job: Job,
        idle: Idle,
        result: Result<JobResult>,
        (begun, ran): (Duration, Duration),
    ) {
        let is_late = idle.is_late && result.is_err();
        if is_late || result.is_ok() {
            let mut state = self.lock();
            state.idleness.learn(is_late);
            if !is_late {
                state.rates.was_done_here(&job.spec, ran, begun.saturating_add(ran));
            }
            self.fallbacks.count_idle(is_late);
        }
        match result {
            Ok(result) => {
                let queued = begun.saturating_sub(job.submitted);
                job.finisher.finish_ran(Ok(result), Ran { queued, ran, ..Ran::default() });
            }
            Err(_) => {
                // It failed here or was stopped, which says nothing of what comes of it elsewhere.
                self.discard(idle.stem);
                self.go_on(job, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds for a byte, as jobs of so many bytes tell that took so many milliseconds.
    fn byte(jobs: &[(u64, u64)]) -> f64 {
        let and = |known, (bytes, ms): &(u64, u64)| {
            Some(There::learned(known, *bytes, &Ran { ran: Duration::from_millis(*ms), ..Ran::default() }))
        };
        jobs.iter().fold(None, and).unwrap().byte() * 1e9
    }

    #[test]
    fn a_small_job_that_took_long_says_little_of_large_ones() {
        let (large, small) = ((100_000_000, 3_000), (64_000, 300));
        assert!((byte(&[large]) - 30.0).abs() < 1e-6);
        assert!(byte(&[large, small]) < 35.0);
        let many: Vec<_> = [large].into_iter().chain([small; 30]).collect();
        assert!(byte(&many) < 35.0, "{} of 30", byte(&many));
        assert!(byte(&[small, large]) < 35.0);
        assert!(byte(&[small]) > 4000.0, "nothing else is known");
        let slower = (100_000_000, 6_000);
        assert!(byte(&[large, slower, slower]) > 48.0, "large ones tell of each other");
    }
}
