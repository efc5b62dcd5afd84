//! Whether a request may run: asked once, before anything else is done with it.

use std::rc::Rc;
use std::sync::Arc;

use firn_protocol::command::{Command, Flag};
use firn_protocol::resp::Arguments;

use crate::access::{Context, Denied, Entry, Reason, User};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::server_thread::{ServerThread, Turns};

/// Whether the client may run the command now. Others have their turns while very many keys are
/// looked at.
///
/// # Errors
/// `NOAUTH` of a client that must log in first, `NOPERM` of a user without the right; both are
/// noted in the log.
#[inline]
pub(super) async fn permit(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<()> {
    match client.login.is_unlimited(&thread.shared.users) {
        true => Ok(()),
        false => Box::pin(permit_limited(thread, client, command, arguments)).await,
    }
}

async fn permit_limited(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<()> {
    let context = match client.queue.borrow().is_some() {
        true => Context::Transaction,
        false => Context::Alone,
    };
    check(thread, client, command, arguments, context).await.map_err(|denied| match denied {
        None => Failure::new("NOAUTH Authentication required."),
        Some(denied) => Failure::of(line(denied, command)),
    })
}

/// Whether what was queued may still run.
///
/// # Errors
/// `NOPERM`, if the user's rules have changed since.
pub(super) async fn permit_queued(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<()> {
    if client.login.is_unlimited(&thread.shared.users) {
        return Ok(());
    }
    check(thread, client, command, arguments, Context::Transaction).await.map_err(|denied| {
        let reason = match denied {
            Some(Denied::Command) => "no permission to execute the command or subcommand",
            Some(Denied::Channel(_)) => {
                "no permission to access one of the channels used as arguments to the command"
            }
            Some(_) => "no permission to touch the specified keys",
            None => "no permission",
        };
        Failure::of(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {reason}"
        ))
    })
}

/// Whether a script of the client may run the command.
///
/// # Errors
/// The user may not.
pub(super) fn permit_in_script(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> Result<()> {
    if client.login.is_unlimited(&thread.shared.users) {
        return Ok(());
    }
    check_at_once(thread, client, command, arguments, Context::Script).map_err(|denied| {
        Failure::new(match denied {
            Some(Denied::Key(_) | Denied::UnknownKeys) => {
                "ERR The user executing the script can't access at least one of the keys mentioned in the command \
                 arguments"
            }
            Some(Denied::Channel(_)) => {
                "ERR The user executing the script can't publish to the channel mentioned in the command"
            }
            _ => "ERR The user executing the script can't run this command or subcommand",
        })
    })
}

/// Whether the client may run the command; asking is no attempt, and is not noted.
pub(super) fn is_permitted(
    thread: &ServerThread,
    client: &Client,
    command: &'static Command,
    arguments: Arguments<'_>,
) -> bool {
    let users = &thread.shared.users;
    client.login.is_unlimited(users)
        || client.login.user(users).is_some_and(|user| user.check(command, arguments).is_ok())
}

/// The user that asks, whose rights are limited; `None` where the command needs no login.
///
/// # Errors
/// `None` for a client that is not logged in.
fn limited(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
) -> std::result::Result<Option<Arc<User>>, Option<Denied>> {
    let users = &thread.shared.users;
    let otherwise = if command.flags.has(Flag::NoAuth) { Ok(None) } else { Err(None) };
    if client.login.is_unknown(users) {
        return otherwise;
    }
    match client.login.user(users) {
        Some(user) => Ok(Some(user)),
        None => {
            // The user was removed: what is left of the connection is its end.
            client.is_closing.set(true);
            otherwise
        }
    }
}

/// The error is `None` for a client that is not logged in. Other clients have their turns
/// meanwhile; where rights change in one of them, the check begins again.
async fn check(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
    context: Context,
) -> std::result::Result<(), Option<Denied>> {
    let users = &thread.shared.users;
    let mut turns = Turns::new(thread);
    loop {
        let version = users.version();
        let Some(user) = limited(thread, client, command)? else { return Ok(()) };
        let done = async {
            let named = user.check_command(command, arguments)?;
            for name in &named.names {
                user.check_name(arguments, name)?;
                turns.step(user.compared_bytes(arguments.get(name.index()).unwrap_or_default().len())).await;
            }
            named.rest
        };
        done.await.map_err(|denied| refused(thread, client, command, arguments, context, denied))?;
        if users.version() == version {
            return Ok(());
        }
    }
}

/// The same without turns.
fn check_at_once(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
    context: Context,
) -> std::result::Result<(), Option<Denied>> {
    let Some(user) = limited(thread, client, command)? else { return Ok(()) };
    user.check(command, arguments)
        .map_err(|denied| refused(thread, client, command, arguments, context, denied))
}

/// Notes what was refused, and answers it.
fn refused(
    thread: &ServerThread,
    client: &Rc<Client>,
    command: &'static Command,
    arguments: Arguments<'_>,
    context: Context,
    denied: Denied,
) -> Option<Denied> {
    let (reason, object) = match denied {
        Denied::Command => (Reason::Command, command.to_string().into_bytes()),
        Denied::Key(index) => (Reason::Key, arguments.get(index).unwrap_or_default().to_vec()),
        Denied::Channel(index) => (Reason::Channel, arguments.get(index).unwrap_or_default().to_vec()),
        Denied::UnknownKeys | Denied::SortOption(_) => (Reason::Key, command.to_string().into_bytes()),
    };
    note(thread, client, reason, context, object, client.user_name());
    Some(denied)
}

/// Notes in the log that `user` was refused `object`.
pub(super) fn note(
    thread: &ServerThread,
    client: &Client,
    reason: Reason,
    context: Context,
    object: Vec<u8>,
    user: Vec<u8>,
) {
    let client = client.line(thread.monotonic_ms());
    let entry = Entry { count: 1, reason, context, object, user, at_ms: thread.now_ms(), client };
    thread.shared.users.log().add(entry);
}

/// The error clients know.
fn line(denied: Denied, command: &'static Command) -> String {
    match denied {
        Denied::Command => format!("NOPERM this user has no permissions to run the '{command}' command"),
        Denied::Key(_) | Denied::UnknownKeys => {
            "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
        }
        Denied::Channel(_) => {
            "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
        }
        Denied::SortOption(option) => {
            format!("ERR {option} option of SORT denied due to insufficient ACL permissions")
        }
    }
}
