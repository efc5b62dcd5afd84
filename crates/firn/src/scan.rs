//! Records in order, one after the other, from both ends.

pub(crate) mod ends;

use firn_engine::blocking::OrderedBlocking;
use firn_engine::{KeyspaceId, ReadAt, Result, ScanRange};

use self::ends::{Ends, Fetch, Side, Step, Written};
use crate::Record;

/// Records of a range, one after the other from either end: keys and values, copied.
///
/// Owns what it reads, so it may be kept, sent to another thread, and outlive snapshots and
/// transactions it was opened from. It does not keep the database open: once that is closed, or its
/// last handle dropped, the scan ends with an error of kind `Closed`. Shows the database as of its
/// opening, however long it runs and from whichever end; only expiry follows the clock. Fetches a
/// batch at a time and may block doing so. After an error it ends. To count records call
/// [`count_records`](Self::count_records): `count` counts an error as a record.
///
/// `next_back`, and with it `rev` and `last`, takes from the other end; the two meet. It costs a
/// second walk from its first call on. [`seek`](Self::seek) moves the front.
///
/// ```
/// # fn main() -> firn::Result<()> {
/// # let storage = std::sync::Arc::new(firn::storage::backend::Memory::new());
/// # let db = firn::Db::builder("example").storage(storage).open()?;
/// for hour in 0..24 {
///     db.put(format!("2026-05-{hour:02}"), hour.to_string())?;
/// }
/// let mut day = db.range("2026-05-06"..)?;
/// let (earliest, _) = day.next().expect("there are some")?;
/// let (latest, _) = day.next_back().expect("there are some")?;
/// assert_eq!((&earliest[..], &latest[..]), (&b"2026-05-06"[..], &b"2026-05-23"[..]));
///
/// day.seek("2026-05-12")?;
/// let rest: Vec<_> = day.collect::<firn::Result<_>>()?;
/// assert_eq!(rest.len(), 11, "12 to 22: what the back has given is not given again");
/// # Ok(())
/// # }
/// ```
pub struct Scan {
    session: OrderedBlocking,
    ends: Ends,
}

impl Scan {
    /// Opens a scan of `range`, with `written` over it. A first batch has at most `records`.
    pub(crate) fn open(
        mut session: OrderedBlocking,
        at: ReadAt<'_>,
        keyspace: KeyspaceId,
        range: ScanRange,
        (written, records): (Written, Option<usize>),
    ) -> Result<Self> {
        let scan = session.session().scan(at, keyspace, range.clone())?;
        Ok(Self { session, ends: Ends::new(scan, range, written, records) })
    }

    /// Moves the front to `key`: the next record is that of `key`, or the first behind it in the
    /// direction of the scan. Forward or back again, within the scan's range; what
    /// [`next_back`](Iterator::rev) has given is not given again.
    ///
    /// Cheap where the record lies in the batch that was fetched, else as opening a scan.
    ///
    /// # Errors
    /// As opening a scan; nothing has moved then.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.ends.seek(key.as_ref())
    }

    /// How many records are left. Costs what walking over all of them does.
    ///
    /// # Errors
    /// The first error that is met on the way, as [`next`](Iterator::next) gives it.
    pub fn count_records(mut self) -> Result<u64> {
        std::iter::from_fn(|| self.next()).try_fold(0, |count, record| record.map(|_| count + 1))
    }

    fn take(&mut self, side: Side) -> Option<Result<Record>> {
        loop {
            match self.ends.take(side) {
                Step::Record(record) => return Some(Ok(record)),
                Step::Over => return None,
                Step::Fetch => {
                    let session = &mut self.session;
                    let fetched = self.ends.fetch(side).and_then(|fetch| {
                        let Fetch { scan, limit, batch } = fetch;
                        session.next_batch(scan, limit, batch)
                    });
                    if let Err(error) = fetched {
                        self.ends.fail();
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl Iterator for Scan {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take(Side::Front)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.take(Side::Back)
    }
}

impl std::iter::FusedIterator for Scan {}
