//! What would wait elsewhere, done meanwhile on processors here that idle.
//!
//! Nobody can say how much of a processor will idle. A thread of the lowest priority gets just that, so that it is tried: how long jobs
//! took is remembered, here and there, and where one takes far longer than was expected it is given away after all.

use std::sync::Arc;
use std::time::Duration;

use firn_format::file_name::STEM_BYTES_MAX;

use super::super::ran::Ran;
use super::Shared;
use super::state::{Job, Place, Running};
use crate::error::Result;
use crate::spec::{JobResult, JobSpec};

/// An attempt on idle processors.
#[derive(Debug)]
pub(super) struct Idle {
    stem: String,
    /// When it is given away after all.
    pub(super) deadline: Duration,
    /// It was, and is asked to stop.
    pub(super) is_late: bool,
}

/// Seconds for a byte of inputs, of late, on one processor here or by one slot there; for compactions and for collections.
#[derive(Debug, Default)]
pub(super) struct Rates {
    there: [Option<f64>; 2],
    /// With the moment when that was found.
    here: [Option<(f64, Duration)>; 2],
}

/// Share of the latest job in what is expected of the next.
const LATEST: f64 = 0.3;

/// What was found here is believed for so long: how much idles may have changed since.
const HERE_HOLDS: Duration = Duration::from_secs(10);

/// An attempt here may take so many times as long as was expected, here or there, whichever is more.
const LATE: f64 = 3.0;

/// Any attempt here may take as long as that.
const LATE_MIN: Duration = Duration::from_secs(1);

impl Rates {
    /// A job that reads what `spec` does was `ran` at a slot there.
    pub(super) fn was_done_there(&mut self, spec: &JobSpec, ran: Duration) {
        let Some(rate) = rate_of(spec, ran) else { return };
        let known = &mut self.there[kind_of(spec)];
        *known = Some(known.map_or(rate, |known| known + LATEST * (rate - known)));
    }

    /// It was here for `ran`, until `now`; it may not have been done by then.
    fn was_here(&mut self, spec: &JobSpec, ran: Duration, now: Duration) {
        let Some(rate) = rate_of(spec, ran) else { return };
        let known = &mut self.here[kind_of(spec)];
        let rate = known.map_or(rate, |(known, _)| known + LATEST * (rate - known));
        *known = Some((rate, now));
    }

    /// How long `spec` may take here, if it is expected to be done here sooner than there, after the `bytes_before` it which are read at `width` slots.
    fn allow(&self, spec: &JobSpec, (bytes_before, width): (u64, usize), now: Duration) -> Option<Duration> {
        let kind = kind_of(spec);
        let rate_there = self.there[kind]?;
        let found = self.here[kind].filter(|(_, at)| now.saturating_sub(*at) < HERE_HOLDS);
        // What is not known here is as it is there.
        let rate_here = found.map_or(rate_there, |(rate, _)| rate);
        let bytes = spec.input_bytes() as f64;
        let (ends_here, ends_there) =
            (bytes * rate_here, (bytes_before as f64 / width as f64 + bytes) * rate_there);
        let late = Duration::try_from_secs_f64(LATE * ends_there).unwrap_or(Duration::MAX);
        (ends_here < ends_there).then_some(late.max(LATE_MIN))
    }
}

fn kind_of(spec: &JobSpec) -> usize {
    usize::from(matches!(spec, JobSpec::Collect(_)))
}

fn rate_of(spec: &JobSpec, ran: Duration) -> Option<f64> {
    (spec.input_bytes() > 0).then(|| ran.as_secs_f64() / spec.input_bytes() as f64)
}

impl Shared {
    /// Gives the job to the first executor, or to the idle one while it would only wait there.
    pub(super) fn share_or_ask(self: &Arc<Self>, mut job: Job) {
        let Some(idle) = self.idle.get().filter(|_| !job.was_shared) else { return self.ask(job, false) };
        let now = self.clock.now();
        let (here_width, there_width) = (idle.width(), self.first.width().max(1));
        let allowed = {
            let state = self.lock();
            let (count_before, bytes_before) = state.before(&job.spec);
            let waits = count_before >= there_width && state.idle_count() < here_width;
            waits.then(|| state.rates.allow(&job.spec, (bytes_before, there_width), now)).flatten()
        };
        let stem = format!("{}-i", job.spec.output_stem());
        let Some(allowed) = allowed.filter(|_| stem.len() <= STEM_BYTES_MAX) else {
            return self.ask(job, false);
        };
        job.was_shared = true;
        match idle.submit(job.spec.with_stem(&stem)) {
            Err(_) => self.ask(job, false),
            Ok(handle) => {
                let deadline = now.saturating_add(allowed);
                let place = Place::Idle(Idle { stem, deadline, is_late: false });
                self.follow(Running { job, handle, begun: now, place, is_cancelled: false });
            }
        }
    }

    /// Gives a job its result that was tried on idle processors, or gives it away after all.
    pub(super) fn settle_idle(
        self: &Arc<Self>,
        job: Job,
        idle: Idle,
        result: Result<JobResult>,
        (begun, ran): (Duration, Duration),
    ) {
        let now = self.clock.now();
        if idle.is_late || result.is_ok() {
            self.lock().rates.was_here(&job.spec, ran, now);
            self.fallbacks.count_idle(result.is_err());
        }
        match result {
            Ok(result) => {
                let queued = begun.saturating_sub(job.submitted);
                job.finisher.finish_ran(Ok(result), Ran { queued, ran, ..Ran::default() });
            }
            Err(_) => {
                // It failed here or was stopped, which says nothing of what comes of it elsewhere.
                self.remove_outputs(&idle.stem);
                self.go_on(job, false);
            }
        }
    }
}
