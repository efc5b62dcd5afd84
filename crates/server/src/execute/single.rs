//! A command by itself: its locks, its transaction, its reply.

use std::sync::Arc;

use firn_engine::{KeyLocks, KeyspaceId};
use firn_format::datatype::{CatalogKind, UserKey};
use firn_protocol::command::{self, Command, CommandId, Flag, id_of};
use firn_protocol::resp::Arguments;

use super::call::Call;
use super::serving::hand_over;
use super::{Request, access, blocking, dispatch, generic, script, transactions};
use crate::bounds::LOCKED_KEYS_MAX;
use crate::failure::{Failure, Result};
use crate::handover::Cover;
use crate::lines::LineKey;
use crate::server_thread::ServerThread;
use crate::store::{DATABASE_COUNT, Databases, Keyspaces};
use crate::transaction::{Key, Transaction};

const EXEC: CommandId = id_of("exec");
const WATCH: CommandId = id_of("watch");
const FLUSHALL: CommandId = id_of("flushall");
const FLUSHDB: CommandId = id_of("flushdb");
const SWAPDB: CommandId = id_of("swapdb");
const SORT: CommandId = id_of("sort");
const SORT_RO: CommandId = id_of("sort_ro");

/// Runs one command and answers it; why it failed, if it did.
pub(super) async fn run(request: &Request<'_>, command: &'static Command) -> Option<Failure> {
    let mut out = Vec::new();
    let done = match command.id() {
        EXEC => transactions::exec(request, &mut out).await,
        WATCH => transactions::watch(request, &mut out).await,
        _ if script::is_script(command) => script::run(request, command, &mut out).await,
        _ if command.flags.has(Flag::Blocking) => blocking::run(request, command, &mut out).await,
        _ => once(request, command, &mut out).await,
    };
    let client = request.client;
    let failure = match done {
        Ok(()) => {
            client.append(&mut out);
            None
        }
        Err(failure) => {
            client.reply(|reply| reply.error(failure.line()));
            Some(failure)
        }
    };
    client.end_reply();
    failure
}

/// Runs a command that does not wait for others.
async fn once(request: &Request<'_>, command: &'static Command, out: &mut Vec<u8>) -> Result<()> {
    let mut names = LockNames::new(request.thread);
    names.add(request.client.database.get(), command, request.arguments)?;
    let is_writing = command.flags.has(Flag::Write);
    let reads_under_locks = !is_writing && !request.thread.engine.is_ordered() && command.has_keys();
    if reads_under_locks {
        names.add_keys(request.client.database.get(), command, request.arguments)?;
    }
    let mut locks = names.lock(request.thread).await?;
    let mut transaction = match is_writing {
        true => Transaction::locked(request.thread, names.databases()),
        false if reads_under_locks => {
            Transaction::reading_locked(request.thread, names.databases(), locks.take())
        }
        false => Transaction::reading(request.thread),
    };
    let mut call = Call::new(request, command, &mut transaction, out);
    let done = dispatch(&mut call).await;
    let is_spilled = call.is_spilled;
    match done {
        Ok(()) => {
            let ready = transaction.commit_ready().await?;
            hand_over(request.thread, ready, locks, || names.cover()).await;
            Ok(())
        }
        // Half of the reply is with the client: nothing that it could read may follow.
        Err(_) if is_spilled => {
            request.client.is_closing.set(true);
            out.clear();
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

/// Up to this many keys, a command also locks the destinations of the clients that it serves, so
/// many at a time. A client that is left over locks for itself, a moment later.
const COVERED_NAMES_MAX: usize = 1024;
const DESTINATIONS_MAX: usize = 32;

/// What commands lock before they run.
///
/// Keys are named by the identities that databases have once they are locked, and the transaction
/// goes on with these. So a command that flushes or swaps databases comes after it.
#[derive(Debug)]
pub(super) struct LockNames {
    names: Vec<(KeyspaceId, Vec<u8>)>,
    /// They are so many that all keys are locked instead.
    is_all: bool,
    keyspaces: Keyspaces,
    databases: Arc<Databases>,
}

impl LockNames {
    /// Nothing yet, by what the indexes of databases mean now.
    pub(super) fn new(thread: &ServerThread) -> Self {
        let store = &thread.shared.store;
        let databases = store.databases.load_full();
        Self { names: Vec::new(), is_all: false, keyspaces: store.keyspaces, databases }
    }

    /// Adds the keys of a command that may write; of one that only reads there are none.
    pub(super) fn add(
        &mut self,
        database: u32,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        if !command.flags.has(Flag::Write) && !access::changes_users(command) {
            return Ok(());
        }
        self.add_keys(database, command, arguments)
    }

    /// Adds the keys of a command.
    pub(super) fn add_keys(
        &mut self,
        database: u32,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) -> Result<()> {
        let keyspaces = self.keyspaces;
        if matches!(command.id(), FLUSHALL | FLUSHDB | SWAPDB) {
            self.names.push((keyspaces.catalog, vec![CatalogKind::NextDatabase as u8]));
            return Ok(());
        }
        if access::changes_users(command) {
            self.names.push((keyspaces.catalog, vec![CatalogKind::User as u8]));
            return Ok(());
        }
        if !command.has_keys() || self.is_all {
            return Ok(());
        }
        let id = self.databases.get(database).id;
        let words: Vec<&[u8]> = arguments.iter().collect();
        let other = generic::other_database(command, arguments);
        let mut positions = Vec::new();
        // A request whose keys cannot be told is refused by the command itself, before it reads
        // anything.
        let _ = command::visit_keys(command, &words, |key| positions.push(key.index));
        if self.is_too_many(positions.len()) {
            return Ok(());
        }
        for position in positions {
            let user = words.get(position).copied().unwrap_or_default();
            self.names.push((keyspaces.keys, Key::new(id, user)?.bytes().to_vec()));
            if let Some(other) = other {
                let key = Key::new(self.databases.get(other).id, user)?;
                self.names.push((keyspaces.keys, key.bytes().to_vec()));
            }
        }
        Ok(())
    }

    /// Whether `more` names are too many to be locked one by one: all keys are to be locked then.
    pub(super) fn is_too_many(&mut self, more: usize) -> bool {
        if self.names.len() + more > LOCKED_KEYS_MAX {
            self.is_all = true;
            self.names.clear();
        }
        self.is_all
    }

    /// Whether all keys are to be locked.
    pub(super) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Adds a key as the engine has it.
    pub(super) fn add_key(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.names.push((keyspace, key.to_vec()));
    }

    /// What the indexes of databases mean for the holder of the locks.
    pub(super) fn databases(&self) -> Arc<Databases> {
        Arc::clone(&self.databases)
    }

    /// Whether databases were flushed or swapped since the names were taken.
    pub(super) fn is_outdated(&self, thread: &ServerThread) -> bool {
        !Arc::ptr_eq(&self.databases, &thread.shared.store.databases.load())
    }

    /// What is to be locked.
    pub(super) fn names(&self) -> impl Iterator<Item = &(KeyspaceId, Vec<u8>)> {
        self.names.iter()
    }

    /// Locks everything at once; `None` if there is nothing to lock.
    pub(super) async fn lock(&mut self, thread: &ServerThread) -> Result<Option<KeyLocks>> {
        if self.is_all {
            let locks = thread.lock_all().await?;
            self.databases = thread.shared.store.databases.load_full();
            return Ok(Some(locks));
        }
        if self.names.is_empty() {
            return Ok(None);
        }
        loop {
            let names: Vec<(KeyspaceId, &[u8])> =
                self.names.iter().map(|(id, key)| (*id, key.as_slice())).collect();
            let locks = thread.lock(&names).await?;
            if !self.is_outdated(thread) {
                if self.add_destinations(thread) {
                    continue;
                }
                return Ok(Some(locks));
            }
            // The last holder of the locks may have read one of the keys, and flushed or swapped
            // databases: this command comes after it.
            drop(locks);
            self.rename(thread.shared.store.databases.load_full())?;
        }
    }

    /// Adds the destinations of the clients that wait for the keys, and are served when these are
    /// written; whether all is to be locked again. The locks of all names are held, so that no
    /// client begins to wait meanwhile.
    fn add_destinations(&mut self, thread: &ServerThread) -> bool {
        let count = self.names.len();
        let lines = &thread.shared.observers.lines;
        if lines.is_empty() || count > COVERED_NAMES_MAX {
            return false;
        }
        let mut index = 0;
        while index < self.names.len() && self.names.len() - count < DESTINATIONS_MAX {
            let line = LineKey::of(&self.databases, &self.names[index].1);
            let destinations = line.map(|line| lines.destinations(&line, DESTINATIONS_MAX));
            for destination in destinations.into_iter().flatten() {
                let name = (self.keyspaces.keys, destination.engine_key(&self.databases));
                if !self.names.contains(&name) {
                    self.names.push(name);
                }
            }
            index += 1;
        }
        self.names.len() > count
    }

    /// What is locked, for the clients that are served meanwhile.
    pub(super) fn cover(&self) -> Cover {
        let names = (!self.is_all).then(|| self.names.iter().cloned().collect());
        Cover::new(names, self.databases())
    }

    /// Names the same keys by what the indexes mean in `databases`.
    fn rename(&mut self, databases: Arc<Databases>) -> Result<()> {
        for (_, name) in self.names.iter_mut().filter(|(id, _)| *id == self.keyspaces.keys) {
            let Ok(key) = UserKey::decode(name) else { continue };
            // What is watched may lie in a database that was flushed long before.
            let Some(index) = self.databases.index_of(key.database()) else { continue };
            *name = Key::new(databases.get(index).id, key.bytes())?.bytes().to_vec();
        }
        self.databases = databases;
        Ok(())
    }
}

/// Whether a command of so many words names all keys that it touches, or touches none.
pub(super) fn names_all(command: &'static Command, word_count: usize) -> bool {
    let is_data = command.flags.has(Flag::Write) || command.flags.has(Flag::ReadOnly);
    // By its patterns it reads keys that elements name.
    let is_sort = matches!(command.id(), SORT | SORT_RO) && word_count > 2;
    !is_sort && (command.has_keys() || !is_data)
}

/// The index of a database that a client names.
pub(super) fn database_index(word: &[u8]) -> Result<u32> {
    let index = firn_protocol::number::parse_integer(word).ok_or(Failure::NOT_AN_INTEGER)?;
    u32::try_from(index).ok().filter(|index| *index < DATABASE_COUNT).ok_or(Failure::DATABASE_INDEX)
}
