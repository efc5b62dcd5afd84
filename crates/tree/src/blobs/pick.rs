//! Choosing segments to collect: a pure function of what they hold.
//!
//! Space and writing are one trade: the later a segment is collected, the less of it lives and has
//! to be copied. So nothing is collected until dead values and what else is not needed take more
//! than their share. Then the segments are that give most for what they cost: dead bytes by live
//! ones. Older segments go before younger ones, of which more will die by itself.

use firn_format::blob::SegmentNumber;

/// A sealed segment that no task works on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) number: SegmentNumber,
    pub(crate) bytes: u64,
    pub(crate) dead_bytes: u64,
    /// Its values have survived a GC.
    pub(crate) is_collected: bool,
}

/// Limits that picking follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PickRules {
    /// Bytes of files for each byte that lives.
    pub(crate) space_max: f64,
    /// About what an output should have.
    pub(crate) output_bytes: u64,
    /// The number of the segment to be begun next: the age of others counts from it.
    pub(crate) next: SegmentNumber,
}

/// Bytes of all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Space {
    pub(crate) total_bytes: u64,
    /// Of values that nothing refers to.
    pub(crate) dead_bytes: u64,
    /// Of values that newer records hide, about.
    pub(crate) hidden_bytes: u64,
}

impl Space {
    /// Bytes of values that live, about.
    pub(crate) fn live_bytes(&self) -> f64 {
        let known = self.total_bytes.saturating_sub(self.dead_bytes);
        // An estimate that is much too high must not have everything collected.
        known.saturating_sub(self.hidden_bytes).max(known / 2) as f64
    }

    /// Whether less could be held.
    pub(crate) fn is_over(&self, rules: &PickRules) -> bool {
        self.over_bytes(rules) > 0
    }

    /// Bytes above what may be held.
    pub(crate) fn over_bytes(&self, rules: &PickRules) -> u64 {
        (self.total_bytes as f64 - self.live_bytes() * rules.space_max).max(0.0).ceil() as u64
    }
}

impl Candidate {
    fn live_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.dead_bytes)
    }

    /// What is gained for what is done, more for what has been quiet for long. By a model of a log
    /// of values with zipfian overwrites, the root of the age writes 6 % less than the age, and
    /// both a quarter less than neither. With uniform overwrites it makes no difference.
    fn worth(&self, next: SegmentNumber) -> f64 {
        let age = f64::from(next.0.saturating_sub(self.number.0).max(1));
        self.dead_bytes as f64 * age.sqrt() / (self.bytes + self.live_bytes()).max(1) as f64
    }
}

/// The segments to collect together, in rising order; `None` if there is too little to gain. Values
/// that survived a GC and values that did not are not brought together.
pub(crate) fn pick(space: Space, candidates: &[Candidate], rules: &PickRules) -> Option<Vec<SegmentNumber>> {
    if !space.is_over(rules) {
        return None;
    }
    let is_worthwhile = |it: &&Candidate| it.dead_bytes >= it.bytes / DEAD_SHARE_MIN;
    let mut worthwhile: Vec<&Candidate> = candidates.iter().filter(is_worthwhile).collect();
    worthwhile.sort_by(|a, b| b.worth(rules.next).total_cmp(&a.worth(rules.next)));
    let best = worthwhile.first()?;
    let (mut victims, mut live_bytes) = (Vec::new(), 0);
    for candidate in worthwhile.iter().filter(|it| it.is_collected == best.is_collected) {
        let is_room = live_bytes + candidate.live_bytes() <= rules.output_bytes;
        if !victims.is_empty() && (!is_room || victims.len() == VICTIMS_MAX) {
            break;
        }
        victims.push(candidate.number);
        live_bytes += candidate.live_bytes();
    }
    victims.sort_unstable();
    Some(victims)
}

/// Of a segment less than one such part of which is dead nothing is gained.
const DEAD_SHARE_MIN: u64 = 16;

/// Segments collected by one job.
const VICTIMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PickRules = PickRules { space_max: 1.5, output_bytes: 100, next: SegmentNumber(100) };

    fn candidate(number: u32, dead_bytes: u64) -> Candidate {
        Candidate { number: SegmentNumber(number), bytes: 100, dead_bytes, is_collected: false }
    }

    fn picked(dead: &[u64]) -> Option<Vec<u32>> {
        let candidates: Vec<_> = (0..).zip(dead).map(|(at, dead)| candidate(80 + at, *dead)).collect();
        let total_bytes = 100 * dead.len() as u64;
        let space = Space { total_bytes, dead_bytes: dead.iter().sum(), hidden_bytes: 0 };
        let picked = pick(space, &candidates, &RULES)?;
        Some(picked.into_iter().map(|number| number.0).collect())
    }

    #[test]
    fn nothing_is_collected_while_little_is_dead() {
        assert_eq!(picked(&[30; 10]), None);
        assert_eq!(picked(&[33; 10]), None);
        assert!(picked(&[34; 10]).is_some());
    }

    #[test]
    fn what_is_hidden_counts_as_dead() {
        let candidates: Vec<_> = (80..90).map(|at| candidate(at, 20)).collect();
        let space = |hidden_bytes| Space { total_bytes: 1000, dead_bytes: 200, hidden_bytes };
        assert_eq!(pick(space(100), &candidates, &RULES), None);
        assert!(pick(space(150), &candidates, &RULES).is_some());
    }

    #[test]
    fn the_deadest_go_together_as_long_as_they_fit_one_segment() {
        assert_eq!(picked(&[70, 10, 70, 10, 70, 70, 10, 70, 70, 70]), Some(vec![80, 82, 84]));
        assert_eq!(picked(&[95, 10, 95, 10, 70, 95, 10, 95, 95, 95]), Some(vec![80, 82, 84, 85, 87, 88, 89]));
    }

    #[test]
    fn of_two_with_as_much_dead_the_older_goes_first() {
        let candidates = [candidate(90, 60), candidate(10, 60), candidate(50, 60)];
        let space = Space { total_bytes: 1000, dead_bytes: 700, hidden_bytes: 0 };
        assert_eq!(pick(space, &candidates, &RULES), Some(vec![SegmentNumber(10), SegmentNumber(50)]));
    }

    #[test]
    fn what_has_survived_is_kept_apart() {
        let mut candidates: Vec<_> = (10..20).map(|number| candidate(number, 90)).collect();
        candidates.iter_mut().step_by(2).for_each(|candidate| candidate.is_collected = true);
        let space = Space { total_bytes: 1000, dead_bytes: 900, hidden_bytes: 0 };
        let even: Vec<_> = (10..20).step_by(2).map(SegmentNumber).collect();
        assert_eq!(pick(space, &candidates, &RULES), Some(even));
    }

    #[test]
    fn what_is_all_alive_is_left_alone() {
        let candidates = [candidate(10, 0), candidate(11, 5)];
        assert_eq!(
            pick(Space { total_bytes: 1000, dead_bytes: 700, hidden_bytes: 0 }, &candidates, &RULES),
            None
        );
    }
}
