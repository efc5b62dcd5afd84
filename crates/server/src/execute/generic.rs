//! Keys, whatever stands there.

use firn_protocol::command::{Command, CommandId, id_of};
use firn_protocol::resp::Arguments;

use super::call::Call;
use super::single::database_index;
use super::{expiry, object, scan, server};
use crate::bounds::READ_TOGETHER_MAX;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Entry, Key, type_name};

const COPY: CommandId = id_of("copy");
const MOVE: CommandId = id_of("move");

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const DEL: CommandId = id_of("del");
    const EXISTS: CommandId = id_of("exists");
    const KEYS: CommandId = id_of("keys");
    const RANDOMKEY: CommandId = id_of("randomkey");
    const RENAME: CommandId = id_of("rename");
    const RENAMENX: CommandId = id_of("renamenx");
    const SCAN: CommandId = id_of("scan");
    const TOUCH: CommandId = id_of("touch");
    const TYPE: CommandId = id_of("type");
    const UNLINK: CommandId = id_of("unlink");
    const WAIT: CommandId = id_of("wait");
    match call.command.id() {
        DEL | UNLINK => del(call).await,
        EXISTS | TOUCH => exists(call).await,
        TYPE => type_of(call).await,
        RENAME => rename(call, false).await,
        RENAMENX => rename(call, true).await,
        COPY => copy(call).await,
        MOVE => move_to(call).await,
        SCAN => scan::scan(call).await,
        KEYS => scan::keys(call).await,
        RANDOMKEY => scan::random_key(call).await,
        _ if call.command.container == Some("object") => object::dispatch(call).await,
        WAIT => server::wait(call),
        _ => expiry::dispatch(call).await,
    }
}

/// `DEL key [key ...]`, `UNLINK key [key ...]`: how many there were.
async fn del(call: &mut Call<'_>) -> Result<()> {
    let mut turns = Turns::new(call.thread);
    let mut words = call.arguments.from(1);
    let mut count = 0;
    while !words.is_empty() {
        // A key that was named before is gone already when it is named again.
        let mut keys = call.some_keys(words)?;
        keys.sort_unstable_by(|a, b| a.bytes().cmp(b.bytes()));
        keys.dedup();
        for entry in call.transaction.entries(keys).await? {
            call.transaction.remove(&entry).await?;
            count += i64::from(entry.exists());
            turns.step(entry.record_bytes()).await;
        }
        words = words.from(READ_TOGETHER_MAX);
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}

/// `EXISTS key [key ...]`, `TOUCH key [key ...]`: how many of the names are those of keys; one
/// named twice counts twice.
async fn exists(call: &mut Call<'_>) -> Result<()> {
    let mut turns = Turns::new(call.thread);
    let mut words = call.arguments.from(1);
    let mut count = 0;
    while !words.is_empty() {
        let keys = call.some_keys(words)?;
        turns.step(READ_TOGETHER_MAX * size_of::<Entry>()).await;
        count += call.transaction.entries(keys).await?.iter().filter(|entry| entry.exists()).count();
        words = words.from(READ_TOGETHER_MAX);
    }
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `TYPE key`
async fn type_of(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let name = entry.value()?.map_or("none", |value| type_name(value.tag()));
    call.reply(|reply| reply.simple(name));
    Ok(())
}

/// `RENAME key newkey`, `RENAMENX key newkey`
async fn rename(call: &mut Call<'_>, only_new: bool) -> Result<()> {
    let from = call.entry(1).await?;
    if !from.exists() {
        return Err(Failure::NO_SUCH_KEY);
    }
    let to = call.entry(2).await?;
    let is_same = from.key == to.key;
    let is_done = !(only_new && (is_same || to.exists()));
    if is_done && !is_same {
        call.transaction.rename(&from, &to).await?;
    }
    call.reply(|reply| match only_new {
        true => reply.integer(i64::from(is_done)),
        false => reply.ok(),
    });
    Ok(())
}

/// What COPY is told behind the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CopyOptions {
    /// Where the copy goes, if not where the source is.
    database: Option<u32>,
    replaces: bool,
}

impl CopyOptions {
    fn of(arguments: Arguments<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut words = arguments.from(3).iter();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"replace") {
                options.replaces = true;
            } else if word.eq_ignore_ascii_case(b"db")
                && let Some(index) = words.next()
            {
                // The last one holds.
                options.database = Some(database_index(index)?);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// The database that COPY or MOVE names beside the client's; what they will refuse names none.
pub(super) fn other_database(command: &'static Command, arguments: Arguments<'_>) -> Option<u32> {
    match command.id() {
        MOVE => move_database(arguments).ok(),
        COPY => CopyOptions::of(arguments).ok()?.database,
        _ => None,
    }
}

fn move_database(arguments: Arguments<'_>) -> Result<u32> {
    database_index(arguments.get(2).unwrap_or_default())
}

/// `COPY source destination [DB index] [REPLACE]`
async fn copy(call: &mut Call<'_>) -> Result<()> {
    let options = CopyOptions::of(call.arguments)?;
    let database = options.database.unwrap_or(call.client.database.get());
    let from = call.entry(1).await?;
    let to = entry_in(call, database, 2).await?;
    if from.key == to.key {
        return Err(Failure::SAME_OBJECTS);
    }
    let is_done = from.exists() && (options.replaces || !to.exists());
    if is_done {
        call.transaction.copy(&from, &to).await?;
    }
    call.reply(|reply| reply.integer(i64::from(is_done)));
    Ok(())
}

/// `MOVE key db`
async fn move_to(call: &mut Call<'_>) -> Result<()> {
    let database = move_database(call.arguments)?;
    let from = call.entry(1).await?;
    let to = entry_in(call, database, 1).await?;
    if from.key == to.key {
        return Err(Failure::SAME_OBJECTS);
    }
    let is_done = from.exists() && !to.exists();
    if is_done {
        call.transaction.rename(&from, &to).await?;
    }
    call.reply(|reply| reply.integer(i64::from(is_done)));
    Ok(())
}

async fn entry_in(call: &mut Call<'_>, database: u32, argument: usize) -> Result<Entry> {
    let key = Key::new(call.transaction.database(database).id, call.argument(argument))?;
    call.transaction.entry(key).await
}

#[cfg(test)]
mod tests {
    use firn_protocol::command::find;
    use firn_protocol::resp::OwnedArguments;

    use super::*;

    /// What is locked before is what is written then.
    #[test]
    fn the_other_database_is_the_one_that_is_written() {
        for (request, expected) in [
            ("COPY a b DB 3", Some(3)),
            ("COPY a b db 3 REPLACE Db 4", Some(4)),
            ("COPY db 5 DB 3", Some(3)),
            ("COPY a db REPLACE", None),
            ("COPY a b DB", None),
            ("COPY a b DB 16", None),
            ("COPY a b DB 3 nonsense", None),
            ("MOVE a 7", Some(7)),
            ("MOVE a x", None),
            ("RENAME a 7", None),
        ] {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let command = find(words[0]).expect("a command");
            assert_eq!(other_database(command, OwnedArguments::new(words).get()), expected, "{request}");
        }
    }
}
