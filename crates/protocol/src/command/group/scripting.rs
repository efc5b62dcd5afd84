//! Scripts and functions.

use crate::command::Flag::{
    AllowBusy, DenyOom, Loading, NoMandatoryKeys, NoScript, ReadOnly, SkipMonitor, Stale, Write,
};
use crate::command::absence::{NO_FUNCTIONS, NO_SCRIPT_DEBUGGER};
use crate::command::key_spec::{RO_ACCESS, RW_ACCESS_UPDATE, counted};
use crate::command::{Command, entry};

/// The cost of running a client's script.
const SCRIPT: &str = "as the script";

pub(super) const COMMANDS: &[Command] = &[
    entry("eval", -3, "2.6.0", SCRIPT, "Runs a Lua script.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale])
        .keys(&[counted(2, RW_ACCESS_UPDATE)])
        .built(),
    entry("evalsha", -3, "2.6.0", SCRIPT, "Runs a Lua script that the server knows, named by its SHA-1.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale])
        .keys(&[counted(2, RW_ACCESS_UPDATE)])
        .built(),
    entry("evalsha_ro", -3, "7.0.0", SCRIPT, "`EVALSHA` for a script that only reads.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale, ReadOnly])
        .keys(&[counted(2, RO_ACCESS)])
        .built(),
    entry("eval_ro", -3, "7.0.0", SCRIPT, "`EVAL` for a script that only reads.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale, ReadOnly])
        .keys(&[counted(2, RO_ACCESS)])
        .built(),
    entry("fcall", -3, "7.0.0", "as the function", "Runs a function.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale])
        .keys(&[counted(2, RW_ACCESS_UPDATE)])
        .not_yet(&NO_FUNCTIONS),
    entry("fcall_ro", -3, "7.0.0", "as the function", "Runs a function that only reads.")
        .flags(&[NoScript, SkipMonitor, NoMandatoryKeys, Stale, ReadOnly])
        .keys(&[counted(2, RO_ACCESS)])
        .not_yet(&NO_FUNCTIONS),
    entry("function", -2, "7.0.0", "as its subcommands", "Libraries of functions.").with(FUNCTION).built(),
    entry("script", -2, "2.6.0", "as its subcommands", "Scripts the server knows.").with(SCRIPTS).built(),
];

const FUNCTION: &[Command] = &[
    entry("delete", 3, "7.0.0", "O(1)", "Removes a library.")
        .flags(&[Write, NoScript])
        .not_yet(&NO_FUNCTIONS),
    entry("dump", 2, "7.0.0", "O(N), N libraries", "Answers all libraries in serialised form.")
        .flags(&[NoScript])
        .not_yet(&NO_FUNCTIONS),
    entry("flush", -2, "7.0.0", "O(N), N libraries", "Removes all libraries.")
        .flags(&[Write, NoScript])
        .built(),
    entry("help", 2, "7.0.0", "O(1)", "Answers the subcommands.").flags(&[Loading, Stale]).built(),
    entry("kill", 2, "7.0.0", "O(1)", "Ends a function that runs.")
        .flags(&[NoScript, AllowBusy])
        .not_yet(&NO_FUNCTIONS),
    entry("list", -2, "7.0.0", "O(N), N libraries", "Answers the libraries: there are none yet.")
        .flags(&[NoScript])
        .built(),
    entry("load", -3, "7.0.0", "O(1)", "Adds a library.")
        .flags(&[Write, DenyOom, NoScript])
        .not_yet(&NO_FUNCTIONS),
    entry("restore", -3, "7.0.0", "O(N), N libraries", "Adds the libraries of a serialised form.")
        .flags(&[Write, DenyOom, NoScript])
        .not_yet(&NO_FUNCTIONS),
    entry("stats", 2, "7.0.0", "O(1)", "Answers what function runs.")
        .flags(&[NoScript, AllowBusy])
        .not_yet(&NO_FUNCTIONS),
];

const SCRIPTS: &[Command] = &[
    entry("debug", 3, "3.2.0", "O(1)", "Runs the scripts of this connection step by step.")
        .flags(&[NoScript])
        .not_yet(&NO_SCRIPT_DEBUGGER),
    entry("exists", -3, "2.6.0", "O(N), N scripts", "Tells of each SHA-1 whether its script is known.")
        .flags(&[NoScript])
        .built(),
    entry("flush", -2, "2.6.0", "O(N), N scripts", "Forgets all scripts.").flags(&[NoScript]).built(),
    entry("help", 2, "5.0.0", "O(1)", "Answers the subcommands.").flags(&[Loading, Stale]).built(),
    entry("kill", 2, "2.6.0", "O(1)", "Ends the scripts that run, and drops what they did.")
        .flags(&[NoScript, AllowBusy])
        .built(),
    entry("load", 3, "2.6.0", "O(N), N bytes", "Makes a script known and answers its SHA-1.")
        .flags(&[NoScript, Stale])
        .built(),
];
