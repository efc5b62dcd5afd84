//! CONFIG: parameters, by the names that clients know.

use firn_protocol::command::{CommandId, id_of};

use super::help;
use crate::execute::call::Call;
use crate::execute::scan::check_pattern;
use crate::failure::{Failure, Result};
use crate::parameters::Parameters;
use crate::server_thread::Turns;

const HELP: &[(&str, &str)] = &[
    ("GET <pattern> [<pattern> ...]", "Parameters that match, and their values."),
    ("SET <parameter> <value> [<parameter> <value> ...]", "Set parameters, all of them or none."),
    ("RESETSTAT", "Begin counting again, for INFO."),
    ("REWRITE", "Refused: there is no configuration file to be written."),
];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const GET: CommandId = id_of("config|get");
    const HELP_ID: CommandId = id_of("config|help");
    const RESETSTAT: CommandId = id_of("config|resetstat");
    const REWRITE: CommandId = id_of("config|rewrite");
    const SET: CommandId = id_of("config|set");
    match call.command.id() {
        GET => get(call).await,
        SET => set(call),
        RESETSTAT => {
            call.thread.shared.diagnostics.statistics.reset();
            call.reply(|reply| reply.ok());
            Ok(())
        }
        REWRITE => Err(Failure::new("ERR The server is running without a config file")),
        HELP_ID => help(call, HELP),
        _ => Err(call.not_offered()),
    }
}

/// `CONFIG GET pattern [pattern ...]`. Others have their turns between patterns.
async fn get(call: &mut Call<'_>) -> Result<()> {
    let patterns = call.arguments.from(2);
    patterns.iter().try_for_each(check_pattern)?;
    let (mut found, mut turns) = (Vec::new(), Turns::new(call.thread));
    for pattern in patterns.iter() {
        call.thread.shared.parameters.add_matching(pattern, &mut found);
        turns.step(Parameters::compared_bytes(pattern)).await;
    }
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
    call.thread.shared.parameters.set(&pairs).map_err(Failure::of)?;
    if let Some((_, password)) = pairs.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"requirepass")) {
        let password = Some(*password).filter(|password| !password.is_empty());
        call.thread.shared.users.set_default_password(password);
    }
    call.reply(|reply| reply.ok());
    Ok(())
}
