//! The task that talks with control planes, one at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use firn_jobs::{Error, ErrorKind, JobResult, Ran};
use tonic::{Code, Request, Status};

use super::{Away, Shared, State};
use crate::channel::is_answer;
use crate::control::pool::{Attempts, JobKey, Outcome};
use crate::runtime::Runtime;
use crate::wire::{
    attempts_of, error_of, millis, outcome_of, proto, put_attempts, put_key, slots_of, time_of_us,
};

/// How long a control plane holds the question what has ended.
const HOLD_MS: u32 = 20_000;
/// The same while there are jobs that perhaps no worker has begun.
const UNBEGUN_HOLD_MS: u32 = 500;
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// However late it is, as after this process stood still, an answer has so long to come.
const ANSWER_MIN: Duration = Duration::from_secs(1);
/// How often cancellations are looked at while there are jobs.
const LOOK: Duration = Duration::from_millis(50);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A control plane that is told good-bye has so long to answer.
const BYE_MAX: Duration = Duration::from_secs(1);

/// Talks until the executor is dropped; keeps the thread that it runs on until then.
pub(super) async fn talk(shared: Arc<Shared>, _runtime: Runtime) {
    let mut talk =
        Talk { shared, plane: 0, given_up_at: None, silent_since: None, round: None, pause: PAUSE_MIN };
    loop {
        let (is_closed, is_idle) = {
            let state = talk.shared.lock();
            (state.is_closed, state.jobs.is_empty() && state.taken.is_empty())
        };
        if is_closed {
            return talk.bye().await;
        }
        if is_idle {
            (talk.given_up_at, talk.round, talk.pause) = (None, None, PAUSE_MIN);
            talk.shared.wake.notified().await;
            continue;
        }
        match talk.round().await {
            Ok(Heard::Something) => {
                talk.shared.planes.heard(talk.plane);
                (talk.given_up_at, talk.silent_since, talk.pause) = (None, None, PAUSE_MIN);
                talk.round = None;
            }
            Ok(Heard::Nothing) => {}
            Err(status) => talk.failed(&status).await,
        }
    }
}

struct Talk {
    shared: Arc<Shared>,
    /// Which control plane is asked.
    plane: usize,
    /// Until when it must answer the question what has ended. That may have been put anew
    /// meanwhile, with what was new; it has answered nothing else since.
    given_up_at: Option<Duration>,
    /// Since when no control plane answers.
    silent_since: Option<Duration>,
    /// Since when one after another did not answer, and how many, after there was nothing to ask or
    /// all was given up.
    round: Option<(Duration, usize)>,
    pause: Duration,
}

/// What became of a question.
enum Heard {
    Something,
    /// There is something new to say first.
    Nothing,
}

impl Talk {
    /// Says everything that is new, and hears what has ended.
    ///
    /// # Errors
    /// The control plane does not answer.
    async fn round(&mut self) -> Result<Heard, Status> {
        self.cancel().await?;
        self.submit().await?;
        self.follow().await
    }

    async fn submit(&mut self) -> Result<(), Status> {
        let fresh: Vec<(u64, proto::SubmitRequest)> = {
            let state = self.shared.lock();
            let stalls_in_ms = state.urgency.left_ms(self.shared.clock.now());
            let fresh = state.jobs.iter().filter(|(_, away)| !away.is_submitted);
            let request = |away: &Away| proto::SubmitRequest { stalls_in_ms, ..away.request.clone() };
            fresh.map(|(number, away)| (*number, request(away))).collect()
        };
        let Some(mut client) = self.shared.planes.jobs(self.plane) else { return Ok(()) };
        for (number, request) in fresh {
            let mut request = Request::new(request);
            request.set_timeout(ANSWER_MAX);
            match client.submit(request).await {
                Ok(answer) => {
                    self.given_up_at = None;
                    let mut state = self.shared.lock();
                    state.slots = slots_of(answer.into_inner().slots);
                    if let Some(away) = state.jobs.get_mut(&number) {
                        away.is_submitted = true;
                    }
                }
                Err(status) if is_answer(&status) => self.reject(number, &status),
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// The control plane does not take the job, and says why.
    fn reject(&self, number: u64, status: &Status) {
        let name = self.shared.planes.name(self.plane);
        let why = self.shared.planes.explain(self.plane, status);
        let message = format!("control plane {name} refuses the job: {why}");
        // What it cannot make sense of is this job; everything else it would say to any.
        let kind = match status.code() {
            Code::InvalidArgument | Code::OutOfRange => ErrorKind::Rejected,
            _ => ErrorKind::Unavailable,
        };
        self.shared.finish(number, Err(Error::new(kind, message)), Ran::default());
    }

    /// Passes cancellations on. A cancelled job has its result then, whether or not that was heard.
    async fn cancel(&mut self) -> Result<(), Status> {
        let cancelled: Vec<(u64, bool)> = {
            let state = self.shared.lock();
            let asked = state.jobs.iter().filter(|(_, away)| away.finisher.control().is_cancelled());
            asked.map(|(number, away)| (*number, away.is_submitted)).collect()
        };
        for (number, is_submitted) in cancelled {
            let sent = if is_submitted { self.send_cancel(number).await } else { Ok(()) };
            let cancelled = Error::new(ErrorKind::Cancelled, "the job was cancelled");
            self.shared.finish(number, Err(cancelled), Ran::default());
            sent?;
            if is_submitted {
                self.given_up_at = None;
            }
        }
        Ok(())
    }

    async fn send_cancel(&self, number: u64) -> Result<(), Status> {
        let Some(mut client) = self.shared.planes.jobs(self.plane) else { return Ok(()) };
        let key = JobKey { client: self.shared.options.client, number };
        let mut request = Request::new(proto::CancelRequest { key: put_key(key) });
        request.set_timeout(BYE_MAX);
        client.cancel(request).await.map(drop)
    }

    /// Waits for ends; returns when there is something new to say, too.
    ///
    /// However often that is, a control plane that does not answer within what it holds the first
    /// question and [`ANSWER_MAX`] does not answer.
    async fn follow(&mut self) -> Result<Heard, Status> {
        let (waiting, taken, urgency, begun, attempts) = {
            let mut state = self.shared.lock();
            let urgency = state.urgency.report(self.shared.clock.now());
            let waiting = state.jobs.keys().copied().collect::<Vec<_>>();
            let begun = state.jobs.iter().filter(|(_, away)| away.has_begun).map(|(number, _)| *number);
            let begun = begun.collect::<Vec<_>>();
            (waiting, state.taken.clone(), Some(urgency), begun, state.attempts())
        };
        let Some(mut client) = self.shared.planes.jobs(self.plane) else { return Ok(Heard::Nothing) };
        let hold_ms = match begun.len() == waiting.len() {
            _ if waiting.is_empty() => 0,
            true => HOLD_MS,
            false => UNBEGUN_HOLD_MS,
        };
        let now = self.shared.clock.now();
        let hold = Duration::from_millis(hold_ms.into());
        let left = self.given_up_at.get_or_insert(now + hold + ANSWER_MAX).saturating_sub(now);
        let hold = hold.min(left.saturating_sub(ANSWER_MAX));
        let client_id = self.shared.options.client.to_be_bytes().to_vec().into();
        let request = proto::FollowRequest {
            client: client_id,
            waiting: waiting.clone(),
            taken: taken.clone(),
            hold_ms: millis(hold).try_into().unwrap_or(hold_ms),
            urgency,
            attempts: Some(put_attempts(attempts)),
            begun,
        };
        let mut request = Request::new(request);
        request.set_timeout(left.max(ANSWER_MIN));
        let mut answer = std::pin::pin!(client.follow(request));
        let answer = loop {
            tokio::select! {
                answer = &mut answer => break answer?,
                // The last question is not put anew.
                () = self.shared.wake.notified(), if !left.is_zero() => return Ok(Heard::Nothing),
                () = tokio::time::sleep(LOOK) => {
                    let state = self.shared.lock();
                    if state.jobs.values().any(|away| away.finisher.control().is_cancelled()) {
                        return Ok(Heard::Nothing);
                    }
                }
            }
        };
        let proto::FollowReply { ended, unknown, slots, unbegun, attempts } = answer.into_inner();
        {
            let mut state = self.shared.lock();
            state.taken.retain(|number| !taken.contains(number));
            state.slots = slots_of(slots);
        }
        for ended in ended {
            self.end(ended);
        }
        let mut state = self.shared.lock();
        let unbegun: BTreeSet<u64> = unbegun.into_iter().chain(unknown.iter().copied()).collect();
        for number in waiting {
            if let Some(away) = state.jobs.get_mut(&number) {
                away.has_begun = !unbegun.contains(&number);
                away.finisher.set_waiting(!away.has_begun);
            }
        }
        state.note(attempts_of(attempts.unwrap_or_default()));
        for number in unknown {
            if let Some(away) = state.jobs.get_mut(&number) {
                away.is_submitted = false;
            }
        }
        Ok(Heard::Something)
    }

    fn end(&self, ended: proto::Ended) {
        let wrong = |what: String| Error::new(ErrorKind::Invalid, format!("the answer is no result: {what}"));
        let result = match outcome_of(ended.outcome) {
            Ok(Outcome::Done(result)) => JobResult::decode(&result).map_err(|error| wrong(error.to_string())),
            Ok(Outcome::Failed(failure)) => Err(error_of(failure)),
            Err(status) => Err(wrong(status.message().to_owned())),
        };
        let ran = Ran {
            queued: time_of_us(ended.queued_us),
            opened: time_of_us(ended.opened_us),
            ran: time_of_us(ended.ran_us),
            reading: time_of_us(ended.read_us),
            writing: time_of_us(ended.write_us),
            ..Ran::by(&ended.worker)
        };
        self.shared.finish(ended.number, result, ran);
    }

    /// No answer came: another control plane is asked, and told everything.
    async fn failed(&mut self, status: &Status) {
        self.shared.planes.renew(self.plane);
        self.given_up_at = None;
        let now = self.shared.clock.now();
        let since = *self.silent_since.get_or_insert(now);
        // What it was told may be lost; where it is not, it knows the job by its key.
        {
            let mut state = self.shared.lock();
            state.jobs.values_mut().for_each(|away| away.is_submitted = false);
            state.urgency.forget_reported();
        }
        let (begun, failed_count) = self.round.get_or_insert((now, 0));
        *failed_count += 1;
        let away_max = self.shared.options.away_max;
        let is_away = now.saturating_sub(since) >= away_max;
        // A control plane may have come back since something was asked: each is asked, if that does
        // not take as long again.
        let is_round_over =
            *failed_count >= self.shared.planes.count() || now.saturating_sub(*begun) >= away_max;
        if is_away && is_round_over {
            let numbers: Vec<u64> = self.shared.lock().jobs.keys().copied().collect();
            let message = format!(
                "no control plane answers, the last asked was {}: {}",
                self.shared.planes.name(self.plane),
                self.shared.planes.explain(self.plane, status)
            );
            for number in numbers {
                let away = Error::new(ErrorKind::Unavailable, message.clone());
                self.shared.finish(number, Err(away), Ran::default());
            }
            // A control plane that still knows of them hears with the next question that they were
            // given up.
            self.shared.lock().taken.clear();
            (self.round, self.pause) = (None, PAUSE_MIN);
        }
        self.plane = (self.plane + 1) % self.shared.planes.count();
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// No job is waited for any more; workers may stop.
    async fn bye(&mut self) {
        let left = {
            let mut state = self.shared.lock();
            std::mem::take(&mut state.jobs)
        };
        for (number, away) in left {
            let sent = self.send_cancel(number).await;
            drop(away);
            if sent.is_err() {
                // The control plane notices by itself that the client is silent; the rest are
                // dropped, which answers them.
                return;
            }
        }
    }
}

impl State {
    /// How jobs get on, by what was said last.
    fn attempts(&self) -> Attempts {
        let syncing = self.jobs.iter().filter(|(_, away)| away.is_syncing).map(|(number, _)| *number);
        let tried = self.jobs.iter().filter(|(_, away)| away.failures > 0);
        Attempts {
            syncing: syncing.collect(),
            tried: tried.map(|(number, away)| (*number, (away.failures, String::new()))).collect(),
        }
    }

    /// How jobs get on is now said to be `attempts`.
    fn note(&mut self, mut attempts: Attempts) {
        for (number, away) in &mut self.jobs {
            away.is_syncing = attempts.syncing.contains(number);
            away.finisher.set_syncing(away.is_syncing);
            let tried = attempts.tried.remove(number);
            away.failures = tried.as_ref().map_or(0, |(failures, _)| *failures);
            if let Some((_, why)) = tried.filter(|(_, why)| !why.is_empty()) {
                away.finisher.set_trouble(why);
            }
        }
    }
}
