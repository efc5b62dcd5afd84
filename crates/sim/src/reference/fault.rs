//! Ways to break the reference engine on purpose.

use firn_engine::{OrderedBatch, OrderedOp, OrderedOpKind};

/// One broken promise. Suites that hold engines to the contract are run against each of these and
/// must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every write of this number (counted from 1 since opening) is acknowledged and forgotten.
    LoseWrite(u64),
    /// The operations of a batch become visible one by one.
    SplitBatch,
    /// The first operation on a key in a batch wins.
    FirstOperationWins,
    /// An update reads and writes in two steps.
    UnlockedUpdate,
    /// An update sees values that expired.
    ExpiredInUpdate,
    /// Locks exclude no other caller.
    OpenLocks,
    /// Snapshots see the present.
    LeakySnapshot,
    /// Snapshots are not counted.
    UncountedSnapshot,
    /// Expiry times are ignored.
    NoExpiry,
    /// The end of a deleted range is deleted too.
    InclusiveRange,
    /// An operand replaces the value.
    MergeReplaces,
    /// A scan's end is included.
    InclusiveScan,
    /// Backward scans leave out their first record.
    ShortBackwardScan,
    /// A scan that is opened from another one sees the present.
    LeakyReopen,
    /// Some tickets complete twice.
    TwinCompletion,
    /// Opening again forgets the last batch.
    ForgetLast,
    /// Opening again swaps the last two batches.
    SwapLast,
    /// `Disk` is acknowledged without a sync.
    SkipSync,
    /// The newest writes, this many, have not reached the storage yet.
    LateJournal(usize),
    /// After a crash only half of a batch is recovered.
    HalfBatch,
    /// A closed engine takes writes.
    OpenAfterClose,
    /// Keys of any length are taken.
    LongKeys,
    /// A copy lacks the newest write.
    StaleCopy,
    /// A value is what its source brings, whatever was announced.
    ShortSource,
    /// Records of an ingestion are there before it is finished.
    EarlyIngestion,
}

impl Fault {
    /// Every fault, for suites of suites.
    pub const ALL: [Fault; 25] = [
        Fault::LoseWrite(40),
        Fault::SplitBatch,
        Fault::FirstOperationWins,
        Fault::UnlockedUpdate,
        Fault::ExpiredInUpdate,
        Fault::OpenLocks,
        Fault::LeakySnapshot,
        Fault::UncountedSnapshot,
        Fault::NoExpiry,
        Fault::InclusiveRange,
        Fault::MergeReplaces,
        Fault::InclusiveScan,
        Fault::ShortBackwardScan,
        Fault::LeakyReopen,
        Fault::TwinCompletion,
        Fault::ForgetLast,
        Fault::SwapLast,
        Fault::SkipSync,
        Fault::LateJournal(1),
        Fault::HalfBatch,
        Fault::OpenAfterClose,
        Fault::LongKeys,
        Fault::StaleCopy,
        Fault::ShortSource,
        Fault::EarlyIngestion,
    ];

    /// What this fault makes of a batch before it is applied.
    pub(super) fn distort(self, batch: &OrderedBatch) -> OrderedBatch {
        let mut distorted = OrderedBatch::default();
        let mut ops: Vec<OrderedOp<'_>> = batch.ops().collect();
        if self == Fault::FirstOperationWins {
            ops.reverse();
        }
        for op in ops {
            match (self, op.kind) {
                (Fault::NoExpiry, _) => distorted.push(OrderedOp { expires_at_ms: 0, ..op }),
                (Fault::MergeReplaces, OrderedOpKind::Merge) => {
                    distorted.push(OrderedOp { kind: OrderedOpKind::Put, ..op })
                }
                (Fault::InclusiveRange, OrderedOpKind::DeleteRange) => {
                    let end = [op.value, &[0]].concat();
                    distorted.push(OrderedOp { value: &end, ..op })
                }
                _ => distorted.push(op),
            };
        }
        distorted
    }
}
