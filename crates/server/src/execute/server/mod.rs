//! The server: what operators and libraries ask it.

mod databases;
mod command;
mod replication;
mod lolwut;

use firn_protocol::command::{CommandId, id_of};

use super::call::Call;
use crate::failure::Result;

pub(super) use replication::wait;

/// The release of Redis whose commands and answers these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const COMMAND: &str = "command";
    const DBSIZE: CommandId = id_of("dbsize");
    const FLUSHALL: CommandId = id_of("flushall");
    const FLUSHDB: CommandId = id_of("flushdb");
    const LOLWUT: CommandId = id_of("lolwut");
    const REPLICAOF: CommandId = id_of("replicaof");
    const ROLE: CommandId = id_of("role");
    const SLAVEOF: CommandId = id_of("slaveof");
    const SWAPDB: CommandId = id_of("swapdb");
    const TIME: CommandId = id_of("time");
    match call.command.id() {
        DBSIZE => databases::size(call).await,
        FLUSHALL => databases::flush(call, true),
        FLUSHDB => databases::flush(call, false),
        LOLWUT => lolwut::draw(call),
        REPLICAOF | SLAVEOF => replication::replica_of(call),
        ROLE => replication::role(call),
        SWAPDB => databases::swap(call),
        TIME => time(call),
        _ => match call.command.container.unwrap_or(call.command.name) {
            COMMAND => command::dispatch(call),
            _ => Err(call.not_offered()),
        },
    }
}

/// `TIME`: seconds of the Unix epoch, and microseconds.
fn time(call: &mut Call<'_>) -> Result<()> {
    // The clock counts milliseconds; what is below them is that of the clock that never goes back.
    let unix_ms = call.worker.shared.store.clock.unix_ms();
    let below_ms = call.worker.shared.store.clock.now().as_micros() as i64 % 1000;
    call.reply(|reply| {
        reply.array(2);
        reply.bulk_integer((unix_ms / 1000) as i64);
        reply.bulk_integer((unix_ms % 1000) as i64 * 1000 + below_ms);
    });
    Ok(())
}

/// Answers `HELP`: the subcommands of a container, each a usage and what it does.
pub(super) fn help(call: &mut Call<'_>, subcommands: &[(&str, &str)]) -> Result<()> {
    let name = call.command.container.unwrap_or_default().to_uppercase();
    call.reply(|reply| {
        reply.array(1 + 2 * (subcommands.len() + 1));
        reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
        for (usage, meaning) in subcommands.iter().chain(&[("HELP", "Print this help.")]) {
            reply.simple(usage);
            reply.simple(&format!("    {meaning}"));
        }
    });
    Ok(())
}
