//! Messages between clients.

use std::rc::Rc;

use firn_protocol::command::{Command, CommandId, id_of};
use firn_protocol::resp::{Protocol, Reply};

use super::call::{Call, Origin};
use super::scan::check_pattern;
use crate::bounds::{CHANNEL_BYTES_MAX, KEPT_PATTERN_BYTES_MAX};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::server_thread::{ServerThread, Turns};
use crate::subscriptions::{ClientSubscriptions, Published, Topic};

const PING: CommandId = id_of("ping");
const PSUBSCRIBE: CommandId = id_of("psubscribe");
const PUBLISH: CommandId = id_of("publish");
const PUNSUBSCRIBE: CommandId = id_of("punsubscribe");
const QUIT: CommandId = id_of("quit");
const RESET: CommandId = id_of("reset");
const SPUBLISH: CommandId = id_of("spublish");
const SSUBSCRIBE: CommandId = id_of("ssubscribe");
const SUBSCRIBE: CommandId = id_of("subscribe");
const SUNSUBSCRIBE: CommandId = id_of("sunsubscribe");
const UNSUBSCRIBE: CommandId = id_of("unsubscribe");

/// Ends all subscriptions. Others have their turns meanwhile.
pub(crate) async fn unsubscribe_all(thread: &ServerThread, client: &Client) {
    let subscriptions = std::mem::take(&mut *client.subscriptions.borrow_mut());
    let address = thread.address_of(client);
    let mut turns = Turns::new(thread);
    let ClientSubscriptions { channels, patterns, shards, .. } = subscriptions;
    for (topic, names) in [(Topic::Channel, channels), (Topic::Pattern, patterns), (Topic::Shard, shards)] {
        for name in names {
            thread.shared.subscriptions.remove(topic, &name, address);
            turns.step(name.len()).await;
        }
    }
}

/// A client that speaks version 2 cannot tell messages from replies: while it is subscribed it may
/// say little.
pub(super) fn check(client: &Client, command: &'static Command) -> Result<()> {
    let is_restricted = client.protocol.get() == Protocol::Resp2 && !client.subscriptions.borrow().is_empty();
    let is_allowed = matches!(
        command.id(),
        PING | SUBSCRIBE | UNSUBSCRIBE | PSUBSCRIBE | PUNSUBSCRIBE | SSUBSCRIBE | SUNSUBSCRIBE | QUIT | RESET
    );
    if is_restricted && !is_allowed {
        return Err(Failure::of(format!(
            "ERR Can't execute '{command}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
        )));
    }
    Ok(())
}

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const PUBSUB_CHANNELS: CommandId = id_of("pubsub|channels");
    const PUBSUB_HELP: CommandId = id_of("pubsub|help");
    const PUBSUB_NUMPAT: CommandId = id_of("pubsub|numpat");
    const PUBSUB_NUMSUB: CommandId = id_of("pubsub|numsub");
    const PUBSUB_SHARDCHANNELS: CommandId = id_of("pubsub|shardchannels");
    const PUBSUB_SHARDNUMSUB: CommandId = id_of("pubsub|shardnumsub");
    match call.command.id() {
        SUBSCRIBE => subscribe(call, Topic::Channel, b"subscribe").await?,
        PSUBSCRIBE => subscribe(call, Topic::Pattern, b"psubscribe").await?,
        SSUBSCRIBE => subscribe(call, Topic::Shard, b"ssubscribe").await?,
        UNSUBSCRIBE => unsubscribe(call, Topic::Channel, b"unsubscribe").await,
        PUNSUBSCRIBE => unsubscribe(call, Topic::Pattern, b"punsubscribe").await,
        SUNSUBSCRIBE => unsubscribe(call, Topic::Shard, b"sunsubscribe").await,
        PUBLISH => publish(call, Topic::Channel).await?,
        SPUBLISH => publish(call, Topic::Shard).await?,
        PUBSUB_CHANNELS => channels(call, Topic::Channel).await?,
        PUBSUB_SHARDCHANNELS => channels(call, Topic::Shard).await?,
        PUBSUB_NUMSUB => counts(call, Topic::Channel).await,
        PUBSUB_SHARDNUMSUB => counts(call, Topic::Shard).await,
        PUBSUB_NUMPAT => {
            let count = call.thread.shared.subscriptions.pattern_count();
            call.reply(|reply| reply.integer(count as i64));
        }
        PUBSUB_HELP => call.reply_help(),
        _ => return Err(call.not_offered()),
    }
    Ok(())
}

/// `SUBSCRIBE channel [channel ...]` and its sisters: a message for each name, in place of a reply.
async fn subscribe(call: &mut Call<'_>, topic: Topic, word: &[u8]) -> Result<()> {
    if topic == Topic::Shard && call.origin != Origin::Client {
        return Err(Failure::new("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    let client = Rc::clone(call.client);
    let names = call.arguments.from(1);
    names.iter().try_for_each(|name| check_length(topic, name))?;
    call.thread.check_names(&client, names)?;
    let mut turns = Turns::new(call.thread);
    for name in names.iter() {
        let count = {
            let mut subscriptions = client.subscriptions.borrow_mut();
            if subscriptions.add(topic, name) {
                call.thread.shared.subscriptions.add(topic, name, call.thread.address_of(&client));
            }
            subscriptions.count(topic)
        };
        confirm(call, word, Some(name), count);
        turns.step(name.len()).await;
    }
    close_if_denied(call, topic).await;
    Ok(())
}

/// Closes the client if its user may not see all that it has just subscribed to. Rights may have
/// changed while others had their turns, and subscribers are looked at only when rights change.
async fn close_if_denied(call: &Call<'_>, topic: Topic) {
    let users = &call.thread.shared.users;
    let mut turns = Turns::new(call.thread);
    loop {
        let version = users.version();
        if call.client.login.is_unlimited(users) {
            return;
        }
        let Some(user) = call.client.login.user(users) else { return call.thread.close_soon(call.client) };
        for name in call.arguments.from(1).iter() {
            if !user.allows_channel(topic == Topic::Pattern, name) {
                return call.thread.close_soon(call.client);
            }
            turns.step(user.compared_bytes(name.len())).await;
        }
        if users.version() == version {
            return;
        }
    }
}

/// Refuses names that are longer than they may be: every message would be compared with them.
fn check_length(topic: Topic, name: &[u8]) -> Result<()> {
    let (what, most) = match topic {
        Topic::Pattern => ("pattern", KEPT_PATTERN_BYTES_MAX),
        Topic::Channel | Topic::Shard => ("channel", CHANNEL_BYTES_MAX),
    };
    match name.len() > most {
        true => Err(Failure::of(format!(
            "ERR a {what} of {} bytes is longer than the longest, {most} bytes",
            name.len()
        ))),
        false => Ok(()),
    }
}

/// `UNSUBSCRIBE [channel ...]` and its sisters: from all without names.
async fn unsubscribe(call: &mut Call<'_>, topic: Topic, word: &[u8]) {
    let client = Rc::clone(call.client);
    let mut names: Vec<Vec<u8>> = call.arguments.from(1).iter().map(<[u8]>::to_vec).collect();
    if names.is_empty() {
        names = client.subscriptions.borrow().names(topic).iter().cloned().collect();
        if names.is_empty() {
            let count = client.subscriptions.borrow().count(topic);
            return confirm(call, word, None, count);
        }
    }
    let mut turns = Turns::new(call.thread);
    for name in names {
        let count = {
            let mut subscriptions = client.subscriptions.borrow_mut();
            if subscriptions.remove(topic, &name) {
                call.thread.shared.subscriptions.remove(topic, &name, call.thread.address_of(&client));
            }
            subscriptions.count(topic)
        };
        confirm(call, word, Some(&name), count);
        turns.step(name.len()).await;
    }
}

/// Confirms what became of a subscription. That is a message, which also a client gets that wishes
/// for no replies.
fn confirm(call: &mut Call<'_>, word: &[u8], name: Option<&[u8]>, count: usize) {
    let write = |reply: &mut Reply<'_>| {
        reply.push(3);
        reply.bulk(word);
        reply.bulk_or_null(name);
        reply.integer(count as i64);
    };
    match call.client.is_silent() {
        true => call.client.append_message(|protocol, out| write(&mut Reply::new(out.own(), protocol))),
        false => call.reply(write),
    }
}

/// `PUBLISH channel message`, `SPUBLISH channel message`: how many get it. It is sent once the
/// transaction is written, to clients that were subscribed when it was published and still are.
/// Others have their turns between patterns.
async fn publish(call: &mut Call<'_>, topic: Topic) -> Result<()> {
    let (channel, payload) = (call.argument(1), call.argument(2));
    check_length(topic, channel)?;
    let subscriptions = &call.thread.shared.subscriptions;
    let mut addressees = subscriptions.addressees(topic, channel);
    if topic != Topic::Shard {
        let mut last = subscriptions.pattern_addressees(channel, None, &mut addressees);
        while let Some(pattern) = last {
            call.thread.breathe().await;
            last = subscriptions.pattern_addressees(channel, Some(&pattern), &mut addressees);
        }
    }
    let count = addressees.len();
    if count > 0 {
        call.transaction.publish(Published::new(topic, channel, payload), addressees);
    }
    call.reply(|reply| reply.integer(count as i64));
    Ok(())
}

/// `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`. Others have their turns
/// meanwhile: of what they subscribe to and leave by then any part may be told.
async fn channels(call: &mut Call<'_>, topic: Topic) -> Result<()> {
    if call.arguments.len() > 3 {
        return Err(call.unknown_form());
    }
    let pattern = call.arguments.get(2);
    check_pattern(pattern.unwrap_or_default())?;
    let subscriptions = &call.thread.shared.subscriptions;
    let mut names = Vec::new();
    let mut last = subscriptions.names(topic, pattern, None, &mut names);
    while let Some(name) = last {
        call.thread.breathe().await;
        last = subscriptions.names(topic, pattern, Some(&name), &mut names);
    }
    call.reply(|reply| reply.array(names.len()));
    let mut turns = Turns::new(call.thread);
    for name in names {
        call.reply(|reply| reply.bulk(&name));
        turns.step(name.len()).await;
    }
    Ok(())
}

async fn counts(call: &mut Call<'_>, topic: Topic) {
    let names = call.arguments.from(2);
    call.reply(|reply| reply.array(2 * names.len()));
    let mut turns = Turns::new(call.thread);
    for name in names.iter() {
        let count = call.thread.shared.subscriptions.count(topic, name);
        call.reply(|reply| {
            reply.bulk(name);
            reply.integer(count as i64);
        });
        turns.step(name.len()).await;
    }
}
