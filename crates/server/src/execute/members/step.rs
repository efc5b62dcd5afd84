//! Steps of HSCAN, SSCAN and ZSCAN.
//!
//! The cursor is the hash to go on from. The server remembers nothing of a walk, and members that
//! come or go meanwhile do not disturb it. A step never ends between members of one hash.

use firn_format::datatype::{FieldKind, hash_of};

use super::super::call::Call;
use super::super::scan::{ScanOptions, cursor};
use super::{SMALL_COUNT, Walk};
use crate::failure::Result;
use crate::server_thread::Turns;
use crate::transaction::Collection;

/// What a step found.
#[derive(Debug, Default)]
pub(in super::super) struct Step {
    /// The cursor to go on with; 0 = that was all.
    pub(in super::super) next: u64,
    /// Members with what is stored of each.
    pub(in super::super) found: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Does the step that `call` asks for: `key cursor [MATCH pattern] [COUNT count]`.
pub(in super::super) async fn step(
    call: &mut Call<'_>,
    collection: Option<&Collection>,
    options: &ScanOptions,
    kind: FieldKind,
) -> Result<Step> {
    let from = cursor(call.argument(2))?;
    let mut step = Step::default();
    let Some(collection) = collection else { return Ok(step) };
    // A small collection is one step, whatever the cursor.
    let is_small = collection.count() <= SMALL_COUNT;
    let Ok(hash) = u32::try_from(if is_small { 0 } else { from }) else { return Ok(step) };
    let mut walk = Walk::from_hash(call, collection, kind, hash)?;
    let (mut seen, mut last) = (0, None);
    let (mut turns, mut found_bytes) = (Turns::new(call.thread), 0);
    while let Some((member, value)) = walk.next().await? {
        let hash = hash_of(member);
        if !is_small && seen >= options.count && last != Some(hash) {
            step.next = u64::from(hash);
            break;
        }
        seen += 1;
        last = Some(hash);
        if options.is_wanted(member) {
            step.found.push((member.to_vec(), value.to_vec()));
            found_bytes += member.len() + value.len();
            call.check_reply_with(found_bytes)?;
        }
        turns.step(options.compared_bytes(member) + value.len()).await;
    }
    Ok(step)
}
