//! What waits at a link, done meanwhile on processors here that idle.
//!
//! A burst of writes leaves more jobs than the workers do at once, while the database's own
//! processors idle. Of the jobs that wait there the last one is taken back if it is expected to end
//! sooner here, at the lowest priority. The estimate rests on how long opening files and reading
//! bytes takes there, and on how much the processors idled before. A job that proves too slow here
//! is given away again, unless what is left takes less here than all of it there. The next job is
//! then tried later.

use std::time::Duration;

use super::about::About;

/// An attempt on idle processors.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) begun: Duration,
    /// When it is given away again, if too much of it is left.
    deadline: Duration,
    /// It was, and is asked to stop.
    pub(super) is_late: bool,
    /// When it was looked at last how far it is, and how many entries it had gone over.
    looked: (Duration, u64),
}

/// How long jobs took of late at one slot of a link; for compactions and for blob GC.
#[derive(Debug, Default)]
pub(super) struct There {
    kinds: [Option<Pace>; 2],
}

/// What jobs take at a link: small ones are mostly opening.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Seconds until the first byte is read.
    open: f64,
    /// Seconds after that and bytes of inputs, over all jobs, later ones weighing more. A small job
    /// that took long says little of large ones.
    seconds: f64,
    bytes: f64,
}

/// How long jobs took of late on idle processors: seconds for a byte of inputs, opening apart, and
/// when that was found; for compactions and for blob GC.
#[derive(Debug, Default)]
pub(super) struct Here {
    kinds: [Option<(f64, Duration)>; 2],
}

/// How many processors idle.
#[derive(Debug)]
pub(super) struct Idleness {
    /// Jobs that are done there at a time at most; 0 = what idles is not to be used.
    width: usize,
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

impl Attempt {
    /// Of a job that may take so long from the moment `begun`.
    pub(super) fn new(begun: Duration, allowed: Duration) -> Self {
        let deadline = begun.saturating_add(allowed);
        Self { begun, deadline, is_late: false, looked: (begun, 0) }
    }

    /// Whether it is to be found out whether it is too slow.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        now >= self.deadline && !self.is_late
    }

    /// Until when it may go on that has gone over `passed` entries, if what is left takes less here
    /// than all of it takes `there`.
    pub(super) fn extension(
        &self,
        about: &About,
        passed: u64,
        there: Option<Duration>,
        now: Duration,
    ) -> Option<Duration> {
        let left = self.left(about, passed, now).filter(|left| there.is_some_and(|there| *left <= there))?;
        Some(now.saturating_add(left.mul_f64(LATE).max(LATE_MIN / 5)))
    }

    /// It may go on until then.
    pub(super) fn extend(&mut self, until: Duration, passed: u64, now: Duration) {
        self.deadline = until;
        self.looked = (now, passed);
    }

    /// How long what is left of a compaction will take that has gone over `passed` entries. The
    /// rate is that since it was looked at last; `None` where it does not say.
    fn left(&self, about: &About, passed: u64, now: Duration) -> Option<Duration> {
        let (since, before) = self.looked;
        // A job over a part of the keys goes over less than all entries, so that it seems to have
        // more left than it has.
        let all = about.entries?;
        let lately = Some(passed.saturating_sub(before)).filter(|lately| *lately > 0)?;
        let left = all.saturating_sub(passed) as f64 / lately as f64;
        Duration::try_from_secs_f64(now.saturating_sub(since).as_secs_f64() * left).ok()
    }
}

impl Pace {
    /// What was `known`, and one more job that read so many `bytes`, and took so long to open and
    /// in all.
    fn learned(known: Option<Self>, bytes: u64, opened: Duration, ran: Duration) -> Self {
        let opened = opened.min(ran);
        let (open, seconds) = (opened.as_secs_f64(), (ran - opened).as_secs_f64());
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

impl There {
    /// A job took so long to open, and in all.
    pub(super) fn learn(&mut self, about: &About, opened: Duration, ran: Duration) {
        if about.bytes > 0 {
            let known = &mut self.kinds[kind_of(about)];
            *known = Some(Pace::learned(*known, about.bytes, opened, ran));
        }
    }

    /// Seconds until a job's first byte is read.
    pub(super) fn open(&self, about: &About) -> Option<f64> {
        self.kinds[kind_of(about)].map(|pace| pace.open)
    }

    /// How long a job takes once it has begun.
    pub(super) fn alone(&self, about: &About) -> Option<Duration> {
        let pace = self.kinds[kind_of(about)]?;
        Duration::try_from_secs_f64(pace.open + about.bytes as f64 * pace.byte()).ok()
    }

    /// How long a job may take on idle processors, if it is expected to be done sooner there than
    /// at the link. Before it there come so many jobs of so many bytes (`before`), done at `width`
    /// slots. A byte takes so many seconds `here`, if that is known.
    pub(super) fn allow(
        &self,
        about: &About,
        before: (usize, u64),
        width: usize,
        here: Option<f64>,
        idleness: &Idleness,
    ) -> Option<Duration> {
        let pace = self.kinds[kind_of(about)]?;
        let here = here.unwrap_or(pace.byte() / idleness.processors.min(1.0));
        let bytes = about.bytes as f64;
        let (jobs_before, bytes_before) = before;
        let before = jobs_before as f64 * pace.open + bytes_before as f64 * pace.byte();
        let ends_here = pace.open + bytes * here;
        let ends_there = before / width as f64 + pace.open + bytes * pace.byte();
        let late = Duration::try_from_secs_f64(LATE * ends_here).unwrap_or(Duration::MAX);
        (ends_here < ends_there).then_some(late.max(LATE_MIN))
    }
}

impl Here {
    /// A job took so long in all. What opening takes here is not measured: so many seconds (`open`)
    /// as at a link are assumed.
    pub(super) fn learn(&mut self, about: &About, open: Option<f64>, ran: Duration, now: Duration) {
        let open = Duration::try_from_secs_f64(open.unwrap_or(0.0)).unwrap_or(Duration::MAX);
        if about.bytes > 0 {
            let byte = ran.saturating_sub(open).as_secs_f64() / about.bytes as f64;
            self.kinds[kind_of(about)] = Some((byte, now));
        }
    }

    /// Seconds for a byte, unless that was found too long ago.
    pub(super) fn byte(&self, about: &About, now: Duration) -> Option<f64> {
        let found = self.kinds[kind_of(about)];
        found.filter(|(_, at)| now.saturating_sub(*at) < HERE_HOLDS).map(|(byte, _)| byte)
    }
}

impl Default for Idleness {
    fn default() -> Self {
        Self { width: 0, mark: None, processors: 0.0, look: LOOK_MIN }
    }
}

impl Idleness {
    /// Of the `processors` this process has taken so much time by now, while so many `jobs` are
    /// done on what idles, which does `width` at a time.
    pub(super) fn note(&mut self, width: usize, jobs: usize, load: (Duration, f64), now: Duration) {
        self.width = width;
        if jobs > 0 {
            // What they take is not to be told from the rest.
            self.mark = None;
            return;
        }
        let (used, processors) = load;
        let (since, before) = *self.mark.get_or_insert((now, used));
        let looked = now.saturating_sub(since);
        if looked >= self.look {
            let busy = used.saturating_sub(before).as_secs_f64() / looked.as_secs_f64();
            self.processors = processors - busy;
            self.mark = Some((now, used));
        }
    }

    /// How many more jobs may be done on what idles beside so many `jobs`.
    pub(super) fn room(&self, jobs: usize) -> usize {
        let idle = if self.processors < PROCESSORS_MIN { 0 } else { (self.processors as usize).max(1) };
        idle.min(self.width).saturating_sub(jobs)
    }

    /// A job that was done on what idles has ended, or took too long.
    pub(super) fn learn(&mut self, is_late: bool) {
        self.look = if is_late { (self.look * 2).min(LOOK_MAX) } else { LOOK_MIN };
        if is_late {
            self.processors = 0.0;
        }
    }
}

fn kind_of(about: &About) -> usize {
    usize::from(about.entries.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds for a byte, as jobs of so many bytes tell that took so many milliseconds.
    fn byte(jobs: &[(u64, u64)]) -> f64 {
        let and = |known, (bytes, ms): &(u64, u64)| {
            Some(Pace::learned(known, *bytes, Duration::ZERO, Duration::from_millis(*ms)))
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
