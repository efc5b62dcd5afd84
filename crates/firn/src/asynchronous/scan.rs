//! Records in order, one after the other, for tasks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use firn_engine::future::OrderedFutures;
use firn_engine::{Completion, Error, KeyspaceId, Outcome, ReadAt, Result, ScanRange, Ticket};
use futures_core::Stream;

use crate::Record;
use crate::scan::ends::{Ends, Fetch, Side, Step, Written};

/// Records of a range, one after the other from either end: [`Scan`](crate::Scan) for tasks.
///
/// Owns what it reads, and shows the database as of its opening, however long it runs. A batch at a
/// time is fetched; records in it are ready at once. A future of a call may be dropped: the next
/// call goes on where that one was, and no record is lost. After an error it ends.
///
/// It is a `Stream` (of crate `futures-core`), too.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # let db = firn::Db::builder("example").storage(storage).open()?.futures();
/// runtime.block_on(async {
///     for number in 0..100_u8 {
///         db.put([number], "").await?;
///     }
///     let mut scan = db.range([10]..[90])?;
///     assert_eq!(scan.next().await.expect("there are some")?.0, [10]);
///     assert_eq!(scan.next_back().await.expect("there are some")?.0, [89]);
///     scan.seek([50]).await?;
///     assert_eq!(scan.next().await.expect("there are some")?.0, [50]);
///     Ok(())
/// })
/// # }
/// ```
pub struct AsyncScan {
    session: OrderedFutures,
    ends: Ends,
    /// The batch under way, if one is.
    pending: Option<(Side, Ticket)>,
}

impl AsyncScan {
    /// As [`crate::Scan::open`].
    pub(super) fn open(
        mut session: OrderedFutures,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        range: ScanRange,
        (written, records): (Written, Option<usize>),
    ) -> Result<Self> {
        let scan = session.session().scan(at, keyspace, range.clone())?;
        Ok(Self { session, ends: Ends::new(scan, range, written, records), pending: None })
    }

    /// The next record; `None` if none is left.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| self.poll_take(Side::Front, context)).await
    }

    /// The next record from the other end; `None` if none is left.
    pub async fn next_back(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| self.poll_take(Side::Back, context)).await
    }

    /// Moves the front to `key`, or to the first key behind it in the direction of the scan. See
    /// [`Scan::seek`](crate::Scan::seek).
    ///
    /// # Errors
    /// As opening a scan; nothing has moved then. That of a batch that was under way ends the scan.
    pub async fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        poll_fn(|context| self.poll_arrived(context)).await?;
        self.ends.seek(key.as_ref())
    }

    fn poll_take(&mut self, side: Side, context: &mut Context<'_>) -> Poll<Option<Result<Record>>> {
        loop {
            if let Err(error) = ready!(self.poll_arrived(context)) {
                return Poll::Ready(Some(Err(error)));
            }
            match self.ends.take(side) {
                Step::Record(record) => return Poll::Ready(Some(Ok(record))),
                Step::Over => return Poll::Ready(None),
                Step::Fetch => {
                    if let Err(error) = self.begin(side) {
                        self.ends.fail();
                        return Poll::Ready(Some(Err(error)));
                    }
                }
            }
        }
    }

    /// Asks for the next batch of `side`.
    fn begin(&mut self, side: Side) -> Result<()> {
        let Fetch { scan, limit, batch } = self.ends.fetch(side)?;
        if let Outcome::Pending(ticket) = scan.next_batch(limit, batch)? {
            self.pending = Some((side, ticket));
        }
        Ok(())
    }

    /// Takes the batch under way, once it is there.
    fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Some((side, ticket)) = self.pending else { return Poll::Ready(Ok(())) };
        let completion = ready!(self.session.poll_completion(ticket, context));
        self.pending = None;
        let error = match completion {
            Completion::Scanned(batch) => {
                self.ends.arrived(side, batch);
                return Poll::Ready(Ok(()));
            }
            Completion::Failed(error) => error,
            other => Error::bug(format!("a scan completed as {other:?}")),
        };
        self.ends.fail();
        Poll::Ready(Err(error))
    }
}

impl Stream for AsyncScan {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_take(Side::Front, context)
    }
}

impl std::fmt::Debug for AsyncScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncScan").field("pending", &self.pending).finish_non_exhaustive()
    }
}
