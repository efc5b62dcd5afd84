//! Plain writes that follow one another in a pipeline, written together.
//!
//! `SET key value` reads nothing, so that several of them are one frame of the log. They are answered once it is written,
//! before anything that follows them is executed.

use std::rc::Rc;

use firn_engine::{Batch, KeyspaceId};

use super::Call;
use super::key::{encode_key, keys, put_string};
use crate::client::Client;
use crate::worker::Worker;

/// Bytes after which a run is written although more could be added.
const RUN_BYTES_MAX: usize = 256 << 10;

/// Writes that are not written yet, and not answered.
#[derive(Debug, Default)]
pub(crate) struct Run {
    batch: Batch,
    key: Vec<u8>,
}

impl Run {
    /// Whether it is long enough to be written before more is taken in.
    pub(super) fn is_full(&self) -> bool {
        self.batch.data_bytes() > RUN_BYTES_MAX
    }

    /// Takes in a `SET` without options; `false` if it cannot be done.
    pub(super) fn take_set(&mut self, call: &Call<'_>) -> bool {
        self.key.clear();
        encode_key(call, call.argument(1), &mut self.key).is_ok()
            && put_string(&mut self.batch, keys(call), &self.key, call.argument(2)).is_ok()
    }

    /// Writes and answers what was taken in.
    pub(crate) async fn finish(&mut self, worker: &Rc<Worker>, client: &Rc<Client>) {
        if self.batch.is_empty() {
            return;
        }
        let written = self.write(worker).await;
        let count = self.batch.len();
        self.batch.clear();
        client.reply(|reply| {
            (0..count).for_each(|_| match &written {
                Ok(()) => reply.ok(),
                Err(failure) => reply.error(failure.line()),
            });
        });
    }

    async fn write(&mut self, worker: &Rc<Worker>) -> crate::failure::Result<()> {
        let keys: Vec<(KeyspaceId, &[u8])> = self.batch.ops().map(|op| (op.keyspace, op.key)).collect();
        // Whoever has read one of these keys to change it writes first.
        let _locks = worker.lock(&keys).await?;
        worker.write(&self.batch).await
    }
}
