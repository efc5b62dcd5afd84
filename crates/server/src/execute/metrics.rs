//! What is noted of commands that ran: counters, slow commands, and what monitors are shown.

use firn_protocol::command::{Command, Flag};
use firn_protocol::resp::Arguments;

use super::Request;
use crate::bounds::cut;
use crate::client::Client;
use crate::failure::Failure;
use crate::monitors::MonitorLine;
use crate::server_thread::ServerThread;
use crate::slow_log::SlowCall;

/// A command ran for `ns` nanoseconds, its waiting for other clients not counted.
pub(super) fn executed(
    thread: &ServerThread,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
    failure: Option<&Failure>,
) {
    let counters = thread.counters();
    counters.called(command.id(), 1, ns);
    if let Some(failure) = failure {
        counters.failed(Some(command.id()), true, failure.code());
    }
    if thread.shared.monitors.is_any() && is_shown(command) {
        show(thread, client, &client.address(), command, arguments);
    }
    took(thread, client, command, arguments, ns);
}

fn is_shown(command: &Command) -> bool {
    !command.flags.has(Flag::SkipMonitor) && !command.flags.has(Flag::Admin)
}

fn show(
    thread: &ServerThread,
    client: &Client,
    from: &str,
    command: &'static Command,
    arguments: Arguments<'_>,
) {
    let (unix_us, database) = (thread.unix_us(), client.database.get());
    let line = MonitorLine { unix_us, database, address: from, command, arguments };
    thread.show_monitors(&line.render());
}

/// Shows monitors a script before it runs.
pub(super) fn show_script(
    thread: &ServerThread,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
) {
    if thread.shared.monitors.is_any() {
        show(thread, client, &client.address(), command, arguments);
    }
}

/// A unit of the client's begins, which may have to be done again.
pub(super) fn unit_begins(client: &Client) {
    client.unit.shown.set(0);
}

/// It is done once more, or for the first time.
pub(super) fn try_begins(client: &Client) {
    client.unit.commands.set(0);
}

/// Shows monitors a script of a transaction, or what a script has called. What they were shown of
/// an earlier try they are not shown again.
pub(super) fn show_in_unit(
    thread: &ServerThread,
    client: &Client,
    from: Option<&str>,
    command: &'static Command,
    arguments: Arguments<'_>,
) {
    if !thread.shared.monitors.is_any() || from.is_some() && !is_shown(command) {
        return;
    }
    let number = client.unit.commands.get() + 1;
    client.unit.commands.set(number);
    if number > client.unit.shown.get() {
        client.unit.shown.set(number);
        show(thread, client, from.unwrap_or(&client.address()), command, arguments);
    }
}

/// A script of the client's has answered an error.
pub(super) fn script_answered_error(thread: &ServerThread, command: &'static Command, line: &[u8]) {
    let code = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    thread.counters().failed(Some(command.id()), true, &String::from_utf8_lossy(code));
}

/// Notes a command that took long.
pub(super) fn took(
    thread: &ServerThread,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
    ns: u64,
) {
    let shared = &thread.shared;
    let us = ns / 1000;
    if shared.parameters.is_slow(us) && !command.flags.has(Flag::SkipSlowlog) {
        let (name, address) = (command.to_string(), client.address());
        shared.diagnostics.log.note_slow(&name, us, &address);
        let call = SlowCall {
            unix_s: thread.now_ms() / 1000,
            us,
            arguments: shared.diagnostics.slow_log.kept(command, arguments),
            address,
            name: cut(&client.description.name.borrow()),
        };
        shared.diagnostics.slow_log.note(call, shared.parameters.slow_log_len());
    }
    if shared.parameters.is_latency_event(us) {
        let event = if command.flags.has(Flag::Fast) { "fast-command" } else { "command" };
        shared.diagnostics.latency.note(event, thread.now_ms() / 1000, us / 1000);
    }
}

/// A request was refused before anything ran.
pub(super) fn rejected(request: &Request<'_>, command: Option<&'static Command>, failure: &Failure) {
    request.thread.counters().failed(command.map(Command::id), false, failure.code());
}
