//! Members in no order: picked at random, or some at a time.

use firn_format::datatype::{FieldKind, Tag};
use firn_protocol::number;

use super::scored::{begin_members, decode_score, reply_member};
use crate::execute::call::Call;
use crate::execute::members;
use crate::execute::scan::{ScanOptions, cursor, reply_step};
use crate::failure::{Failure, Result};
use crate::transaction::Collection;

const KIND: FieldKind = FieldKind::ScoredMember;

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(super) async fn random_members(call: &mut Call<'_>) -> Result<()> {
    if call.arguments.len() > 2 {
        return several(call).await;
    }
    let member = match call.collection(1, Tag::SortedSet).await? {
        Some(set) => members::one(call, &set, KIND).await?,
        None => None,
    };
    call.reply(|reply| reply.bulk_or_null(member.as_ref().map(|(member, _)| member.as_slice())));
    Ok(())
}

async fn several(call: &mut Call<'_>) -> Result<()> {
    let count = members::signed_count(call.integer(2)?)?;
    let has_scores = call.is_word(3, "withscores");
    if call.arguments.len() > 4 || call.arguments.len() == 4 && !has_scores {
        return Err(Failure::SYNTAX);
    }
    if has_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Failure::OUT_OF_RANGE);
    }
    let set = call.collection(1, Tag::SortedSet).await?;
    let total = set.as_ref().map_or(0, Collection::count);
    let answered = members::answered_count(count, total);
    call.reply(|reply| begin_members(reply, answered as usize, has_scores));
    let Some(set) = set else { return Ok(()) };
    let mut damage = None;
    let answer = |call: &mut Call<'_>, member: &[u8], score: &[u8]| match decode_score(score) {
        Ok(score) => call.reply(|reply| reply_member(reply, member, has_scores.then_some(score))),
        Err(failure) => damage = Some(failure),
    };
    members::random(call, &set, KIND, count, answer).await?;
    damage.map_or(Ok(()), Err)
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub(super) async fn step(call: &mut Call<'_>) -> Result<()> {
    cursor(call.argument(2))?;
    let set = call.collection(1, Tag::SortedSet).await?;
    let options = match set {
        Some(_) => ScanOptions::of(call, 3, false)?,
        None => ScanOptions::default(),
    };
    let step = members::step(call, set.as_ref(), &options, KIND).await?;
    let mut found = Vec::with_capacity(2 * step.found.len());
    for (member, score) in step.found {
        let mut text = Vec::new();
        number::append_double(&mut text, decode_score(&score)?.get());
        found.extend([member, text]);
    }
    reply_step(call, step.next, &found);
    Ok(())
}
