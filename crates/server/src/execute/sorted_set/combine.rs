//! Sorted sets put together; sets may take part, whose members count with score 1.

use std::collections::HashMap;

use firn_format::datatype::{Field, FieldKind, Score, Tag, is_member};
use firn_protocol::number;

use super::scored::{begin_members, decode_score, replace, reply_member};
use crate::execute::call::Call;
use crate::execute::members::Walk;
use crate::failure::{Failure, Result};
use crate::server_thread::Turns;
use crate::transaction::{Collection, Transaction};

/// What becomes of the members of several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Those of any.
    Union,
    /// Those of all.
    Intersection,
    /// Those of the first and of no other.
    Difference,
}

/// How the scores that a member has in several sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// A sum that is no number, as that of infinity and minus infinity, is 0; what is none is
    /// neither less nor greater.
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum => or_zero(a + b),
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

fn or_zero(number: f64) -> f64 {
    if number.is_nan() { 0.0 } else { number }
}

/// One of the sets.
#[derive(Debug)]
struct Source {
    /// A set or a sorted set; `None` = nothing.
    members: Option<(Collection, Tag)>,
    weight: f64,
}

impl Source {
    fn count(&self) -> u64 {
        self.members.as_ref().map_or(0, |(set, _)| set.count())
    }

    /// The weighted score of a member, if it is in the set: no number if the weight is infinite and
    /// the score 0.
    async fn score_of(&self, transaction: &mut Transaction, member: &[u8]) -> Result<Option<f64>> {
        let Some((set, tag)) = self.members.as_ref().filter(|_| is_member(member)) else { return Ok(None) };
        let field = match tag {
            Tag::Set => Field::SetMember(member),
            _ => Field::ScoredMember(member),
        };
        let value = transaction.field(set, field).await?;
        value.map(|value| self.weighted(*tag, &value)).transpose()
    }

    fn weighted(&self, tag: Tag, value: &[u8]) -> Result<f64> {
        let score = if tag == Tag::Set { 1.0 } else { decode_score(value)?.get() };
        Ok(self.weight * score)
    }

    /// A walk over all members.
    fn walk(&self, call: &mut Call<'_>) -> Result<Option<SourceWalk<'_>>> {
        let Some((set, tag)) = &self.members else { return Ok(None) };
        let kind = if *tag == Tag::Set { FieldKind::SetMember } else { FieldKind::ScoredMember };
        Ok(Some(SourceWalk { source: self, tag: *tag, walk: Walk::new(call, set, kind)? }))
    }
}

/// A walk over the members of one of the sets.
struct SourceWalk<'s> {
    source: &'s Source,
    tag: Tag,
    walk: Walk,
}

impl SourceWalk<'_> {
    /// The next member and its weighted score.
    async fn next(&mut self) -> Result<Option<(&[u8], f64)>> {
        let Some((member, value)) = self.walk.next().await? else { return Ok(None) };
        Ok(Some((member, or_zero(self.source.weighted(self.tag, value)?))))
    }
}

/// What a command of the family is asked for.
#[derive(Debug)]
struct Asked {
    sources: Vec<Source>,
    aggregate: Aggregate,
    has_scores: bool,
    /// Common members after which counting ends.
    limit: u64,
}

impl Asked {
    /// Reads `numkeys key [key ...]` from the argument `index` on, and the options after them.
    async fn of(call: &mut Call<'_>, index: usize, operation: Operation) -> Result<Self> {
        let key_count = call.integer(index)?;
        if key_count < 1 {
            let name = call.command.name;
            return Err(Failure::of(format!("ERR at least 1 input key is needed for '{name}' command")));
        }
        let room = call.arguments.len() - (index + 1);
        let key_count = usize::try_from(key_count).ok().filter(|count| *count <= room);
        let key_count = key_count.ok_or(Failure::SYNTAX)?;
        let mut sources = Vec::new();
        let mut turns = Turns::new(call.thread);
        for key in index + 1..index + 1 + key_count {
            sources.push(Source { members: any_set(call, key).await?, weight: 1.0 });
            turns.step(call.argument(key).len()).await;
        }
        let mut asked = Self { sources, aggregate: Aggregate::Sum, has_scores: false, limit: u64::MAX };
        asked.read_options(call, index + 1 + key_count, operation)?;
        Ok(asked)
    }

    fn read_options(&mut self, call: &Call<'_>, mut index: usize, operation: Operation) -> Result<()> {
        let only_counts = call.command.name == "zintercard";
        let combines = operation != Operation::Difference && !only_counts;
        let is_stored = call.command.name.ends_with("store");
        while index < call.arguments.len() {
            let values = call.arguments.len() - index - 1;
            match call.argument(index).to_ascii_lowercase().as_slice() {
                b"weights" if combines && values >= self.sources.len() => {
                    for source in &mut self.sources {
                        index += 1;
                        source.weight = number::parse_double(call.argument(index))
                            .ok_or(Failure::new("ERR weight value is not a float"))?;
                    }
                }
                b"aggregate" if combines && values >= 1 => {
                    index += 1;
                    self.aggregate = match call.argument(index).to_ascii_lowercase().as_slice() {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        _ => return Err(Failure::SYNTAX),
                    };
                }
                b"withscores" if !is_stored && !only_counts => self.has_scores = true,
                b"limit" if only_counts && values >= 1 => {
                    index += 1;
                    let limit = call.integer(index).ok().and_then(|limit| u64::try_from(limit).ok());
                    let limit = limit.ok_or(Failure::new("ERR LIMIT can't be negative"))?;
                    self.limit = if limit == 0 { u64::MAX } else { limit };
                }
                _ => return Err(Failure::SYNTAX),
            }
            index += 1;
        }
        Ok(())
    }

    /// The members of the result, lowest score first.
    async fn combined(mut self, call: &mut Call<'_>, operation: Operation) -> Result<Vec<(Vec<u8>, Score)>> {
        if operation != Operation::Difference {
            // Scores are put together in this order too, which sums of fractions show.
            self.sources.sort_by_key(Source::count);
        }
        let scores = match operation {
            Operation::Union => self.union(call).await?,
            Operation::Intersection | Operation::Difference => self.of_first(call, operation).await?,
        };
        let mut members = Vec::with_capacity(scores.len());
        for (member, score) in scores {
            members.push((member, Score::new(score).unwrap_or(Score::ZERO)));
        }
        members.sort_unstable_by(|(a, a_score), (b, b_score)| (a_score, a).cmp(&(b_score, b)));
        Ok(members)
    }

    /// All members; holds the result in memory.
    async fn union(&self, call: &mut Call<'_>) -> Result<Vec<(Vec<u8>, f64)>> {
        let mut scores: HashMap<Vec<u8>, f64> = HashMap::new();
        for source in &self.sources {
            let Some(mut walk) = source.walk(call)? else { continue };
            while let Some((member, score)) = walk.next().await? {
                match scores.get_mut(member) {
                    Some(known) => *known = self.aggregate.of(*known, score),
                    None => {
                        scores.insert(member.to_vec(), score);
                    }
                }
            }
        }
        Ok(scores.into_iter().collect())
    }

    /// Members of the first set that all others have, or none: one seek in every other set for each
    /// of them.
    async fn of_first(&self, call: &mut Call<'_>, operation: Operation) -> Result<Vec<(Vec<u8>, f64)>> {
        let mut found = Vec::new();
        let Some((first, others)) = self.sources.split_first() else { return Ok(found) };
        let Some(mut walk) = first.walk(call)? else { return Ok(found) };
        while (found.len() as u64) < self.limit
            && let Some((member, mut score)) = walk.next().await?
        {
            let mut is_in_all = true;
            let mut is_in_any = false;
            for other in others {
                match other.score_of(call.transaction, member).await? {
                    Some(more) => {
                        is_in_any = true;
                        score = self.aggregate.of(score, more);
                    }
                    None => is_in_all = false,
                }
                // The rest changes nothing.
                let is_decided = if operation == Operation::Difference { is_in_any } else { !is_in_all };
                if is_decided {
                    break;
                }
            }
            if if operation == Operation::Difference { !is_in_any } else { is_in_all } {
                found.push((member.to_vec(), score));
            }
        }
        Ok(found)
    }
}

/// The set or sorted set at the key that is the argument at `index`.
async fn any_set(call: &mut Call<'_>, index: usize) -> Result<Option<(Collection, Tag)>> {
    let entry = call.entry(index).await?;
    let tag = match entry.value()?.map(|value| value.tag()) {
        Some(Tag::Set) => Tag::Set,
        _ => Tag::SortedSet,
    };
    Ok(entry.collection(tag)?.map(|set| (set, tag)))
}

/// `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]
/// [WITHSCORES]`, `ZINTER …`, `ZDIFF numkeys key [key ...] [WITHSCORES]`
pub(super) async fn answer(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let asked = Asked::of(call, 1, operation).await?;
    let has_scores = asked.has_scores;
    let members = asked.combined(call, operation).await?;
    call.reply(|reply| begin_members(reply, members.len(), has_scores));
    for (member, score) in &members {
        call.reply(|reply| reply_member(reply, member, has_scores.then_some(*score)));
        call.spill().await?;
    }
    Ok(())
}

/// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS …] [AGGREGATE …]`, `ZINTERSTORE …`,
/// `ZDIFFSTORE …`
pub(super) async fn store(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let asked = Asked::of(call, 2, operation).await?;
    let members = asked.combined(call, operation).await?;
    replace(call, 1, &members).await?;
    call.reply(|reply| reply.integer(members.len() as i64));
    Ok(())
}

/// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`
pub(super) async fn count_common(call: &mut Call<'_>) -> Result<()> {
    let asked = Asked::of(call, 1, Operation::Intersection).await?;
    let members = asked.combined(call, Operation::Intersection).await?;
    call.reply(|reply| reply.integer(members.len() as i64));
    Ok(())
}
