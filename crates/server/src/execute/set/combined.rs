//! What several sets make, member by member.
//!
//! All sets have one order, so that a union is a merge. An intersection goes over the smallest set
//! and a difference over the first, some members at a time. Then each of the other sets says which
//! of these it has: a much larger set is asked for them, any other is walked beside.
//!
//! No set is in memory, and neither is what they make. The exception is the union of more sets than
//! are walked at once.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque, btree_set};

use super::super::call::Call;
use super::has;
use super::ordered::{Ordered, Place};
use crate::failure::Result;
use crate::transaction::Collection;

/// What is made of the sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Union,
    Intersection,
    Difference,
}

/// Members that the other sets are asked for at once.
const CHUNK_COUNT: usize = 128;

/// A set of so many times as many members is not walked to find some.
const LOOKUP_RATIO: u64 = 8;

/// Sets that are walked beside each other: each holds a place in the engine.
const WALKED_MAX: usize = 256;

/// Members of the result, in their order.
pub(super) enum Combined {
    /// There are none.
    Empty,
    /// All of every set; the next one of each with the set's number.
    Union { sets: Vec<Ordered>, next: BinaryHeap<Reverse<(Place, usize)>>, last: Option<Place> },
    /// What was found already.
    Found(btree_set::IntoIter<Place>),
    /// Those of one set that pass all others.
    Filtered { base: Box<Ordered>, others: Vec<Other>, chunk: VecDeque<Place> },
}

/// A set that lets some members pass.
pub(super) struct Other {
    set: Source,
    /// It lets its own members pass, or all others.
    passes_known: bool,
}

enum Source {
    Walked(Box<Ordered>),
    Asked(Collection),
}

impl Combined {
    /// What `operation` makes of `sets`; `None` = there is no such key.
    pub(super) async fn open(
        call: &mut Call<'_>,
        operation: Operation,
        sets: &[Option<Collection>],
    ) -> Result<Self> {
        match operation {
            Operation::Union if sets.len() > WALKED_MAX => Self::many(call, sets.iter().flatten()).await,
            Operation::Union => Self::union(call, sets.iter().flatten()).await,
            Operation::Intersection => {
                let known: Vec<&Collection> = sets.iter().flatten().collect();
                if known.len() < sets.len() {
                    return Ok(Combined::Empty);
                }
                Self::filtered(call, known, true).await
            }
            Operation::Difference => match sets.first() {
                Some(Some(_)) => Self::filtered(call, sets.iter().flatten().collect(), false).await,
                _ => Ok(Combined::Empty),
            },
        }
    }

    async fn union(call: &mut Call<'_>, known: impl Iterator<Item = &Collection>) -> Result<Self> {
        let (mut sets, mut next) = (Vec::new(), BinaryHeap::new());
        for (number, set) in known.enumerate() {
            let mut set = Ordered::open(call, set).await?;
            next.extend(set.take().await?.map(|place| Reverse((place, number))));
            sets.push(set);
        }
        Ok(Combined::Union { sets, next, last: None })
    }

    /// The union of many sets, one after the other.
    async fn many(call: &mut Call<'_>, known: impl Iterator<Item = &Collection>) -> Result<Self> {
        let mut found = BTreeSet::new();
        for set in known {
            let mut set = Ordered::open(call, set).await?;
            while let Some(place) = set.take().await? {
                found.insert(place);
            }
        }
        Ok(Combined::Found(found.into_iter()))
    }

    /// The first set and the others, in any order if `passes_known`.
    async fn filtered(call: &mut Call<'_>, mut sets: Vec<&Collection>, passes_known: bool) -> Result<Self> {
        if passes_known {
            sets.sort_by_key(|set| set.count());
        }
        let Some((base, rest)) = sets.split_first() else { return Ok(Combined::Empty) };
        let mut others = Vec::new();
        for set in rest {
            let is_asked = others.len() >= WALKED_MAX || set.count() / LOOKUP_RATIO > base.count();
            let set = match is_asked {
                true => Source::Asked((*set).clone()),
                false => Source::Walked(Box::new(Ordered::open(call, set).await?)),
            };
            others.push(Other { set, passes_known });
        }
        let base = Box::new(Ordered::open(call, base).await?);
        Ok(Combined::Filtered { base, others, chunk: VecDeque::new() })
    }

    /// The next member; `None` at the end.
    pub(super) async fn next(&mut self, call: &mut Call<'_>) -> Result<Option<Vec<u8>>> {
        match self {
            Combined::Empty => Ok(None),
            Combined::Found(places) => Ok(places.next().map(|place| place.member)),
            Combined::Union { sets, next, last } => {
                while let Some(Reverse((place, number))) = next.pop() {
                    next.extend(sets[number].take().await?.map(|place| Reverse((place, number))));
                    if last.as_ref() != Some(&place) {
                        let member = place.member.clone();
                        *last = Some(place);
                        return Ok(Some(member));
                    }
                }
                Ok(None)
            }
            Combined::Filtered { base, others, chunk } => {
                while chunk.is_empty() {
                    *chunk = some_of(base).await?;
                    if chunk.is_empty() {
                        return Ok(None);
                    }
                    for other in others.iter_mut() {
                        other.filter(call, chunk).await?;
                    }
                }
                Ok(chunk.pop_front().map(|place| place.member))
            }
        }
    }
}

async fn some_of(base: &mut Ordered) -> Result<VecDeque<Place>> {
    let mut chunk = VecDeque::new();
    while chunk.len() < CHUNK_COUNT
        && let Some(place) = base.take().await?
    {
        chunk.push_back(place);
    }
    Ok(chunk)
}

impl Other {
    /// Leaves of `chunk` what passes.
    async fn filter(&mut self, call: &mut Call<'_>, chunk: &mut VecDeque<Place>) -> Result<()> {
        let mut known = Vec::with_capacity(chunk.len());
        match &mut self.set {
            Source::Asked(set) => {
                known = has(call, set, chunk.iter().map(|place| place.member.as_slice())).await?
            }
            Source::Walked(set) => {
                for place in chunk.iter() {
                    known.push(set.has(place).await?);
                }
            }
        }
        let mut known = known.into_iter();
        chunk.retain(|_| known.next() == Some(self.passes_known));
        Ok(())
    }
}
