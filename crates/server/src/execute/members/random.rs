//! Members picked at random.
//!
//! A small collection is walked, and every choice is as likely as every other one. In a large one a
//! random hash leads to a place, and one of the members that follow is taken. Hashes spread members
//! evenly, so that over enough of them each has nearly the same chance.

use std::collections::BTreeMap;

use firn_format::datatype::FieldKind;

use super::super::call::Call;
use super::{SMALL_COUNT, Walk};
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

/// A member with what is stored of it.
pub(in super::super) type Picked = (Vec<u8>, Vec<u8>);

/// Members after a random place of which one is taken: as many as the first batch of a walk has.
const NEIGHBOUR_COUNT: u64 = 32;

/// What it costs to pass one of them, in bytes copied.
const STEP_BYTES: usize = 64;

/// Of more members than one in so many are walked past all; fewer are looked for one by one.
const WALK_SHARE: u64 = 8;

/// One member of a collection that has some.
pub(in super::super) async fn one(
    call: &mut Call<'_>,
    collection: &Collection,
    kind: FieldKind,
) -> Result<Option<Picked>> {
    if collection.count() > SMALL_COUNT {
        return near(call, collection, kind).await;
    }
    let index = call.thread.random(collection.count().max(1));
    let mut walk = Walk::new(call, collection, kind)?;
    for _ in 0..index {
        walk.next().await?;
    }
    Ok(walk.next().await?.map(owned))
}

/// One of the members after a random place; the first ones come after the last.
async fn near(call: &mut Call<'_>, collection: &Collection, kind: FieldKind) -> Result<Option<Picked>> {
    let place = call.thread.random(1 << 32) as u32;
    let index = call.thread.random(NEIGHBOUR_COUNT);
    let mut walk = Walk::from_hash(call, collection, kind, place)?;
    let mut is_again = false;
    let mut seen = 0;
    loop {
        match walk.next().await? {
            Some(picked) if seen == index => return Ok(Some(owned(picked))),
            Some(_) => seen += 1,
            None if is_again => return Ok(None),
            None => {
                is_again = true;
                walk = Walk::new(call, collection, kind)?;
            }
        }
    }
}

fn owned((member, value): (&[u8], &[u8])) -> Picked {
    (member.to_vec(), value.to_vec())
}

/// A count of members: below 0, so many picks that may be the same.
pub(in super::super) fn signed_count(count: i64) -> Result<i64> {
    match count {
        i64::MIN => Err(Failure::of(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        count => Ok(count),
    }
}

/// How many members such a count means in a collection of `total`.
pub(in super::super) fn answered_count(count: i64, total: u64) -> u64 {
    match total {
        0 => 0,
        _ if count < 0 => count.unsigned_abs(),
        _ => total.min(count as u64),
    }
}

/// Gives `count` different members to `answer`, or so many picks below 0.
pub(in super::super) async fn random(
    call: &mut Call<'_>,
    collection: &Collection,
    kind: FieldKind,
    count: i64,
    answer: impl FnMut(&mut Call<'_>, &[u8], &[u8]),
) -> Result<()> {
    match u64::try_from(count) {
        Ok(count) => distinct(call, collection, kind, count, answer).await,
        Err(_) => repeated(call, collection, kind, count.unsigned_abs(), answer).await,
    }
}

/// Gives `count` different members to `answer`, or all if there are not so many. In a small
/// collection, or where many are asked for, each choice of so many is equally likely. Then none of
/// them is kept in memory.
pub(in super::super) async fn distinct(
    call: &mut Call<'_>,
    collection: &Collection,
    kind: FieldKind,
    count: u64,
    mut answer: impl FnMut(&mut Call<'_>, &[u8], &[u8]),
) -> Result<()> {
    let total = collection.count();
    if total > SMALL_COUNT && count < total / WALK_SHARE {
        let mut found = BTreeMap::new();
        let mut turns = Turns::new(call.thread);
        while (found.len() as u64) < count
            && let Some((member, value)) = near(call, collection, kind).await?
        {
            turns.step(NEIGHBOUR_COUNT as usize * STEP_BYTES).await;
            found.insert(member, value);
        }
        for (member, value) in found {
            answer(call, &member, &value);
            call.spill().await?;
        }
        return Ok(());
    }
    let mut walk = Walk::new(call, collection, kind)?;
    let mut choice = Choice::new(count, total);
    while !choice.is_over()
        && let Some((member, value)) = walk.next().await?
    {
        if choice.takes(|end| call.thread.random(end)) {
            answer(call, member, value);
            call.spill().await?;
        }
    }
    Ok(())
}

/// Picks after which others have a turn.
const PICKS_BETWEEN_PAUSES: u64 = 1024;

/// Gives `count` members to `answer`, each picked from all of a collection that has some.
async fn repeated(
    call: &mut Call<'_>,
    collection: &Collection,
    kind: FieldKind,
    count: u64,
    mut answer: impl FnMut(&mut Call<'_>, &[u8], &[u8]),
) -> Result<()> {
    let mut all = Vec::new();
    if collection.count() <= SMALL_COUNT {
        let mut walk = Walk::new(call, collection, kind)?;
        while let Some(picked) = walk.next().await? {
            all.push(owned(picked));
        }
    }
    for turn in 1..=count {
        if all.is_empty() {
            let Some((member, value)) = near(call, collection, kind).await? else { break };
            answer(call, &member, &value);
        } else {
            let (member, value) = &all[call.thread.random(all.len() as u64) as usize];
            answer(call, member, value);
        }
        call.spill().await?;
        // As many as a number can say may be asked for: others have their turns, and a client that
        // is gone gets no more.
        if turn.is_multiple_of(PICKS_BETWEEN_PAUSES) {
            call.thread.breathe().await;
        }
        if call.client.is_closing.get() {
            break;
        }
    }
    Ok(())
}

/// Which of so many that come one by one are taken, so that each choice of them is equally likely.
struct Choice {
    wanted: u64,
    left: u64,
}

impl Choice {
    fn new(count: u64, total: u64) -> Self {
        Self { wanted: count.min(total), left: total }
    }

    fn is_over(&self) -> bool {
        self.wanted == 0
    }

    /// Whether the next one is taken; `random` gives a number below the one it gets.
    fn takes(&mut self, random: impl Fn(u64) -> u64) -> bool {
        let is_taken = random(self.left.max(1)) < self.wanted;
        self.left = self.left.saturating_sub(1);
        self.wanted -= u64::from(is_taken);
        is_taken
    }
}
