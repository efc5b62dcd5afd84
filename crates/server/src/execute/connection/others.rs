//! CLIENT, of other connections: those of all server threads.

use std::collections::HashSet;

use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number;

use crate::bounds::cut_text;
use crate::client::Unblock;
use crate::execute::call::Call;
use crate::failure::{Failure, Result};
use crate::pause::Paused;
use crate::server_thread::{ClientFilter, ClientKind};

const KILL: CommandId = id_of("client|kill");
const LIST: CommandId = id_of("client|list");
const PAUSE: CommandId = id_of("client|pause");
const UNBLOCK: CommandId = id_of("client|unblock");
const UNPAUSE: CommandId = id_of("client|unpause");

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    match call.command.id() {
        KILL if call.arguments.len() == 3 => kill_one(call).await,
        KILL => kill(call).await,
        LIST => list(call).await,
        PAUSE => pause(call),
        UNBLOCK => unblock(call).await,
        UNPAUSE => {
            call.thread.shared.pause.end();
            call.thread.ask_all(|thread| thread.wake_everybody()).await;
            call.reply(|reply| reply.ok());
            Ok(())
        }
        _ => Err(call.not_offered()),
    }
}

/// `CLIENT LIST [TYPE kind | ID number ...]`
async fn list(call: &mut Call<'_>) -> Result<()> {
    let mut filter = ClientFilter::default();
    match call.arguments.len() {
        2 => {}
        4 if call.is_word(2, "type") => filter.kind = Some(kind(call.argument(3))?),
        4.. if call.is_word(2, "id") => {
            let number = |word| number::parse_integer(word).map(|number| u64::try_from(number).unwrap_or(0));
            let numbers: Option<HashSet<u64>> = call.arguments.from(3).iter().map(number).collect();
            filter.numbers = Some(numbers.ok_or(Failure::new("ERR Invalid client ID"))?);
        }
        _ => return Err(Failure::SYNTAX),
    }
    let mut lines = call.thread.ask_all(move |thread| thread.describe(&filter)).await.concat();
    lines.sort_unstable();
    let text: String = lines.into_iter().flat_map(|(_, line)| [line, "\n".to_owned()]).collect();
    call.reply(|reply| reply.verbatim(b"txt", text.as_bytes()));
    Ok(())
}

fn kind(word: &[u8]) -> Result<ClientKind> {
    ClientKind::from_word(word)
        .ok_or_else(|| Failure::of(format!("ERR Unknown client type '{}'", cut_text(word))))
}

/// `CLIENT KILL address`
async fn kill_one(call: &mut Call<'_>) -> Result<()> {
    let filter = ClientFilter { peer: Some(call.argument(2).to_vec()), ..ClientFilter::default() };
    match call.thread.ask_all(move |thread| thread.close_all(&filter)).await.iter().sum::<usize>() {
        0 => Err(Failure::new("ERR No such client")),
        _ => {
            call.reply(|reply| reply.ok());
            Ok(())
        }
    }
}

/// `CLIENT KILL option value [option value ...]`: how many were closed.
async fn kill(call: &mut Call<'_>) -> Result<()> {
    let mut filter = ClientFilter { except: Some(call.client.number), ..ClientFilter::default() };
    let mut index = 2;
    while index < call.arguments.len() {
        let value = call.arguments.get(index + 1).ok_or(Failure::SYNTAX)?;
        if call.is_word(index, "id") {
            let number = number::parse_integer(value).and_then(|number| u64::try_from(number).ok());
            let number = number.filter(|number| *number > 0);
            let number = number.ok_or(Failure::new("ERR client-id should be greater than 0"))?;
            filter.numbers = Some(HashSet::from([number]));
        } else if call.is_word(index, "type") {
            filter.kind = Some(kind(value)?);
        } else if call.is_word(index, "addr") {
            filter.peer = Some(value.to_vec());
        } else if call.is_word(index, "laddr") {
            filter.local = Some(value.to_vec());
        } else if call.is_word(index, "user") {
            if call.thread.shared.users.get(value).is_none() {
                let name = cut_text(value);
                return Err(Failure::of(format!("ERR No such user '{name}'")));
            }
            filter.user = Some(value.to_vec());
        } else if call.is_word(index, "skipme") && value.eq_ignore_ascii_case(b"yes") {
            filter.except = Some(call.client.number);
        } else if call.is_word(index, "skipme") && value.eq_ignore_ascii_case(b"no") {
            filter.except = None;
        } else {
            return Err(Failure::SYNTAX);
        }
        index += 2;
    }
    let count: usize = call.thread.ask_all(move |thread| thread.close_all(&filter)).await.iter().sum();
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
fn pause(call: &mut Call<'_>) -> Result<()> {
    let paused = match call.arguments.len() {
        3 => Paused::All,
        4 if call.is_word(3, "write") => Paused::Writes,
        4 if call.is_word(3, "all") => Paused::All,
        4 => return Err(Failure::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(call.unknown_form()),
    };
    let not_a_number = Failure::new("ERR timeout is not an integer or out of range");
    let ms = number::parse_integer(call.argument(2)).ok_or(not_a_number)?;
    let ms = u64::try_from(ms).map_err(|_| Failure::new("ERR timeout is negative"))?;
    let now_ms = call.thread.monotonic_ms();
    call.thread.shared.pause.begin(paused, now_ms.saturating_add(ms), now_ms);
    call.reply(|reply| reply.ok());
    Ok(())
}

/// `CLIENT UNBLOCK number [TIMEOUT | ERROR]`: whether it waited.
async fn unblock(call: &mut Call<'_>) -> Result<()> {
    let how = match call.arguments.len() {
        3 => Unblock::Timeout,
        4 if call.is_word(3, "timeout") => Unblock::Timeout,
        4 if call.is_word(3, "error") => Unblock::Error,
        4 => return Err(Failure::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(call.unknown_form()),
    };
    let number = u64::try_from(call.integer(2)?).unwrap_or(0);
    let answers = call.thread.ask_all(move |thread| thread.unblock(number, how)).await;
    let was_waiting = answers.contains(&true);
    call.reply(|reply| reply.integer(i64::from(was_waiting)));
    Ok(())
}
