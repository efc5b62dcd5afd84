//! What is noted of commands that ran: counters, what took long, and who watches all of them.

use firn_protocol::command::{Command, Flag};
use firn_protocol::resp::Arguments;

use super::Request;
use crate::client::Client;
use crate::failure::Failure;
use crate::log::{Field, LogLevel};
use crate::monitors::MonitorLine;
use crate::slow_log::SlowCall;
use crate::worker::Worker;

/// A command ran for `ns` nanoseconds, its waiting for other clients not counted.
pub(super) fn executed(
    worker: &Worker,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
    failure: Option<&Failure>,
) {
    let counters = worker.counters();
    counters.called(command.id(), 1, ns);
    if let Some(failure) = failure {
        counters.failed(Some(command.id()), true, failure.code());
    }
    if worker.shared.monitors.is_any()
        && !command.flags.has(Flag::SkipMonitor)
        && !command.flags.has(Flag::Admin)
    {
        let line = MonitorLine {
            unix_us: worker.unix_us(),
            database: client.database.get(),
            address: &client.address(),
            command,
            arguments,
        };
        worker.show_monitors(&line.render());
    }
    took(worker, client, command, arguments, ns);
}

/// Notes a command that took long.
pub(super) fn took(
    worker: &Worker,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
) {
    let shared = &worker.shared;
    let us = ns / 1000;
    if shared.parameters.is_slow(us) && !command.flags.has(Flag::SkipSlowlog) {
        let (name, address) = (command.to_string(), client.address());
        let fields =
            [("command", Field::Text(&name)), ("us", Field::Number(us)), ("client", Field::Text(&address))];
        shared.log.note(LogLevel::Warn, "slow_command", &fields);
        let call = SlowCall {
            unix_s: worker.now_ms() / 1000,
            us,
            arguments: shared.slow_log.kept(command, arguments),
            address,
            name: client.description.name.borrow().clone(),
        };
        shared.slow_log.note(call, shared.parameters.slow_log_len());
    }
    if shared.parameters.is_latency_event(us) {
        let event = if command.flags.has(Flag::Fast) { "fast-command" } else { "command" };
        shared.latency.note(event, worker.now_ms() / 1000, us / 1000);
    }
}

/// A request was refused before anything ran.
pub(super) fn rejected(request: &Request<'_>, command: Option<&'static Command>, failure: &Failure) {
    request.worker.counters().failed(command.map(Command::id), false, failure.code());
}
