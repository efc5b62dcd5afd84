//! The connection itself.

use firn_protocol::command::{CommandId, id_of};
use firn_protocol::resp::Protocol;

use super::alone::database_index;
use super::call::Call;
use crate::failure::Result;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const CLIENT_ID: CommandId = id_of("client|id");
    const ECHO: CommandId = id_of("echo");
    const PING: CommandId = id_of("ping");
    const QUIT: CommandId = id_of("quit");
    const SELECT: CommandId = id_of("select");
    match call.command.id() {
        PING => ping(call),
        ECHO => {
            let message = call.argument(1);
            call.reply(|reply| reply.bulk(message));
            Ok(())
        }
        CLIENT_ID => {
            let number = call.client.number as i64;
            call.reply(|reply| reply.integer(number));
            Ok(())
        }
        QUIT => {
            call.reply(|reply| reply.ok());
            call.client.is_closing.set(true);
            Ok(())
        }
        SELECT => {
            let index = database_index(call.argument(1))?;
            call.client.database.set(index);
            call.reply(|reply| reply.ok());
            Ok(())
        }
        _ => Err(call.not_offered()),
    }
}

/// `PING [message]`
fn ping(call: &mut Call<'_>) -> Result<()> {
    if call.arguments.len() > 2 {
        return Err(call.wrong_arguments());
    }
    if call.protocol == Protocol::Resp2 && !call.client.subscriptions.borrow().is_empty() {
        let message = call.argument(1);
        call.reply(|reply| {
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(message);
        });
        return Ok(());
    }
    match call.arguments.get(1) {
        Some(message) => call.reply(|reply| reply.bulk(message)),
        None => call.reply(|reply| reply.simple("PONG")),
    }
    Ok(())
}
