//! What INFO reports of commands.

use firn_protocol::command::{self, Command};

use super::Lines;
use crate::server_thread::ServerThread;
use crate::statistics::CommandSum;

/// Commands of which there is something to report.
fn each(thread: &ServerThread, mut report: impl FnMut(&'static Command, &CommandSum)) {
    let sums = thread.shared.diagnostics.statistics.sums();
    for (command, sum) in command::all().iter().zip(&sums.commands) {
        if sum.calls + sum.rejected + sum.failed > 0 {
            report(command, sum);
        }
    }
}

pub(super) fn calls(thread: &ServerThread, lines: &mut Lines) {
    each(thread, |command, sum| {
        let usec = sum.ns / 1000;
        let mean = if sum.calls == 0 { 0.0 } else { sum.ns as f64 / 1000.0 / sum.calls as f64 };
        let text = format!(
            "calls={},usec={usec},usec_per_call={mean:.2},rejected_calls={},failed_calls={}",
            sum.calls, sum.rejected, sum.failed
        );
        lines.line(&format!("cmdstat_{command}"), text);
    });
}

pub(super) fn errors(thread: &ServerThread, lines: &mut Lines) {
    for (code, count) in thread.shared.diagnostics.statistics.sums().errors {
        lines.line(&format!("errorstat_{code}"), format!("count={count}"));
    }
}

pub(super) fn percentiles(thread: &ServerThread, lines: &mut Lines) {
    let wanted = thread.shared.parameters.value("latency-tracking-info-percentiles");
    let wanted = String::from_utf8_lossy(&wanted).into_owned();
    each(thread, |command, sum| {
        if sum.calls > 0 {
            let shown = wanted.split_whitespace().map(|percent| {
                let ns = sum.distribution.percentile_ns(percent.parse().unwrap_or(50.0));
                format!("p{percent}={:.3}", ns as f64 / 1000.0)
            });
            let shown: Vec<String> = shown.collect();
            lines.line(&format!("latency_percentiles_usec_{command}"), shown.join(","));
        }
    });
}
