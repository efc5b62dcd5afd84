//! Making a failing script small.

use crate::ops::{Op, Script};

/// How often a script may be run while it is made smaller.
const ATTEMPTS_MAX: u32 = 3000;

/// A script that still makes `fails` true and of which no single step can be left out (within a
/// limit of runs).
///
/// Leaves out halves, quarters, … of the steps, then single operations of batches, as long as that
/// helps.
pub fn shrink(script: &Script, fails: &mut dyn FnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut attempts = 0;
    let mut try_smaller = |best: &mut Script, smaller: Script| {
        attempts += 1;
        let is_kept = attempts <= ATTEMPTS_MAX && fails(&smaller);
        if is_kept {
            *best = smaller;
        }
        is_kept
    };
    loop {
        let before = best.clone();
        let mut chunk = best.ops.len().div_ceil(2).max(1);
        loop {
            let mut start = 0;
            while start < best.ops.len() {
                let mut smaller = best.clone();
                smaller.ops.drain(start..(start + chunk).min(best.ops.len()));
                if !try_smaller(&mut best, smaller) {
                    start += chunk;
                }
            }
            if chunk == 1 {
                break;
            }
            chunk /= 2;
        }
        shrink_batches(&mut best, &mut try_smaller);
        if best == before {
            return best;
        }
    }
}

fn shrink_batches(best: &mut Script, try_smaller: &mut dyn FnMut(&mut Script, Script) -> bool) {
    for index in 0..best.ops.len() {
        let mut part = 0;
        while let Some(Op::Write { parts, .. }) = best.ops.get(index)
            && parts.len() > 1
            && part < parts.len()
        {
            let mut smaller = best.clone();
            if let Some(Op::Write { parts, .. }) = smaller.ops.get_mut(index) {
                parts.remove(part);
            }
            if !try_smaller(best, smaller) {
                part += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Profile, script};

    #[test]
    fn what_matters_is_kept_and_nothing_else() {
        let script = script(11, Profile::Everything);
        assert!(script.ops.len() > 50);
        let mut matters = |script: &Script| {
            let flush = script.ops.iter().position(|op| *op == Op::Flush);
            let step = script.ops.iter().rposition(|op| matches!(op, Op::Step(_)));
            matches!((flush, step), (Some(flush), Some(step)) if flush < step)
        };
        assert!(matters(&script), "the seed was chosen to have both");
        let small = shrink(&script, &mut matters);
        assert_eq!(small.ops.len(), 2, "{small}");
        assert!(matters(&small));
    }
}
