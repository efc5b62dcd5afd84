//! `Database` as far as values beside the tree go: one keyspace, one-byte keys, tables that are references, segments that are
//! the names of their values.
//!
//! Each step is named after the function it follows, and does what that one does in the same order; a [`Mistake`] is one such
//! order gone wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use loom::sync::Mutex;

use super::swap::Swap;

/// An order of steps that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// What died while a collection ran is not dead in its output.
    ForgetDeaths,
    /// What a compaction found dead is looked up in the map that it began with.
    TranslateByAnOldMap,
    /// A collection changes the map that it began with.
    ChangeAnOldMap,
    /// A reader takes records and the map from two versions.
    MapOfAnotherVersion,
    /// Files go when no new version names them.
    RemoveWhenRetired,
    /// A job's inputs are held by nobody.
    HoldNothing,
    /// A copy lets go of the manifest before it links the files.
    CopyUnlocked,
}

/// A value, by the segment and the ordinal that it was born with.
type Name = (u32, usize);

/// A table: what each key's record refers to.
type Table = BTreeMap<u8, Name>;

/// `Version` with its one keyspace and its `ValueMap`.
#[derive(Clone, Default)]
pub(crate) struct Version {
    /// Newest first.
    tables: Vec<Arc<Table>>,
    map: Arc<Map>,
}

type Map = BTreeMap<u32, Home>;

/// `Home`.
#[derive(Clone)]
enum Home {
    Here(Arc<Sealed>),
    /// From ordinals to those of another segment.
    Moved(Arc<BTreeMap<usize, usize>>, Arc<Sealed>),
}

/// `Sealed`: its file goes with its last holder.
struct Sealed {
    number: u32,
    values: Vec<Name>,
    retired: AtomicBool,
    files: Arc<Files>,
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            self.files.remove(self.number);
        }
    }
}

/// The directory, with the standard library's lock: loom sees no order in it.
#[derive(Default)]
struct Files(std::sync::Mutex<BTreeSet<u32>>);

impl Files {
    fn create(&self, number: u32) {
        assert!(self.0.lock().unwrap().insert(number), "segment {number} is made twice");
    }

    fn remove(&self, number: u32) {
        self.0.lock().unwrap().remove(&number);
    }

    fn assert_has(&self, number: u32, what: &str) {
        assert!(self.0.lock().unwrap().contains(&number), "segment {number} is removed while {what}");
    }
}

/// `ValuesState`, and the newest map.
#[derive(Default)]
struct Manifest {
    segments: BTreeMap<u32, Known>,
    /// From collected segments to who has their values.
    redirects: BTreeMap<u32, u32>,
    map: Arc<Map>,
}

#[derive(Clone)]
struct Known {
    count: usize,
    dead: BTreeSet<usize>,
}

/// `CollectSpec`.
struct Spec {
    victims: Vec<(u32, Known)>,
    map: Arc<Map>,
    /// So that their files stay.
    held: Vec<Arc<Sealed>>,
}

pub(crate) struct Database {
    mistake: Option<Mistake>,
    version: Swap<Version>,
    manifest: Mutex<Manifest>,
    files: Arc<Files>,
    next: AtomicU32,
}

impl Database {
    pub(crate) fn new(mistake: Option<Mistake>) -> Self {
        Self {
            mistake,
            version: Swap::new(Arc::default()),
            manifest: Mutex::new(Manifest::default()),
            files: Arc::default(),
            next: AtomicU32::new(1),
        }
    }

    fn is_wrong(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        self.version.load()
    }

    fn sealed(&self, values: Vec<Name>, number: u32) -> Arc<Sealed> {
        self.files.create(number);
        Arc::new(Sealed { number, values, retired: AtomicBool::new(false), files: Arc::clone(&self.files) })
    }

    fn retire(&self, home: Option<&Home>) {
        let Some(Home::Here(sealed)) = home else { return };
        match self.is_wrong(Mistake::RemoveWhenRetired) {
            true => self.files.remove(sealed.number),
            false => sealed.retired.store(true, Ordering::Release),
        }
    }

    /// `Database::change_version`; whoever calls it holds the manifest.
    fn change_version(&self, change: impl FnOnce(&mut Version)) {
        let mut version = (*self.version.load()).clone();
        change(&mut version);
        self.version.store(Arc::new(version));
    }

    /// Puts of large values and the drain that seals their segment: one edit.
    pub(crate) fn write(&self, keys: &[u8]) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let names: Vec<Name> = (0..keys.len()).map(|ordinal| (number, ordinal)).collect();
        let table: Table = keys.iter().copied().zip(names.clone()).collect();
        let sealed = self.sealed(names, number);
        let mut manifest = self.manifest.lock().unwrap();
        manifest.segments.insert(number, Known { count: keys.len(), dead: BTreeSet::new() });
        let mut map = (*manifest.map).clone();
        map.insert(number, Home::Here(sealed));
        manifest.map = Arc::new(map);
        self.change_version(|version| {
            version.tables.insert(0, Arc::new(table));
            version.map = Arc::clone(&manifest.map);
        });
    }

    /// `Database::compact` of all tables there are, and `Database::commit`.
    pub(crate) fn compact(&self) {
        let version = self.version.load();
        let (inputs, old_map) = (version.tables.clone(), Arc::clone(&version.map));
        drop(version);
        let mut output = Table::new();
        let mut dead = Vec::new();
        for (key, name) in inputs.iter().flat_map(|table| table.iter()) {
            match output.get(key) {
                Some(_) => dead.push(*name),
                None => drop(output.insert(*key, *name)),
            }
        }
        let mut manifest = self.manifest.lock().unwrap();
        let translating = match self.is_wrong(Mistake::TranslateByAnOldMap) {
            true => &old_map,
            false => &manifest.map,
        };
        let places: Vec<_> = dead.iter().map(|name| place(translating, *name)).collect();
        drop(old_map);
        let mut map = (*manifest.map).clone();
        for found in places {
            let Some((holder, ordinal)) = found else { panic!("a value dies where it is not") };
            let Some(known) = manifest.segments.get_mut(&holder) else {
                panic!("a value dies where it is not: segment {holder} is gone")
            };
            assert!(known.dead.insert(ordinal), "a value dies twice");
        }
        for (from, _) in self.idle(&manifest) {
            manifest.redirects.remove(&from);
            map.remove(&from);
        }
        let gone: Vec<u32> =
            manifest.segments.iter().filter(|it| it.1.dead.len() == it.1.count).map(|it| *it.0).collect();
        for number in gone {
            manifest.segments.remove(&number);
            self.retire(map.get(&number));
            map.remove(&number);
        }
        manifest.map = Arc::new(map);
        self.change_version(|version| {
            // What was drained meanwhile stays above.
            version.tables.truncate(version.tables.len() - inputs.len());
            version.tables.push(Arc::new(output));
            version.map = Arc::clone(&manifest.map);
        });
    }

    /// `idle_redirects`: those all of whose values are dead.
    fn idle(&self, manifest: &Manifest) -> Vec<(u32, u32)> {
        let is_idle = |(from, holder): &(&u32, &u32)| {
            let Some(Home::Moved(redirect, _)) = manifest.map.get(from) else { return false };
            redirect.values().all(|ordinal| manifest.segments[*holder].dead.contains(ordinal))
        };
        manifest.redirects.iter().filter(is_idle).map(|(from, holder)| (*from, *holder)).collect()
    }

    /// `Database::collect` of the segments in which something is dead.
    pub(crate) fn collect(&self) {
        self.collect_where(|known| !known.dead.is_empty());
    }

    /// The same of all segments.
    pub(crate) fn collect_all(&self) {
        self.collect_where(|_| true);
    }

    fn collect_where(&self, is_wanted: fn(&Known) -> bool) {
        let Some(spec) = self.collect_spec(is_wanted) else { return };
        let mut survivors = Vec::new();
        for (number, known) in &spec.victims {
            // Each file is a step of its own.
            loom::thread::yield_now();
            self.files.assert_has(*number, "a job reads it");
            let Some(Home::Here(sealed)) = spec.map.get(number) else { panic!("a victim is nowhere") };
            let lives = (0..known.count).filter(|ordinal| !known.dead.contains(ordinal));
            survivors.extend(lives.map(|ordinal| (*number, ordinal, sealed.values[ordinal])));
        }
        self.commit_collection(spec, &survivors);
    }

    fn collect_spec(&self, is_wanted: fn(&Known) -> bool) -> Option<Spec> {
        let manifest = self.manifest.lock().unwrap();
        let victims: Vec<(u32, Known)> = manifest
            .segments
            .iter()
            .filter(|(_, known)| is_wanted(known))
            .map(|(number, known)| (*number, known.clone()))
            .collect();
        let homes = victims.iter().map(|(number, _)| &manifest.map[number]);
        let held = homes.filter_map(|home| match home {
            Home::Here(sealed) => Some(Arc::clone(sealed)),
            Home::Moved(..) => None,
        });
        let held = held.filter(|_| !self.is_wrong(Mistake::HoldNothing)).collect();
        // For what its files say, the model's job looks into a map, which must not hold them.
        let map = match self.is_wrong(Mistake::ChangeAnOldMap) {
            true => Arc::clone(&manifest.map),
            false => unheld(&manifest.map, &self.files),
        };
        (!victims.is_empty()).then_some(Spec { victims, map, held })
    }

    /// `CollectionEdit::new` and the commit.
    fn commit_collection(&self, spec: Spec, survivors: &[(u32, usize, Name)]) {
        let mut manifest = self.manifest.lock().unwrap();
        let has_died = |(victim, ordinal, _): &(u32, usize, Name)| match manifest.segments.get(victim) {
            _ if self.is_wrong(Mistake::ForgetDeaths) => false,
            Some(known) => known.dead.contains(ordinal),
            // Nothing of it lives.
            None => true,
        };
        let dead: BTreeSet<usize> =
            survivors.iter().enumerate().filter(|(_, it)| has_died(it)).map(|(at, _)| at).collect();
        if dead.len() == survivors.len() {
            return;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let names: Vec<Name> = survivors.iter().map(|(_, _, name)| *name).collect();
        let output = self.sealed(names.clone(), number);
        let mut redirects: BTreeMap<u32, BTreeMap<usize, usize>> = BTreeMap::new();
        for (at, (born, ordinal)) in names.iter().enumerate() {
            redirects.entry(*born).or_default().insert(*ordinal, at);
        }
        redirects.retain(|_, redirect| redirect.values().any(|at| !dead.contains(at)));
        let old = match self.is_wrong(Mistake::ChangeAnOldMap) {
            true => &spec.map,
            false => &manifest.map,
        };
        let mut map = (**old).clone();
        for (victim, _) in &spec.victims {
            if manifest.segments.remove(victim).is_some() {
                self.retire(map.get(victim));
            }
            map.remove(victim);
        }
        let victims: BTreeSet<u32> = spec.victims.iter().map(|(number, _)| *number).collect();
        let led: Vec<u32> =
            manifest.redirects.iter().filter(|it| victims.contains(it.1)).map(|it| *it.0).collect();
        for from in led {
            manifest.redirects.remove(&from);
            map.remove(&from);
        }
        manifest.segments.insert(number, Known { count: names.len(), dead });
        map.insert(number, Home::Here(Arc::clone(&output)));
        for (born, redirect) in redirects {
            manifest.redirects.insert(born, number);
            map.insert(born, Home::Moved(Arc::new(redirect), Arc::clone(&output)));
        }
        manifest.map = Arc::new(map);
        self.change_version(|version| version.map = Arc::clone(&manifest.map));
        drop((manifest, spec));
    }

    /// `Database::checkpoint`: fails unless everything that its records refer to is there to be linked.
    pub(crate) fn assert_copies(&self) {
        let mut manifest = Some(self.manifest.lock().unwrap());
        let (version, numbers) = {
            let manifest = manifest.as_ref().unwrap();
            (self.version.load(), manifest.segments.keys().copied().collect::<Vec<u32>>())
        };
        let newest: Vec<Name> = newest(&version).into_values().collect();
        for name in newest {
            let holder = place(&version.map, name).map(|(holder, _)| holder);
            assert!(holder.is_some_and(|holder| numbers.contains(&holder)), "a value is not copied");
        }
        drop(version);
        if self.is_wrong(Mistake::CopyUnlocked) {
            manifest = None;
        }
        for number in numbers {
            // Each link is a step of its own.
            loom::thread::yield_now();
            self.files.assert_has(number, "it is copied");
        }
        drop(manifest);
    }

    /// Every key's newest value is where the version says, and is the right one.
    pub(crate) fn assert_finds_all(&self, version: &Version) {
        let found = newest(version);
        let other = self.is_wrong(Mistake::MapOfAnotherVersion).then(|| self.version.load());
        let map = other.as_ref().map_or(&version.map, |other| &other.map);
        for (key, name) in found {
            // And so is each key.
            loom::thread::yield_now();
            let Some((holder, ordinal)) = place(map, name) else {
                panic!("the value of key {key} is nowhere")
            };
            self.files.assert_has(holder, "somebody reads it");
            let Some(Home::Here(sealed)) = map.get(&holder) else { panic!("segment {holder} is nowhere") };
            assert_eq!(sealed.values[ordinal], name, "another value is read for key {key}");
        }
    }

    /// Each value is referred to once or dead, and the files are those of the segments.
    pub(crate) fn assert_conserved(&self) {
        let manifest = self.manifest.lock().unwrap();
        let version = self.version.load();
        let mut live: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for name in version.tables.iter().flat_map(|table| table.values()) {
            let (holder, ordinal) = place(&version.map, *name).expect("a value is nowhere");
            assert!(live.entry(holder).or_default().insert(ordinal), "a value is referred to twice");
        }
        for (number, known) in &manifest.segments {
            let live = live.get(number).cloned().unwrap_or_default();
            assert!(live.is_disjoint(&known.dead), "a value of segment {number} is referred to, and dead");
            let all = live.len() + known.dead.len();
            assert_eq!(all, known.count, "a value of segment {number} is neither referred to nor dead");
        }
        let files = self.files.0.lock().unwrap().clone();
        assert!(files.iter().eq(manifest.segments.keys()), "files {files:?} are left");
    }
}

/// What each key's newest record refers to.
fn newest(version: &Version) -> Table {
    let mut found = Table::new();
    for (key, name) in version.tables.iter().flat_map(|table| table.iter()) {
        found.entry(*key).or_insert(*name);
    }
    found
}

/// `Values::read` and `dead_by_holder`: where the value is now.
fn place(map: &Map, (born, ordinal): Name) -> Option<(u32, usize)> {
    match map.get(&born)? {
        Home::Here(sealed) => Some((sealed.number, ordinal)),
        Home::Moved(redirect, sealed) => Some((sealed.number, *redirect.get(&ordinal)?)),
    }
}

/// The same map, with segments that hold no file.
fn unheld(map: &Map, files: &Arc<Files>) -> Arc<Map> {
    let copy = |sealed: &Arc<Sealed>| {
        let (number, values) = (sealed.number, sealed.values.clone());
        Arc::new(Sealed { number, values, retired: AtomicBool::new(false), files: Arc::clone(files) })
    };
    let copies = map.iter().map(|(number, home)| {
        let home = match home {
            Home::Here(sealed) => Home::Here(copy(sealed)),
            Home::Moved(redirect, sealed) => Home::Moved(Arc::clone(redirect), copy(sealed)),
        };
        (*number, home)
    });
    Arc::new(copies.collect())
}
