//! Plain writes that follow one another in a pipeline, written together.
//!
//! `SET key value` reads nothing, so that several of them are one frame of the log. They are
//! answered once it is written, before anything that follows them is executed. Only where a
//! collection may stand at one of the keys is that read first.
//!
//! An engine without order makes a new record of each part of a batch, and changes what is written
//! by itself where it lies. So there they are written one after another, unless each would wait
//! for a device.

use std::rc::Rc;
use std::sync::Arc;

use firn_engine::{Batch, KeyLocks, KeyspaceId};
use firn_format::datatype::value::STRING_BYTES_MAX;
use firn_format::datatype::{Bucket, UserKey, Value};
use firn_protocol::command;
use firn_protocol::resp::OwnedArguments;

use super::timer::Timer;
use super::{Request, SET, metrics};
use crate::client::Client;
use crate::failure::Result;
use crate::server_thread::ServerThread;
use crate::store::Databases;
use crate::transaction::{Key, Transaction, encode_key};

/// Bytes after which a batch is written although more could be added.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Writes that are not written yet, and not answered.
#[derive(Debug, Default)]
pub(super) struct SetBatch {
    batch: Batch,
    /// What the indexes meant when the first of them was taken in, by which all are named.
    databases: Option<Arc<Databases>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl SetBatch {
    /// Whether nothing is in it.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether it is long enough to be written before more is taken in.
    pub(super) fn is_full(&self) -> bool {
        self.batch.data_bytes() > BATCH_BYTES_MAX
    }

    /// Takes in a `SET` without options; `false` if it cannot be done here.
    pub(super) fn take_set(&mut self, request: &Request<'_>) -> bool {
        let string = request.argument(2);
        self.key.clear();
        if self.batch.is_empty() {
            self.databases = None;
        }
        let store = &request.thread.shared.store;
        let databases = self.databases.get_or_insert_with(|| store.databases.load_full());
        let database = databases.get(request.client.database.get()).id;
        if string.len() > STRING_BYTES_MAX
            || encode_key(database, request.argument(1), &mut self.key).is_err()
        {
            return false;
        }
        self.value.clear();
        Value::String { bytes: string, expires_at_ms: 0 }.encode(&mut self.value);
        self.batch.put(request.thread.shared.store.keyspaces.keys, &self.key, &self.value);
        true
    }

    /// Writes and answers what was taken in, if anything was.
    pub(super) async fn finish(&mut self, thread: &Rc<ServerThread>, client: &Rc<Client>, timer: &mut Timer) {
        if self.is_empty() {
            return;
        }
        let waits = thread.engine.waits();
        let (done, written) = self.write(thread, client).await;
        let count = self.batch.len();
        let ns = timer.settle(thread);
        if thread.engine.waits() != waits {
            self.note_wait(thread, client, ns);
        }
        if let Err(failure) = &written {
            (done..count).for_each(|_| thread.counters().failed(Some(SET), true, failure.code()));
        }
        self.batch.clear();
        client.reply(|reply| {
            (0..done).for_each(|_| reply.ok());
            if let Err(failure) = &written {
                (done..count).for_each(|_| reply.error(failure.line()));
            }
        });
    }

    /// What was written had to wait for `ns` nanoseconds: all of it, so that the first one stands
    /// for the others.
    fn note_wait(&self, thread: &ServerThread, client: &Client, ns: u64) {
        let first = self.batch.get(0).and_then(|op| Some((UserKey::decode(op.key).ok()?, op.value)));
        let Some((key, Ok(Value::String { bytes, .. }))) =
            first.map(|(key, value)| (key, Value::decode(value)))
        else {
            return;
        };
        if let Some(command) = command::get(SET) {
            let arguments = OwnedArguments::new([&b"SET"[..], key.bytes(), bytes]);
            metrics::took(thread, client, command, arguments.get(), ns);
        }
    }

    /// Writes all of it; how many were written, from the first on, and why the others were not.
    async fn write(&mut self, thread: &Rc<ServerThread>, client: &Client) -> (usize, Result<()>) {
        let _locks = match self.lock(thread, client).await {
            Ok(locks) => locks,
            Err(failure) => return (0, Err(failure)),
        };
        let is_care_needed =
            thread.shared.observers.is_any() || self.batch.ops().any(|op| self.may_replace(op.key));
        let written = match is_care_needed {
            true => Box::pin(self.write_with_care(thread)).await,
            false if thread.writes_one_by_one() => return thread.write_each(&self.batch).await,
            false => thread.write(&self.batch).await,
        };
        (if written.is_ok() { self.batch.len() } else { 0 }, written)
    }

    /// Locks the keys, which have their names by what the client's index means now.
    async fn lock(&mut self, thread: &Rc<ServerThread>, client: &Client) -> Result<KeyLocks> {
        loop {
            let keys: Vec<(KeyspaceId, &[u8])> = self.batch.ops().map(|op| (op.keyspace, op.key)).collect();
            // A command that has read one of these keys to change it writes first.
            let locks = thread.lock(&keys).await?;
            if !self.is_outdated(thread) {
                return Ok(locks);
            }
            // The last holder of the locks may have read one of the keys, and flushed or swapped
            // databases: the batch comes after it.
            drop(locks);
            self.rename(thread, client)?;
        }
    }

    /// Whether databases were flushed or swapped since the keys were named.
    fn is_outdated(&self, thread: &ServerThread) -> bool {
        let now = thread.shared.store.databases.load();
        self.databases.as_ref().is_none_or(|databases| !Arc::ptr_eq(databases, &now))
    }

    /// Whether a collection may stand at the engine's key `key`, whose lock is held.
    fn may_replace(&self, key: &[u8]) -> bool {
        let (Ok(key), Some(databases)) = (UserKey::decode(key), &self.databases) else { return true };
        // No command reads a database that was flushed meanwhile.
        databases
            .with_id(key.database())
            .is_some_and(|database| database.collections.is_possible(Bucket::of(&key)))
    }

    /// Names the same keys by what the client's index means now.
    #[cold]
    fn rename(&mut self, thread: &ServerThread, client: &Client) -> Result<()> {
        let databases = thread.shared.store.databases.load_full();
        let id = databases.get(client.database.get()).id;
        let mut batch = Batch::new();
        for op in self.batch.ops() {
            let Ok(key) = UserKey::decode(op.key) else { continue };
            batch.put(op.keyspace, Key::new(id, key.bytes())?.bytes(), op.value);
        }
        self.batch = batch;
        self.databases = Some(databases);
        Ok(())
    }

    /// Writes what may replace collections, or what clients wait for.
    async fn write_with_care(&self, thread: &Rc<ServerThread>) -> Result<()> {
        let mut transaction = Transaction::locked(thread, thread.shared.store.databases.load_full());
        for op in self.batch.ops() {
            let Ok(key) = UserKey::decode(op.key) else { continue };
            let Ok(Value::String { bytes, .. }) = Value::decode(op.value) else { continue };
            let entry = transaction.entry(Key::new(key.database(), key.bytes())?).await?;
            transaction.set_string(&entry, bytes, 0).await?;
        }
        transaction.commit().await
    }
}
