//! Lua's patterns, matched without recursion and in parts. What is left to try lies on a stack of
//! its own. So a match can pause after so many steps and go on later, and no pattern is too deep
//! for the thread's stack.

use std::collections::HashMap;

use super::class::{Set, is_of_class, parse_set};
use crate::bounds::{CAPTURES_MAX, CHOICES_MAX};
use crate::steered::Found;

const ESCAPE: u8 = b'%';

/// What is wrong with a pattern.
pub(super) type Wrong = &'static str;

/// What a capture has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Unfinished,
    Position,
    Bytes(usize),
}

#[derive(Clone, Copy, Debug)]
struct Capture {
    start: usize,
    extent: Extent,
}

/// What is to be undone or tried when a match fails.
#[derive(Clone, Copy, Debug)]
enum Choice {
    /// The pattern goes on at `pattern`, with the text at `text`.
    Other { text: usize, pattern: usize },
    /// As many as were taken less one, down to `least`.
    Fewer { least: usize, text: usize, pattern: usize },
    /// One more of the item at `item`, whose end is `pattern - 1`.
    More { item: usize, text: usize, pattern: usize },
    /// A capture was opened.
    Opened,
    /// A capture was closed.
    Closed(usize),
}

/// Where a match stands.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It matches up to there.
    Matched(usize),
    Failed,
    /// The steps are used up.
    Unfinished,
}

/// One match at one place, and what it needs.
#[derive(Debug, Default)]
pub(super) struct Machine {
    text: usize,
    pattern: usize,
    captures: Vec<Capture>,
    choices: Vec<Choice>,
    /// The pattern's sets by where they begin, with their ends.
    sets: HashMap<usize, (Set, usize)>,
}

/// One step's end: goes on there, fails, or has matched.
enum Next {
    On,
    Fail,
    Matched,
}

impl Machine {
    /// Begins at `text`, with the pattern from `pattern` on.
    pub(super) fn begin(&mut self, text: usize, pattern: usize) {
        (self.text, self.pattern) = (text, pattern);
        self.captures.clear();
        self.choices.clear();
    }

    /// Memory that it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        self.choices.capacity() * size_of::<Choice>() + self.sets.len() * size_of::<(usize, Set, usize)>()
    }

    /// Goes on for `steps`, which it counts down.
    pub(super) fn run(&mut self, text: &[u8], pattern: &[u8], steps: &mut u64) -> Result<Outcome, Wrong> {
        let mut walk = Walk { machine: self, text, pattern, steps };
        loop {
            if *walk.steps == 0 {
                return Ok(Outcome::Unfinished);
            }
            walk.spend(1);
            match walk.step()? {
                Next::On => {}
                Next::Matched => return Ok(Outcome::Matched(walk.machine.text)),
                Next::Fail => {
                    if !walk.back()? {
                        return Ok(Outcome::Failed);
                    }
                }
            }
        }
    }

    /// How many captures it has.
    pub(super) fn captures(&self) -> usize {
        self.captures.len()
    }

    /// A capture; of a pattern without any the first one is all that it matched, from `start` to
    /// `end`.
    pub(super) fn capture(&self, index: usize, start: usize, end: usize) -> Result<Found, Wrong> {
        match self.captures.get(index) {
            None if index == 0 => Ok(Found::Bytes(start, end)),
            None => Err("invalid capture index"),
            Some(capture) => match capture.extent {
                Extent::Unfinished => Err("unfinished capture"),
                Extent::Position => Ok(Found::Position(capture.start + 1)),
                Extent::Bytes(len) => Ok(Found::Bytes(capture.start, capture.start + len)),
            },
        }
    }
}

struct Walk<'a> {
    machine: &'a mut Machine,
    text: &'a [u8],
    pattern: &'a [u8],
    steps: &'a mut u64,
}

impl Walk<'_> {
    fn spend(&mut self, steps: u64) {
        *self.steps = self.steps.saturating_sub(steps);
    }

    /// The byte of the pattern at `index`; 0 behind its end, which ends it as in C.
    fn sign(&self, index: usize) -> u8 {
        self.pattern.get(index).copied().unwrap_or(0)
    }

    fn push(&mut self, choice: Choice) -> Result<(), Wrong> {
        if self.machine.choices.len() >= CHOICES_MAX {
            return Err("pattern too complex");
        }
        self.machine.choices.push(choice);
        Ok(())
    }

    /// Takes the next item of the pattern.
    fn step(&mut self) -> Result<Next, Wrong> {
        let (at, sign) = (self.machine.pattern, self.sign(self.machine.pattern));
        match sign {
            b'(' if self.sign(at + 1) == b')' => self.open(Extent::Position, at + 2),
            b'(' => self.open(Extent::Unfinished, at + 1),
            b')' => self.close(at + 1),
            0 => Ok(Next::Matched),
            b'$' if self.sign(at + 1) == 0 => Ok(match self.machine.text == self.text.len() {
                true => Next::Matched,
                false => Next::Fail,
            }),
            ESCAPE => match self.sign(at + 1) {
                b'b' => self.balance(at + 2),
                b'f' => self.frontier(at + 2),
                digit if digit.is_ascii_digit() => self.again(digit, at + 2),
                _ => self.single(at),
            },
            _ => self.single(at),
        }
    }

    fn open(&mut self, extent: Extent, next: usize) -> Result<Next, Wrong> {
        if self.machine.captures.len() >= CAPTURES_MAX {
            return Err("too many captures");
        }
        self.push(Choice::Opened)?;
        self.machine.captures.push(Capture { start: self.machine.text, extent });
        self.machine.pattern = next;
        Ok(Next::On)
    }

    fn close(&mut self, next: usize) -> Result<Next, Wrong> {
        let open = self.machine.captures.iter().rposition(|capture| capture.extent == Extent::Unfinished);
        let index = open.ok_or("invalid pattern capture")?;
        self.push(Choice::Closed(index))?;
        let capture = &mut self.machine.captures[index];
        capture.extent = Extent::Bytes(self.machine.text - capture.start);
        self.machine.pattern = next;
        Ok(Next::On)
    }

    /// `%1` to `%9`: what was captured, once more.
    fn again(&mut self, digit: u8, next: usize) -> Result<Next, Wrong> {
        let index = usize::from(digit).checked_sub(usize::from(b'1'));
        let capture =
            index.and_then(|index| self.machine.captures.get(index)).ok_or("invalid capture index")?;
        let (start, len) = match capture.extent {
            Extent::Unfinished => return Err("invalid capture index"),
            // No text is as long as that of a place.
            Extent::Position => return Ok(Next::Fail),
            Extent::Bytes(len) => (capture.start, len),
        };
        self.spend(len as u64 / 16);
        let rest = &self.text[self.machine.text..];
        if !rest.starts_with(&self.text[start..start + len]) {
            return Ok(Next::Fail);
        }
        self.machine.text += len;
        self.machine.pattern = next;
        Ok(Next::On)
    }

    /// `%bxy`: from an x to the y that belongs to it.
    fn balance(&mut self, at: usize) -> Result<Next, Wrong> {
        let (open, close) = (self.sign(at), self.sign(at + 1));
        if open == 0 || close == 0 {
            return Err("unbalanced pattern");
        }
        let rest = &self.text[self.machine.text..];
        if rest.first() != Some(&open) {
            return Ok(Next::Fail);
        }
        let mut depth = 1_usize;
        for (index, byte) in rest.iter().enumerate().skip(1) {
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    self.machine.text += index + 1;
                    self.machine.pattern = at + 2;
                    self.spend(index as u64);
                    return Ok(Next::On);
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        let len = rest.len() as u64;
        self.spend(len);
        Ok(Next::Fail)
    }

    /// `%f[set]`: the set begins here.
    fn frontier(&mut self, at: usize) -> Result<Next, Wrong> {
        if self.sign(at) != b'[' {
            return Err("missing '[' after '%f' in pattern");
        }
        let end = self.item_end(at)?;
        let before = match self.machine.text {
            0 => 0,
            place => self.text[place - 1],
        };
        let here = self.text.get(self.machine.text).copied().unwrap_or(0);
        if self.is_single(before, at) || !self.is_single(here, at) {
            return Ok(Next::Fail);
        }
        self.machine.pattern = end;
        Ok(Next::On)
    }

    /// Something that one byte matches, and how often.
    fn single(&mut self, at: usize) -> Result<Next, Wrong> {
        let end = self.item_end(at)?;
        let text = self.machine.text;
        let is_here = self.text.get(text).is_some_and(|byte| self.is_single(*byte, at));
        match self.sign(end) {
            b'?' => {
                if is_here {
                    self.push(Choice::Other { text, pattern: end + 1 })?;
                    self.machine.text += 1;
                }
                self.machine.pattern = end + 1;
            }
            b'+' if !is_here => return Ok(Next::Fail),
            sign @ (b'*' | b'+') => {
                let least = text + usize::from(sign == b'+');
                let rest = &self.text[text..];
                let count = rest.iter().position(|byte| !self.is_single(*byte, at)).unwrap_or(rest.len());
                self.spend(count as u64 / 4);
                if text + count > least {
                    self.push(Choice::Fewer { least, text: text + count, pattern: end + 1 })?;
                }
                self.machine.text += count;
                self.machine.pattern = end + 1;
            }
            b'-' => {
                self.push(Choice::More { item: at, text, pattern: end + 1 })?;
                self.machine.pattern = end + 1;
            }
            _ if !is_here => return Ok(Next::Fail),
            _ => {
                self.machine.text += 1;
                self.machine.pattern = end;
            }
        }
        Ok(Next::On)
    }

    /// Goes back to what is left to try; `false` if nothing is.
    fn back(&mut self) -> Result<bool, Wrong> {
        while let Some(choice) = self.machine.choices.pop() {
            self.spend(1);
            match choice {
                Choice::Opened => drop(self.machine.captures.pop()),
                Choice::Closed(index) => self.machine.captures[index].extent = Extent::Unfinished,
                Choice::Other { text, pattern } => {
                    (self.machine.text, self.machine.pattern) = (text, pattern);
                    return Ok(true);
                }
                Choice::Fewer { least, text, pattern } => {
                    let text = text - 1;
                    if text > least {
                        self.machine.choices.push(Choice::Fewer { least, text, pattern });
                    }
                    (self.machine.text, self.machine.pattern) = (text, pattern);
                    return Ok(true);
                }
                Choice::More { item, text, pattern } => {
                    if self.text.get(text).is_some_and(|byte| self.is_single(*byte, item)) {
                        let text = text + 1;
                        self.machine.choices.push(Choice::More { item, text, pattern });
                        (self.machine.text, self.machine.pattern) = (text, pattern);
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Where the item ends that begins at `at`, and its set, if it is one, is known from then on.
    fn item_end(&mut self, at: usize) -> Result<usize, Wrong> {
        match self.sign(at) {
            ESCAPE if self.sign(at + 1) == 0 => Err("malformed pattern (ends with '%')"),
            ESCAPE => Ok(at + 2),
            b'[' => {
                if let Some((_, end)) = self.machine.sets.get(&at) {
                    return Ok(*end);
                }
                let (set, end) = parse_set(self.pattern, at).ok_or("malformed pattern (missing ']')")?;
                self.spend((end - at) as u64);
                self.machine.sets.insert(at, (set, end));
                Ok(end)
            }
            _ => Ok(at + 1),
        }
    }

    /// Whether `byte` is what the item at `at` stands for, whose end was asked for before.
    fn is_single(&self, byte: u8, at: usize) -> bool {
        match self.sign(at) {
            b'.' => true,
            ESCAPE => is_of_class(byte, self.sign(at + 1)),
            b'[' => self.machine.sets.get(&at).is_some_and(|(set, _)| set.has(byte)),
            sign => sign == byte,
        }
    }
}

#[cfg(test)]
mod tests;
