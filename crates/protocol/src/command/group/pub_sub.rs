//! Publishing and subscribing.

use crate::command::Flag::{Fast, Loading, NoScript, PubSub, Stale};
use crate::command::key_spec::{at, range};
use crate::command::{Command, KeyFlag, KeyFlags, entry};

/// A sharded channel.
const CHANNEL: KeyFlags = KeyFlags::of(&[KeyFlag::NotKey]);

pub(super) const COMMANDS: &[Command] = &[
    entry("psubscribe", -2, "2.0.0", "O(N), N patterns", "Subscribes to the channels that match patterns.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .built(),
    entry("publish", 3, "2.0.0", "O(N+M), N subscribers, M patterns of all", "Sends a message to a channel.")
        .flags(&[PubSub, Loading, Stale, Fast])
        .built(),
    entry("pubsub", -2, "2.8.0", "as its subcommands", "Channels, patterns and their subscribers.")
        .with(PUBSUB)
        .built(),
    entry("punsubscribe", -1, "2.0.0", "O(N), N patterns", "Ends subscriptions to patterns.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .built(),
    entry("spublish", 3, "7.0.0", "O(N), N subscribers", "Sends a message to a sharded channel.")
        .flags(&[PubSub, Loading, Stale, Fast])
        .keys(&[at(1, CHANNEL)])
        .built(),
    entry("ssubscribe", -2, "7.0.0", "O(N), N channels", "Subscribes to sharded channels.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .keys(&[range(1, -1, 1, CHANNEL)])
        .built(),
    entry("subscribe", -2, "2.0.0", "O(N), N channels", "Subscribes to channels.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .built(),
    entry("sunsubscribe", -1, "7.0.0", "O(N), N channels", "Ends subscriptions to sharded channels.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .keys(&[range(1, -1, 1, CHANNEL)])
        .built(),
    entry("unsubscribe", -1, "2.0.0", "O(N), N channels", "Ends subscriptions to channels.")
        .flags(&[PubSub, NoScript, Loading, Stale])
        .built(),
];

const PUBSUB: &[Command] = &[
    entry("channels", -2, "2.8.0", "O(N), N channels", "Answers the channels that have subscribers.")
        .flags(&[PubSub, Loading, Stale])
        .built(),
    entry("help", 2, "6.2.0", "O(1)", "Answers the subcommands.")
        .flags(&[Loading, Stale])
        .categories(&[])
        .built(),
    entry("numpat", 2, "2.8.0", "O(1)", "Answers how many patterns are subscribed to.")
        .flags(&[PubSub, Loading, Stale])
        .built(),
    entry("numsub", -2, "2.8.0", "O(N), N channels given", "Answers how many subscribers channels have.")
        .flags(&[PubSub, Loading, Stale])
        .built(),
    entry("shardchannels", -2, "7.0.0", "O(N), N channels", "Answers the sharded channels with subscribers.")
        .flags(&[PubSub, Loading, Stale])
        .built(),
    entry("shardnumsub", -2, "7.0.0", "O(N), N channels given", "`PUBSUB NUMSUB` for sharded channels.")
        .flags(&[PubSub, Loading, Stale])
        .built(),
];
