//! The least that any log of values writes at a given space: a model of segments, nothing else.
//!
//! Values of one length are overwritten, and each new one is appended. Once the segments hold more
//! than `space_max` bytes for each live byte, the segments that cost least are copied. Everything
//! that is dead is known at once, there is no tree, and survivors are kept apart from what is new.
//! What a store does beyond that is its own cost.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::distribution::Distribution;

/// Values of a segment.
const SEGMENT_VALUES: usize = 512;

/// Segments that are copied together at most.
const VICTIMS_MAX: usize = 16;

/// A segment: which keys its values were written for.
struct Segment {
    keys: Vec<u32>,
    live: usize,
    is_collected: bool,
    /// When it was begun, in segments.
    born: u64,
}

/// Where the value of a key is.
#[derive(Clone, Copy)]
struct Place {
    segment: u32,
    slot: u32,
}

struct Log {
    segments: Vec<Option<Segment>>,
    free: VecDeque<u32>,
    places: Vec<Place>,
    begun: u64,
    held: usize,
    written: u64,
}

/// Bytes written for each byte of values, once `overwrites` times the data have been overwritten
/// after as many that are not counted.
pub(super) fn write_amplification(
    values: usize,
    distribution: &mut Distribution,
    space_max: f64,
    overwrites: f64,
    seed: u64,
) -> f64 {
    let mut random = Rng::with_seed(seed);
    let mut log = Log {
        segments: Vec::new(),
        free: VecDeque::new(),
        places: vec![Place { segment: u32::MAX, slot: 0 }; values],
        begun: 0,
        held: 0,
        written: 0,
    };
    let mut active = log.begin(false);
    for key in 0..values as u32 {
        log.append(&mut active, key);
    }
    let count = (values as f64 * overwrites) as u64;
    for number in 0..2 * count {
        if number == count {
            log.written = 0;
        }
        let key = distribution.draw(&mut random) as u32 % values as u32;
        log.die(key);
        log.append(&mut active, key);
        while log.held as f64 > values as f64 * space_max && log.collect(active) {}
    }
    log.written as f64 / count as f64
}

impl Log {
    fn begin(&mut self, is_collected: bool) -> u32 {
        self.begun += 1;
        let keys = Vec::with_capacity(SEGMENT_VALUES);
        let segment = Segment { keys, live: 0, is_collected, born: self.begun };
        match self.free.pop_front() {
            Some(number) => {
                self.segments[number as usize] = Some(segment);
                number
            }
            None => {
                self.segments.push(Some(segment));
                self.segments.len() as u32 - 1
            }
        }
    }

    fn append(&mut self, active: &mut u32, key: u32) {
        let is_collected = match &self.segments[*active as usize] {
            Some(segment) if segment.keys.len() < SEGMENT_VALUES => None,
            full => Some(full.as_ref().is_some_and(|segment| segment.is_collected)),
        };
        if let Some(is_collected) = is_collected {
            *active = self.begin(is_collected);
        }
        if let Some(segment) = &mut self.segments[*active as usize] {
            self.places[key as usize] = Place { segment: *active, slot: segment.keys.len() as u32 };
            segment.keys.push(key);
            segment.live += 1;
        }
        self.held += 1;
        self.written += 1;
    }

    fn die(&mut self, key: u32) {
        let place = self.places[key as usize];
        if let Some(segment) = &mut self.segments[place.segment as usize] {
            segment.live -= 1;
        }
    }

    /// Copies the segments that give most for what they cost; `false` if there is nothing to gain.
    fn collect(&mut self, active: u32) -> bool {
        let worth = |segment: &Segment| {
            let (all, live) = (segment.keys.len() as f64, segment.live as f64);
            (all - live) * ((self.begun - segment.born + 1) as f64).sqrt() / (all + live)
        };
        let full = self.segments.iter().enumerate().filter_map(|(number, segment)| {
            let segment = segment.as_ref()?;
            let is_dead = segment.live < segment.keys.len();
            (number as u32 != active && is_dead)
                .then(|| (worth(segment), number as u32, segment.is_collected))
        });
        let mut ranked: Vec<(f64, u32, bool)> = full.collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let Some(&(_, _, kind)) = ranked.first() else { return false };
        let (mut output, mut live) = (None, 0);
        for (_, number, _) in ranked.into_iter().filter(|it| it.2 == kind).take(VICTIMS_MAX) {
            let Some(survivors) = self.segments[number as usize].as_ref().map(|it| it.live) else { continue };
            if live > 0 && live + survivors > SEGMENT_VALUES {
                break;
            }
            live += survivors;
            self.copy(number, &mut output);
        }
        true
    }

    fn copy(&mut self, number: u32, output: &mut Option<u32>) {
        let Some(victim) = self.segments[number as usize].take() else { return };
        self.held -= victim.keys.len();
        for (slot, key) in victim.keys.iter().enumerate() {
            let place = self.places[*key as usize];
            if place.segment == number && place.slot == slot as u32 {
                let mut into = output.unwrap_or_else(|| self.begin(true));
                self.append(&mut into, *key);
                *output = Some(into);
            }
        }
        self.free.push_back(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Hotspot;

    const VALUES: usize = 100_000;

    fn uniform() -> Distribution {
        Distribution::Uniform { first: 0, last: VALUES as u64 - 1 }
    }

    #[test]
    fn more_space_is_less_writing_and_the_figures_are_those_known() {
        let written = [1.25, 1.5, 2.0].map(|max| write_amplification(VALUES, &mut uniform(), max, 3.0, 7));
        assert!(written[0] > written[1] && written[1] > written[2], "{written:?}");
        // By the same model elsewhere: 2.8 at 1.25 and 1.7 at 1.5.
        assert!((2.4..3.2).contains(&written[0]) && (1.5..1.9).contains(&written[1]), "{written:?}");
    }

    #[test]
    fn what_is_hot_is_cheaper() {
        let mut hot = Distribution::Hotspot(Hotspot::new(0, VALUES as u64 - 1, 0.1, 0.9));
        let [hot, even] =
            [&mut hot, &mut uniform()].map(|draws| write_amplification(VALUES, draws, 1.25, 3.0, 7));
        assert!(hot < even, "{hot} and {even}");
    }
}
