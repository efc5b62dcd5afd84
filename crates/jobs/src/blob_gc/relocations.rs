//! From where values were born to where a GC puts them.

use firn_format::blob::Relocation;
use firn_format::blob::segment::Origin;
use firn_storage::Storage;
use firn_storage::file::blob::BlobSegment;

use super::{BlobGcResult, BlobGcSpec, Relocations, Victim, open};
use crate::error::{Error, ErrorKind, Result};

/// The relocations that a GC reads and the relocations that it makes. Opens the victims; blocks
/// for that.
///
/// # Errors
/// `Storage`; `Invalid` if there are more survivors than a segment can have, or a relocation leads
/// elsewhere.
pub fn relocations(spec: &BlobGcSpec, storage: &dyn Storage) -> Result<Relocations> {
    let mut relocations = Relocations::default();
    let mut base = 0_u32;
    for victim in &spec.victims {
        let segment = open(storage, victim)?;
        let leading = leading_to(&segment, victim)?;
        let own = own(spec, victim, base)?;
        relocations.made.extend(own.iter().flat_map(|own| leading.iter().filter_map(|it| it.then(own))));
        // What a GC has made is the birthplace of nothing: no record refers to it by its
        // own number.
        relocations.made.extend(own.clone().filter(|_| victim.origin == Origin::Written));
        relocations.leading.push(leading);
        relocations.own.push(own);
        let count = u32::try_from(victim.survivor_count()).ok();
        base = count.and_then(|count| base.checked_add(count)).ok_or_else(too_many)?;
    }
    relocations.made.sort_unstable_by_key(|relocation| relocation.victim);
    match relocations.made.is_sorted_by(|a, b| a.victim < b.victim) {
        true => Ok(relocations),
        false => Err(Error::new(ErrorKind::Invalid, "expected the values of a segment in one victim")),
    }
}

/// From the victim's ordinals to the output's; `None` if nothing survives.
fn own(spec: &BlobGcSpec, victim: &Victim, base: u32) -> Result<Option<Relocation>> {
    if victim.survivor_count() == 0 {
        return Ok(None);
    }
    let segment = &victim.segment;
    let own = Relocation::new(segment.number, segment.ordinals, &victim.survivors(), spec.number, base);
    own.map(Some).ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::new(ErrorKind::Invalid, "expected fewer values than a segment can have")
}

fn leading_to(segment: &BlobSegment, victim: &Victim) -> Result<Vec<Relocation>> {
    let read = |(from, place): &(_, _)| {
        let relocation = segment.relocation(place)?;
        match relocation.victim == *from {
            true => Ok(relocation),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: expected a relocation of {from}, found that of {}",
                    segment.name(),
                    relocation.victim
                ),
            )),
        }
    };
    victim.relocations.iter().map(read).collect()
}

/// The relocations of `segment`, a GC's output: each equals the expected one and is listed as
/// such in the result.
///
/// # Errors
/// `Storage`; `Invalid` if one is another.
pub fn read_relocations(
    segment: &BlobSegment,
    result: &BlobGcResult,
    expected: &Relocations,
) -> Result<Vec<Relocation>> {
    let places = result.relocations.iter();
    let found: Vec<Relocation> =
        places.map(|(_, place)| segment.relocation(place)).collect::<firn_storage::Result<_>>()?;
    // The result's own word goes into the manifest.
    let said = result.relocations.iter().map(|(from, _)| *from);
    let is_said = said.eq(found.iter().map(|relocation| relocation.victim));
    match is_said && found == expected.made {
        true => Ok(found),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!("output {}: expected relocations to where survivors were to go", segment.name()),
        )),
    }
}
