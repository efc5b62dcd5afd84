//! The server: what operators and libraries ask it.

mod databases;
mod command;
mod config;
mod info;
mod slow_log;
mod latency;
mod memory;
mod saving;
mod debug;
mod replication;
mod lolwut;

use firn_protocol::command::{CommandId, id_of};

use super::call::{Call, Origin};
use crate::failure::{Failure, Result};

pub(super) use replication::wait;

/// The release of Redis whose commands and answers these are.
pub(crate) use super::connection::REDIS_VERSION;

const MODULE_HELP: &[(&str, &str)] = &[("LIST", "Modules: there are none, and none can be loaded.")];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const BGREWRITEAOF: CommandId = id_of("bgrewriteaof");
    const BGSAVE: CommandId = id_of("bgsave");
    const DEBUG: CommandId = id_of("debug");
    const LASTSAVE: CommandId = id_of("lastsave");
    const MODULE_LIST: CommandId = id_of("module|list");
    const MONITOR: CommandId = id_of("monitor");
    const SAVE: CommandId = id_of("save");
    const SHUTDOWN: CommandId = id_of("shutdown");
    const DBSIZE: CommandId = id_of("dbsize");
    const FLUSHALL: CommandId = id_of("flushall");
    const FLUSHDB: CommandId = id_of("flushdb");
    const INFO: CommandId = id_of("info");
    const LOLWUT: CommandId = id_of("lolwut");
    const REPLICAOF: CommandId = id_of("replicaof");
    const ROLE: CommandId = id_of("role");
    const SLAVEOF: CommandId = id_of("slaveof");
    const SWAPDB: CommandId = id_of("swapdb");
    const TIME: CommandId = id_of("time");
    match call.command.id() {
        BGREWRITEAOF => saving::rewrite(call),
        BGSAVE => saving::save_in_background(call),
        DEBUG => debug::dispatch(call).await,
        DBSIZE => databases::size(call).await,
        FLUSHALL => databases::flush(call, true),
        FLUSHDB => databases::flush(call, false),
        INFO => info::info(call).await,
        LASTSAVE => saving::last_save(call),
        LOLWUT => lolwut::draw(call),
        MODULE_LIST => {
            call.reply(|reply| reply.array(0));
            Ok(())
        }
        MONITOR => monitor(call),
        REPLICAOF | SLAVEOF => replication::replica_of(call),
        ROLE => replication::role(call),
        SAVE => saving::save(call).await,
        SHUTDOWN => saving::shutdown(call).await,
        SWAPDB => databases::swap(call),
        TIME => time(call),
        _ => match call.command.container.unwrap_or(call.command.name) {
            "command" => command::dispatch(call).await,
            "config" => config::dispatch(call).await,
            "latency" => latency::dispatch(call).await,
            "memory" => memory::dispatch(call).await,
            "module" => help(call, MODULE_HELP),
            "slowlog" => slow_log::dispatch(call),
            _ => Err(call.not_offered()),
        },
    }
}

/// `TIME`: seconds of the Unix epoch, and microseconds.
fn time(call: &mut Call<'_>) -> Result<()> {
    let unix_us = call.thread.unix_us();
    call.reply(|reply| {
        reply.array(2);
        reply.bulk_integer((unix_us / 1_000_000) as i64);
        reply.bulk_integer((unix_us % 1_000_000) as i64);
    });
    Ok(())
}

/// `MONITOR`
fn monitor(call: &mut Call<'_>) -> Result<()> {
    if call.origin != Origin::Client {
        return Err(Failure::new("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    call.thread.monitor(call.client);
    call.reply(|reply| reply.ok());
    Ok(())
}

/// Answers `HELP`: the subcommands of a container, each a usage and what it does.
pub(super) fn help(call: &mut Call<'_>, subcommands: &[(&str, &str)]) -> Result<()> {
    let name = call.command.container.unwrap_or(call.command.name).to_uppercase();
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
