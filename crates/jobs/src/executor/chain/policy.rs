//! What a chain does next: a pure function of its state and the time.
//!
//! ```text
//!   a job ─► the first link that is relied on ─┬─ well ─► looked at ─┬─ well ─► its result (of some: once the last
//!               ▲                              │                     │          executor has come to the same)
//!               │ it is back                   └─ not, late ──┬──────┘ not
//!               │                                             ▼
//!               │                         the next link that is relied on ─► ... ─► none is left
//!               │                                                                      │
//!               └── held ◄── deep, and a link may come back ────────────────────────────┤
//!                     │ its turn, too long, writers will stop                           │ L0 work, or none may
//!                     └──────────────────────► the last executor ◄──────────────────────┘
//! ```
//!
//! The order in which the rules are asked, which is what makes them one policy:
//!
//! 1. Each job by itself, the oldest first ([`next_of`]).
//! 2. The oldest held job whose turn at the last executor has come.
//! 3. A job that waits at a link, and that idle processors are expected to end sooner.

use std::time::Duration;

use super::action::{Action, Reason, Result, To, Why};
use super::state::{Answer, Away, Job, Stage, State};
use super::trust::Advice;
use crate::error::ErrorKind;

/// What to do next.
pub(super) fn next(state: &State, now: Duration) -> Action {
    let of = |(number, job): (&u64, &Job)| next_of(state, *number, job, now);
    let of_a_job = state.jobs.iter().find_map(of);
    of_a_job.or_else(|| due(state, now)).or_else(|| take_back(state, now)).unwrap_or(Action::Wait)
}

/// What to do next with `job`, whatever becomes of others.
pub(super) fn next_of(state: &State, number: u64, job: &Job, now: Duration) -> Option<Action> {
    let is_over = state.is_over(job);
    let has_no_attempt = matches!(job.stage, Stage::Ready { .. } | Stage::Held | Stage::Handing(..));
    if is_over && !has_no_attempt && !job.is_cancelled {
        return Some(Action::Stop(number));
    }
    match &job.stage {
        Stage::Handing(..) => None,
        Stage::Ready { .. } | Stage::Held if is_over => Some(Action::Cancel(number)),
        Stage::Ready { from } => Some(match place(state, job, *from, now) {
            Place::Hand(to, reason) => Action::Hand(number, to, reason),
            // What writers wait for is done at once; everything else waits.
            Place::MayWait if job.about.is_l0 || state.is_inline => {
                Action::Hand(number, To::Last, Reason::NoLink)
            }
            Place::MayWait => Action::Hold(number),
        }),
        Stage::Held => match place(state, job, 0, now) {
            Place::Hand(to, reason) => Some(Action::Hand(number, to, reason)),
            Place::MayWait => None,
        },
        Stage::Away(away) => next_away(state, number, job, away, now),
        Stage::Last => job.seen.answer.map(|_| Action::Finish(number, Result::Last)),
        Stage::Checked { deadline, is_drawn, .. } => {
            let may_do_again = *is_drawn && !is_over && !state.is_stall_near(now);
            match job.seen.answer {
                Some(Answer::Well(_)) if may_do_again => Some(Action::Reexecute(number)),
                Some(Answer::Well(_)) => Some(Action::Finish(number, Result::Checked)),
                // Once cancelled, its look is of no use.
                _ if job.is_cancelled => Some(Action::Cancel(number)),
                Some(Answer::Failed(_)) => Some(Action::GiveUp(number, Why::Wrong)),
                Some(Answer::Unseen { .. }) => Some(Action::GiveUp(number, Why::Unseen)),
                None => (now >= *deadline).then_some(Action::GiveUp(number, Why::CheckLate)),
            }
        }
        Stage::Reexecuted { is_stopped, .. } => match job.seen.answer {
            Some(Answer::Well(_)) => Some(Action::Compare(number, state.check_until(job, now))),
            // What was not done again (the disk is full, or the job was cancelled) says nothing of
            // what was done.
            Some(_) => Some(Action::Finish(number, Result::NotCompared)),
            // What came of it elsewhere is believed as of all others, rather than that writers
            // wait.
            None => (state.is_stall_near(now) && !is_stopped).then_some(Action::Stop(number)),
        },
        Stage::Compared { deadline, .. } => match job.seen.answer {
            Some(Answer::Well(_)) => Some(Action::Finish(number, Result::Same)),
            Some(Answer::Failed(_)) => Some(Action::Finish(number, Result::Differs)),
            Some(Answer::Unseen { is_own: false }) => Some(Action::Finish(number, Result::LinkUnseen)),
            Some(Answer::Unseen { is_own: true }) => Some(Action::Finish(number, Result::NotCompared)),
            None => {
                let is_late = job.is_cancelled || state.is_stall_near(now) || now >= *deadline;
                is_late.then_some(Action::Finish(number, Result::NotCompared))
            }
        },
        Stage::Idle(attempt) => match job.seen.answer {
            Some(Answer::Well(_)) => Some(Action::Finish(number, Result::Idle)),
            Some(_) => Some(Action::GiveAway(number, attempt.is_late)),
            None if job.is_cancelled || !attempt.is_due(now) => None,
            None => {
                let there = state.links.iter().find_map(|link| link.there.alone(&job.about));
                Some(match attempt.extension(&job.about, job.seen.passed, there, now) {
                    Some(until) => Action::Extend(number, until),
                    None => Action::Stop(number),
                })
            }
        },
    }
}

fn next_away(state: &State, number: u64, job: &Job, away: &Away, now: Duration) -> Option<Action> {
    let is_near_l0 = state.is_stall_near(now) && job.about.is_l0;
    let why = match job.seen.answer {
        Some(Answer::Well(_)) if job.is_cancelled => return Some(Action::Cancel(number)),
        Some(Answer::Well(_)) => return Some(Action::Check(number, state.check_until(job, now))),
        Some(Answer::Failed(kind)) => Why::Failed(kind),
        Some(Answer::Unseen { .. }) => Why::Failed(ErrorKind::Storage),
        None => {
            let has_waited = now.saturating_sub(away.begun) >= state.patience.begin_max;
            let is_overdue = is_near_l0 && job.seen.is_waiting && has_waited;
            if !is_overdue && !is_late(state, job, away, is_near_l0, now) {
                return None;
            }
            match job.seen.is_waiting {
                true => Why::Unbegun { was_tried: job.seen.was_tried },
                false => Why::Late,
            }
        }
    };
    Some(if job.is_cancelled { Action::Cancel(number) } else { Action::GiveUp(number, why) })
}

/// Whether an attempt has taken longer than it may. While writers are about to wait for it, or it
/// is to stop, its syncs count. So they do where the storage fails, which is not slow.
fn is_late(state: &State, job: &Job, away: &Away, is_near_l0: bool, now: Duration) -> bool {
    let counts = is_near_l0 || job.is_cancelled || job.seen.was_tried;
    let waits = if counts { Duration::ZERO } else { away.syncs.waited(now).min(state.patience.sync_max) };
    now >= away.deadline.saturating_add(waits)
}

/// Where a job goes that no executor has.
enum Place {
    Hand(To, Reason),
    /// No link takes it now, and one may later.
    MayWait,
}

/// Where `job` goes, when links from `from` on are asked.
fn place(state: &State, job: &Job, from: usize, now: Duration) -> Place {
    let (mut is_lacking, mut may_wait) = (false, false);
    for (number, link) in state.links.iter().enumerate() {
        if job.excluded.contains(&number) {
            continue;
        }
        match link.trust.advise(&job.about.need, now) {
            Advice::Lacking => is_lacking = true,
            Advice::Wait => may_wait = true,
            // It has just failed at the job, and has not been doubted for that.
            Advice::Ask | Advice::Probe if number < from => {}
            advice => {
                let is_probe = advice == Advice::Probe;
                return Place::Hand(To::Link { link: number, is_probe }, Reason::First);
            }
        }
    }
    match (may_wait, is_lacking) {
        (true, _) => Place::MayWait,
        (false, true) => Place::Hand(To::Last, Reason::Lacking),
        (false, false) => Place::Hand(To::Last, Reason::NoLink),
    }
}

/// The oldest held job whose turn has come.
fn due(state: &State, now: Duration) -> Option<Action> {
    let mut held = state.jobs.iter().filter(|(_, job)| matches!(job.stage, Stage::Held));
    let due = held.find(|(_, job)| state.rate.is_come(job.held_since, now, &state.patience));
    due.map(|(number, _)| Action::Hand(*number, To::Last, Reason::Turn))
}

/// The waiting job that would begin last at its link, and how long idle processors may take. Where
/// writers are about to stop it is the last L0 work. `None` unless they are expected to end it
/// sooner.
fn take_back(state: &State, now: Duration) -> Option<Action> {
    let jobs = state.idle_count();
    if state.is_closed || state.idleness.room(jobs) == 0 {
        return None;
    }
    (0..state.links.len()).find_map(|link| take_back_from(state, link, now))
}

fn take_back_from(state: &State, number: usize, now: Duration) -> Option<Action> {
    let link = &state.links[number];
    let width = link.width.unwrap_or(1);
    if link.trust.is_doubted() || state.away(number).count() <= width {
        return None;
    }
    let is_urgent = |(_, job, _): &(u64, &Job, &Away)| job.about.is_l0 && job.seen.is_waiting;
    let urgent = state.is_stall_near(now).then(|| state.away(number).rev().find(is_urgent)).flatten();
    // Deep work is begun after L0 work.
    let last = urgent.or_else(|| state.away(number).rev().min_by_key(|(_, job, _)| job.about.is_l0));
    let (taken, job, away) = last?;
    // The link's trust waits for the result of a probe.
    let is_free = !job.is_cancelled && job.seen.answer.is_none() && !away.is_probe && !job.was_taken_back;
    let (jobs, bytes) = state.before(number, job.about.is_l0);
    let before = (jobs.saturating_sub(1), bytes.saturating_sub(job.about.bytes));
    let allowed =
        link.there.allow(&job.about, before, width, state.here.byte(&job.about, now), &state.idleness)?;
    is_free.then_some(Action::TakeBack(taken, allowed))
}

#[cfg(test)]
mod tests;
