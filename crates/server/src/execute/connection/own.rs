//! CLIENT, of the connection itself.

use firn_protocol::command::{Command, CommandId, id_of};

use super::greeting::NAME;
use crate::bounds::cut_text;
use crate::client::{Silence, check_name};
use crate::execute::call::Call;
use crate::failure::{Failure, Result};

const GETNAME: CommandId = id_of("client|getname");
const GETREDIR: CommandId = id_of("client|getredir");
const ID: CommandId = id_of("client|id");
const INFO: CommandId = id_of("client|info");
const NO_EVICT: CommandId = id_of("client|no-evict");
const NO_TOUCH: CommandId = id_of("client|no-touch");
const REPLY: CommandId = id_of("client|reply");
const SETINFO: CommandId = id_of("client|setinfo");
const SETNAME: CommandId = id_of("client|setname");
const TRACKINGINFO: CommandId = id_of("client|trackinginfo");

/// Whether [`dispatch`] runs it.
pub(super) fn is_here(command: &'static Command) -> bool {
    let own = [GETNAME, GETREDIR, ID, INFO, NO_EVICT, NO_TOUCH, REPLY, SETINFO, SETNAME, TRACKINGINFO];
    own.contains(&command.id())
}

pub(super) fn dispatch(call: &mut Call<'_>) -> Result<()> {
    let client = call.client;
    let it = &client.description;
    match call.command.id() {
        ID => call.reply(|reply| reply.integer(client.number as i64)),
        INFO => {
            let line = client.line(call.thread.monotonic_ms()) + "\n";
            call.reply(|reply| reply.verbatim(b"txt", line.as_bytes()));
        }
        GETNAME => {
            let name = it.name.borrow();
            call.reply(|reply| reply.bulk_or_null(Some(name.as_slice()).filter(|name| !name.is_empty())));
        }
        SETNAME => {
            check_name(NAME, call.argument(2))?;
            *it.name.borrow_mut() = call.argument(2).to_vec();
            call.reply(|reply| reply.ok());
        }
        SETINFO => set_info(call)?,
        NO_EVICT => {
            it.is_kept.set(is_on(call)?);
            call.reply(|reply| reply.ok());
        }
        NO_TOUCH => {
            it.is_untouching.set(is_on(call)?);
            call.reply(|reply| reply.ok());
        }
        REPLY => silence(call)?,
        // No client has its keys tracked.
        GETREDIR => call.reply(|reply| reply.integer(-1)),
        TRACKINGINFO => call.reply(|reply| {
            reply.map(3);
            reply.bulk(b"flags");
            reply.set(1);
            reply.bulk(b"off");
            reply.bulk(b"redirect");
            reply.integer(-1);
            reply.bulk(b"prefixes");
            reply.array(0);
        }),
        _ => return Err(call.not_offered()),
    }
    Ok(())
}

/// The argument of a switch.
fn is_on(call: &Call<'_>) -> Result<bool> {
    match (call.is_word(2, "on"), call.is_word(2, "off")) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(Failure::SYNTAX),
    }
}

/// `CLIENT SETINFO LIB-NAME name | LIB-VER version`
fn set_info(call: &mut Call<'_>) -> Result<()> {
    let it = &call.client.description;
    let (place, word) = if call.is_word(2, "lib-name") {
        (&it.library, "lib-name")
    } else if call.is_word(2, "lib-ver") {
        (&it.library_version, "lib-ver")
    } else {
        let option = cut_text(call.argument(2));
        return Err(Failure::of(format!("ERR Unrecognized option '{option}'")));
    };
    check_name(word, call.argument(3))?;
    *place.borrow_mut() = call.argument(3).to_vec();
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `CLIENT REPLY ON | OFF | SKIP`: only ON answers.
fn silence(call: &mut Call<'_>) -> Result<()> {
    let client = call.client;
    if call.is_word(2, "on") {
        client.silence.set(Silence::None);
        call.reply(|reply| reply.ok());
    } else if call.is_word(2, "off") {
        client.silence.set(Silence::All);
    } else if !call.is_word(2, "skip") {
        return Err(Failure::SYNTAX);
    } else if client.silence.get() != Silence::All {
        client.silence.set(Silence::Next);
    }
    Ok(())
}
