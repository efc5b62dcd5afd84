//! An element from one list to another, or around in one.

use firn_format::datatype::Tag;

use super::ends::{End, pop, push};
use crate::execute::blocking::{first_collection, timeout_ms, wait};
use crate::execute::call::{Call, Origin};
use crate::failure::{Failure, Result};
use crate::transaction::Collection;

/// `LMOVE source destination LEFT|RIGHT LEFT|RIGHT`
pub(super) async fn between_named_ends(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = named_ends(call)?;
    transfer(call, from, to).await
}

/// `RPOPLPUSH source destination`
pub(super) async fn from_tail_to_head(call: &mut Call<'_>) -> Result<()> {
    transfer(call, End::Right, End::Left).await
}

/// `BLMOVE source destination LEFT|RIGHT LEFT|RIGHT timeout`
pub(super) async fn wait_between_named_ends(call: &mut Call<'_>) -> Result<()> {
    let (from, to) = named_ends(call)?;
    let timeout_ms = timeout_ms(call.argument(5))?;
    transfer_or_wait(call, from, to, timeout_ms).await
}

/// `BRPOPLPUSH source destination timeout`
pub(super) async fn wait_from_tail_to_head(call: &mut Call<'_>) -> Result<()> {
    let timeout_ms = timeout_ms(call.argument(3))?;
    transfer_or_wait(call, End::Right, End::Left, timeout_ms).await
}

fn named_ends(call: &Call<'_>) -> Result<(End, End)> {
    let end = |index| End::of(call.argument(index)).ok_or(Failure::SYNTAX);
    Ok((end(3)?, end(4)?))
}

async fn transfer(call: &mut Call<'_>, from: End, to: End) -> Result<()> {
    match call.collection(1, Tag::List).await? {
        Some(source) => transfer_one(call, source, from, to).await,
        None => {
            call.reply(|reply| reply.null());
            Ok(())
        }
    }
}

/// Waits for the source only: a destination of another type is an error once there is something to
/// be put there.
async fn transfer_or_wait(call: &mut Call<'_>, from: End, to: End, timeout_ms: Option<u64>) -> Result<()> {
    match first_collection(call, 1..2, Tag::List).await? {
        Some((_, source)) if call.is_covered(2)? => transfer_one(call, source, from, to).await,
        None if call.origin == Origin::Unit => {
            call.reply(|reply| reply.null());
            Ok(())
        }
        found => {
            call.blocking.lacks_cover = found.is_some();
            wait(call, 1..2, timeout_ms).await?;
            let destination = call.key(2)?;
            if let Some(wait) = &mut call.blocking.wait {
                wait.destination = Some(destination);
            }
            Ok(())
        }
    }
}

async fn transfer_one(call: &mut Call<'_>, mut source: Collection, from: End, to: End) -> Result<()> {
    let element;
    if call.argument(1) == call.argument(2) {
        element = pop(call.transaction, &mut source, from).await?;
        push(call.transaction, &mut source, to, &element);
    } else {
        let mut destination = call.collection_or_new(2, Tag::List).await?;
        element = pop(call.transaction, &mut source, from).await?;
        push(call.transaction, &mut destination, to, &element);
        call.transaction.save(&mut destination);
    }
    call.transaction.save(&mut source);
    call.reply(|reply| reply.bulk(&element));
    Ok(())
}
