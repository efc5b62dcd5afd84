//! Users and what they may do.

use crate::command::Flag::{Admin, Loading, NoScript, Stale};
use crate::command::absence::NO_ACL_FILES;
use crate::command::{Command, Flag, entry};

const BY_ADMIN: &[Flag] = &[Admin, NoScript, Loading, Stale];
const BY_ANYONE: &[Flag] = &[NoScript, Loading, Stale];

pub(super) const COMMANDS: &[Command] =
    &[entry("acl", -2, "6.0.0", "as its subcommands", "Users and what they may do.").with(ACL).built()];

const ACL: &[Command] = &[
    entry("cat", -2, "6.0.0", "O(1)", "Answers the categories, or the commands of one.")
        .flags(BY_ANYONE)
        .built(),
    entry("deluser", -3, "6.0.0", "O(N), N users given", "Removes users and ends their connections.")
        .flags(BY_ADMIN)
        .built(),
    entry("dryrun", -4, "7.0.0", "O(1)", "Tells whether a user may run a command, without running it.")
        .flags(BY_ADMIN)
        .built(),
    entry("genpass", -2, "6.0.0", "O(1)", "Answers a random password.").flags(BY_ANYONE).built(),
    entry("getuser", 3, "6.0.0", "O(N), N rules", "Answers what a user may do.").flags(BY_ADMIN).built(),
    entry("help", 2, "6.0.0", "O(1)", "Answers the subcommands.").flags(&[Loading, Stale]).built(),
    entry("list", 2, "6.0.0", "O(N), N users", "Answers all users as rules.").flags(BY_ADMIN).built(),
    entry("load", 2, "6.0.0", "O(N), N users", "Reads the users from their file.")
        .flags(BY_ADMIN)
        .not_yet(&NO_ACL_FILES),
    entry("log", -2, "6.0.0", "O(N), N entries answered", "Answers what was refused lately.")
        .flags(BY_ADMIN)
        .built(),
    entry("save", 2, "6.0.0", "O(N), N users", "Writes the users to their file.")
        .flags(BY_ADMIN)
        .not_yet(&NO_ACL_FILES),
    entry("setuser", -3, "6.0.0", "O(N), N rules given", "Makes a user, or changes what one may do.")
        .flags(BY_ADMIN)
        .built(),
    entry("users", 2, "6.0.0", "O(N), N users", "Answers the names of all users.").flags(BY_ADMIN).built(),
    entry("whoami", 2, "6.0.0", "O(1)", "Answers the user of the connection.").flags(BY_ANYONE).built(),
];
