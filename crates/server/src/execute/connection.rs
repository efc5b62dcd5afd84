//! The connection itself.

use firn_format::datatype::DatabaseId;
use firn_protocol::number;

use super::Call;
use crate::failure::{Failure, Result};

/// Databases of a server, as clients expect by default.
const DATABASE_COUNT: u32 = 16;

/// `PING [message]`
pub(super) fn ping(call: &Call<'_>) -> Result<()> {
    match call.arguments.get(1) {
        Some(_) if call.arguments.len() > 2 => {
            return Err(Failure::new("ERR wrong number of arguments for 'ping' command"));
        }
        Some(message) => call.client.reply(|reply| reply.bulk(message)),
        None => call.client.reply(|reply| reply.simple("PONG")),
    }
    Ok(())
}

/// `ECHO message`
pub(super) fn echo(call: &Call<'_>) -> Result<()> {
    call.client.reply(|reply| reply.bulk(call.argument(1)));
    Ok(())
}

/// `CLIENT ID`
pub(super) fn client_id(call: &Call<'_>) -> Result<()> {
    call.client.reply(|reply| reply.integer(call.client.number as i64));
    Ok(())
}

/// `QUIT`: the connection ends after the reply.
pub(super) fn quit(call: &Call<'_>) -> Result<()> {
    call.client.reply(|reply| reply.ok());
    call.client.is_closing.set(true);
    Ok(())
}

/// `SELECT index`
pub(super) fn select(call: &Call<'_>) -> Result<()> {
    let index = number::parse_integer(call.argument(1)).ok_or(Failure::NOT_AN_INTEGER)?;
    let index = u32::try_from(index).ok().filter(|index| *index < DATABASE_COUNT);
    let index = index.ok_or(Failure::DATABASE_INDEX)?;
    let database = DatabaseId::new(index).ok_or(Failure::DATABASE_INDEX)?;
    call.client.database.set((index, database));
    call.client.reply(|reply| reply.ok());
    Ok(())
}
