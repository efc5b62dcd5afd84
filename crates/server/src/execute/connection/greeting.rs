//! HELLO, AUTH, RESET: the user of a connection and the protocol it speaks.

use firn_protocol::number;
use firn_protocol::resp::Protocol;

use crate::access::{Context, DEFAULT_USER, Reason};
use crate::bounds::cut_text;
use crate::client::{Silence, check_name};
use crate::execute::call::Call;
use crate::execute::permit::note;
use crate::execute::{discard, unsubscribe_all, unwatch};
use crate::failure::{Failure, Result};

/// The release of Redis whose commands and replies are offered: what clients are told when they ask
/// for a version.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const WRONG_PASSWORD: Failure = Failure::new("WRONGPASS invalid username-password pair or user is disabled.");

/// How errors call a client's name.
pub(super) const NAME: &str = "Client names";

/// `AUTH [user] password`
pub(super) fn auth(call: &mut Call<'_>) -> Result<()> {
    let (name, password) = match call.arguments.len() {
        2 => (DEFAULT_USER, call.argument(1)),
        3 => (call.argument(1), call.argument(2)),
        _ => return Err(Failure::SYNTAX),
    };
    let is_needless = call.arguments.len() == 2 && call.thread.shared.users.is_open_to_all();
    if is_needless {
        return Err(Failure::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        ));
    }
    log_in(call, name, password)?;
    call.reply(|reply| reply.ok());
    Ok(())
}

/// The connection is the user `name` from now on, if the password is right.
fn log_in(call: &Call<'_>, name: &[u8], password: &[u8]) -> Result<()> {
    let users = &call.thread.shared.users;
    match users.get(name).filter(|user| user.admits(password)) {
        Some(user) => {
            call.client.login.become_user(users, &user);
            Ok(())
        }
        None => {
            let context =
                if call.client.queue.borrow().is_some() { Context::Transaction } else { Context::Alone };
            let object = call.argument(0).to_vec();
            note(call.thread, call.client, Reason::Password, context, object, name.to_vec());
            Err(WRONG_PASSWORD)
        }
    }
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub(super) fn hello(call: &mut Call<'_>) -> Result<()> {
    let version = match call.arguments.get(1) {
        None => None,
        Some(word) => {
            let not_a_number = "ERR Protocol version is not an integer or out of range";
            match number::parse_integer(word).ok_or(Failure::new(not_a_number))? {
                2 => Some(Protocol::Resp2),
                3 => Some(Protocol::Resp3),
                _ => return Err(Failure::new("NOPROTO unsupported protocol version")),
            }
        }
    };
    let (mut login, mut name, mut index) = (None, None, 2);
    while index < call.arguments.len() {
        let left = call.arguments.len() - index - 1;
        if call.is_word(index, "auth") && left >= 2 {
            login = Some((call.argument(index + 1), call.argument(index + 2)));
            index += 3;
        } else if call.is_word(index, "setname") && left >= 1 {
            check_name(NAME, call.argument(index + 1))?;
            name = Some(call.argument(index + 1));
            index += 2;
        } else {
            let option = cut_text(call.argument(index));
            return Err(Failure::of(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = login {
        log_in(call, user, password)?;
    }
    if call.client.login.is_unknown(&call.thread.shared.users) {
        return Err(Failure::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        *call.client.description.name.borrow_mut() = name.to_vec();
    }
    if let Some(version) = version {
        call.client.protocol.set(version);
        call.protocol = version;
    }
    introduce(call);
    Ok(())
}

/// What HELLO answers.
fn introduce(call: &mut Call<'_>) {
    let number = call.client.number as i64;
    let version = if call.protocol == Protocol::Resp3 { 3 } else { 2 };
    call.reply(|reply| {
        reply.map(7);
        reply.bulk(b"server");
        reply.bulk(b"redis");
        reply.bulk(b"version");
        reply.bulk(REDIS_VERSION.as_bytes());
        reply.bulk(b"proto");
        reply.integer(version);
        reply.bulk(b"id");
        reply.integer(number);
        reply.bulk(b"mode");
        reply.bulk(b"standalone");
        reply.bulk(b"role");
        reply.bulk(b"master");
        reply.bulk(b"modules");
        reply.array(0);
    });
}

/// `RESET`: as when it was new, the name included.
pub(super) async fn reset(call: &mut Call<'_>) -> Result<()> {
    let client = call.client;
    discard(call.thread, client).await;
    unwatch(call.thread, client).await;
    unsubscribe_all(call.thread, client).await;
    call.thread.unmonitor(client);
    client.database.set(0);
    client.protocol.set(Protocol::Resp2);
    call.protocol = Protocol::Resp2;
    client.description.name.borrow_mut().clear();
    client.description.is_kept.set(false);
    client.description.is_untouching.set(false);
    client.silence.set(Silence::None);
    client.login.reset(&call.thread.shared.users);
    call.reply(|reply| reply.simple("RESET"));
    Ok(())
}
