//! Names of outputs, and which of them are in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Draws the stems of a process's outputs: `<generation>-<number>`, in hex digits; attempts and
/// parts put `-` and more behind.
///
/// 1. No other process ever draws the same: the generation is the log's, which an edit of the
///    manifest gave to this process alone.
/// 2. A stem is in use until the task that drew it has said in an edit which of its outputs live,
///    or that none does.
#[derive(Debug)]
pub struct OutputNames {
    generation: u64,
    drawn: Arc<Mutex<Drawn>>,
}

#[derive(Debug, Default)]
struct Drawn {
    next: u64,
    in_use: BTreeSet<u64>,
}

/// Names in use; they are no longer once this is dropped.
#[derive(Debug)]
pub struct HeldNames {
    generation: u64,
    drawn: Arc<Mutex<Drawn>>,
    numbers: Vec<u64>,
}

impl OutputNames {
    /// Names of the process whose log has this generation.
    pub fn new(generation: u64) -> Self {
        Self { generation, drawn: Arc::default() }
    }

    /// None yet, for a task that is about to draw some.
    pub fn hold(&self) -> HeldNames {
        let (generation, drawn) = (self.generation, Arc::clone(&self.drawn));
        HeldNames { generation, drawn, numbers: Vec::new() }
    }

    /// Which stems nothing waits for any more, as it is now: what is asked of it later is answered
    /// for this moment.
    pub fn abandoned(&self) -> AbandonedNames {
        let drawn = lock(&self.drawn);
        AbandonedNames { generation: self.generation, next: drawn.next, in_use: drawn.in_use.clone() }
    }
}

fn lock(drawn: &Mutex<Drawn>) -> MutexGuard<'_, Drawn> {
    drawn.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldNames {
    /// What the outputs of one attempt are called; no other attempt of any process ever is.
    pub fn draw(&mut self) -> String {
        let mut drawn = lock(&self.drawn);
        let number = drawn.next;
        drawn.next += 1;
        drawn.in_use.insert(number);
        drop(drawn);
        self.numbers.push(number);
        format!("{:08x}-{number:08x}", self.generation)
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        let mut drawn = lock(&self.drawn);
        for number in &self.numbers {
            drawn.in_use.remove(number);
        }
    }
}

/// Names of which no edit will say that their outputs live.
#[derive(Debug)]
pub struct AbandonedNames {
    generation: u64,
    next: u64,
    in_use: BTreeSet<u64>,
}

impl AbandonedNames {
    /// Whether `stem`, or the one that it is an attempt at or a part of, is one of them. It is of
    /// an earlier generation, whose process writes no edit any more, or drawn in this one and in
    /// use no longer.
    ///
    /// Segments that this process seals are neither, since a later try may find them again. Nor is
    /// what a process that is about to take the database over makes before its edit.
    pub fn contains(&self, stem: &str) -> bool {
        let mut parts = stem.split('-').map(number);
        let Some(generation) = parts.next().flatten() else { return false };
        if generation != self.generation {
            return generation < self.generation;
        }
        let drawn = parts.next().flatten().filter(|number| *number < self.next);
        drawn.is_some_and(|number| !self.in_use.contains(&number))
    }
}

/// A number as stems have it: at least eight hex digits, no more than it needs.
fn number(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (format!("{number:08x}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_given_up_once_it_is_let_go() {
        let names = OutputNames::new(0x2a);
        let (mut first, mut second) = (names.hold(), names.hold());
        assert_eq!(
            [first.draw(), second.draw(), first.draw()].map(|stem| stem[9..].to_owned()),
            ["00000000", "00000001", "00000002"]
        );
        drop(first);
        let abandoned = names.abandoned();
        drop(second);
        let _third = names.hold().draw();
        for (stem, is_given_up) in [
            ("0000002a-00000000", true),
            ("0000002a-00000000-e", true),
            ("0000002a-00000002-1-e-7", true),
            // In use at that moment, and not drawn yet.
            ("0000002a-00000001", false),
            ("0000002a-00000001-e", false),
            ("0000002a-00000003", false),
            // Sealed by a machine whose identity is a small number.
            ("0000002a-00000000000000000000000000000000-00000000", false),
            ("00000029-00000000000000000000000000000007-00000000", true),
            ("00000029-00000009-e", true),
            ("0000002b-00000000", false),
            ("2a-00000000", false),
            ("0000002a", false),
            ("0000002A-00000000", false),
            ("flush-7", false),
            ("00000001", true),
        ] {
            assert_eq!(abandoned.contains(stem), is_given_up, "{stem}");
        }
    }
}
