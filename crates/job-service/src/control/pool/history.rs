//! What happened lately, for people: jobs that ended, and workers that came and went.

use std::collections::VecDeque;

use super::rows::JobRow;

/// Jobs that are remembered after their end.
const JOBS_MAX: usize = 1000;

/// Lines that are kept until they are read; more are not.
const LINES_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct History {
    /// The latest jobs of which the ends were taken.
    pub(super) jobs: VecDeque<JobRow>,
    lines: Vec<String>,
}

impl History {
    pub(super) fn remember(&mut self, job: JobRow) {
        if self.jobs.len() >= JOBS_MAX {
            self.jobs.pop_front();
        }
        self.jobs.push_back(job);
    }

    /// A line for people.
    pub(super) fn say(&mut self, line: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push(line);
        }
    }

    /// The lines since the last call.
    pub(super) fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}
