//! The state of a search, without its texts.

use super::super::library::Complaint;
use super::machine::{Machine, Outcome};
use crate::steered::{FOUND_MAX, Found, Given};

/// What a replacement may make before its memory is counted.
const UNCOUNTED_BYTES: usize = 1024;

/// What is sought, and what for.
pub(super) enum Kind {
    /// Where it is, and its captures.
    Find,
    /// Its captures.
    Match,
    /// The captures of one after the other.
    Walk,
    /// To be replaced, so often at most.
    Replace { with: With, max: usize },
}

/// What a match is replaced by.
pub(super) enum With {
    /// What the search has for it.
    Text,
    /// What the sandbox puts for its captures.
    Captures,
    /// What it puts for the first one.
    FirstCapture,
}

/// What going on has come to.
pub(super) enum Progress {
    /// There is more to try.
    Unfinished,
    /// It was found from here to there.
    Found(usize, usize),
    /// It is not there, or not any more.
    Ended,
}

/// A search's state. Each call is given the text, and the pattern up to its end.
pub(super) struct Course {
    pub(super) kind: Kind,
    pub(super) machine: Machine,
    /// Where the pattern begins after a sign that ties it to the start.
    first: usize,
    is_anchored: bool,
    /// Where the next match is tried.
    at: usize,
    /// A match at `at` is under way.
    is_within: bool,
    is_over: bool,
    /// The last match has not been answered.
    is_unanswered: bool,
    /// The last match waits for what is put for it.
    is_waiting: bool,
    /// The last match.
    pub(super) last: (usize, usize),
    /// What a replacement has made so far, of the text before `copied`.
    pub(super) out: Vec<u8>,
    copied: usize,
    pub(super) count: usize,
}

impl Course {
    pub(super) fn new(pattern: &[u8], at: usize, kind: Kind) -> Self {
        let is_anchored = !matches!(kind, Kind::Walk) && pattern.first() == Some(&b'^');
        Self {
            kind,
            machine: Machine::default(),
            first: usize::from(is_anchored),
            is_anchored,
            at,
            is_within: false,
            is_over: false,
            is_unanswered: false,
            is_waiting: false,
            last: (0, 0),
            out: Vec::new(),
            copied: 0,
            count: 0,
        }
    }

    /// Goes on for so many steps, to the next match.
    pub(super) fn advance(
        &mut self,
        text: &[u8],
        pattern: &[u8],
        steps: &mut u64,
    ) -> Result<Progress, Complaint> {
        if std::mem::take(&mut self.is_unanswered) {
            return Ok(Progress::Found(self.last.0, self.last.1));
        }
        if matches!(self.kind, Kind::Replace { max, .. } if self.count >= max) {
            self.is_over = true;
        }
        if self.is_over {
            return Ok(Progress::Ended);
        }
        let progress = self.seek(text, pattern, steps)?;
        match progress {
            Progress::Found(start, end) => {
                self.last = (start, end);
                self.is_waiting = matches!(self.kind, Kind::Replace { .. });
            }
            Progress::Ended => self.is_over = true,
            Progress::Unfinished => {}
        }
        Ok(progress)
    }

    /// Finds the next match; how many parts of `found` it fills, 0 if no match is left. `None` if
    /// it cannot be answered at once: a turn is over, something is wrong, or much memory is needed.
    pub(super) fn advance_at_once(
        &mut self,
        text: &[u8],
        pattern: &[u8],
        given: Given<'_>,
        steps: &mut u64,
        found: &mut [Found; FOUND_MAX],
    ) -> Option<usize> {
        match given {
            Given::Nothing => {}
            Given::None => self.put_at_once(text, None)?,
            Given::Text(with) => self.put_at_once(text, Some(with))?,
        }
        if self.is_unanswered {
            return None;
        }
        let (start, end) = match self.advance(text, pattern, steps) {
            Ok(Progress::Found(start, end)) => (start, end),
            Ok(Progress::Ended) => return Some(0),
            _ => return None,
        };
        // Until all of it is there.
        self.is_unanswered = true;
        let count = self.capture_count();
        let parts = found.get_mut(..count)?;
        for (index, part) in parts.iter_mut().enumerate() {
            *part = self.machine.capture(index, start, end).ok()?;
        }
        self.is_unanswered = false;
        if matches!(self.kind, Kind::Walk) {
            self.pass_match(text);
        }
        Some(count)
    }

    /// As how many captures a match is answered.
    pub(super) fn capture_count(&self) -> usize {
        let count = self.machine.captures();
        match &self.kind {
            Kind::Find => count,
            Kind::Replace { with: With::FirstCapture, .. } => 1,
            Kind::Match | Kind::Walk | Kind::Replace { .. } => count.max(1),
        }
    }

    fn seek(&mut self, text: &[u8], pattern: &[u8], steps: &mut u64) -> Result<Progress, Complaint> {
        loop {
            if !self.is_within {
                self.machine.begin(self.at, self.first);
                self.is_within = true;
            }
            match self.machine.run(text, pattern, steps)? {
                Outcome::Unfinished => return Ok(Progress::Unfinished),
                Outcome::Matched(end) => {
                    self.is_within = false;
                    return Ok(Progress::Found(self.at, end));
                }
                Outcome::Failed => {
                    self.is_within = false;
                    if self.is_anchored || self.at >= text.len() {
                        return Ok(Progress::Ended);
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// The next match is tried behind the last one, and one byte further if that was empty.
    pub(super) fn pass_match(&mut self, text: &[u8]) {
        let (start, end) = self.last;
        self.count += 1;
        self.copied = end;
        self.is_waiting = false;
        if end > start {
            self.at = end;
        } else {
            self.at = start + 1;
            self.is_over = start >= text.len();
        }
        self.is_over |= self.is_anchored;
    }

    pub(super) fn copy_to(&mut self, text: &[u8], end: usize) {
        self.out.extend_from_slice(&text[self.copied..end]);
        self.copied = end;
    }

    /// Adds a replacement of the last match, in which `%` and a digit stand for a capture.
    pub(super) fn expand(&mut self, text: &[u8], with: &[u8]) -> Result<(), Complaint> {
        let (start, end) = self.last;
        self.copy_to(text, start);
        let mut signs = with.iter().copied();
        while let Some(sign) = signs.next() {
            if sign != b'%' {
                self.out.push(sign);
                continue;
            }
            let sign = signs.next().unwrap_or(0);
            match sign {
                b'0' => self.out.extend_from_slice(&text[start..end]),
                b'1'..=b'9' => match self.machine.capture(usize::from(sign - b'1'), start, end)? {
                    Found::Bytes(start, end) => self.out.extend_from_slice(&text[start..end]),
                    Found::Position(at) => self.out.extend_from_slice(at.to_string().as_bytes()),
                },
                other => self.out.push(other),
            }
        }
        self.pass_match(text);
        Ok(())
    }

    /// Puts a text in the place of the last match, or leaves that; nothing if none waits for it.
    pub(super) fn put(&mut self, text: &[u8], with: Option<&[u8]>) {
        if !self.is_waiting {
            return;
        }
        let (start, end) = self.last;
        self.copy_to(text, start);
        match with {
            Some(with) => self.out.extend_from_slice(with),
            None => self.copy_to(text, end),
        }
        self.pass_match(text);
    }

    /// The same if there is room for it, or all of it is short.
    fn put_at_once(&mut self, text: &[u8], with: Option<&[u8]>) -> Option<()> {
        let (start, end) = self.last;
        let bytes = start.checked_sub(self.copied)? + with.map_or(end - start, <[u8]>::len);
        let len = self.out.len() + bytes;
        if len > self.out.capacity() && len > UNCOUNTED_BYTES {
            return None;
        }
        self.put(text, with);
        Some(())
    }
}
