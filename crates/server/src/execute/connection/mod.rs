//! The connection itself: its user, its protocol, and what is known of it and of others.

mod greeting;
mod own;
mod others;

use firn_protocol::command::{CommandId, id_of};
use firn_protocol::resp::Protocol;

pub(crate) use greeting::REDIS_VERSION;

use super::call::Call;
use super::single::database_index;
use crate::failure::Result;

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const AUTH: CommandId = id_of("auth");
    const CLIENT_HELP: CommandId = id_of("client|help");
    const ECHO: CommandId = id_of("echo");
    const HELLO: CommandId = id_of("hello");
    const PING: CommandId = id_of("ping");
    const QUIT: CommandId = id_of("quit");
    const RESET: CommandId = id_of("reset");
    const SELECT: CommandId = id_of("select");
    match call.command.id() {
        PING => ping(call),
        AUTH => greeting::auth(call),
        HELLO => greeting::hello(call),
        RESET => greeting::reset(call).await,
        CLIENT_HELP => {
            call.reply_help();
            Ok(())
        }
        ECHO => {
            let message = call.argument(1);
            call.reply(|reply| reply.bulk(message));
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
        _ if own::is_here(call.command) => own::dispatch(call),
        _ => others::dispatch(call).await,
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
