//! What commands do: a file for each group.
//!
//! ```text
//!   execute ─► resolve (command table) ─► a run of plain writes goes on, or is finished
//!           ─► string | generic | connection ─► the engine ─► a reply, or a failure
//! ```

mod run;
mod key;
mod string;
mod counter;
mod generic;
mod connection;

use std::rc::Rc;

use firn_protocol::command::{self, Command, CommandId, Offered, id_of};
use firn_protocol::resp::Arguments;

use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::worker::Worker;

pub(crate) use run::Run;

/// One request, and who asks.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) worker: &'a Rc<Worker>,
    pub(crate) client: &'a Rc<Client>,
    pub(crate) arguments: Arguments<'a>,
}

impl<'a> Call<'a> {
    /// The argument at `index`, empty if there is none: arity was checked.
    #[inline]
    fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments.get(index).unwrap_or_default()
    }
}

const GET: CommandId = id_of("get");
const SET: CommandId = id_of("set");

/// Of `SET key value`.
const PLAIN_SET_ARGUMENTS: usize = 3;

/// Executes one request and answers it, or adds it to `run`, which is answered later but before anything else.
pub(crate) async fn execute(call: Call<'_>, run: &mut Run) {
    if call.arguments.is_empty() {
        return;
    }
    let command = match resolve(&call) {
        Ok(command) => command,
        Err(failure) => {
            run.finish(call.worker, call.client).await;
            return call.client.reply(|reply| reply.error(failure.line()));
        }
    };
    if command.id() == SET && call.arguments.len() == PLAIN_SET_ARGUMENTS {
        if run.is_full() {
            run.finish(call.worker, call.client).await;
        }
        if run.take_set(&call) {
            return;
        }
    }
    run.finish(call.worker, call.client).await;
    let done = match command.id() {
        GET => string::get(&call).await,
        // The rest waits more, and is larger: it lies elsewhere while it does.
        id => Box::pin(dispatch(&call, command, id)).await,
    };
    if let Err(failure) = done {
        call.client.reply(|reply| reply.error(failure.line()));
    }
}

/// The command that the request names, if it may run.
fn resolve(call: &Call<'_>) -> Result<&'static Command> {
    let name = call.argument(0);
    let found = command::find(name);
    // The common case, without a list of the arguments.
    if let Some(command) = found
        && command.subcommands().is_empty()
        && command.is_offered()
        && command.accepts(call.arguments.len())
    {
        return Ok(command);
    }
    let arguments: Vec<&[u8]> = call.arguments.iter().collect();
    let resolved = command::resolve(&arguments);
    let command = resolved
        .map_err(|refusal| Failure::of(String::from_utf8_lossy(&refusal.text(&arguments)).into_owned()))?;
    match command.offered {
        Offered::Yes => Ok(command),
        Offered::NotYet(why) => Err(Failure::of(format!("ERR {command} is not offered yet: {why}"))),
    }
}

async fn dispatch(call: &Call<'_>, command: &'static Command, id: CommandId) -> Result<()> {
    const CLIENT_ID: CommandId = id_of("client|id");
    const ECHO: CommandId = id_of("echo");
    const PING: CommandId = id_of("ping");
    const QUIT: CommandId = id_of("quit");
    const SELECT: CommandId = id_of("select");
    const APPEND: CommandId = id_of("append");
    const DECR: CommandId = id_of("decr");
    const DECRBY: CommandId = id_of("decrby");
    const DEL: CommandId = id_of("del");
    const EXISTS: CommandId = id_of("exists");
    const GETDEL: CommandId = id_of("getdel");
    const GETRANGE: CommandId = id_of("getrange");
    const GETSET: CommandId = id_of("getset");
    const INCR: CommandId = id_of("incr");
    const INCRBY: CommandId = id_of("incrby");
    const INCRBYFLOAT: CommandId = id_of("incrbyfloat");
    const MGET: CommandId = id_of("mget");
    const MSET: CommandId = id_of("mset");
    const MSETNX: CommandId = id_of("msetnx");
    const SETNX: CommandId = id_of("setnx");
    const SETRANGE: CommandId = id_of("setrange");
    const STRLEN: CommandId = id_of("strlen");
    const SUBSTR: CommandId = id_of("substr");
    const TOUCH: CommandId = id_of("touch");
    const TYPE: CommandId = id_of("type");
    const UNLINK: CommandId = id_of("unlink");
    match id {
        PING => connection::ping(call),
        ECHO => connection::echo(call),
        CLIENT_ID => connection::client_id(call),
        QUIT => connection::quit(call),
        SELECT => connection::select(call),
        SET => string::set(call).await,
        GETSET => string::get_set(call).await,
        GETDEL => string::get_del(call).await,
        SETNX => string::set_nx(call).await,
        MGET => string::multi_get(call).await,
        MSET => string::multi_set(call).await,
        MSETNX => string::multi_set_nx(call).await,
        STRLEN => string::strlen(call).await,
        APPEND => string::append(call).await,
        GETRANGE | SUBSTR => string::get_range(call).await,
        SETRANGE => string::set_range(call).await,
        INCR => counter::add(call, 1).await,
        DECR => counter::add(call, -1).await,
        INCRBY => counter::add(call, counter::amount(call)?).await,
        DECRBY => counter::add(call, counter::negated(counter::amount(call)?)?).await,
        INCRBYFLOAT => counter::add_float(call).await,
        DEL | UNLINK => generic::del(call).await,
        EXISTS | TOUCH => generic::exists(call).await,
        TYPE => generic::type_of(call).await,
        _ => Err(Failure::of(format!("ERR {command} is not offered yet"))),
    }
}
