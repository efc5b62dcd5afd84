//! The state of one database, its readers, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use super::elsewhere::Pool;
use super::homes::{Active, Birth, FileName, Files, Home, Map, Name, Records, Sealed, Value, lock};
use super::orphans::OutputNames;
use crate::model::swap::Swap;
use crate::model::sync::{Mutex, locked, pause, step};

/// An order of steps that is wrong, with where production has the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What died while a GC ran is not dead in its output: `died_since` in
    /// `blob_gc/collect.rs`.
    ForgetLiveness,
    /// What a GC copied from a segment that is gone meanwhile is taken to live: `None` in
    /// `died_since`.
    BelieveTheGone,
    /// What a compaction found dead is looked up in the map that it began with: `Edits::commit`
    /// gives `BlobEdit::changes` the newest, under the manifest's lock.
    TranslateByAnOldMap,
    /// A GC changes the map that it began with: `change_map` in
    /// `Collecting::commit_blob_gc`.
    ChangeAnOldMap,
    /// A reader takes records and the map from two versions: `read/get.rs`, whose version
    /// `BlobStore::read` has the map of.
    MapOfAnotherVersion,
    /// A reader knows only the segments that its version was made with: `begun_since` in
    /// `BlobStore::read`.
    ForgetBirths,
    /// Files go when no new version names them: `Sealed::retire` and its `drop` in `blobs/map.rs`.
    RemoveWhenRetired,
    /// Nothing holds a job's inputs: `_inputs` in `Collecting::collect`, `_held` in
    /// `compact/run.rs`.
    HoldNothing,
    /// Two jobs at once collect the same segment: `Busy::collecting`, asked and claimed under one
    /// lock in `Database::step`.
    CollectTwice,
    /// References that were obsolete before die once more when they go: `was_obsolete` in
    /// `blob_gc/liveness.rs`.
    DieTwice,
    /// A flush's finds are taken to live, whatever was committed since: `obsolete_now` in
    /// `blob_gc/obsolete.rs`.
    BelieveTheFound,
    /// A compaction asks where the values of obsolete references are: `followed` in
    /// `compact/blobs.rs`.
    FollowTheObsolete,
    /// A flush leaves segments unsealed that its tables refer to: `concerned` in
    /// `BlobStore::plan_blobs`.
    FlushUnsealed,
    /// A compaction begins with what its keyspace had when it was looked up, whether it has been
    /// dropped since or not: `blob_policy` in `compact/blobs.rs`.
    CompactTheDropped,
    /// A keyspace is dropped while segments are being sealed, with values of its own:
    /// `plan_dropped_blobs` holds `sealing` until the edit.
    DropUnlocked,
    /// A keyspace that is dropped looks for its values in a map older than the manifest. Both are
    /// taken under one lock in `plan_dropped_blobs`.
    DropByAnOldMap,
    /// Segments are sealed by two threads at once: `lock_sealing`, held until the edit that says
    /// so.
    SealUnlocked,
    /// A copy lets go of the manifest before it links the files: `copy`.
    CopyUnlocked,
    /// A copy holds nothing while it copies what cannot be linked: `kept` in
    /// `copy`.
    CopyUnheld,
    /// The answer to a job that was given up is taken after all: `give_up` in
    /// `jobs/src/executor/chain/work.rs`, after which the handle is not asked.
    TakeLateAnswers,
    /// All attempts at a job write under the same name: `draw_stem` in
    /// `jobs/src/executor/chain/work.rs`, and the token behind it.
    OneStem,
    /// Outputs are removed while an attempt may still be committed with them:
    /// `AbandonedNames::contains` in `orphans`, `background/orphans.rs`.
    RemoveInUse,
    /// Files are removed that only readers hold: `ObsoleteFiles::held` in `orphans`.
    RemoveUnlisted,
}

/// What a key's record says: the value, and where that is unless it is in the record itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) name: Option<Name>,
    pub(crate) value: Value,
}

pub(crate) type Table = BTreeMap<u8, Record>;

/// `Memtable`, and the run that it is once no writer writes to it any more.
#[derive(Default)]
pub(crate) struct Memtable(pub(crate) std::sync::Mutex<Indexed>);

#[derive(Default)]
pub(crate) struct Indexed {
    /// Oldest first.
    pub(crate) records: Vec<(u8, Record)>,
    pub(crate) is_frozen: bool,
}

impl Memtable {
    /// What each key's newest record says.
    pub(crate) fn newest(&self) -> Table {
        self.newest_below(usize::MAX)
    }

    fn newest_below(&self, watermark: usize) -> Table {
        lock(&self.0).records.iter().take(watermark).copied().collect()
    }
}

/// `Version` with its one keyspace.
#[derive(Clone, Default)]
pub(crate) struct Version {
    /// There is no keyspace any more.
    pub(crate) is_dropped: bool,
    pub(crate) memtable: Arc<Memtable>,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Memtable>>,
    /// Newest first.
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) map: Arc<Map>,
}

impl Version {
    /// What each key's newest record says, the memtable's aside.
    pub(crate) fn newest_of_runs(&self) -> Table {
        let tables = self.tables.iter().map(|table| (**table).clone());
        let parts = self.runs.iter().map(|run| run.newest()).chain(tables);
        parts.reduce(under).unwrap_or_default()
    }
}

/// What a reader has as long as it reads.
pub(crate) struct Reading {
    version: Arc<Version>,
    /// Of the version's memtable, the records below are seen.
    watermark: usize,
}

/// `newer` over `older`.
pub(crate) fn under(mut newer: Table, older: Table) -> Table {
    for (key, record) in older {
        newer.entry(key).or_insert(record);
    }
    newer
}

/// `BlobsState`.
#[derive(Clone, Default)]
pub(crate) struct Manifest {
    pub(crate) segments: BTreeMap<u32, Known>,
    /// From collected segments to the segments that have their values.
    pub(crate) relocations: BTreeMap<u32, u32>,
    /// References of tables that no reader follows any more.
    pub(crate) obsolete: BTreeSet<Name>,
}

#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) file: FileName,
    pub(crate) count: usize,
    pub(crate) dead: BTreeSet<usize>,
}

/// `Rolling`.
pub(crate) struct Rolling {
    pub(crate) next: u32,
    pub(crate) open: Vec<Arc<Active>>,
    /// What the newest version has, or more.
    pub(crate) map: Arc<Map>,
    pub(crate) newest: Arc<Birth>,
}

/// `Busy`.
#[derive(Default)]
pub(crate) struct Busy {
    pub(crate) collecting: BTreeSet<u32>,
    pub(crate) is_compacting: bool,
}

pub(crate) struct Database {
    mistake: Option<Mistake>,
    /// Flushes ask tables for nothing, which are not in memory: `Lookup::Miss` in
    /// `blob_gc/obsolete.rs`. Values die by compactions alone.
    pub(super) are_tables_cold: bool,
    pub(crate) version: Swap<Version>,
    changing: Mutex<()>,
    pub(crate) sealing: Mutex<()>,
    pub(crate) manifest: Mutex<Manifest>,
    rolling: std::sync::Mutex<Rolling>,
    pub(crate) busy: std::sync::Mutex<Busy>,
    pub(crate) files: Arc<Files>,
    pub(crate) output_names: OutputNames,
    pub(crate) pool: Pool,
    /// Values written.
    pub(crate) written: AtomicU32,
}

impl Database {
    pub(crate) fn new(mistake: Option<Mistake>) -> Self {
        let map = Arc::<Map>::default();
        let newest = Arc::clone(&map.newest);
        let version = Version { map: Arc::clone(&map), ..Version::default() };
        Self {
            mistake,
            are_tables_cold: false,
            version: Swap::new(Arc::new(version)),
            changing: Mutex::new(()),
            sealing: Mutex::new(()),
            manifest: Mutex::new(Manifest::default()),
            rolling: std::sync::Mutex::new(Rolling { next: 0, open: Vec::new(), map, newest }),
            busy: std::sync::Mutex::default(),
            files: Arc::default(),
            output_names: OutputNames::default(),
            pool: Pool::new(),
            written: AtomicU32::new(0),
        }
    }

    /// The same, whose flushes find nothing.
    pub(crate) fn cold(mistake: Option<Mistake>) -> Self {
        Self { are_tables_cold: true, ..Self::new(mistake) }
    }

    pub(crate) fn is_wrong(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Everything there is now: the version first, and then the watermark.
    pub(crate) fn latest(&self) -> Reading {
        let version = self.version.load();
        let watermark = lock(&version.memtable.0).records.len();
        Reading { version, watermark }
    }

    /// `Catalog::change_version`.
    pub(crate) fn change_version(&self, change: impl FnOnce(&mut Version)) {
        let _changing = locked(&self.changing);
        let mut version = (*self.version.load()).clone();
        change(&mut version);
        self.version.store(Arc::new(version));
    }

    /// `BlobStore::lock`.
    pub(crate) fn rolling<R>(&self, work: impl FnOnce(&mut Rolling) -> R) -> R {
        pause();
        work(&mut lock(&self.rolling))
    }

    /// `BlobStore::map`.
    pub(crate) fn map(&self) -> Arc<Map> {
        self.change_map(|_, _| ())
    }

    /// `BlobStore::change_map`.
    pub(crate) fn change_map(&self, change: impl FnOnce(&mut Map, &mut Vec<Arc<Active>>)) -> Arc<Map> {
        self.rolling(|rolling| {
            let mut map = (*rolling.map).clone();
            map.catch_up();
            change(&mut map, &mut rolling.open);
            rolling.map = Arc::new(map);
            Arc::clone(&rolling.map)
        })
    }

    /// `BlobStore::next_number`.
    pub(crate) fn next_number(&self) -> u32 {
        self.rolling(|rolling| {
            rolling.next += 1;
            rolling.next
        })
    }

    /// `sealed.retire()`, of a segment that the map is about to lose.
    pub(crate) fn retire(&self, sealed: &Sealed) {
        match self.is_wrong(Mistake::RemoveWhenRetired) {
            true => self.files.remove(sealed.file),
            false => sealed.retire(),
        }
    }
}

impl Database {
    /// Reads every key: its newest value is where the version says, and is the right one.
    pub(crate) fn assert_finds_all(&self, reading: &Reading) {
        let Reading { version, watermark } = reading;
        let found = under(version.memtable.newest_below(*watermark), version.newest_of_runs());
        let other = self.is_wrong(Mistake::MapOfAnotherVersion).then(|| self.version.load());
        let map = other.as_ref().map_or(&version.map, |other| &other.map);
        for (key, Record { name, value }) in found {
            let Some(name) = name else { continue };
            // Each key is a step of its own.
            step();
            assert_eq!(self.read(map, name, key), value, "another value is read for key {key}");
        }
    }

    /// `BlobStore::read`.
    fn read(&self, map: &Map, name: Name, key: u8) -> Value {
        let (born, ordinal) = name;
        let begun_since = || map.begun_since(born).filter(|_| !self.is_wrong(Mistake::ForgetBirths));
        match map.homes.get(&born) {
            Some(Home::Open(active)) => active.value(ordinal),
            Some(Home::Sealed(_) | Home::Moved(..)) => {
                let Some((sealed, ordinal)) = map.place(name) else {
                    panic!("the value of key {key} is nowhere")
                };
                self.files.assert_has(sealed.file, "somebody reads it")[ordinal].1
            }
            None => match begun_since() {
                Some(active) => active.value(ordinal),
                None => panic!("the value of key {key} is nowhere"),
            },
        }
    }

    /// Each value is referred to once or dead, and the files are those of the segments.
    pub(crate) fn assert_conserved(&self) {
        let manifest = locked(&self.manifest);
        let version = self.version.load();
        let mut live: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        let mut obsolete = manifest.obsolete.clone();
        for name in version.tables.iter().flat_map(|table| table.values()).filter_map(|it| it.name) {
            if obsolete.remove(&name) {
                let known = |(holder, ordinal): (&Arc<Sealed>, usize)| {
                    manifest.segments.get(&holder.number).is_none_or(|known| known.dead.contains(&ordinal))
                };
                assert!(version.map.place(name).is_none_or(known), "an obsolete reference's value lives");
                continue;
            }
            let (holder, ordinal) = version.map.place(name).expect("a value is nowhere");
            let is_first = live.entry(holder.number).or_default().insert(ordinal);
            assert!(is_first, "a value is referred to twice");
        }
        for record in version.newest_of_runs().values() {
            let is_obsolete = record.name.is_some_and(|name| manifest.obsolete.contains(&name));
            assert!(!is_obsolete, "a key's newest record is obsolete");
        }
        for (number, known) in &manifest.segments {
            let live = live.get(number).cloned().unwrap_or_default();
            assert!(live.is_disjoint(&known.dead), "a value of segment {number} is referred to, and dead");
            let all = live.len() + known.dead.len();
            assert_eq!(all, known.count, "a value of segment {number} is neither referred to nor dead");
        }
        assert!(obsolete.is_empty(), "a reference is obsolete that no table has");
        let known: BTreeSet<FileName> = manifest.segments.values().map(|known| known.file).collect();
        let files = self.files.list();
        assert_eq!(files, known, "there are other files than segments");
        let homes = version.map.homes.keys();
        assert!(
            homes.eq(manifest.segments.keys().chain(manifest.relocations.keys()).collect::<BTreeSet<_>>()),
            "the map knows other segments than the manifest"
        );
    }

    /// Neither a segment nor a relocation is left.
    pub(crate) fn assert_has_nothing(&self) {
        let manifest = locked(&self.manifest);
        assert!(
            manifest.segments.is_empty() && manifest.relocations.is_empty(),
            "values outlive their keyspace"
        );
    }

    /// What `name` is called among the values that `records` have.
    pub(crate) fn value_of(records: &Records, ordinal: usize, name: Name) -> Value {
        let (found, value) = records[ordinal];
        assert_eq!(found, name, "another value is where one is looked for");
        value
    }
}
