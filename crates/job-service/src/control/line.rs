//! Jobs that wait and differ in nothing but bytes and age, so that the first of them are found
//! without a look at all.
//!
//! ```text
//!   line ─► blocks, by number of job ─► jobs
//!             └─ the most bytes and the earliest submission of any: no job of the block comes before one that had both
//! ```

use std::time::Duration;

use super::view::JobId;

/// Jobs of a block at most: a round looks at every block, and at every job of the blocks that may
/// hold the next.
const BLOCK_JOBS_MAX: usize = 64;

/// Neighbours of so many jobs together become one block.
const MERGE_JOBS_MAX: usize = BLOCK_JOBS_MAX / 2;

/// A job that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: JobId,
    /// Of inputs.
    pub(super) bytes: u64,
    pub(super) submitted: Duration,
}

/// Up to 64 jobs, by number; never none.
#[derive(Clone, Debug)]
pub(super) struct Block {
    jobs: Vec<Entry>,
    first: Entry,
}

/// Jobs by number. Insertion and removal look at one block, and move the blocks behind it where one
/// comes or goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    blocks: Vec<Block>,
    count: usize,
    bytes: u128,
}

impl Block {
    fn new(jobs: Vec<Entry>) -> Option<Self> {
        let first = *jobs.first()?;
        let mut block = Self { jobs, first };
        block.bound();
        Some(block)
    }

    fn bound(&mut self) {
        let id = self.jobs.first().map_or(self.first.id, |job| job.id);
        let bytes = self.jobs.iter().map(|job| job.bytes).max().unwrap_or_default();
        let submitted = self.jobs.iter().map(|job| job.submitted).min().unwrap_or_default();
        self.first = Entry { id, bytes, submitted };
    }

    /// A job that comes no later than any here: the least number, the most bytes and the earliest
    /// submission.
    pub(super) fn first(&self) -> Entry {
        self.first
    }

    pub(super) fn jobs(&self) -> &[Entry] {
        &self.jobs
    }
}

impl Line {
    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Entry> {
        self.blocks.iter().flat_map(|block| &block.jobs)
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Of inputs of all jobs.
    pub(super) fn bytes(&self) -> u128 {
        self.bytes
    }

    /// When the oldest was submitted.
    pub(super) fn oldest(&self) -> Option<Duration> {
        self.blocks.iter().map(|block| block.first.submitted).min()
    }

    /// Adds a job that is not here.
    pub(super) fn insert(&mut self, job: Entry) {
        self.count += 1;
        self.bytes += u128::from(job.bytes);
        let at = self.blocks.partition_point(|block| block.first.id <= job.id).saturating_sub(1);
        let is_last = at + 1 >= self.blocks.len();
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.extend(Block::new(vec![job]));
            return;
        };
        let place = block.jobs.partition_point(|one| one.id < job.id);
        if block.jobs.len() < BLOCK_JOBS_MAX {
            block.jobs.insert(place, job);
            block.bound();
            return;
        }
        // Jobs that come one after the other fill their blocks.
        let is_behind = is_last && place == block.jobs.len();
        let mut behind = block.jobs.split_off(if is_behind { place } else { BLOCK_JOBS_MAX / 2 });
        let half = if place <= block.jobs.len() && !is_behind { &mut block.jobs } else { &mut behind };
        let place = half.partition_point(|one| one.id < job.id);
        half.insert(place, job);
        block.bound();
        if let Some(behind) = Block::new(behind) {
            self.blocks.insert(at + 1, behind);
        }
    }

    /// Takes a job out; whether it was here.
    pub(super) fn remove(&mut self, id: JobId) -> bool {
        let at = self.blocks.partition_point(|block| block.first.id <= id).saturating_sub(1);
        let Some(block) = self.blocks.get_mut(at) else { return false };
        let Ok(place) = block.jobs.binary_search_by_key(&id, |job| job.id) else { return false };
        let job = block.jobs.remove(place);
        self.count -= 1;
        self.bytes -= u128::from(job.bytes);
        if block.jobs.is_empty() {
            self.blocks.remove(at);
            return true;
        }
        block.bound();
        self.merge(at);
        self.merge(at.saturating_sub(1));
        true
    }

    /// Makes one block of this and the next one if both are small.
    fn merge(&mut self, at: usize) {
        let Some([block, next]) = self.blocks.get_mut(at..at + 2) else { return };
        if block.jobs.len() + next.jobs.len() <= MERGE_JOBS_MAX {
            block.jobs.append(&mut next.jobs);
            block.bound();
            self.blocks.remove(at + 1);
        }
    }
}

impl FromIterator<Entry> for Line {
    fn from_iter<I: IntoIterator<Item = Entry>>(jobs: I) -> Self {
        let mut line = Self::default();
        jobs.into_iter().for_each(|job| line.insert(job));
        line
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(line: &Line, model: &BTreeMap<JobId, Entry>) {
        assert!(line.jobs().eq(model.values()), "in order, each once");
        assert_eq!(line.len(), model.len());
        assert_eq!(line.bytes(), model.values().map(|job| u128::from(job.bytes)).sum());
        assert_eq!(line.oldest(), model.values().map(|job| job.submitted).min());
        for block in line.blocks() {
            let jobs = block.jobs();
            assert!(!jobs.is_empty() && jobs.len() <= BLOCK_JOBS_MAX);
            let most = jobs.iter().map(|job| job.bytes).max().unwrap();
            let earliest = jobs.iter().map(|job| job.submitted).min().unwrap();
            assert_eq!(block.first(), Entry { id: jobs[0].id, bytes: most, submitted: earliest });
        }
        let small =
            line.blocks().windows(2).filter(|two| two[0].jobs.len() + two[1].jobs.len() <= MERGE_JOBS_MAX);
        assert_eq!(small.count(), 0, "few blocks");
    }

    #[test]
    fn a_line_is_what_was_inserted_and_not_removed_in_blocks_that_know_their_first() {
        for seed in 0..20 {
            let (mut line, mut model) = (Line::default(), BTreeMap::new());
            let mut random = fastrand::Rng::with_seed(seed);
            let mut next = 0;
            for step in 0..4000 {
                // It grows, and shrinks again; jobs come back in the middle.
                let id = JobId(if random.bool() { next } else { random.u64(0..=next) });
                next += u64::from(id.0 == next);
                if model.contains_key(&id) || random.u32(0..4000) < step {
                    let id = model.range(id..).next().map_or(id, |(id, _)| *id);
                    assert_eq!(line.remove(id), model.remove(&id).is_some(), "seed {seed}");
                } else {
                    let submitted = Duration::from_secs(random.u64(0..100));
                    let job = Entry { id, bytes: random.u64(0..1000), submitted };
                    line.insert(job);
                    model.insert(id, job);
                }
                if step % 50 == 0 {
                    check(&line, &model);
                }
            }
            check(&line, &model);
        }
        let filled: Line =
            (0..6400).map(|id| Entry { id: JobId(id), bytes: 1, submitted: Duration::ZERO }).collect();
        assert_eq!(filled.blocks().len(), 100, "what comes in order fills its blocks");
    }
}
