//! Signs of life on a terminal for work that takes longer than a person waits without asking.

use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ending::{Ending, Failure, Result};

/// How long work may take before it shows that it goes on.
const QUIET: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(120);

/// Runs `work`. If it takes longer than two seconds, `what` and what `work` tells the bar are shown
/// until its end, on terminals only (standard error).
pub(crate) fn during<T: Send>(what: &str, work: impl FnOnce(&ProgressBar) -> Result<T> + Send) -> Result<T> {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{spinner} {prefix} {msg} ({elapsed})");
    bar.set_style(style.map_err(|error| Failure::new(Ending::Failed, error.to_string()))?);
    bar.set_prefix(what.to_owned());
    let (sender, receiver) = mpsc::channel();
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work(&bar);
            // The wait below may have ended already.
            let _ = sender.send(());
            result
        });
        if receiver.recv_timeout(QUIET).is_err() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(TICK);
        }
        worker.join()
    });
    bar.finish_and_clear();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
