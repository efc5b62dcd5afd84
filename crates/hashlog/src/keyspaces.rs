//! The keyspaces of a database, as operations look them up.

use std::sync::{Arc, PoisonError, RwLock};

use firn_engine::{
    CompactionFilter, Error, ErrorKind, HASHED_SLOTS, KeyspaceId, KeyspaceSettings, Location, MergeOperator,
    Result, Semantics,
};

/// Of the ids of keyspaces whose keys all lie in one slot. So every reader of a record knows the
/// slot, without the settings of its keyspace.
pub(crate) const ONE_SLOT: u32 = 1 << 31;

/// Of the ids of keyspaces whose keys say their slots.
pub(crate) const SLOT_IN_KEY: u32 = 1 << 30;

/// The slot that a key of such a keyspace says: bytes 4 and 5, the higher first.
#[inline]
pub(crate) fn slot_in_key(key: &[u8]) -> Option<u16> {
    let [_, _, _, _, high, low, ..] = *key else { return None };
    Some(u16::from_be_bytes([high, low])).filter(|slot| *slot < HASHED_SLOTS)
}

/// The id of a keyspace with these settings, which was given `number`.
pub(crate) fn id_of_keyspace(number: u32, settings: &KeyspaceSettings) -> u32 {
    let of = |is_so, bit| if is_so { bit } else { 0 };
    number | of(settings.in_one_slot, ONE_SLOT) | of(settings.has_slot_in_key, SLOT_IN_KEY)
}

/// `settings` with what the id of their keyspace says.
pub(crate) fn with_slots_of(id: u32, settings: KeyspaceSettings) -> KeyspaceSettings {
    let (in_one_slot, has_slot_in_key) = (id & ONE_SLOT != 0, id & SLOT_IN_KEY != 0);
    KeyspaceSettings { in_one_slot, has_slot_in_key, ..settings }
}

/// The number that a keyspace was given, of which its id is made: each is given once.
pub(crate) fn number_of_keyspace(id: u32) -> u64 {
    u64::from(id & !(ONE_SLOT | SLOT_IN_KEY))
}

/// Refuses a record of a keyspace that was never made: numbers from `next` on were not given.
pub(crate) fn check_made(id: u32, next: u64, location: impl FnOnce() -> Location) -> Result<()> {
    if number_of_keyspace(id) < next {
        return Ok(());
    }
    let message =
        format!("a record of keyspace {id}, which the manifest does not know: is its newest edit missing?");
    Err(Error::new(ErrorKind::Corrupt, message).at(location()))
}

/// One keyspace.
#[derive(Debug)]
pub(crate) struct Keyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: String,
    pub(crate) settings: KeyspaceSettings,
    pub(crate) operator: Option<Arc<dyn MergeOperator>>,
    pub(crate) filter: Option<Arc<dyn CompactionFilter>>,
}

/// All that are there, in the order of their ids.
#[derive(Debug, Default)]
pub(crate) struct Keyspaces(RwLock<Vec<Arc<Keyspace>>>);

impl Keyspaces {
    /// The keyspace with this id.
    pub(crate) fn get(&self, id: KeyspaceId) -> Result<Arc<Keyspace>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match all.binary_search_by_key(&id, |keyspace| keyspace.id) {
            Ok(index) => Ok(Arc::clone(&all[index])),
            Err(_) => Err(unknown(id)),
        }
    }

    /// Whether there is one with this id. The default one always is.
    #[inline]
    pub(crate) fn check(&self, id: KeyspaceId) -> Result<()> {
        if id == firn_engine::KEYSPACE_DEFAULT {
            return Ok(());
        }
        self.get(id).map(|_| ())
    }

    /// The keyspace called `name`.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Keyspace>> {
        self.all().into_iter().find(|keyspace| keyspace.name == name)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Keyspace>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Adds one, or replaces the one with its id.
    pub(crate) fn put(&self, keyspace: Keyspace) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match all.binary_search_by_key(&keyspace.id, |other| other.id) {
            Ok(index) => all[index] = Arc::new(keyspace),
            Err(index) => all.insert(index, Arc::new(keyspace)),
        }
    }

    /// Takes the one with this id out.
    pub(crate) fn remove(&self, id: KeyspaceId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).retain(|keyspace| keyspace.id != id);
    }
}

impl Keyspace {
    /// A keyspace whose names have code in `semantics`.
    ///
    /// # Errors
    /// `Invalid` for a name that has none.
    pub(crate) fn new(
        id: KeyspaceId,
        name: &str,
        settings: KeyspaceSettings,
        semantics: &Semantics,
    ) -> Result<Self> {
        let operator = settings.merge_operator.as_deref();
        let filter = settings.compaction_filter.as_deref();
        let extractor = settings.prefix_extractor.as_deref();
        for (what, code, is_known) in [
            ("merge operator", operator, operator.and_then(|code| semantics.merge_operator(code)).is_some()),
            (
                "compaction filter",
                filter,
                filter.and_then(|code| semantics.compaction_filter(code)).is_some(),
            ),
            (
                "prefix extractor",
                extractor,
                extractor.and_then(|code| semantics.prefix_extractor(code)).is_some(),
            ),
        ] {
            if let (Some(code), false) = (code, is_known) {
                let remedy = "register it before opening the database";
                return Err(Error::invalid(format!("keyspace {name:?} uses the {what} {code:?}: {remedy}")));
            }
        }
        let operator = operator.and_then(|code| semantics.merge_operator(code));
        let filter = filter.and_then(|code| semantics.compaction_filter(code));
        Ok(Self { id, name: name.to_owned(), settings, operator, filter })
    }
}

fn unknown(id: KeyspaceId) -> Error {
    Error::invalid(format!("there is no {id}: it was dropped, or is another database's"))
}
