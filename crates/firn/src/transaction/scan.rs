//! A scan that shows what a transaction has written over what was there.

use std::iter::{FusedIterator, Peekable};

use firn_engine::{Direction, Result};

use super::writes::Written;
use crate::Scan;

/// Records of a scan in a transaction, one after the other.
///
/// Owns what it reads: the transaction can be written to meanwhile, which the scan does not show.
/// Blocks as [`Scan`] does. After an error it ends.
#[derive(Debug)]
pub struct TransactionScan {
    there: Peekable<Scan>,
    written: Peekable<<Written as IntoIterator>::IntoIter>,
    direction: Direction,
    is_over: bool,
}

impl TransactionScan {
    /// `there` with `written`, which is in the order of keys, over it.
    pub(super) fn new(there: Scan, mut written: Written, direction: Direction) -> Self {
        if direction == Direction::Backward {
            written.reverse();
        }
        let written = written.into_iter().peekable();
        Self { there: there.peekable(), written, direction, is_over: false }
    }
}

impl Iterator for TransactionScan {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            let Some((key, _)) = self.written.peek() else {
                return self.there.next();
            };
            match self.there.peek() {
                Some(Err(_)) => {
                    self.is_over = true;
                    return self.there.next();
                }
                Some(Ok((there, _))) => {
                    let order = match self.direction {
                        Direction::Forward => there.cmp(key),
                        Direction::Backward => key.cmp(there),
                    };
                    if order.is_lt() {
                        return self.there.next();
                    }
                    if order.is_eq() {
                        self.there.next();
                    }
                }
                None => {}
            }
            if let Some((key, Some(value))) = self.written.next() {
                return Some(Ok((key, value)));
            }
        }
        None
    }
}

impl FusedIterator for TransactionScan {}
