//! From a frozen memtable's sorted entries to a run.

use firn_format::filter::filter_hash;

use super::{
    Arc, Dropped, Filter, FragmentList, Position, PrefixExtractor, PrefixIndex, PrefixSet, Range,
    RangeDeletes, Records, Result, Run, RunEntry, Superseding, find, key_prefix,
};

/// What a memtable leaves behind: parts of a run of level 0.
#[derive(Debug, Default)]
pub(crate) struct FrozenEntries {
    /// The prefix that all entries skip. A key without it has prefix 0 if it is smaller, else the
    /// greatest.
    pub(crate) common: Vec<u8>,
    /// Sorted by (key, newest first); no range tombstones.
    pub(crate) entries: Vec<RunEntry>,
    /// Filter hashes of the entries' keys, in the same order.
    pub(crate) hashes: Vec<u32>,
    /// The range tombstones.
    pub(crate) tombstones: Arc<FragmentList>,
    /// The stretch of the log they come from.
    pub(crate) span: Range<Position>,
    /// Bytes of all their records, range tombstones included.
    pub(crate) live_bytes: u64,
}

/// How the runs of a keyspace are filtered.
#[derive(Clone, Debug)]
pub(crate) struct Filtering {
    /// Bits per key of filters over keys and over prefixes.
    pub(crate) bits_per_key: u32,
    /// What takes prefixes, if the keyspace names an extractor.
    pub(crate) extractor: Option<Arc<dyn PrefixExtractor>>,
}

impl Run {
    /// A run of level 0. About 20 ns an entry. It looks at every record only if the common prefix
    /// of its keys is not the memtable's or there is an extractor.
    ///
    /// # Errors
    /// `Corrupt` if `records` has no record for an entry it is asked for.
    ///
    /// # Panics
    /// If there are not as many hashes as entries.
    pub(crate) fn build<R: Records + ?Sized>(
        frozen: FrozenEntries,
        filtering: &Filtering,
        records: &R,
    ) -> Result<Self> {
        let FrozenEntries { common, mut entries, hashes, tombstones, span, live_bytes } = frozen;
        assert_eq!(entries.len(), hashes.len(), "one hash an entry");
        let (mut smallest, mut largest) = (Vec::new(), Vec::new());
        if let (Some(first), Some(last)) = (entries.first(), entries.last()) {
            smallest.extend_from_slice(find(*first, records)?.key);
            largest.extend_from_slice(find(*last, records)?.key);
        }
        let exact = shared_prefix(&smallest, &largest);
        if exact != common {
            for entry in &mut entries {
                entry.prefix = key_prefix(find(*entry, records)?.key, exact.len());
            }
        }
        let common = exact.to_vec();
        let mut filter = Filter::with_room(hashes.len(), filtering.bits_per_key);
        filter.add(&hashes);
        let prefixes = match &filtering.extractor {
            Some(extractor) => PrefixSet::extract(&entries, &**extractor, filtering.bits_per_key, records)?,
            None => PrefixSet::default(),
        };
        let parts = Parts { common, entries, hashes, filter, prefixes, tombstones, smallest, largest };
        Ok(parts.assemble(span, 0, live_bytes, Dropped::default()))
    }
}

/// Everything of a run that is not derived from the rest in one quick pass.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) common: Vec<u8>,
    pub(crate) entries: Vec<RunEntry>,
    pub(crate) hashes: Vec<u32>,
    pub(crate) filter: Filter,
    pub(crate) prefixes: PrefixSet,
    pub(crate) tombstones: Arc<FragmentList>,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl Parts {
    /// The run. About 2 ns an entry.
    pub(crate) fn assemble(
        self,
        span: Range<Position>,
        level: u32,
        live_bytes: u64,
        dropped: Dropped,
    ) -> Run {
        let Parts { common, entries, hashes, filter, prefixes, tombstones, smallest, largest } = self;
        debug_assert!(entries.is_sorted_by(|a, b| a.prefix <= b.prefix), "sorted by key");
        let trailers = entries.iter().map(|entry| entry.trailer);
        let of_entries =
            trailers.clone().min().zip(trailers.max()).map(|(a, b)| (a.sequence(), b.sequence()));
        let sequence_range = match (of_entries, tombstones.sequence_range()) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        if let Some((min, max)) = sequence_range {
            assert!(span.start <= min.position(), "the span begins at {}, before sequence {min}", span.start);
            assert!(max.position() < span.end, "the span ends at {}, behind sequence {max}", span.end);
        }
        let index = PrefixIndex::build(&entries);
        Run {
            common,
            entries,
            hashes,
            index,
            filter,
            prefixes,
            range_deletes: RangeDeletes::new(tombstones),
            smallest,
            largest,
            span,
            level,
            #[cfg(test)]
            sequence_range,
            live_bytes,
            dropped,
            superseding: Superseding::default(),
        }
    }
}

impl PrefixSet {
    /// The prefixes of all keys. Looks at every record.
    fn extract<R: Records + ?Sized>(
        entries: &[RunEntry],
        extractor: &dyn PrefixExtractor,
        bits_per_key: u32,
        records: &R,
    ) -> Result<Self> {
        let mut hashes = Vec::new();
        let mut last: &[u8] = &[];
        for entry in entries {
            let key = find(*entry, records)?.key;
            let Some(prefix) = extractor.prefix_bytes(key).and_then(|length| key.get(..length)) else {
                continue;
            };
            // Keys of one prefix lie together, so that this hashes most prefixes once.
            if prefix != last || hashes.is_empty() {
                hashes.push(filter_hash(prefix));
                last = prefix;
            }
        }
        Ok(Self::from_hashes(hashes, bits_per_key))
    }

    /// The union of `sets`; without an extractor if one of them had none.
    pub(crate) fn union<'s>(sets: impl Iterator<Item = &'s Self> + Clone, bits_per_key: u32) -> Self {
        if !sets.clone().all(|set| set.extracted) {
            return Self::default();
        }
        Self::from_hashes(sets.flat_map(|set| set.hashes.iter().copied()).collect(), bits_per_key)
    }

    fn from_hashes(mut hashes: Vec<u32>, bits_per_key: u32) -> Self {
        hashes.sort_unstable();
        hashes.dedup();
        hashes.shrink_to_fit();
        let mut filter = Filter::with_room(hashes.len(), bits_per_key);
        filter.add(&hashes);
        Self { hashes, filter, extracted: true }
    }
}

/// The longest prefix of both.
pub(in crate::buffer) fn shared_prefix<'k>(smallest: &'k [u8], largest: &[u8]) -> &'k [u8] {
    let length = smallest.iter().zip(largest).take_while(|(a, b)| a == b).count();
    &smallest[..length]
}
