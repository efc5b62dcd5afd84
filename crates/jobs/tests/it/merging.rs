//! The merge cursor against a sorted array.

use firn_format::key::{Entry, Kind, Sequence};
use firn_jobs::{Cursor, MergeCursor};
use firn_storage::Result;

use crate::world::{Owned, Random};

/// A sorted array as a cursor.
struct Listed {
    entries: Vec<Owned>,
    at: Option<usize>,
}

impl Cursor for Listed {
    fn entry(&self) -> Option<Entry<'_>> {
        self.at.map(|at| self.entries[at].entry())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.at = (!self.entries.is_empty()).then_some(0);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.at = self.entries.len().checked_sub(1);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.entries.iter().position(|entry| entry.key.as_slice() >= key);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.entries.iter().rposition(|entry| entry.key.as_slice() < key);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.at.map(|at| at + 1).filter(|at| *at < self.entries.len());
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|at| at.checked_sub(1));
        Ok(())
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    let prefix: [&[u8]; 4] = [b"", b"common", b"common prefix of many keys ", b"commoo"];
    [prefix[random.below(4) as usize], &random.key()].concat()
}

fn sorted(entries: &mut [Owned]) {
    entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
}

#[test]
fn a_merge_walks_like_the_sorted_union() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let sources = random.below(7);
        let mut sequence = 0;
        let mut lists: Vec<Vec<Owned>> = Vec::new();
        for _ in 0..sources {
            let mut list: Vec<Owned> = (0..random.below(30))
                .map(|_| {
                    sequence += 1;
                    let key = key(&mut random);
                    Owned {
                        key,
                        sequence: Sequence(sequence),
                        kind: Kind::Put,
                        expires_at_ms: 0,
                        value: Vec::new(),
                    }
                })
                .collect();
            sorted(&mut list);
            lists.push(list);
        }
        let mut union = lists.concat();
        sorted(&mut union);
        let sources: Vec<Listed> = lists.into_iter().map(|entries| Listed { entries, at: None }).collect();
        let common = [&b""[..], b"common", b"zebra"][random.below(3) as usize].to_vec();
        let mut merge = MergeCursor::with_common_prefix(sources, common);
        let mut at: Option<usize> = None;
        for _ in 0..300 {
            let key = key(&mut random);
            match random.below(14) {
                0 => {
                    merge.seek_first().unwrap();
                    at = (!union.is_empty()).then_some(0);
                }
                1 => {
                    merge.seek_last().unwrap();
                    at = union.len().checked_sub(1);
                }
                2 => {
                    merge.seek(&key).unwrap();
                    at = union.iter().position(|entry| entry.key >= key);
                }
                3 => {
                    merge.seek_before(&key).unwrap();
                    at = union.iter().rposition(|entry| entry.key < key);
                }
                4..9 => {
                    merge.next().unwrap();
                    at = at.map(|at| at + 1).filter(|at| *at < union.len());
                }
                _ => {
                    merge.prev().unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
            }
            assert_eq!(merge.entry(), at.map(|at| union[at].entry()), "seed {seed}");
        }
    }
}
