//! CONFIG: parameters, by the names that clients know.

use firn_protocol::command::{CommandId, id_of};

use super::help;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};

const HELP: &[(&str, &str)] = &[
    ("GET <pattern> [<pattern> ...]", "Parameters that match, and their values."),
    ("SET <parameter> <value> [<parameter> <value> ...]", "Set parameters, all of them or none."),
    ("RESETSTAT", "Begin counting again, for INFO."),
    ("REWRITE", "Refused: there is no configuration file to be written."),
];

pub(super) fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const GET: CommandId = id_of("config|get");
    const HELP_ID: CommandId = id_of("config|help");
    const RESETSTAT: CommandId = id_of("config|resetstat");
    const REWRITE: CommandId = id_of("config|rewrite");
    const SET: CommandId = id_of("config|set");
    match call.command.id() {
        GET => get(call),
        SET => set(call),
        RESETSTAT => {
            call.worker.shared.statistics.reset();
            call.reply(|reply| reply.ok());
            Ok(())
        }
        REWRITE => Err(Failure::new("ERR The server is running without a config file")),
        HELP_ID => help(call, HELP),
        _ => Err(call.not_offered()),
    }
}

/// `CONFIG GET pattern [pattern ...]`
fn get(call: &mut Call<'_>) -> Result<()> {
    let patterns: Vec<&[u8]> = call.arguments.from(2).iter().collect();
    let found = call.worker.shared.parameters.matching(&patterns);
    call.reply(|reply| {
        reply.map(found.len());
        for (name, value) in &found {
            reply.bulk(name);
            reply.bulk(value);
        }
    });
    Ok(())
}

/// `CONFIG SET parameter value [parameter value ...]`
fn set(call: &mut Call<'_>) -> Result<()> {
    let words: Vec<&[u8]> = call.arguments.from(2).iter().collect();
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Failure::SYNTAX);
    }
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|[name, value]| (*name, *value)).collect();
    call.worker.shared.parameters.set(&pairs).map_err(Failure::of)?;
    if let Some((_, password)) = pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"requirepass")) {
        let password = Some(*password).filter(|password| !password.is_empty());
        call.worker.shared.store.users.set_default_password(password);
    }
    call.reply(|reply| reply.ok());
    Ok(())
}
