//! Requests that wait in a pipeline: what they will read is loaded for all of them together.

use std::cell::RefCell;

use firn_engine::Outcome;
use firn_protocol::command::{self, Begin, Command, Flag, KeySpec};
use firn_protocol::resp::Arguments;

use super::{SET, Tools};
use crate::client::Client;
use crate::server_thread::ServerThread;
use crate::transaction::encode_key;

/// Where the keys of a prefetch are put together; a server thread keeps one.
#[derive(Debug, Default)]
pub(crate) struct PrefetchKeys(RefCell<(Vec<u8>, Vec<usize>)>);

/// Has the engine load what the first keys of these requests need, if there is more than one;
/// pending while it reads that from the device.
pub(crate) fn prefetch<'a>(
    thread: &ServerThread,
    client: &Client,
    tools: &Tools,
    waiting: impl ExactSizeIterator<Item = Arguments<'a>>,
) -> Outcome<()> {
    if waiting.len() < 2 {
        return Outcome::Done(());
    }
    let store = &thread.shared.store;
    let database = store.databases.load().get(client.database.get()).id;
    let mut keys = tools.prefetch_keys.0.borrow_mut();
    let (bytes, ends) = &mut *keys;
    bytes.clear();
    ends.clear();
    for arguments in waiting {
        let key =
            arguments.get(1).filter(|_| is_reading_first_argument(arguments.get(0).unwrap_or_default()));
        // A key that is too long is refused when its turn comes.
        if key.is_some_and(|key| encode_key(database, key, bytes).is_ok()) {
            ends.push(bytes.len());
        }
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let keys: Vec<&[u8]> =
        starts.zip(ends.iter()).filter_map(|(start, end)| bytes.get(start..*end)).collect();
    match keys.len() {
        0 | 1 => Outcome::Done(()),
        _ => thread.engine.load(store.keyspaces.keys, &keys),
    }
}

/// Whether the command reads what stands at its first argument; `SET` reads nothing in most cases.
fn is_reading_first_argument(name: &[u8]) -> bool {
    let is_reading = |command: &Command| {
        let is_about_keys = command.flags.has(Flag::Write) || command.flags.has(Flag::ReadOnly);
        is_about_keys
            && matches!(command.key_specs, [KeySpec { begin: Begin::Index(1), .. }, ..])
            && command.id() != SET
    };
    command::find(name).is_some_and(is_reading)
}
