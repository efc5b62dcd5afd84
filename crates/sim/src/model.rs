//! What a database must contain: the oracle every engine is held against.
//!
//! A [`Model`] keeps every version of every key in memory and answers any read as of any position.
//! It is written for obviousness: no index, no compaction, nothing ever dropped.

use std::collections::BTreeMap;

use firn_engine::{
    Direction, Error, ErrorKind, FilterVerdict, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, OrderedBatch,
    OrderedOpKind, ReadRange, Result, ScanRange, Semantics, WriteOptions,
};

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;

/// A place in the model's order of writes: records with a smaller number are seen.
///
/// Grows by one with every operation of a batch; unrelated to an engine's positions.
pub type Moment = u64;

/// Keys and values of one keyspace, or one scan's answer, in key order.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Everything readable at one moment: records by keyspace name.
pub type Content = BTreeMap<String, Records>;

/// Every version of every key.
///
/// Invariants: 1. versions of a key are in order of their moments; 2. no two operations share a
/// moment; 3. a batch's operations have neighbouring moments and [`boundaries`](Self::boundaries)
/// lie only between batches.
#[derive(Clone, Debug)]
pub struct Model {
    semantics: Semantics,
    keyspaces: BTreeMap<KeyspaceId, Keyspace>,
    next_keyspace: u32,
    boundaries: Vec<Moment>,
}

#[derive(Clone, Debug)]
struct Keyspace {
    name: String,
    settings: KeyspaceSettings,
    keys: BTreeMap<Vec<u8>, Vec<Version>>,
    ranges: Vec<RangeTombstone>,
}

#[derive(Clone, Debug)]
struct Version {
    moment: Moment,
    kind: OrderedOpKind,
    value: Vec<u8>,
    expires_at_ms: u64,
}

#[derive(Clone, Debug)]
struct RangeTombstone {
    moment: Moment,
    start: Vec<u8>,
    end: Vec<u8>,
}

impl Model {
    /// A new database with its default keyspace.
    pub fn new(semantics: Semantics) -> Self {
        let mut keyspaces = BTreeMap::new();
        keyspaces.insert(KEYSPACE_DEFAULT, Keyspace::new("default", KeyspaceSettings::default()));
        Self { semantics, keyspaces, next_keyspace: 1, boundaries: vec![0] }
    }

    /// Creates a keyspace, or finds the one of that name with equal settings.
    pub fn create_keyspace(&mut self, name: &str, settings: &KeyspaceSettings) -> Result<KeyspaceId> {
        self.check_settings(settings)?;
        if let Some(id) = self.keyspace(name) {
            return match self.keyspaces[&id].settings.fits(settings) {
                true => Ok(id),
                false => Err(Error::new(ErrorKind::Conflict, format!("keyspace {name} has other settings"))),
            };
        }
        let id = KeyspaceId(self.next_keyspace);
        self.next_keyspace += 1;
        self.keyspaces.insert(id, Keyspace::new(name, settings.clone()));
        Ok(id)
    }

    /// Where values of a keyspace lie changes no answer.
    pub fn set_separate_bytes(&self, id: KeyspaceId) -> Result<()> {
        self.keyspaces.get(&id).map(|_| ()).ok_or_else(|| unknown(id))
    }

    /// Drops a keyspace with all its versions.
    pub fn drop_keyspace(&mut self, id: KeyspaceId) -> Result<()> {
        if id == KEYSPACE_DEFAULT {
            return Err(Error::invalid("the default keyspace cannot be dropped"));
        }
        self.keyspaces.remove(&id).map(|_| ()).ok_or_else(|| unknown(id))
    }

    /// The keyspace called `name`.
    pub fn keyspace(&self, name: &str) -> Option<KeyspaceId> {
        self.keyspaces.iter().find(|(_, keyspace)| keyspace.name == name).map(|(id, _)| *id)
    }

    /// Names and ids, by id.
    pub fn keyspaces(&self) -> Vec<(String, KeyspaceId)> {
        self.keyspaces.iter().map(|(id, keyspace)| (keyspace.name.clone(), *id)).collect()
    }

    /// Settings of a keyspace.
    pub fn settings(&self, id: KeyspaceId) -> Option<&KeyspaceSettings> {
        self.keyspaces.get(&id).map(|keyspace| &keyspace.settings)
    }

    /// Whether `batch` may be written: `Invalid` if it is empty, too large in a part, or names what
    /// is not there.
    pub fn check(&self, batch: &OrderedBatch) -> Result<()> {
        if batch.is_empty() {
            return Err(Error::invalid("the batch is empty"));
        }
        for op in batch.ops() {
            let keyspace = self.keyspaces.get(&op.keyspace).ok_or_else(|| unknown(op.keyspace))?;
            let is_range = op.kind == OrderedOpKind::DeleteRange;
            if op.key.len() > KEY_BYTES_MAX || is_range && op.value.len() > KEY_BYTES_MAX {
                return Err(Error::invalid(format!("a key may have {KEY_BYTES_MAX} bytes")));
            }
            if op.kind == OrderedOpKind::Merge && keyspace.settings.merge_operator.is_none() {
                return Err(Error::invalid(format!("{} has no merge operator", keyspace.name)));
            }
        }
        Ok(())
    }

    /// Applies a batch that passed [`check`](Self::check); the moment after its last operation.
    pub fn apply(&mut self, batch: &OrderedBatch, options: WriteOptions) -> Moment {
        let mut moment = self.end();
        for op in batch.ops() {
            let Some(keyspace) = self.keyspaces.get_mut(&op.keyspace) else { continue };
            if op.kind == OrderedOpKind::DeleteRange {
                let (start, end) = (op.key.to_vec(), op.value.to_vec());
                keyspace.ranges.push(RangeTombstone { moment, start, end });
            } else {
                // Only values expire.
                let expires_at_ms = match op.kind {
                    OrderedOpKind::Put if op.expires_at_ms == 0 => options.expires_at_ms,
                    OrderedOpKind::Put => op.expires_at_ms,
                    _ => 0,
                };
                let version = Version { moment, kind: op.kind, value: op.value.to_vec(), expires_at_ms };
                keyspace.keys.entry(op.key.to_vec()).or_default().push(version);
            }
            moment += 1;
        }
        self.boundaries.push(moment);
        moment
    }

    /// The moment after everything.
    pub fn end(&self) -> Moment {
        self.boundaries.last().copied().unwrap_or(0)
    }

    /// Moments at which the database stood before the first batch and after each one.
    pub fn boundaries(&self) -> &[Moment] {
        &self.boundaries
    }

    /// Forgets everything from `moment` (a boundary) on, as a crash does.
    pub fn truncate(&mut self, moment: Moment) {
        self.boundaries.retain(|boundary| *boundary <= moment);
        for keyspace in self.keyspaces.values_mut() {
            keyspace.ranges.retain(|range| range.moment < moment);
            keyspace
                .keys
                .values_mut()
                .for_each(|versions| versions.retain(|version| version.moment < moment));
        }
    }

    /// The value of `key` as of `at`, with the clock at `now_ms`.
    pub fn get(&self, at: Moment, id: KeyspaceId, key: &[u8], now_ms: u64) -> Result<Option<Vec<u8>>> {
        let keyspace = self.keyspaces.get(&id).ok_or_else(|| unknown(id))?;
        let versions = keyspace.keys.get(key).map_or(&[][..], Vec::as_slice);
        self.resolve(keyspace, key, versions, at, now_ms)
    }

    /// When the value of `key` as of `at` expires; 0 = never, there is none, or operands lie over
    /// it.
    pub fn expires_at_ms(&self, at: Moment, id: KeyspaceId, key: &[u8], now_ms: u64) -> Result<u64> {
        if self.get(at, id, key, now_ms)?.is_none() {
            return Ok(0);
        }
        let versions = self.keyspaces.get(&id).and_then(|keyspace| keyspace.keys.get(key));
        let newest = versions.and_then(|versions| versions.iter().rev().find(|version| version.moment < at));
        Ok(newest.map_or(0, |version| version.expires_at_ms))
    }

    /// The records of `range` as of `at`, in the scan's order.
    pub fn scan(&self, at: Moment, id: KeyspaceId, range: &ScanRange, now_ms: u64) -> Result<Records> {
        let keyspace = self.keyspaces.get(&id).ok_or_else(|| unknown(id))?;
        let mut records = Records::new();
        for (key, versions) in &keyspace.keys {
            let is_inside = *key >= range.start
                && range.end.as_ref().is_none_or(|end| key < end)
                && range.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix));
            if is_inside && let Some(value) = self.resolve(keyspace, key, versions, at, now_ms)? {
                records.push((key.clone(), value));
            }
        }
        if range.direction == Direction::Backward {
            records.reverse();
        }
        Ok(records)
    }

    /// Whether `key` was written at or after `since`, a range delete over it included.
    pub fn is_written(&self, since: Moment, id: KeyspaceId, key: &[u8]) -> Result<bool> {
        let keyspace = self.keyspaces.get(&id).ok_or_else(|| unknown(id))?;
        Ok(keyspace.is_written(since, key))
    }

    /// Whether any key of `range` was written at or after `since`.
    pub fn is_range_written(&self, since: Moment, range: &ReadRange) -> Result<bool> {
        let keyspace = self.keyspaces.get(&range.keyspace).ok_or_else(|| unknown(range.keyspace))?;
        let is_key_written = keyspace.within(range).any(|key| keyspace.is_written(since, key));
        Ok(is_key_written || keyspace.is_cut(since, range))
    }

    /// Whether a write to `key` at or after `since` has to be seen: it had a value at `since`, or
    /// has one now. What had none and has none again may have left nothing behind.
    pub fn must_be_seen(&self, since: Moment, id: KeyspaceId, key: &[u8], now_ms: u64) -> Result<bool> {
        let keyspace = self.keyspaces.get(&id).ok_or_else(|| unknown(id))?;
        let is_there = |at: Moment| {
            let value = self.get(at, id, key, now_ms)?;
            Ok(value.is_some_and(|value| !self.may_be_dropped(keyspace, key, &value)))
        };
        Ok(keyspace.is_written(since, key) && (is_there(since)? || is_there(self.end())?))
    }

    /// Whether a write to a key of `range` at or after `since` has to be seen.
    pub fn must_be_seen_in(&self, since: Moment, range: &ReadRange, now_ms: u64) -> Result<bool> {
        let keyspace = self.keyspaces.get(&range.keyspace).ok_or_else(|| unknown(range.keyspace))?;
        for key in keyspace.within(range) {
            if self.must_be_seen(since, range.keyspace, key, now_ms)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everything readable as of `at`.
    pub fn content(&self, at: Moment, now_ms: u64) -> Result<Content> {
        let all = ScanRange::all();
        self.keyspaces().into_iter().map(|(name, id)| Ok((name, self.scan(at, id, &all, now_ms)?))).collect()
    }

    /// Newest first: the first version that is not an operand, with the operands above it merged
    /// into it.
    fn resolve(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        versions: &[Version],
        at: Moment,
        now_ms: u64,
    ) -> Result<Option<Vec<u8>>> {
        let covers = |range: &&RangeTombstone| range.moment < at && *range.start <= *key && *key < *range.end;
        let hidden_before =
            keyspace.ranges.iter().filter(covers).map(|range| range.moment).max().unwrap_or(0);
        let mut base = None;
        let mut operands = Vec::new();
        for version in versions.iter().rev().filter(|version| version.moment < at) {
            let is_expired = version.expires_at_ms != 0 && version.expires_at_ms <= now_ms;
            if version.moment < hidden_before || is_expired {
                break;
            }
            match version.kind {
                OrderedOpKind::Merge => operands.push(&version.value[..]),
                OrderedOpKind::Put => base = Some(&version.value[..]),
                OrderedOpKind::Delete | OrderedOpKind::DeleteRange => {}
            }
            if version.kind != OrderedOpKind::Merge {
                break;
            }
        }
        if operands.is_empty() {
            return Ok(base.map(<[u8]>::to_vec));
        }
        operands.reverse();
        let name = keyspace.settings.merge_operator.as_deref().unwrap_or_default();
        let operator = self.semantics.merge_operator(name);
        let operator =
            operator.ok_or_else(|| Error::invalid(format!("merge operator {name} has no code")))?;
        let merged = operator.merge(key, base, &operands);
        merged.map(Some).ok_or_else(|| Error::new(ErrorKind::Corrupt, "the operands cannot be merged"))
    }

    fn check_settings(&self, settings: &KeyspaceSettings) -> Result<()> {
        let KeyspaceSettings { merge_operator, compaction_filter, prefix_extractor, .. } = settings;
        let lacks_code = [
            merge_operator.as_ref().filter(|name| self.semantics.merge_operator(name).is_none()),
            compaction_filter.as_ref().filter(|name| self.semantics.compaction_filter(name).is_none()),
            prefix_extractor.as_ref().filter(|name| self.semantics.prefix_extractor(name).is_none()),
        ];
        match lacks_code.into_iter().flatten().next() {
            Some(name) => Err(Error::invalid(format!("{name} has no code"))),
            None => Ok(()),
        }
    }
}

impl Keyspace {
    fn new(name: &str, settings: KeyspaceSettings) -> Self {
        Self { name: name.to_owned(), settings, keys: BTreeMap::new(), ranges: Vec::new() }
    }

    /// Whether `key` was written at or after `since`, a range delete over it included.
    fn is_written(&self, since: Moment, key: &[u8]) -> bool {
        let versions = self.keys.get(key).map_or(&[][..], Vec::as_slice);
        let is_covered = |cut: &RangeTombstone| *cut.start <= *key && *key < *cut.end;
        versions.iter().any(|version| version.moment >= since)
            || self.ranges.iter().any(|cut| cut.moment >= since && is_covered(cut))
    }

    /// Whether a range delete at or after `since` touches `range`.
    fn is_cut(&self, since: Moment, range: &ReadRange) -> bool {
        let ends_behind = |key: &[u8]| range.end.as_ref().is_none_or(|end| key < end.as_slice());
        let is_inside = |cut: &RangeTombstone| cut.end > range.start && ends_behind(&cut.start);
        self.ranges.iter().any(|cut| cut.moment >= since && is_inside(cut))
    }

    /// Keys of `range` that were ever written alone.
    fn within(&self, range: &ReadRange) -> impl Iterator<Item = &Vec<u8>> {
        let is_before_end = |key: &Vec<u8>| range.end.as_ref().is_none_or(|end| key < end);
        self.keys.keys().filter(move |key| **key >= range.start && is_before_end(key))
    }
}

fn unknown(id: KeyspaceId) -> Error {
    Error::invalid(format!("{id} does not exist"))
}

/// Compares what an engine holds with the model.
impl Model {
    /// Whether a compaction may have dropped the record.
    fn may_be_dropped(&self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> bool {
        let filter = keyspace.settings.compaction_filter.as_deref();
        let filter = filter.and_then(|name| self.semantics.compaction_filter(name));
        filter.is_some_and(|filter| filter.verdict(key, value) == FilterVerdict::Drop)
    }

    /// What of `content` is not as the model has it at `at`, in words; `None` if all of it is.
    pub fn difference(&self, at: Moment, now_ms: u64, content: &Content) -> Option<String> {
        let names: Vec<_> = self.keyspaces.values().map(|keyspace| &keyspace.name).collect();
        if names.len() != content.len() || !names.iter().all(|name| content.contains_key(*name)) {
            return Some(format!(
                "keyspaces are {:?}, expected {names:?}",
                content.keys().collect::<Vec<_>>()
            ));
        }
        self.keyspaces.values().find_map(|keyspace| {
            let records = content.get(&keyspace.name)?;
            let mut records = records.iter().peekable();
            for (key, versions) in &keyspace.keys {
                let expected = match self.resolve(keyspace, key, versions, at, now_ms) {
                    Ok(expected) => expected,
                    Err(error) => return Some(format!("the model itself fails: {error}")),
                };
                if let Some((stray, _)) = records.next_if(|(found, _)| found < key) {
                    return Some(format!("{} has {} and should not", keyspace.name, shown(stray)));
                }
                let found = records.next_if(|(found, _)| found == key).map(|(_, value)| value);
                let is_dropped = found.is_none()
                    && expected.as_ref().is_some_and(|value| self.may_be_dropped(keyspace, key, value));
                if found != expected.as_ref() && !is_dropped {
                    let (found, expected) = (found.map(|v| shown(v)), expected.map(|v| shown(&v)));
                    return Some(format!(
                        "{} {}: found {}, expected {}",
                        keyspace.name,
                        shown(key),
                        found.unwrap_or("nothing".to_owned()),
                        expected.unwrap_or("nothing".to_owned())
                    ));
                }
            }
            records.next().map(|(stray, _)| format!("{} has {} and should not", keyspace.name, shown(stray)))
        })
    }
}

/// Bytes for people: text where it is text, shortened, with their length and a hash.
pub fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(24)].escape_ascii();
    match bytes.len() {
        ..=24 => format!("\"{text}\""),
        length => format!("\"{text}…\" ({length} bytes, hash {:016x})", firn_format::key::key_hash(bytes)),
    }
}
