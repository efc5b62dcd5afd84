//! Compactions of records whose values are separated, compared with compactions of the same
//! records with values in it.

use firn_engine::Semantics;
use firn_format::blob::segment::Origin;
use firn_format::blob::{Ordinals, Reference, SegmentNumber};
use firn_format::checksum::xxh3;
use firn_format::compression::Compression;
use firn_format::file_name;
use firn_format::key::{Kind, Sequence};
use firn_format::manifest::{BlobSegmentMeta, TableMeta};
use firn_format::table::ReferenceSet;
use firn_jobs::{
    BlobGcSpec, BlobPolicy, CompactResult, CompactSpec, Control, ErrorKind, JobInput, JobResult, JobSpec,
    KeyRange, Rules, ValueSource, Victim, run, verify, verify_files,
};
use firn_storage::Storage;
use firn_storage::backend::Memory;
use firn_storage::file::blob::{BlobSegment, Wanted};
use firn_storage::file::table::ReadMode;

use crate::world::{Mix, Owned, Random, World, semantics};

const DATABASE: u128 = 99;

fn done(storage: &Memory, spec: CompactSpec) -> CompactResult {
    let spec = JobSpec::from(spec);
    assert_eq!(JobSpec::decode(&spec.encode()), Ok(spec.clone()));
    let result = run(&spec, storage, &semantics(), &Control::new()).unwrap();
    assert_eq!(JobResult::decode(&result.encode()), Ok(result.clone()));
    verify(&spec, &result).unwrap();
    verify_files(storage, &spec, &result).unwrap();
    result.into_compact().unwrap()
}

fn inputs_of(tables: &[TableMeta]) -> Vec<JobInput> {
    tables.iter().map(|table| JobInput { table: table.clone(), level: 1, run: 0 }).collect()
}

/// The inputs of `world` with values of `separate_bytes` and more separated, and nothing
/// else changed.
fn separated(world: &World, separate_bytes: u32) -> (Vec<JobInput>, Vec<ValueSource>) {
    let number = SegmentNumber(7);
    let rules = Rules {
        // Every version is seen by some snapshot, and stays.
        snapshots: (0..2000).map(Sequence).collect(),
        older_overlap: vec![KeyRange::all()],
        ..Rules::default()
    };
    let values =
        BlobPolicy { separate_bytes, output: Some(number), database: DATABASE, ..BlobPolicy::default() };
    let spec =
        CompactSpec { rules, values: Some(values), output_stem: "separated".into(), ..world.spec.clone() };
    let result = done(&world.storage, spec);
    let source = |segment| ValueSource { born: number, segment, relocation: None };
    (inputs_of(&result.tables), result.values.map(source).into_iter().collect())
}

/// The same values after a GC.
fn collected(storage: &Memory, sources: &[ValueSource]) -> Vec<ValueSource> {
    let collect = |source: &ValueSource| {
        let victim = Victim {
            segment: source.segment.clone(),
            origin: Origin::Written,
            dead: Ordinals::new(),
            relocations: Vec::new(),
        };
        let spec = BlobGcSpec {
            database: DATABASE,
            number: SegmentNumber(8),
            victims: vec![victim],
            output_stem: "collected".into(),
            recycled: None,
        };
        let result = run(&spec.into(), storage, &Semantics::new(), &Control::new()).unwrap();
        let result = result.into_blob_gc().unwrap();
        let (born, place) = result.relocations[0];
        ValueSource { born, segment: result.segment.unwrap(), relocation: Some(place) }
    };
    sources.iter().map(collect).collect()
}

/// What tables hold, each value in its place, and how many of them were references.
fn whole(world: &World, tables: &[TableMeta], sources: &[ValueSource]) -> (Vec<Owned>, Vec<(u32, u32)>) {
    let mut referred = Vec::new();
    let mut entries = world.held(tables).entries;
    for entry in entries.iter_mut().filter(|entry| entry.kind == Kind::PutReference) {
        let reference = &Reference::decode(&entry.value).unwrap();
        let source = sources.iter().find(|source| source.born == reference.segment).unwrap();
        let segment = BlobSegment::open(&world.storage, &source.segment, false).unwrap();
        let wanted = Wanted { reference, key_bytes: entry.key.len(), range: 0..usize::MAX };
        let mut value = Vec::new();
        let relocation = source.relocation.as_ref().map(|place| segment.relocation(place).unwrap());
        let ordinal = relocation.map_or(reference.ordinal, |it| it.translate(reference.ordinal).unwrap());
        assert!(segment.read_ordinal(ordinal, &wanted, ReadMode::Blocking, &mut value).unwrap());
        referred.push((reference.segment.0, reference.ordinal));
        *entry = Owned { kind: Kind::Put, value, ..entry.clone() };
    }
    referred.sort_unstable();
    (entries, referred)
}

#[test]
fn where_values_lie_changes_nothing_but_that() {
    let mut classes = [0; 4];
    for seed in 0..400 {
        let random = &mut Random(seed ^ 0x7661_6c75);
        let (merges, filter) = (random.below(2) == 0, random.below(2) == 0);
        let mix = Mix { operations: 60, merges, filter, older: random.below(2) == 0 };
        let world = World::new(seed, mix);
        let plain = done(&world.storage, CompactSpec { output_stem: "plain".into(), ..world.spec.clone() });
        let (expected, _) = whole(&world, &plain.tables, &[]);

        let (before, after) = (random.below(7) as u32, random.below(7) as u32);
        let (inputs, mut sources) = separated(&world, before);
        if random.below(2) == 0 {
            sources = collected(&world.storage, &sources);
        }
        let output = Some(SegmentNumber(9));
        let compression = [Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize];
        let policy = BlobPolicy {
            separate_bytes: after,
            sources: sources.clone(),
            obsolete: ReferenceSet::default(),
            output,
            compression,
            database: DATABASE,
        };
        let spec = CompactSpec { inputs, values: Some(policy), ..world.spec.clone() };
        let result = done(&world.storage, spec);
        sources.extend(result.values.clone().map(|segment| ValueSource {
            born: SegmentNumber(9),
            segment,
            relocation: None,
        }));
        let (found, referred) = whole(&world, &result.tables, &sources);
        assert_eq!(found, expected, "seed {seed} {mix:?} from {before} to {after}");
        // Each value lies where it is to, and values that left the tree are referred to once.
        let large = found.iter().filter(|it| it.kind == Kind::Put && it.value.len() >= after as usize);
        assert_eq!(referred.len(), large.count(), "seed {seed} from {before} to {after}");
        let new: Vec<u32> = referred.iter().filter(|it| it.0 == 9).map(|it| it.1).collect();
        assert_eq!(new, (0..result.values.map_or(0, |it| it.ordinals)).collect::<Vec<_>>(), "seed {seed}");
        let counts = [result.sums.moved, result.sums.merged, result.sums.filtered, plain.sums.filtered];
        counts.iter().zip(&mut classes).for_each(|(tally, sum)| *sum += tally.count);
    }
    assert!(classes.iter().all(|count| *count > 200), "moved, merged, filtered: {classes:?}");
    assert_eq!(classes[2], classes[3], "the filter sees values wherever they lie");
}

#[test]
fn a_value_that_is_not_what_was_written_ends_the_job_and_leaves_nothing() {
    // The filter looks at every value, and shorter values leave the tree meanwhile.
    let mix = Mix { operations: 60, merges: false, filter: true, older: true };
    let mut ended = 0;
    for seed in 0..40 {
        let world = World::new(seed, mix);
        let (inputs, sources) = separated(&world, 3);
        let Some(ValueSource { segment, .. }) = sources.first() else { continue };
        let meta: BlobSegmentMeta = segment.clone();
        let file = world.storage.open_write(&meta.file).unwrap();
        // In the middle of a record: its value, or what tells where that is.
        file.write_at(64 + Random(seed).below(meta.bytes / 4), &[0xa5; 200]).unwrap();
        let output = Some(SegmentNumber(9));
        let policy =
            BlobPolicy { separate_bytes: 2, sources, output, database: DATABASE, ..Default::default() };
        let spec = CompactSpec { inputs, values: Some(policy), ..world.spec.clone() };
        let before = world.storage.list().unwrap();
        match run(&spec.into(), &world.storage, &semantics(), &Control::new()) {
            Ok(_) => continue,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Corrupt, "seed {seed}: {error}");
                assert!(error.to_string().contains(&meta.file), "seed {seed}: {error}");
            }
        }
        ended += 1;
        assert_eq!(world.storage.list().unwrap(), before, "seed {seed}");
    }
    assert!(ended > 8, "{ended} of 40 jobs ended");
}

#[test]
fn a_value_without_a_source_ends_the_job_and_leaves_nothing() {
    let mix = Mix { operations: 60, merges: false, filter: false, older: true };
    let world = World::new(3, mix);
    let (inputs, _) = separated(&world, 3);
    let policy = BlobPolicy { separate_bytes: 100, database: DATABASE, ..BlobPolicy::default() };
    let spec = CompactSpec { inputs, values: Some(policy), ..world.spec.clone() };
    let before = world.storage.list().unwrap();
    let error = run(&spec.into(), &world.storage, &semantics(), &Control::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("segment 7"), "{error}");
    assert_eq!(world.storage.list().unwrap(), before);
}

#[test]
fn records_whose_references_are_obsolete_are_shadowed_and_their_values_not_asked_for() {
    let mut dropped = 0;
    for seed in 0..60 {
        // The filter looks at every value, and all of them are to come into the tree.
        let mix = Mix { operations: 60, merges: false, filter: true, older: seed % 2 == 0 };
        let world = World::new(seed, mix);
        let (inputs, sources) = separated(&world, 3);
        let policy = BlobPolicy { separate_bytes: u32::MAX, database: DATABASE, ..BlobPolicy::default() };
        let mut obsolete = ReferenceSet::default();
        for ValueSource { born, segment, .. } in &sources {
            for ordinal in 0..segment.ordinals {
                obsolete.insert(*born, ordinal);
            }
        }
        let (some, all) = (ReferenceSet::default(), obsolete);
        let spec = |sources, obsolete| {
            let policy = BlobPolicy { sources, obsolete, ..policy.clone() };
            CompactSpec { inputs: inputs.clone(), values: Some(policy), ..world.spec.clone() }
        };
        let followed = done(&world.storage, spec(sources, some));
        // No source says where they are.
        let newly_obsolete =
            CompactSpec { output_stem: "newly_obsolete".to_owned(), ..spec(Vec::new(), all) };
        let newly_obsolete = done(&world.storage, newly_obsolete);
        let (_, referred) = whole(&world, &newly_obsolete.tables, &[]);
        assert!(referred.is_empty(), "seed {seed}: {referred:?}");
        assert!(newly_obsolete.sums.moved.count == 0, "seed {seed}");
        dropped += newly_obsolete.sums.shadowed.count.saturating_sub(followed.sums.shadowed.count);
    }
    assert!(dropped > 300, "{dropped} records");
}

#[test]
fn specs_of_another_version_are_refused_and_who_is_to_be_upgraded_is_told() {
    let mix = Mix { operations: 60, merges: false, filter: false, older: true };
    let world = World::new(3, mix);
    let mut policy = BlobPolicy { separate_bytes: 0x1234, database: DATABASE, ..BlobPolicy::default() };
    policy.obsolete.insert(SegmentNumber(3), 7);
    let spec = JobSpec::from(CompactSpec { values: Some(policy), ..world.spec.clone() });
    let bytes = spec.encode();
    assert_eq!(JobSpec::decode(&bytes), Ok(spec));
    let versions = [
        (JobSpec::VERSION - 1, "an older Firn: upgrade the database"),
        (JobSpec::VERSION + 1, "a newer Firn: upgrade this worker"),
    ];
    for (version, who) in versions {
        let mut other = bytes.clone();
        other[8..12].copy_from_slice(&version.to_le_bytes());
        let end = other.len() - 8;
        let checksum = xxh3(&other[..end]);
        other[end..].copy_from_slice(&checksum.to_le_bytes());
        let error = JobSpec::decode(&other).unwrap_err();
        assert!(error.offset == 8 && error.found.contains(who), "{error}");
    }
}

#[test]
fn a_segment_that_nobody_asked_for_is_refused() {
    let mix = Mix { operations: 60, merges: false, filter: false, older: true };
    let world = World::new(5, mix);
    let values = |output| BlobPolicy { separate_bytes: 3, output, database: DATABASE, ..Default::default() };
    let spec = |output| CompactSpec { values: Some(values(output)), ..world.spec.clone() };
    let result = done(&world.storage, spec(Some(SegmentNumber(4))));
    let refuses = |spec: CompactSpec, change: fn(&mut BlobSegmentMeta)| {
        let mut result = result.clone();
        change(result.values.as_mut().unwrap());
        let error = verify(&spec.into(), &JobResult::Compact(result)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    };
    refuses(world.spec.clone(), |_| {});
    refuses(spec(None), |_| {});
    refuses(spec(Some(SegmentNumber(5))), |_| {});
    refuses(spec(Some(SegmentNumber(4))), |meta| meta.file = file_name::collected_blobs("other", 0));
    refuses(spec(Some(SegmentNumber(4))), |meta| meta.sealed_at.0 = 8);
}
