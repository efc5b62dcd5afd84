//! A set in the order that all sets have.

use std::cmp::Ordering;

use firn_format::datatype::hash_of;

use super::super::call::Call;
use super::super::members::Walk;
use super::KIND;
use crate::failure::Result;
use crate::transaction::Collection;

/// A member with its hash, by which members are ordered in every set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    hash: u32,
    pub(super) member: Vec<u8>,
}

/// A walk over a set that others are compared with.
pub(super) struct Ordered {
    walk: Walk,
    current: Option<Place>,
}

impl Ordered {
    /// Stands at the first member.
    pub(super) async fn open(call: &mut Call<'_>, set: &Collection) -> Result<Self> {
        let mut ordered = Self { walk: Walk::new(call, set, KIND)?, current: None };
        ordered.advance().await?;
        Ok(ordered)
    }

    /// The member it stands at, and goes to the next one.
    pub(super) async fn take(&mut self) -> Result<Option<Place>> {
        let taken = self.current.take();
        if taken.is_some() {
            self.advance().await?;
        }
        Ok(taken)
    }

    /// Whether the set has `place`. Places are asked for in their order.
    pub(super) async fn has(&mut self, place: &Place) -> Result<bool> {
        loop {
            match self.current.as_ref().map(|current| current.cmp(place)) {
                Some(Ordering::Less) => self.advance().await?,
                Some(Ordering::Equal) => return Ok(true),
                Some(Ordering::Greater) | None => return Ok(false),
            }
        }
    }

    async fn advance(&mut self) -> Result<()> {
        let next = self.walk.next().await?;
        self.current = next.map(|(member, _)| Place { hash: hash_of(member), member: member.to_vec() });
        Ok(())
    }
}
