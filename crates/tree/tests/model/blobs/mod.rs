//! `Database` as far as separated values go: one keyspace, one-byte keys, tables that say
//! what each key's record refers to.
//!
//! Each step is named after the function it follows, and does what that one does in the same order.
//! A [`Mistake`] is one such order gone wrong.

mod homes;
mod database;
mod write;
mod commit;
mod compact;
mod collect;
mod elsewhere;
mod copy;
mod dropped;
mod orphans;

pub(crate) use compact::Policy;
pub(crate) use database::{Database, Mistake};
