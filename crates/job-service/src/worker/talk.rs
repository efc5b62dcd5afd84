//! What a worker says to one control plane, and hears from it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::{Code, Request, Status};

use super::Shared;
use super::held::AttemptReport;
use crate::bounds;
use crate::channel::Planes;
use crate::control::pool::Token;
use crate::runtime::Runtime;
use crate::wire::{
    VERSIONS, lease_of, micros, proto, put_elsewhere, put_held, put_key, put_outcome, put_profile,
};

/// How long a control plane holds a question for work.
const HOLD_MS: u32 = 20_000;
/// And how long the answer may take then.
const PULL_MAX: Duration = Duration::from_secs(30);
/// How long a beat, or an end, may take to be answered.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// An end that is not taken for so long is given up: its database has asked another executor.
const REPORT_MAX: Duration = Duration::from_secs(600);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One control plane as all that talks with it sees it.
#[derive(Clone)]
struct Plane {
    /// Gone when the worker is.
    shared: Weak<Shared>,
    index: usize,
    name: String,
    /// What the worker is to it. Of two names of one control plane each has a worker of its own,
    /// with its own questions and jobs.
    worker: u128,
    planes: Planes,
    /// When it last answered.
    heard: Arc<Mutex<Duration>>,
}

/// Begins to pull, to beat and to report.
pub(super) fn begin(shared: &Arc<Shared>, index: usize, name: &str, planes: &Planes, runtime: &Runtime) {
    let plane = Plane {
        shared: Arc::downgrade(shared),
        index,
        name: name.to_owned(),
        worker: shared.options.id ^ index as u128,
        planes: planes.clone(),
        heard: Arc::new(Mutex::new(shared.clock.now())),
    };
    let (reports, reported) = unbounded_channel();
    runtime.begin(plane.clone().pull(reports));
    runtime.begin(plane.clone().beat());
    runtime.begin(plane.report(reported));
}

impl Plane {
    fn heard_now(&self, shared: &Shared) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = shared.clock.now();
        self.planes.heard(self.index);
        shared.set_trouble(&self.name, None);
    }

    /// Control planes that know that the worker takes no more jobs.
    fn notified_planes<'s>(&self, shared: &'s Shared) -> MutexGuard<'s, BTreeSet<usize>> {
        shared.notified_planes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_notified(&self, shared: &Shared) -> bool {
        self.notified_planes(shared).contains(&self.index)
    }

    fn is_silent(&self, shared: &Shared) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        shared.clock.now().saturating_sub(heard) > shared.options.lease
    }

    /// Asks for work for ever.
    async fn pull(self, reports: UnboundedSender<AttemptReport>) {
        let mut pause = PAUSE_MIN;
        loop {
            let Some(mut client) = self.planes.workers(self.index) else { return };
            let Some(shared) = self.shared.upgrade() else { return };
            // Before the profile is made, so that the beginning of a drain is not missed.
            let drains = shared.drains.notified();
            let is_draining = shared.is_draining.load(Ordering::SeqCst);
            let status = shared.holdings.status(self.index);
            let request = proto::PullRequest {
                versions: Some(VERSIONS),
                held: status.held.iter().map(put_held).collect(),
                worker: Some(put_profile(shared.profile(self.worker, status.elsewhere))),
                // A worker that ends soon wants to know that it was heard.
                hold_ms: if is_draining && !self.is_notified(&shared) { 0 } else { HOLD_MS },
            };
            let mut request = Request::new(request);
            request.set_timeout(PULL_MAX);
            let answer = tokio::select! {
                answer = client.pull(request) => answer,
                () = drains, if !is_draining => continue,
            };
            match answer {
                Ok(answer) => {
                    pause = PAUSE_MIN;
                    self.heard_now(&shared);
                    if is_draining {
                        self.notified_planes(&shared).insert(self.index);
                    }
                    let proto::PullReply { leases, stop, .. } = answer.into_inner();
                    shared.holdings.stop(stop.into_iter().map(Token));
                    // Leases beyond the bound end by themselves, as if their answer was lost.
                    let leases = leases.into_iter().take(bounds::HELD.max as usize);
                    leases.for_each(|lease| self.accept(&shared, lease, &reports));
                }
                Err(status) => {
                    self.planes.renew(self.index);
                    shared.set_trouble(&self.name, Some(self.planes.explain(self.index, &status)));
                    drop(shared);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    fn accept(&self, shared: &Shared, lease: proto::Lease, reports: &UnboundedSender<AttemptReport>) {
        // What has no key cannot be answered; its lease ends by itself.
        let Ok(lease) = lease_of(lease) else { return };
        shared.holdings.accept(self.index, lease, reports.clone());
    }

    /// Says for ever that the worker lives, and how far it is. Says so at once when it has more or
    /// fewer slots for this control plane, or one of its jobs begins or ceases to wait.
    async fn beat(self) {
        let Some(mut changes) = self.shared.upgrade().map(|shared| shared.holdings.changes()) else { return };
        loop {
            let Some(mut client) = self.planes.workers(self.index) else { return };
            let Some(shared) = self.shared.upgrade() else { return };
            let every = shared.options.beat;
            let worker = self.worker.to_be_bytes().to_vec().into();
            // Before the look, so that no change after it is missed.
            changes.mark_unchanged();
            let status = shared.holdings.status(self.index);
            let held = status.held.iter().map(put_held).collect();
            let elsewhere = Some(put_elsewhere(&status.elsewhere));
            let mut request = Request::new(proto::BeatRequest { worker, held, elsewhere });
            request.set_timeout(ANSWER_MAX);
            if let Ok(answer) = client.beat(request).await {
                let answer = answer.into_inner();
                // A control plane that does not know the worker counts on nothing of it, until it
                // has asked for work.
                if answer.known {
                    self.heard_now(&shared);
                }
                shared.holdings.stop(answer.stop.into_iter().map(Token));
            }
            if self.is_silent(&shared) {
                shared.holdings.stop_plane(self.index);
            }
            drop(shared);
            let mut due = std::pin::pin!(tokio::time::sleep(every));
            loop {
                tokio::select! {
                    () = &mut due => break,
                    Ok(()) = changes.changed() => {
                        let Some(shared) = self.shared.upgrade() else { return };
                        if shared.holdings.status(self.index).news() != status.news() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Reports how attempts ended, until that is known.
    async fn report(self, mut reported: UnboundedReceiver<AttemptReport>) {
        while let Some(one) = reported.recv().await {
            // One end that is not taken must not keep the others.
            drop(tokio::spawn(self.clone().report_one(one)));
        }
    }

    async fn report_one(self, report: AttemptReport) {
        let AttemptReport { key, token, outcome, timings, ended } = report;
        let Some(shared) = self.shared.upgrade() else { return };
        let (begun, worker) = (shared.clock.now(), self.worker.to_be_bytes().to_vec());
        drop(shared);
        let message = proto::FinishRequest {
            worker: worker.into(),
            key: put_key(key),
            token: token.0,
            outcome: put_outcome(outcome),
            opened_us: micros(timings.opened),
            ran_us: micros(timings.ran),
            read_us: micros(timings.reading),
            write_us: micros(timings.writing),
        };
        let mut pause = PAUSE_MIN;
        loop {
            let Some(mut client) = self.planes.workers(self.index) else { return };
            let Some(shared) = self.shared.upgrade() else { return };
            let is_late = shared.clock.now().saturating_sub(begun) > REPORT_MAX;
            if is_late || !shared.holdings.is_wanted(token) {
                return shared.holdings.forget(token);
            }
            drop(shared);
            let mut request = Request::new(message.clone());
            request.set_timeout(ANSWER_MAX);
            let answer: Result<_, Status> = client.finish(request).await;
            let Some(shared) = self.shared.upgrade() else { return };
            match answer {
                // A restarted control plane does not know the worker yet, and asks for the end
                // again once it does.
                Ok(answer) if !answer.get_ref().taken && pause < PAUSE_MAX => {}
                Ok(_) => {
                    shared.tally.reported(shared.clock.now().saturating_sub(ended));
                    return shared.holdings.forget(token);
                }
                Err(status) if status.code() == Code::InvalidArgument => {
                    return shared.holdings.forget(token);
                }
                Err(_) => {}
            }
            drop(shared);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
