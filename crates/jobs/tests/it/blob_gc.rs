//! GCs of random segments, once and again, beside a model that knows every value.

use std::collections::BTreeSet;

use firn_engine::Semantics;
use firn_format::blob::segment::Origin;
use firn_format::blob::{BlobHead, BlobSegmentHeader};
use firn_format::manifest::BlobSegmentMeta;
use firn_jobs::{
    BlobGcResult, BlobGcSpec, Control, ErrorKind, JobResult, JobSpec, run, verify, verify_files,
};
use firn_storage::file::blob::{BlobBuilder, BlobSegment, RecordReader};

use crate::segments::{DATABASE, Values};

#[test]
fn what_lives_is_found_after_gcs_of_gcs() {
    let mut stored = [0; 3];
    for seed in 0..30 {
        let (mut values, mut random) = Values::new(seed);
        for round in 0..12 {
            let what = format!("seed {seed}, round {round}");
            (0..random.u32(0..4)).for_each(|_| values.write(&mut random));
            let share = random.u64(2..6);
            values.die(&mut random, share);
            if values.segments.is_empty() {
                continue;
            }
            let spec = values.spec(&mut random, &format!("c{round}"));
            let (one, two) = (
                values.collect(&spec),
                values.collect(&BlobGcSpec { output_stem: format!("again{round}"), ..spec.clone() }),
            );
            if let (Some(recycled), Some(_)) = (&spec.recycled, &one.segment) {
                assert!(values.names(recycled).is_empty(), "{what}: {recycled} was not written over");
            }
            assert_eq!(one.relocations, two.relocations, "{what}");
            assert_eq!(one.segment.is_some(), two.segment.is_some(), "{what}");
            if let (Some(one), Some(two)) = (&one.segment, &two.segment) {
                assert!(values.bytes(&one.file) == values.bytes(&two.file), "{what}");
            }
            values.commit(&spec, one);
            values.compare(&what);
        }
        stored.iter_mut().zip(values.stored).for_each(|(sum, count)| *sum += count);
    }
    assert!(stored.iter().all(|count| *count > 100), "as they are, by LZ4, by Zstd: {stored:?}");
}

#[test]
fn specs_and_results_travel() {
    let (mut values, mut random) = Values::new(5);
    (0..4).for_each(|_| values.write(&mut random));
    values.die(&mut random, 2);
    for stem in ["first", "second"] {
        let spec = values.spec(&mut random, stem);
        let job = JobSpec::from(spec.clone());
        let bytes = job.encode();
        assert_eq!(JobSpec::decode(&bytes), Ok(job));
        let result = values.collect(&spec);
        let encoded = JobResult::BlobGc(result.clone()).encode();
        assert_eq!(JobResult::decode(&encoded), Ok(JobResult::BlobGc(result.clone())));
        for bytes in [bytes, encoded] {
            for at in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                assert!(
                    JobSpec::decode(&flipped).is_err() && JobResult::decode(&flipped).is_err(),
                    "byte {at}"
                );
            }
        }
        values.commit(&spec, result);
    }
}

#[test]
fn an_output_with_any_bit_flipped_is_not_believed() {
    let (mut values, mut random) = Values::new(8);
    (0..3).for_each(|_| values.write(&mut random));
    values.die(&mut random, 2);
    let spec = values.spec(&mut random, "c");
    let result = values.collect(&spec);
    let meta = result.segment.clone().unwrap();
    let right = values.bytes(&meta.file);
    let padding = padding_of(&values.open_meta(&meta));
    let (spec, result) = (JobSpec::from(spec), JobResult::BlobGc(result));
    let step = right.len() / 3000 + 1;
    for at in (0..right.len()).step_by(step) {
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (at % 8);
        values.storage.remove(&meta.file).unwrap();
        values.storage.publish(&meta.file, &wrong).unwrap();
        // No check reads the zeros between records.
        let is_believed = verify_files(&*values.storage, &spec, &result).is_ok();
        assert_eq!(is_believed, padding.contains(&at), "byte {at} of {}", right.len());
    }
}

/// Offsets of the bytes between records.
fn padding_of(segment: &BlobSegment) -> BTreeSet<usize> {
    let mut reader = RecordReader::new(segment);
    let mut padding = BTreeSet::new();
    for ordinal in 0..segment.ordinals().len() {
        let mut end = segment.ordinals().offset(ordinal).unwrap() as usize;
        let put = |_: &BlobHead, bytes: &[u8]| {
            end += bytes.len();
            Ok(())
        };
        reader.read(ordinal, |_| Ok(()), put).unwrap();
        padding.extend(end..end.next_multiple_of(8));
    }
    padding
}

#[test]
fn answers_that_are_wrong_are_not_believed() {
    type Lie = fn(&mut BlobGcResult);
    let lies: [(&str, Lie); 8] = [
        ("no output", |result| result.segment = None),
        ("a value left out", |result| result.segment.as_mut().unwrap().ordinals -= 1),
        ("another number", |result| result.segment.as_mut().unwrap().number.0 += 1),
        ("another name", |result| result.segment.as_mut().unwrap().file = "other-000000.blobs".into()),
        ("an older position", |result| result.segment.as_mut().unwrap().sealed_at.0 -= 8),
        ("a relocation left out", |result| result.relocations.truncate(result.relocations.len() - 1)),
        ("a relocation of another", |result| {
            let (first, last) = (result.relocations[0].1, result.relocations.last().unwrap().1);
            result.relocations[0].1 = last;
            result.relocations.last_mut().unwrap().1 = first;
        }),
        ("a relocation said to be of another segment", |result| {
            result.relocations.last_mut().unwrap().0.0 += 1
        }),
    ];
    let (mut values, mut random) = Values::new(9);
    (0..6).for_each(|_| values.write(&mut random));
    let spec = values.spec(&mut random, "c");
    assert!(spec.victims.len() > 1);
    let right = values.collect(&spec);
    let spec = JobSpec::from(spec);
    for (what, lie) in lies {
        let mut wrong = right.clone();
        lie(&mut wrong);
        let wrong = JobResult::BlobGc(wrong);
        let is_believed =
            verify(&spec, &wrong).is_ok() && verify_files(&*values.storage, &spec, &wrong).is_ok();
        assert!(!is_believed, "{what}");
    }
}

#[test]
fn values_that_were_swapped_are_found_out() {
    let (mut values, mut random) = Values::new(4);
    values.write(&mut random);
    let spec = values.spec(&mut random, "c");
    let result = values.collect(&spec);
    // The same records in another order, in an output that is whole by itself.
    let meta = result.segment.clone().unwrap();
    let number = meta.number;
    let segment = BlobSegment::open(&*values.storage, &meta, true).unwrap();
    let header = BlobSegmentHeader { database: DATABASE, number, origin: Origin::Collected, generation: 0 };
    let file = values.storage.create("swap-000000.blobs").unwrap();
    let mut builder = BlobBuilder::new("swap-000000.blobs", file, &header);
    let mut reader = RecordReader::new(&segment);
    for ordinal in (0..meta.ordinals).rev() {
        let mut record = Vec::new();
        let put = |head: &BlobHead, bytes: &[u8]| {
            record.push((head.value_bytes, bytes.to_vec()));
            Ok(())
        };
        reader.read(ordinal, |_| Ok(()), put).unwrap();
        builder.begin(record[0].0).unwrap();
        record.iter().for_each(|(_, bytes)| builder.put(bytes).unwrap());
    }
    let relocation = segment.relocation(&result.relocations[0].1).unwrap();
    let (swapped, places) = builder.finish(&[relocation]).unwrap();
    let wrong = BlobGcResult {
        segment: Some(BlobSegmentMeta { sealed_at: meta.sealed_at, ..swapped }),
        relocations: vec![(result.relocations[0].0, places[0])],
    };
    let (spec, wrong) = (JobSpec::from(spec).with_stem("swap"), JobResult::BlobGc(wrong));
    verify(&spec, &wrong).unwrap();
    let error = verify_files(&*values.storage, &spec, &wrong).unwrap_err();
    assert!(error.to_string().contains("which is elsewhere"), "{error}");
}

#[test]
fn a_gc_that_ends_early_leaves_nothing_behind() {
    let (mut values, mut random) = Values::new(6);
    (0..3).for_each(|_| values.write(&mut random));
    let spec = values.spec(&mut random, "c");
    let control = Control::new();
    control.cancel();
    let job = JobSpec::from(spec.clone());
    let cancelled = run(&job, &*values.storage, &Semantics::new(), &control).map_err(|error| error.kind);
    assert_eq!(cancelled, Err(ErrorKind::Cancelled));
    assert!(values.names("c-").is_empty());
    // A victim that is damaged.
    let name = spec.victims[0].segment.file.clone();
    let right = values.bytes(&name);
    let mut wrong = right.clone();
    wrong[80] ^= 1;
    for bytes in [wrong, right] {
        values.storage.remove(&name).unwrap();
        values.storage.publish(&name, &bytes).unwrap();
        let result = run(&job, &*values.storage, &Semantics::new(), &Control::new());
        match result {
            Err(error) => {
                assert!(error.to_string().contains(&name), "{error}");
                assert!(values.names("c-").is_empty());
            }
            Ok(_) => assert_eq!(values.names("c-").len(), 1),
        }
    }
    assert_eq!(values.names("c-").len(), 1);
}

#[test]
fn impossible_gcs_are_refused() {
    type Change = fn(&mut BlobGcSpec);
    let changes: [(&str, Change); 8] = [
        ("no victims", |spec| spec.victims.clear()),
        ("victims in disorder", |spec| spec.victims.reverse()),
        ("dead values that are not there", |spec| {
            let ordinals = spec.victims[0].segment.ordinals;
            spec.victims[0].dead.insert(ordinals);
        }),
        ("another origin", |spec| spec.victims[0].origin = Origin::Collected),
        ("a stem that leads elsewhere", |spec| spec.output_stem = "../c".into()),
        ("a victim to be written over", |spec| spec.recycled = Some(spec.victims[1].segment.file.clone())),
        ("a table to be written over", |spec| spec.recycled = Some("t-000000.table".into())),
        ("a file elsewhere to be written over", |spec| spec.recycled = Some("../00000001.blobs".into())),
    ];
    let (mut values, mut random) = Values::new(9);
    (0..6).for_each(|_| values.write(&mut random));
    let right = values.spec(&mut random, "c");
    assert!(right.victims.len() > 1);
    for (what, change) in changes {
        let mut spec = right.clone();
        change(&mut spec);
        let result = run(&spec.into(), &*values.storage, &Semantics::new(), &Control::new());
        assert_eq!(result.map_err(|error| error.kind), Err(ErrorKind::Invalid), "{what}");
        assert!(values.names("c-").is_empty(), "{what}");
    }
}
