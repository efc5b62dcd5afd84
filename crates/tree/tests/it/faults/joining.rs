//! A merge operator that joins operands, is counted, and panics on command.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::{KeyspaceSettings, MergeOperator};
use firn_tree::{Tree, TreeOptions};

use crate::support::world::World;

const JOINING: &str = "joining.1";

/// Its switches, which the operator shares.
#[derive(Clone, Debug, Default)]
pub(super) struct Joining(Arc<Operator>);

#[derive(Debug, Default)]
struct Operator {
    calls: AtomicU64,
    /// From which call on it panics; 0 = never.
    panics_from: AtomicU64,
}

/// Settings of a keyspace whose merges it joins.
pub(super) fn joined() -> KeyspaceSettings {
    KeyspaceSettings { merge_operator: Some(JOINING.to_owned()), ..KeyspaceSettings::default() }
}

impl Joining {
    /// Opens the tree of `world` with this operator; background work happens when `step` is called.
    pub(super) fn open(&self, world: &World) -> Arc<Tree> {
        Tree::open(self.options(world)).unwrap()
    }

    pub(super) fn options(&self, world: &World) -> TreeOptions {
        let options = world.options();
        let semantics = options.semantics.clone().with_merge_operator(Arc::clone(&self.0) as _);
        TreeOptions { semantics, ..options }
    }

    /// How often it was asked.
    pub(super) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Lets it panic from its `next` call on: 1 = the next one.
    pub(super) fn panic_from(&self, next: u64) {
        self.0.panics_from.store(self.calls() + next, Ordering::SeqCst);
    }

    pub(super) fn be_well(&self) {
        self.0.panics_from.store(0, Ordering::SeqCst);
    }
}

impl MergeOperator for Operator {
    fn name(&self) -> &str {
        JOINING
    }

    fn merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let from = self.panics_from.load(Ordering::SeqCst);
        assert!(from == 0 || call < from, "no luck today");
        Some([base.unwrap_or_default(), &operands.concat()].concat())
    }
}
