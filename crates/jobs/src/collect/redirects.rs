//! From where values were born to where a collection puts them.

use firn_format::value::Redirect;
use firn_format::value::segment::Origin;
use firn_storage::Storage;
use firn_storage::file::value::ValueSegment;

use super::{CollectResult, CollectSpec, Redirects, Victim, open};
use crate::error::{Error, ErrorKind, Result};

/// The redirects that a collection reads and the redirects that it makes. Opens the victims; blocks
/// for that.
///
/// # Errors
/// `Storage`; `Invalid` if there are more survivors than a segment can have, or a redirect leads
/// elsewhere.
pub fn redirects(spec: &CollectSpec, storage: &dyn Storage) -> Result<Redirects> {
    let mut redirects = Redirects::default();
    let mut base = 0_u32;
    for victim in &spec.victims {
        let segment = open(storage, victim)?;
        let leading = leading_to(&segment, victim)?;
        let own = own(spec, victim, base)?;
        redirects.made.extend(own.iter().flat_map(|own| leading.iter().filter_map(|it| it.then(own))));
        // What a collection has made is the birthplace of nothing: no record refers to it by its
        // own number.
        redirects.made.extend(own.clone().filter(|_| victim.origin == Origin::Written));
        redirects.leading.push(leading);
        redirects.own.push(own);
        let count = u32::try_from(victim.survivor_count()).ok();
        base = count.and_then(|count| base.checked_add(count)).ok_or_else(too_many)?;
    }
    redirects.made.sort_unstable_by_key(|redirect| redirect.victim);
    match redirects.made.is_sorted_by(|a, b| a.victim < b.victim) {
        true => Ok(redirects),
        false => Err(Error::new(ErrorKind::Invalid, "expected the values of a segment in one victim")),
    }
}

/// From the victim's ordinals to the output's; `None` if nothing survives.
fn own(spec: &CollectSpec, victim: &Victim, base: u32) -> Result<Option<Redirect>> {
    if victim.survivor_count() == 0 {
        return Ok(None);
    }
    let segment = &victim.segment;
    let own = Redirect::new(segment.number, segment.ordinals, &victim.survivors(), spec.number, base);
    own.map(Some).ok_or_else(too_many)
}

fn too_many() -> Error {
    Error::new(ErrorKind::Invalid, "expected fewer values than a segment can have")
}

fn leading_to(segment: &ValueSegment, victim: &Victim) -> Result<Vec<Redirect>> {
    let read = |(from, place): &(_, _)| {
        let redirect = segment.redirect(place)?;
        match redirect.victim == *from {
            true => Ok(redirect),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{}: expected a redirect of {from}, found that of {}",
                    segment.name(),
                    redirect.victim
                ),
            )),
        }
    };
    victim.redirects.iter().map(read).collect()
}

/// The redirects of `segment`, a collection's output: each equals the expected one and is listed as
/// such in the result.
///
/// # Errors
/// `Storage`; `Invalid` if one is another.
pub fn read_redirects(
    segment: &ValueSegment,
    result: &CollectResult,
    expected: &Redirects,
) -> Result<Vec<Redirect>> {
    let places = result.redirects.iter();
    let found: Vec<Redirect> =
        places.map(|(_, place)| segment.redirect(place)).collect::<firn_storage::Result<_>>()?;
    // The result's own word goes into the manifest.
    let said = result.redirects.iter().map(|(from, _)| *from);
    let is_said = said.eq(found.iter().map(|redirect| redirect.victim));
    match is_said && found == expected.made {
        true => Ok(found),
        false => Err(Error::new(
            ErrorKind::Invalid,
            format!("output {}: expected redirects to where survivors were to go", segment.name()),
        )),
    }
}
