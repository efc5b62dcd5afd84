//! LATENCY: what took longer than operators wanted, and how long commands take at all.

use std::collections::HashSet;
use std::fmt::Write as _;

use firn_protocol::command::{self, Command, CommandId, id_of};

use super::command::named;
use super::help;
use crate::bounds::cut_text;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::latency::Sample;
use crate::server_thread::Turns;
use crate::statistics::CommandSum;

const HELP: &[(&str, &str)] = &[
    ("DOCTOR", "Say in words what took long."),
    ("GRAPH <event>", "Draw the samples of an event."),
    ("HISTORY <event>", "Samples of an event: seconds of the Unix epoch, milliseconds."),
    ("LATEST", "The last sample of every event, and the worst."),
    ("RESET [<event> ...]", "Forget the samples of these events, or of all."),
    ("HISTOGRAM [<command> ...]", "How many calls of these commands took how long, or of all."),
];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const DOCTOR: CommandId = id_of("latency|doctor");
    const GRAPH: CommandId = id_of("latency|graph");
    const HELP_ID: CommandId = id_of("latency|help");
    const HISTOGRAM: CommandId = id_of("latency|histogram");
    const HISTORY: CommandId = id_of("latency|history");
    const LATEST: CommandId = id_of("latency|latest");
    const RESET: CommandId = id_of("latency|reset");
    match call.command.id() {
        DOCTOR => doctor(call),
        GRAPH => graph(call),
        HELP_ID => help(call, HELP),
        HISTOGRAM => histogram(call).await,
        HISTORY => history(call),
        LATEST => latest(call),
        RESET => {
            reset(call).await;
            Ok(())
        }
        _ => Err(call.not_offered()),
    }
}

/// `LATENCY LATEST`
fn latest(call: &mut Call<'_>) -> Result<()> {
    let all = call.thread.shared.diagnostics.latency.all();
    call.reply(|reply| {
        reply.array(all.len());
        for (name, event) in &all {
            let last = event.samples.back().copied().unwrap_or(Sample { unix_s: 0, ms: 0 });
            reply.array(4);
            reply.bulk(name.as_bytes());
            reply.integer(last.unix_s as i64);
            reply.integer(last.ms as i64);
            reply.integer(event.worst_ms as i64);
        }
    });
    Ok(())
}

/// `LATENCY HISTORY event`
fn history(call: &mut Call<'_>) -> Result<()> {
    let samples = call.thread.shared.diagnostics.latency.samples(call.argument(2));
    call.reply(|reply| {
        reply.array(samples.len());
        for sample in &samples {
            reply.array(2);
            reply.integer(sample.unix_s as i64);
            reply.integer(sample.ms as i64);
        }
    });
    Ok(())
}

/// `LATENCY RESET [event ...]`: how many there were. Others have their turns between names.
async fn reset(call: &mut Call<'_>) {
    let (names, latency) = (call.arguments.from(2), &call.thread.shared.diagnostics.latency);
    let mut count = if names.is_empty() { latency.reset(None) } else { 0 };
    let mut turns = Turns::new(call.thread);
    for name in names.iter() {
        count += latency.reset(Some(name));
        turns.step(name.len()).await;
    }
    call.reply(|reply| reply.integer(count as i64));
}

/// `LATENCY HISTOGRAM [command ...]`: the commands that were called, or their subcommands. Others
/// have their turns between names.
async fn histogram(call: &mut Call<'_>) -> Result<()> {
    let names = call.arguments.from(2);
    let (mut wanted, mut turns) = (HashSet::new(), Turns::new(call.thread));
    for name in names.iter() {
        wanted.extend(named(name).map(Command::id));
        turns.step(name.len()).await;
    }
    let sums = call.thread.shared.diagnostics.statistics.sums();
    let is_wanted = |command: &Command| {
        let container = || command.container.and_then(|name| command::find(name.as_bytes())).map(Command::id);
        names.is_empty()
            || wanted.contains(&command.id())
            || container().is_some_and(|container| wanted.contains(&container))
    };
    let pairs = command::all().iter().zip(&sums.commands);
    let reported: Vec<(&Command, &CommandSum)> =
        pairs.filter(|(command, sum)| sum.calls > 0 && is_wanted(command)).collect();
    call.reply(|reply| {
        reply.map(reported.len());
        for (command, sum) in &reported {
            reply.bulk(command.to_string().as_bytes());
            reply.map(2);
            reply.bulk(b"calls");
            reply.integer(sum.calls as i64);
            reply.bulk(b"histogram_usec");
            let doublings = sum.distribution.doublings();
            reply.map(doublings.len());
            for (us, count) in doublings {
                reply.integer(us as i64);
                reply.integer(count as i64);
            }
        }
    });
    Ok(())
}

/// `LATENCY DOCTOR`
fn doctor(call: &mut Call<'_>) -> Result<()> {
    let shared = &call.thread.shared;
    let all = shared.diagnostics.latency.all();
    let mut text = String::new();
    // Writing to a string cannot fail.
    if shared.parameters.latency_ms() == 0 && all.is_empty() {
        text.push_str(
            "Nothing is watched: latency-monitor-threshold is 0. Set it to the milliseconds from which on an event \
             is worth a note, for example with CONFIG SET latency-monitor-threshold 100.\n",
        );
    } else if all.is_empty() {
        let _ = writeln!(text, "No event took {} ms or more.", shared.parameters.latency_ms());
    }
    for (name, event) in &all {
        let sum: u64 = event.samples.iter().map(|sample| sample.ms).sum();
        let mean = sum / (event.samples.len() as u64).max(1);
        let _ = writeln!(
            text,
            "{name}: {} seconds with events, {mean} ms on average, {} ms at worst.",
            event.samples.len(),
            event.worst_ms
        );
    }
    if !all.is_empty() {
        text.push_str(
            "SLOWLOG GET names the commands. If they are small, look at INFO firn: stop_us_total and slowdown_us_total \
             are the time in which writes had to wait for the engine, read_miss_count the reads that waited for a file.\n",
        );
    }
    call.reply(|reply| reply.verbatim(b"txt", text.as_bytes()));
    Ok(())
}

/// Rows of a drawing, and its columns at most: the last samples.
const ROWS: u64 = 6;
const COLUMNS_MAX: usize = 80;

/// `LATENCY GRAPH event`
fn graph(call: &mut Call<'_>) -> Result<()> {
    let name = cut_text(call.argument(2));
    let samples = call.thread.shared.diagnostics.latency.samples(call.argument(2));
    let (Some(high), Some(low)) =
        (samples.iter().map(|sample| sample.ms).max(), samples.iter().map(|sample| sample.ms).min())
    else {
        return Err(Failure::of(format!("ERR No samples available for event '{name}'")));
    };
    let mut text = format!("{name}: {} samples, from {low} ms to {high} ms\n", samples.len());
    let skipped = samples.len().saturating_sub(COLUMNS_MAX);
    for row in (1..=ROWS).rev() {
        let is_filled = |ms: u64| ms * ROWS >= high * row || row == 1;
        let line: String =
            samples.iter().skip(skipped).map(|sample| if is_filled(sample.ms) { '#' } else { ' ' }).collect();
        let _ = writeln!(text, "{:>8} |{}", format!("{} ms", high * row / ROWS), line.trim_end());
    }
    call.reply(|reply| reply.verbatim(b"txt", text.as_bytes()));
    Ok(())
}
