//! The cold log of a database that is being opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::{Error, ErrorKind, Location, Result};
use firn_format::file_name::cold_segment;
use firn_format::hybrid::cold_run::ColdPlace;

use super::{Cold, Run};
use crate::device::{Contents, Device, DeviceRecord};
use crate::keyspaces::check_made;
use crate::state::State;
use crate::values::number_of;

/// Opens the cold log of `state`, which lies in `device`, with its `runs`, newest first. Reads the
/// records that no run has yet, with the `order` of their keys' hashes. Answers the values that
/// records refer to, too.
///
/// # Errors
/// `Corrupt`, with file and offset, for what is missing, damaged, or another database's.
pub(crate) fn open_cold(
    device: Device,
    runs: Vec<Arc<Run>>,
    state: &State,
    order: &dyn Fn(&DeviceRecord) -> u64,
) -> Result<(Cold, BTreeSet<u64>)> {
    let segment_bits = state.sizes.map_or(0, |(_, segment_bits)| segment_bits);
    let first = state.cold.begin >> segment_bits << segment_bits;
    let mut expected = (first..state.cold.cut).step_by(1 << segment_bits);
    if let Some(missing) = expected.find(|base| !device.has(*base)) {
        let file = cold_segment(missing);
        let message = format!("expected a segment of the cold log from {missing} on, found no file");
        return Err(Error::new(ErrorKind::Corrupt, message).at(Location { file, offset: None }));
    }
    let of_runs = runs.iter().flat_map(|run| run.values());
    let mut values: BTreeSet<u64> =
        of_runs.filter(|(address, _)| *address >= state.cold.begin).map(|(_, number)| *number).collect();
    let from = state.cold.spilled.max(state.cold.begin);
    let cold = Cold::new(device, (state.cold.begin, state.cold.spilled, state.cold.cut), runs.into());
    let zeros = cold.device.scan((from, state.cold.cut), segment_bits, &mut |address, record| {
        check_made(record.keyspace(), state.next_number, || cold.device.location(address))?;
        let content = record.content();
        if content.is_reference {
            values.extend(number_of(record.value()));
        }
        let mut contents = Contents::default();
        contents.add_record(record.keyspace(), content, record.words());
        cold.device.count(address, &contents);
        let words = if content.is_tombstone { 0 } else { record.words() };
        cold.recover(order(record), ColdPlace::new(address, words));
        Ok(())
    })?;
    zeros.map_or(Ok(()), |zeros| Err(cold.device.zeros_at(zeros)))?;
    Ok((cold, values))
}
