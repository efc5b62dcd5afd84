//! Making a failing script small.

use crate::ops::{Op, Script};

/// How often a script may be run while it is made smaller.
const ATTEMPTS_MAX: u32 = 3000;

/// A script that still makes `fails` true and of which no single step can be left out (within a
/// limit of runs).
///
/// Leaves out halves, quarters, … of the steps, then single operations of batches and records of
/// ingestions, as long as that helps.
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
        while let Some(op) = best.ops.get(index)
            && let Some(smaller_op) = without_part(op, part)
        {
            let mut smaller = best.clone();
            smaller.ops[index] = smaller_op;
            if !try_smaller(best, smaller) {
                part += 1;
            }
        }
    }
}

/// The step without one of its several operations or records, if it has so many.
fn without_part(op: &Op, part: usize) -> Option<Op> {
    let mut op = op.clone();
    match &mut op {
        Op::Write { parts, .. } if parts.len() > 1 && part < parts.len() => drop(parts.remove(part)),
        Op::IngestBegin { records, .. } if records.len() > 1 && part < records.len() => {
            _ = records.remove(part);
        }
        _ => return None,
    }
    Some(op)
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
