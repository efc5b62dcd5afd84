//! ACL: users and what they may do.

use std::sync::{Arc, Mutex, PoisonError};

use firn_engine::Batch;
use firn_format::datatype::CatalogRecord;
use firn_format::datatype::catalog::NAME_BYTES_MAX;
use firn_protocol::command::{self, Category, Command, CommandId, id_of};
use firn_protocol::resp::Arguments;

use super::call::Call;
use crate::access::{DEFAULT_USER, Denied, User, UserTable};
use crate::bounds::cut_text;
use crate::failure::{Failure, Result};
use crate::server_thread::{ClientFilter, DeniedScan, ServerThread, Turns};
use crate::store::put_record;

const CONFIG_SET: CommandId = id_of("config|set");
const DELUSER: CommandId = id_of("acl|deluser");
const SETUSER: CommandId = id_of("acl|setuser");

/// Whether a command changes users, or the default user's password: it holds the lock of the
/// catalog's users while it does.
pub(super) fn changes_users(command: &'static Command) -> bool {
    matches!(command.id(), CONFIG_SET | DELUSER | SETUSER)
}

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const CAT: CommandId = id_of("acl|cat");
    const DRYRUN: CommandId = id_of("acl|dryrun");
    const GENPASS: CommandId = id_of("acl|genpass");
    const GETUSER: CommandId = id_of("acl|getuser");
    const HELP: CommandId = id_of("acl|help");
    const LIST: CommandId = id_of("acl|list");
    const LOG: CommandId = id_of("acl|log");
    const USERS: CommandId = id_of("acl|users");
    const WHOAMI: CommandId = id_of("acl|whoami");
    match call.command.id() {
        CAT => categories(call)?,
        DELUSER => delete(call).await?,
        DRYRUN => dry_run(call)?,
        GENPASS => generate(call)?,
        GETUSER => describe(call),
        HELP => call.reply_help(),
        LIST => {
            let line = |user: &User| [b"user ", user.name(), b" ", &user.rules()].concat();
            let lines: Vec<Vec<u8>> = table(call).values().map(|user| line(user)).collect();
            reply_all(call, &lines);
        }
        LOG => log(call)?,
        SETUSER => set(call).await?,
        USERS => {
            let names: Vec<Vec<u8>> = table(call).keys().cloned().collect();
            reply_all(call, &names);
        }
        WHOAMI => {
            let name = call.client.user_name();
            call.reply(|reply| reply.bulk(&name));
        }
        _ => return Err(call.not_offered()),
    }
    Ok(())
}

fn table(call: &Call<'_>) -> Arc<UserTable> {
    call.thread.shared.users.table()
}

fn reply_all<T: AsRef<[u8]>>(call: &mut Call<'_>, strings: &[T]) {
    call.reply(|reply| {
        reply.array(strings.len());
        strings.iter().for_each(|string| reply.bulk(string.as_ref()));
    });
}

/// `ACL SETUSER name [rule ...]`: all rules, or none.
async fn set(call: &mut Call<'_>) -> Result<()> {
    let name = call.argument(2);
    if name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err(Failure::new("ERR Usernames can't contain spaces or null characters"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Failure::of(format!("ERR a user's name has at most {NAME_BYTES_MAX} bytes")));
    }
    let mut users = UserTable::clone(&table(call));
    let mut user = users.get(name).map_or_else(|| User::new(name), |user| User::clone(user));
    let mut turns = Turns::new(call.thread);
    for rule in call.arguments.from(3).iter() {
        user.apply(rule).map_err(|fault| {
            let rule = cut_text(rule);
            Failure::of(format!("ERR Error in ACL SETUSER modifier '{rule}': {fault}"))
        })?;
        turns.step(RULE_BYTES + rule.len()).await;
    }
    let mut batch = Batch::new();
    let record = CatalogRecord::User { name, rules: &user.rules() };
    put_record(&mut batch, call.transaction.keyspaces().catalog, &record);
    call.thread.write(&batch).await?;
    users.insert(name.to_vec(), Arc::new(user));
    call.thread.shared.users.replace(users);
    // What it is subscribed to was asked for under other rules.
    close_denied(call.thread, name).await;
    call.reply(|reply| reply.ok());
    Ok(())
}

/// What a rule costs beside its bytes, in bytes copied: passwords are hashed.
const RULE_BYTES: usize = 1 << 10;

/// Closes clients of the user `name` that are shown or sent what it may not see any more. Each
/// server thread looks at some subscriptions at a time, so that others have their turns.
async fn close_denied(thread: &ServerThread, name: &[u8]) {
    let name: Arc<[u8]> = name.into();
    let scans: Vec<_> =
        thread.shared.threads.mailboxes.iter().map(|_| Mutex::new(Some(DeniedScan::default()))).collect();
    let scans = Arc::new(scans);
    let mut is_over = false;
    while !is_over {
        let (name, scans) = (Arc::clone(&name), Arc::clone(&scans));
        let answers = thread.ask_all(move |thread: &ServerThread| {
            let mut scan = scans[thread.index].lock().unwrap_or_else(PoisonError::into_inner);
            *scan = scan.take().and_then(|scan| thread.close_denied(&name, scan));
            scan.is_none()
        });
        is_over = answers.await.into_iter().all(|is_over| is_over);
        if !is_over {
            thread.breathe().await;
        }
    }
}

/// `ACL DELUSER name [name ...]`: how many there were. Their connections end.
async fn delete(call: &mut Call<'_>) -> Result<()> {
    let names: Vec<Vec<u8>> = call.arguments.from(2).iter().map(<[u8]>::to_vec).collect();
    if names.iter().any(|name| name == DEFAULT_USER) {
        return Err(Failure::new("ERR The 'default' user cannot be removed"));
    }
    let mut users = UserTable::clone(&table(call));
    let mut batch = Batch::new();
    let (mut gone, mut turns) = (Vec::new(), Turns::new(call.thread));
    for name in names {
        turns.step(name.len()).await;
        if users.remove(&name).is_some() {
            let mut key = Vec::new();
            CatalogRecord::User { name: &name, rules: b"" }.encode_key(&mut key);
            batch.delete(call.transaction.keyspaces().catalog, &key);
            gone.push(name);
        }
    }
    call.thread.write(&batch).await?;
    if !gone.is_empty() {
        call.thread.shared.users.replace(users);
    }
    let count = gone.len();
    for name in gone {
        let filter = ClientFilter { user: Some(name), ..ClientFilter::default() };
        call.thread.ask_all(move |thread| thread.close_all(&filter)).await;
    }
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `ACL GETUSER name`
fn describe(call: &mut Call<'_>) {
    let user = call.thread.shared.users.get(call.argument(2));
    call.reply(|reply| {
        let Some(user) = user else { return reply.null() };
        reply.map(6);
        reply.bulk(b"flags");
        let flags = user.flags();
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
        reply.bulk(b"passwords");
        let passwords = user.passwords();
        reply.array(passwords.len());
        passwords.iter().for_each(|digest| reply.bulk(digest.as_bytes()));
        reply.bulk(b"commands");
        reply.bulk(user.command_rules().as_bytes());
        reply.bulk(b"keys");
        reply.bulk(&user.key_rules());
        reply.bulk(b"channels");
        reply.bulk(&user.channel_rules());
        reply.bulk(b"selectors");
        reply.array(0);
    });
}

/// `ACL CAT [category]`
fn categories(call: &mut Call<'_>) -> Result<()> {
    let Some(name) = call.arguments.get(2) else {
        let names: Vec<&str> =
            Category::all().map(|category| category.name().trim_start_matches('@')).collect();
        reply_all(call, &names);
        return Ok(());
    };
    if call.arguments.len() > 3 {
        return Err(call.unknown_form());
    }
    let category = Category::from_name(name)
        .ok_or_else(|| Failure::of(format!("ERR Unknown category '{}'", cut_text(name))))?;
    let members = command::all().iter().filter(|command| command.categories.has(category));
    let names: Vec<String> = members.map(ToString::to_string).collect();
    reply_all(call, &names);
    Ok(())
}

/// `ACL DRYRUN name command [argument ...]`
fn dry_run(call: &mut Call<'_>) -> Result<()> {
    let lossy = cut_text;
    let user = call.thread.shared.users.get(call.argument(2));
    let user =
        user.ok_or_else(|| Failure::of(format!("ERR User '{}' not found", lossy(call.argument(2)))))?;
    let arguments: Arguments<'_> = call.arguments.from(3);
    let words: Vec<&[u8]> = arguments.iter().collect();
    let command = command::resolve(&words).map_err(|refusal| match refusal {
        command::Refusal::ArgumentCount(_) => Failure::of(lossy(&refusal.text(&words))),
        _ => Failure::of(format!(
            "ERR Command '{}' not found",
            lossy(words.first().copied().unwrap_or_default())
        )),
    })?;
    let at = |index: usize| lossy(arguments.get(index).unwrap_or_default());
    let denied = match user.check(command, arguments) {
        Ok(()) => {
            call.reply(|reply| reply.ok());
            return Ok(());
        }
        Err(Denied::Command) => format!("This user has no permissions to run the '{command}' command"),
        Err(Denied::Key(index)) => format!("This user has no permissions to access the '{}' key", at(index)),
        Err(Denied::Channel(index)) => {
            format!("This user has no permissions to access the '{}' channel", at(index))
        }
        Err(Denied::UnknownKeys | Denied::SortOption(_)) => {
            "This user has no permissions to access keys that the command does not name".to_owned()
        }
    };
    call.reply(|reply| reply.bulk(denied.as_bytes()));
    Ok(())
}

/// `ACL GENPASS [bits]`: as many random bits, four in each digit.
fn generate(call: &mut Call<'_>) -> Result<()> {
    const BITS: i64 = 256;
    const BITS_MAX: i64 = 4096;
    if call.arguments.len() > 3 {
        return Err(call.unknown_form());
    }
    let bits = if call.arguments.len() == 3 { call.integer(2)? } else { BITS };
    if !(1..=BITS_MAX).contains(&bits) {
        return Err(Failure::new(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0_u8; digits.div_ceil(2)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // From the system's random source, which cannot be guessed.
        filled += rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Failure::of(format!("ERR no random bits: {error}")))?;
    }
    let mut password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    password.truncate(digits);
    call.reply(|reply| reply.bulk(password.as_bytes()));
    Ok(())
}

/// `ACL LOG [count | RESET]`: what was refused, the latest first.
fn log(call: &mut Call<'_>) -> Result<()> {
    const ENTRIES: i64 = 10;
    if call.arguments.len() > 3 {
        return Err(call.unknown_form());
    }
    let thread = call.thread;
    if call.is_word(2, "reset") {
        thread.shared.users.log().clear();
        call.reply(|reply| reply.ok());
        return Ok(());
    }
    let count = if call.arguments.len() == 3 { call.integer(2)? } else { ENTRIES };
    let log = thread.shared.users.log();
    let count = usize::try_from(count).unwrap_or(0).min(log.entries().len());
    call.reply(|reply| {
        reply.array(count);
        for entry in log.entries().take(count) {
            reply.map(7);
            reply.bulk(b"count");
            reply.integer(entry.count as i64);
            reply.bulk(b"reason");
            reply.bulk(entry.reason.word().as_bytes());
            reply.bulk(b"context");
            reply.bulk(entry.context.word().as_bytes());
            reply.bulk(b"object");
            reply.bulk(&entry.object);
            reply.bulk(b"username");
            reply.bulk(&entry.user);
            reply.bulk(b"age-seconds");
            reply.double(thread.now_ms().saturating_sub(entry.at_ms) as f64 / 1000.0);
            reply.bulk(b"client-info");
            reply.bulk(entry.client.as_bytes());
        }
    });
    Ok(())
}
