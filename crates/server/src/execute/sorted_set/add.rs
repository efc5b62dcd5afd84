//! Members that come, go, or change their scores.

use firn_format::datatype::{Score, Tag};

use super::scored::{delete, put, score_of};
use crate::execute::call::Call;
use crate::execute::members::check_members;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::Collection;

/// What `ZADD` is asked for beside members and scores.
#[derive(Debug, Default)]
struct AddOptions {
    only_new: bool,
    only_existing: bool,
    only_greater: bool,
    only_less: bool,
    answers_changed: bool,
    increments: bool,
}

impl AddOptions {
    /// The options, and where the first score stands.
    fn of(call: &Call<'_>) -> Result<(Self, usize)> {
        let mut options = Self::default();
        let mut index = 2;
        while index < call.arguments.len() {
            match call.argument(index).to_ascii_lowercase().as_slice() {
                b"nx" => options.only_new = true,
                b"xx" => options.only_existing = true,
                b"gt" => options.only_greater = true,
                b"lt" => options.only_less = true,
                b"ch" => options.answers_changed = true,
                b"incr" => options.increments = true,
                _ => break,
            }
            index += 1;
        }
        let words = call.arguments.len() - index;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Failure::SYNTAX);
        }
        if options.only_new && options.only_existing {
            return Err(Failure::new("ERR XX and NX options at the same time are not compatible"));
        }
        let conditions = [options.only_greater, options.only_less, options.only_new];
        if conditions.iter().filter(|is_set| **is_set).count() > 1 {
            return Err(Failure::new("ERR GT, LT, and/or NX options at the same time are not compatible"));
        }
        if options.increments && words > 2 {
            return Err(Failure::new("ERR INCR option supports a single increment-element pair"));
        }
        Ok((options, index))
    }

    /// The score that a member gets; `None` if it stays as it is.
    fn new_score(&self, old: Option<Score>, given: f64) -> Result<Option<Score>> {
        let Some(old) = old else {
            return Ok(if self.only_existing { None } else { Some(scored(given)?) });
        };
        if self.only_new {
            return Ok(None);
        }
        let new = scored(if self.increments { old.get() + given } else { given })?;
        let is_refused = self.only_greater && new <= old || self.only_less && new >= old;
        Ok((!is_refused).then_some(new))
    }
}

fn scored(number: f64) -> Result<Score> {
    Score::new(number).ok_or(Failure::new("ERR resulting score is not a number (NaN)"))
}

/// `ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]`
pub(super) async fn add(call: &mut Call<'_>) -> Result<()> {
    let (options, first) = AddOptions::of(call)?;
    let (mut scores, mut turns) = (Vec::new(), Turns::new(call.thread));
    for index in (first..call.arguments.len()).step_by(2) {
        scores.push(call.double(index)?);
        turns.step(0).await;
    }
    add_all(call, &options, first + 1, &scores).await
}

/// `ZINCRBY key increment member`
pub(super) async fn increment(call: &mut Call<'_>) -> Result<()> {
    let options = AddOptions { increments: true, ..AddOptions::default() };
    let amount = call.double(2)?;
    add_all(call, &options, 3, &[amount]).await
}

/// Gives the members that are every second argument from `first` on their scores.
async fn add_all(call: &mut Call<'_>, options: &AddOptions, first: usize, scores: &[f64]) -> Result<()> {
    let set = match options.only_existing {
        true => call.collection(1, Tag::SortedSet).await?,
        false => Some(call.collection_or_new(1, Tag::SortedSet).await?),
    };
    check_members(call.arguments.from(first).iter().step_by(2))?;
    let (mut added, mut changed) = (0, 0);
    let mut result = None;
    if let Some(mut set) = set {
        let mut turns = Turns::new(call.thread);
        for (place, given) in scores.iter().enumerate() {
            let member = call.argument(first + 2 * place);
            let old = score_of(call.transaction, &set, member).await?;
            // Only with INCR this may fail, and then there is nothing before it.
            let new = options.new_score(old, *given)?;
            result = new;
            if let Some(new) = new.filter(|new| old != Some(*new)) {
                put(call.transaction, &mut set, member, old, new);
                if old.is_none() { added += 1 } else { changed += 1 }
            }
            turns.step(member.len()).await;
        }
        if added + changed > 0 {
            call.transaction.save(&mut set);
        }
    }
    call.reply(|reply| match result {
        _ if !options.increments => reply.integer(added + if options.answers_changed { changed } else { 0 }),
        Some(score) => reply.double(score.get()),
        None => reply.null(),
    });
    Ok(())
}

/// `ZREM key member [member ...]`
pub(super) async fn remove(call: &mut Call<'_>) -> Result<()> {
    let mut count = 0;
    if let Some(mut set) = call.collection(1, Tag::SortedSet).await? {
        let mut turns = Turns::new(call.thread);
        for member in call.arguments.from(2).iter() {
            count += i64::from(remove_one(call, &mut set, member).await?);
            turns.step(member.len()).await;
        }
        if count > 0 {
            call.transaction.save(&mut set);
        }
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}

async fn remove_one(call: &mut Call<'_>, set: &mut Collection, member: &[u8]) -> Result<bool> {
    let Some(score) = score_of(call.transaction, set, member).await? else { return Ok(false) };
    delete(call.transaction, set, member, score);
    Ok(true)
}
