//! What an opening finds where all machines reach it.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name::{self, FileName};
use firn_format::hybrid::{Extent, LogKind, SEGMENT_HEADER_BYTES, SegmentHeader};
use firn_storage::ReadFile;

use super::{KeptFile, Tier};
use crate::device::Device;
use crate::error::{from_format, from_storage};
use crate::extents::Extents;
use crate::state::{Manifest, State};

/// Bytes copied at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Bytes that are asked for before they are copied.
const AHEAD_BYTES: u64 = 8 << 20;

impl Tier {
    /// Has `device` know the segments of the log from `begin` to `cut` that are not here: those
    /// that are sealed are read there, and one that will be written to is made here.
    ///
    /// # Errors
    /// `Corrupt` where words are missing, or are another database's; those of the storage.
    pub(crate) fn complete(
        &self,
        device: &Device,
        database: u128,
        extents: &Extents,
        (begin, cut): (u64, u64),
    ) -> Result<()> {
        for (from, to) in device.parts((begin, cut)) {
            let (base, end) = (device.base_of(from), device.end_of(from));
            match extents.whole(base, end) {
                Some(extent) if device.has(base) => self.keep_segment(extent),
                Some(extent) => device.read_there(base, self.open_extent(extent)?),
                None if device.has(base) => {}
                None => self.restore(device, database, extents, (from, to))?,
            }
        }
        Ok(())
    }

    /// Notes a sealed segment that is here and there.
    pub(crate) fn keep_segment(&self, extent: Extent) {
        self.keep(KeptFile::Segment(extent), SEGMENT_HEADER_BYTES as u64 + 8 * (extent.to - extent.from));
    }

    /// Makes a segment here of the extents that have its words.
    fn restore(
        &self,
        device: &Device,
        database: u128,
        extents: &Extents,
        (from, to): (u64, u64),
    ) -> Result<()> {
        let cover = extents.cover(from, to).map_err(|missing| {
            let message =
                format!("expected words from address {missing} on, which the manifest says are shared");
            Error::new(ErrorKind::Corrupt, message).at(device.location(missing))
        })?;
        for extent in cover {
            let name = file_name::extent(extent);
            let file = self.open_extent(extent)?;
            let mut header = vec![0; SEGMENT_HEADER_BYTES];
            file.read_at(0, &mut header).map_err(from_storage)?;
            let header = SegmentHeader::decode(&header).map_err(|error| from_format(&name, error))?;
            if (header.database, header.base) != (database, device.base_of(from)) {
                let message = format!("expected words of database {database:032x}, found {header:?}");
                let location = Location { file: name, offset: Some(16) };
                return Err(Error::new(ErrorKind::Corrupt, message).at(location));
            }
            copy_words(&*file, device, extent)?;
        }
        device.sync(from, to)
    }

    /// Removes what no edit names, and an opening that died, or lost the database, has left. `live`
    /// are the values that records lead to, `here` those of them that are here. Where it cannot be
    /// told whether the database is still this one's, nothing goes.
    pub(crate) fn remove_orphans(&self, manifest: &mut Manifest, live: &BTreeSet<u64>, here: &BTreeSet<u64>) {
        // Listed before it is looked whether another machine has taken over: what that one makes is
        // not in the list.
        let Ok(files) = self.list() else { return };
        if !manifest.is_current() {
            return;
        }
        for (name, bytes) in &files {
            if let Some(FileName::Value(number)) = file_name::parse(name)
                && here.contains(&number)
            {
                self.keep(KeptFile::Value(number), *bytes);
            }
        }
        let state = manifest.state();
        let extents = state.extents();
        let is_orphan = |name: &String| match file_name::parse(name) {
            Some(FileName::Extent(extent)) => !extents.contains(&extent),
            Some(FileName::ColdRun(number)) => !state.cold.runs.contains(&number),
            Some(FileName::Value(number)) => !live.contains(&number),
            _ => false,
        };
        self.remove(files.into_iter().map(|(name, _)| name).filter(is_orphan));
    }
}

/// Writes the words of `extent`, whose file is `file`, to `device`.
fn copy_words(file: &dyn ReadFile, device: &Device, extent: Extent) -> Result<()> {
    let (mut at, end) = (SEGMENT_HEADER_BYTES as u64, file.len());
    let mut asked = at;
    while at < end {
        if at == asked {
            let ahead = AHEAD_BYTES.min(end - at);
            file.will_need(at, ahead);
            asked += ahead;
        }
        let mut piece = vec![0; PIECE_BYTES.min(end - at).min(asked - at) as usize];
        file.read_at(at, &mut piece).map_err(from_storage)?;
        device.write(extent.from + (at - SEGMENT_HEADER_BYTES as u64) / 8, &piece)?;
        at += piece.len() as u64;
    }
    Ok(())
}

/// The extents of one of the logs of `state`, and what of that log counts.
pub(crate) fn of_log(state: &State, log: LogKind) -> (&Extents, (u64, u64)) {
    match log {
        LogKind::Hybrid => (&state.hybrid, (state.begin, state.cut)),
        LogKind::Cold => (&state.cold.extents, (state.cold.begin, state.cold.cut)),
    }
}

/// Opens the segments of the log `log` at `bases`, which are here, and those that are there.
///
/// # Errors
/// As [`Tier::complete`].
pub(crate) fn open_segments(
    (local, tier): (&Arc<dyn firn_storage::Storage>, Option<&Tier>),
    state: &State,
    log: LogKind,
    bases: Vec<u64>,
) -> Result<Device> {
    let segment_bits = state.sizes.map_or(0, |(_, segment_bits)| segment_bits);
    let named: fn(u64) -> String = match log {
        LogKind::Hybrid => file_name::hybrid_segment,
        LogKind::Cold => file_name::cold_segment,
    };
    let device = Device::open(local, (state.database, state.redo), segment_bits, (named, bases))?;
    if let Some(tier) = tier {
        let (extents, range) = of_log(state, log);
        tier.complete(&device, state.database, extents, range)?;
    }
    Ok(device)
}
