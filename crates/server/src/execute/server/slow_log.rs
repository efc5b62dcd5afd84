//! SLOWLOG: the commands that took long.

use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number::parse_integer;

use super::help;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};

const HELP: &[(&str, &str)] = &[
    (
        "GET [<count>]",
        "The newest entries, 10 unless told otherwise, all for -1: number, time in seconds of the Unix epoch, \
         microseconds, arguments, address and name of the client.",
    ),
    ("LEN", "How many entries there are."),
    ("RESET", "Forget all entries."),
];

/// Entries that GET answers unless told otherwise.
const COUNT: i64 = 10;

pub(super) fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const GET: CommandId = id_of("slowlog|get");
    const HELP_ID: CommandId = id_of("slowlog|help");
    const LEN: CommandId = id_of("slowlog|len");
    const RESET: CommandId = id_of("slowlog|reset");
    match call.command.id() {
        GET => get(call),
        LEN => {
            let len = call.thread.shared.diagnostics.slow_log.len();
            call.reply(|reply| reply.integer(len as i64));
            Ok(())
        }
        RESET => {
            call.thread.shared.diagnostics.slow_log.reset();
            call.reply(|reply| reply.ok());
            Ok(())
        }
        HELP_ID => help(call, HELP),
        _ => Err(call.not_offered()),
    }
}

/// `SLOWLOG GET [count]`
fn get(call: &mut Call<'_>) -> Result<()> {
    let count = match call.arguments.len() {
        2 => COUNT,
        3 => parse_integer(call.argument(2))
            .filter(|count| *count >= -1)
            .ok_or(Failure::new("ERR count should be greater than or equal to -1"))?,
        _ => {
            return Err(Failure::new(
                "ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.",
            ));
        }
    };
    let newest = call.thread.shared.diagnostics.slow_log.newest(usize::try_from(count).unwrap_or(usize::MAX));
    call.reply(|reply| {
        reply.array(newest.len());
        for (number, slow) in &newest {
            reply.array(6);
            reply.integer(*number as i64);
            reply.integer(slow.unix_s as i64);
            reply.integer(slow.us as i64);
            reply.array(slow.arguments.len());
            slow.arguments.iter().for_each(|argument| reply.bulk(argument));
            reply.bulk(slow.address.as_bytes());
            reply.bulk(&slow.name);
        }
    });
    Ok(())
}
