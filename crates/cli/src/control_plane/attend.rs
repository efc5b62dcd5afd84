//! What is done while a control plane runs: certificates are read again, and people are told what
//! goes wrong.

use std::time::Duration;

use firn_job_service::{Connections, ControlPlane, ServerTls};
use firn_storage::Clock;
use signal_hook::iterator::Signals;

use crate::ending::Result;
use crate::output::report;
use crate::tls::ServerFiles;

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often the files of certificates are read: some kilobytes.
const READ: Duration = Duration::from_secs(2);

/// Connections that are refused are reported at most so often.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Returns at the first signal. `tls` is what `files` held when `plane` was started.
pub(super) fn until_signal(
    plane: &ControlPlane,
    files: &ServerFiles,
    tls: Option<ServerTls>,
    clock: &dyn Clock,
    signals: &mut Signals,
) {
    let watch = plane.watch();
    let mut renewal = tls.map(|shown| Renewal { shown, wrong: None, is_reported: false });
    let (mut refusals, mut read_at) = (Refusals::default(), clock.now());
    while signals.pending().next().is_none() {
        clock.sleep(LOOK);
        let now = clock.now();
        for said in watch.take_log() {
            report(format_args!("firn: {said}"));
        }
        if let Some(said) = refusals.look(now, watch.connections()) {
            report(format_args!("firn: {said}"));
        }
        if now.saturating_sub(read_at) < READ {
            continue;
        }
        read_at = now;
        let show = |tls: &ServerTls| plane.renew(tls).map_err(|error| error.to_string());
        if let Some(said) = renewal.as_mut().and_then(|renewal| renewal.look(files.read(), show)) {
            report(format_args!("firn: {said}"));
        }
    }
}

/// Whether certificates are others than before.
struct Renewal {
    shown: ServerTls,
    /// What was wrong with the files when they were last read.
    wrong: Option<String>,
    is_reported: bool,
}

impl Renewal {
    /// Has `show` show what was `read`, if that is something else; what people are to be told.
    /// Files that are wrong twice in the same way are not being written just now.
    fn look(
        &mut self,
        read: Result<Option<ServerTls>>,
        show: impl FnOnce(&ServerTls) -> std::result::Result<(), String>,
    ) -> Option<String> {
        let shown = match read {
            Ok(Some(tls)) if tls == self.shown => Ok(None),
            // The options stay as they were at the start.
            Ok(None) => Ok(None),
            Ok(Some(tls)) => show(&tls).map(|()| Some(tls)),
            Err(failure) => Err(failure.to_string()),
        };
        match shown {
            Ok(fresh) => {
                (self.wrong, self.is_reported) = (None, false);
                self.shown = fresh?;
                Some("the renewed certificates hold for connections from now on".to_owned())
            }
            Err(error) => {
                let is_news = self.wrong.as_ref() != Some(&error);
                let is_due = !is_news && !self.is_reported;
                self.is_reported = !is_news;
                let said = format!(
                    "the certificates from before are used on, since those in the files cannot be: {error}"
                );
                self.wrong = Some(error);
                is_due.then_some(said)
            }
        }
    }
}

/// Connections that were refused, as far as people know of them.
#[derive(Default)]
struct Refusals {
    reported: u64,
    reported_at: Option<Duration>,
}

impl Refusals {
    /// What people are to be told at the moment `now`.
    fn look(&mut self, now: Duration, connections: Connections) -> Option<String> {
        let Connections { max, refused, .. } = connections;
        let is_early = self.reported_at.is_some_and(|at| now.saturating_sub(at) < REPORT_EVERY);
        if refused == self.reported || is_early {
            return None;
        }
        let count = refused - self.reported;
        (self.reported, self.reported_at) = (refused, Some(now));
        Some(format!(
            "{count} connections were refused, since {max} were there: --connections-max lets more in"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ending::{Ending, Failure};

    #[test]
    fn refusals_are_told_once_a_minute_together() {
        let mut refusals = Refusals::default();
        let mut look = |second, refused| {
            refusals.look(Duration::from_secs(second), Connections { open: 7, max: 7, refused })
        };
        assert_eq!(look(5, 0), None);
        assert!(look(6, 2).expect("told").starts_with("2 connections were refused, since 7 were there"));
        assert_eq!(look(7, 9), None);
        assert_eq!(look(65, 9), None);
        assert!(look(66, 12).expect("told").starts_with("10 connections"));
        assert_eq!(look(500, 12), None);
    }

    #[test]
    fn what_is_wrong_twice_is_told_once_and_what_is_renewed_is_shown_once() {
        let tls = |name: &str| {
            let key = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
            let pem = |text: String| firn_job_service::Pem { name: name.to_owned(), text: text.into_bytes() };
            let (chain, key) = (pem(key.cert.pem()), pem(key.signing_key.serialize_pem()));
            let identity = firn_job_service::Identity::new(&chain, &key).expect("an identity");
            ServerTls { identity, clients: None }
        };
        let (old, new) = (tls("old"), tls("new"));
        let mut renewal = Renewal { shown: old.clone(), wrong: None, is_reported: false };
        let mut shown = 0;
        let mut look = |read: std::result::Result<&ServerTls, &str>| {
            let read = read.map(|tls| Some(tls.clone()));
            let read = read.map_err(|what| Failure::new(Ending::Usage, what.to_owned()));
            renewal.look(read, |_| {
                shown += 1;
                Ok(())
            })
        };
        assert_eq!(look(Ok(&old)), None);
        // Half written, then whole.
        assert_eq!(look(Err("a.pem")), None);
        assert!(look(Ok(&new)).expect("told").contains("renewed"));
        assert_eq!(look(Ok(&new)), None);
        for said in [false, true, false, false] {
            assert_eq!(look(Err("a.pem")).is_some_and(|what| what.contains("a.pem")), said);
        }
        assert_eq!(look(Err("b.pem")), None);
        assert!(look(Err("b.pem")).expect("told").contains("b.pem"));
        assert!(look(Ok(&old)).is_some());
        assert_eq!(shown, 2);
    }
}
