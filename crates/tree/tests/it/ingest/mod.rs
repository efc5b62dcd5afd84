//! Sorted records in bulk.

mod beside; // other work that goes on meanwhile
mod compacting; // compactions of its keys, in either order
mod crash; // at every step
mod placed; // where the files come to lie, and what is left of them
mod machines; // on storage that other machines reach

use std::collections::BTreeMap;

use firn_engine::{
    Engine, KEYSPACE_DEFAULT, KeyspaceId, KeyspaceSettings, Ordered, Position, ReadAt, Result,
};
use firn_engine::{ScanRange, TreeKeyspaceStats};
use firn_tree::Tree;

use crate::support::world::{rows, session};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A keyspace some of whose values are separated.
fn separating() -> KeyspaceSettings {
    KeyspaceSettings { separate_bytes: Some(1000), ..KeyspaceSettings::default() }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// A value that tells key and round; of every fifth key a long one.
fn value(number: u32, round: u8) -> Vec<u8> {
    let bytes = if number.is_multiple_of(5) { 1500 } else { 40 };
    [&number.to_be_bytes()[..], &vec![round; bytes]].concat()
}

/// Ingests the keys of these numbers, which rise, and notes them in `model` once they are there.
fn ingest(
    tree: &Tree,
    keyspace: KeyspaceId,
    numbers: impl IntoIterator<Item = u32>,
    round: u8,
    model: &mut Model,
) -> Result<Position> {
    let mut ingestion = tree.ingest(keyspace)?;
    let mut ingested = Model::new();
    for number in numbers {
        ingestion.put(&key(number), &value(number, round), 0)?;
        ingested.insert(key(number), value(number, round));
    }
    let position = ingestion.finish()?;
    model.append(&mut ingested);
    Ok(position)
}

fn all(tree: &Tree, at: ReadAt<'_>, keyspace: KeyspaceId) -> Model {
    rows(&mut session(tree), at, keyspace, ScanRange::all()).into_iter().collect()
}

#[track_caller]
fn compare(tree: &Tree, keyspace: KeyspaceId, model: &Model, what: &str) {
    assert!(all(tree, ReadAt::Latest, keyspace) == *model, "{what}: a scan");
    let mut session = session(tree);
    for (key, value) in model {
        let found = session.get(ReadAt::Latest, keyspace, key).unwrap();
        assert_eq!(found.as_ref(), Some(value), "{what}: {}", key.escape_ascii());
    }
}

/// Tables of each level.
fn levels(tree: &Tree, keyspace: KeyspaceId) -> Vec<u64> {
    let stats = tree.stats();
    let stats = stats.keyspaces.iter().find(|keyspace_stats| keyspace_stats.id == keyspace.0);
    let TreeKeyspaceStats { levels, .. } = stats.unwrap().tree.clone().unwrap();
    levels.into_iter().map(|(tables, _)| tables).collect()
}

/// The default keyspace, and one that separates.
fn keyspaces(tree: &Tree) -> [KeyspaceId; 2] {
    [KEYSPACE_DEFAULT, tree.create_keyspace("separating", separating()).unwrap()]
}
