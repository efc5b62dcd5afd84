//! The connection itself.

use crate::command::Flag::{Admin, AllowBusy, Fast, Loading, NoAuth, NoScript, Stale};
use crate::command::absence::NO_TRACKING;
use crate::command::{Command, Flag, entry};

/// What most commands about a connection have.
const ANYTIME: &[Flag] = &[NoScript, Loading, Stale];
/// The same for those about other connections.
const BY_ADMIN: &[Flag] = &[Admin, NoScript, Loading, Stale];

pub(super) const COMMANDS: &[Command] = &[
    entry("auth", -2, "1.0.0", "O(N), N passwords", "Logs in, as the default user or as another.")
        .flags(&[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy])
        .built(),
    entry("client", -2, "2.4.0", "as its subcommands", "This connection and others.").with(CLIENT).built(),
    entry("echo", 2, "1.0.0", "O(1)", "Answers what it is given.").flags(&[Loading, Stale, Fast]).built(),
    entry("hello", -1, "6.0.0", "O(1)", "Chooses the protocol, and may log in and name the connection.")
        .flags(&[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy])
        .built(),
    entry("ping", -1, "1.0.0", "O(1)", "Answers `PONG`, or what it is given.").flags(&[Fast]).built(),
    entry("quit", -1, "1.0.0", "O(1)", "Answers and closes the connection.")
        .flags(&[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy])
        .built(),
    entry("reset", 1, "6.2.0", "O(1)", "Makes the connection as it was when new.")
        .flags(&[NoScript, Loading, Stale, Fast, NoAuth, AllowBusy])
        .built(),
    entry("select", 2, "1.0.0", "O(1)", "Chooses the database.").flags(&[Loading, Stale, Fast]).built(),
];

const CLIENT: &[Command] = &[
    entry("caching", 3, "6.0.0", "O(1)", "Says whether the next command's keys are tracked.")
        .flags(ANYTIME)
        .not_yet(&NO_TRACKING),
    entry("getname", 2, "2.6.9", "O(1)", "Answers the connection's name.").flags(ANYTIME).built(),
    entry("getredir", 2, "6.0.0", "O(1)", "Answers which connection is told of changed keys.")
        .flags(ANYTIME)
        .built(),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.").flags(&[Loading, Stale]).built(),
    entry("id", 2, "5.0.0", "O(1)", "Answers the connection's number.").flags(ANYTIME).built(),
    entry("info", 2, "6.2.0", "O(1)", "Describes the connection.").flags(ANYTIME).built(),
    entry("kill", -3, "2.4.0", "O(N), N connections", "Closes connections.").flags(BY_ADMIN).built(),
    entry("list", -2, "2.4.0", "O(N), N connections", "Describes all connections.").flags(BY_ADMIN).built(),
    entry("no-evict", 3, "7.0.0", "O(1)", "Says whether the connection may be closed when memory is short.")
        .flags(BY_ADMIN)
        .built(),
    entry("no-touch", 3, "7.2.0", "O(1)", "Says whether what the connection reads counts as used.")
        .flags(ANYTIME)
        .built(),
    entry("pause", -3, "2.9.50", "O(1)", "Makes clients wait for a time, all commands or those that write.")
        .flags(BY_ADMIN)
        .built(),
    entry("reply", 3, "3.2.0", "O(1)", "Switches replies off, on, or off for one command.")
        .flags(ANYTIME)
        .built(),
    entry("setinfo", 4, "7.2.0", "O(1)", "Notes the name or version of the client's library.")
        .flags(ANYTIME)
        .built(),
    entry("setname", 3, "2.6.9", "O(1)", "Names the connection.").flags(ANYTIME).built(),
    entry("tracking", -3, "6.0.0", "O(1)", "Tells the client when keys it has read change.")
        .flags(ANYTIME)
        .not_yet(&NO_TRACKING),
    entry("trackinginfo", 2, "6.2.0", "O(1)", "Describes what is tracked for the connection.")
        .flags(ANYTIME)
        .built(),
    entry("unblock", -3, "5.0.0", "O(log(N)), N connections", "Ends the waiting of another connection.")
        .flags(BY_ADMIN)
        .built(),
    entry("unpause", 2, "6.2.0", "O(N), N clients waiting", "Ends `CLIENT PAUSE`.").flags(BY_ADMIN).built(),
];
