//! MULTI and what belongs to it.

use crate::command::Flag::{AllowBusy, Fast, Loading, NoScript, SkipSlowlog, Stale};
use crate::command::key_spec::{RO, range};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("discard", 1, "2.0.0", "O(N), N commands queued", "Forgets the commands queued since `MULTI`.")
        .flags(&[NoScript, Loading, Stale, Fast, AllowBusy])
        .built(),
    entry("exec", 1, "1.2.0", "as the commands queued", "Runs what is queued since `MULTI`, all at once.")
        .flags(&[NoScript, Loading, Stale, SkipSlowlog])
        .built(),
    entry("multi", 1, "1.2.0", "O(1)", "Begins a transaction: what follows is queued until `EXEC`.")
        .flags(&[NoScript, Loading, Stale, Fast, AllowBusy])
        .built(),
    entry("unwatch", 1, "2.2.0", "O(1)", "Forgets the watched keys.")
        .flags(&[NoScript, Loading, Stale, Fast, AllowBusy])
        .built(),
    entry("watch", -2, "2.2.0", "O(N), N keys", "Makes the next `EXEC` fail if one of the keys changes.")
        .flags(&[NoScript, Loading, Stale, Fast, AllowBusy])
        .keys(&[range(1, -1, 1, RO)])
        .built(),
];
