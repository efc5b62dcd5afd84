//! The ends of a list.

use firn_engine::Direction;
use firn_format::datatype::Field;

use super::missing;
use crate::failure::Result;
use crate::transaction::{Collection, Transaction};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The head.
    Left,
    /// The tail.
    Right,
}

impl End {
    /// The end that `word` names.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        match word.to_ascii_lowercase().as_slice() {
            b"left" => Some(End::Left),
            b"right" => Some(End::Right),
            _ => None,
        }
    }

    /// The way from this end to the other.
    pub(super) fn inward(self) -> Direction {
        match self {
            End::Left => Direction::Forward,
            End::Right => Direction::Backward,
        }
    }
}

/// Adds an element at an end.
pub(super) fn push(transaction: &mut Transaction, list: &mut Collection, end: End, element: &[u8]) {
    let (mut head, mut tail) = list.ends();
    let index = match end {
        End::Left => {
            head -= 1;
            head
        }
        End::Right => {
            tail += 1;
            tail - 1
        }
    };
    transaction.put_field(list, Field::ListElement(index), element);
    list.set_ends((head, tail), tail - head);
}

/// Takes the element at an end of a list that has one.
pub(super) async fn pop(transaction: &mut Transaction, list: &mut Collection, end: End) -> Result<Vec<u8>> {
    let (head, tail) = list.ends();
    let index = match end {
        End::Left => head,
        End::Right => tail.saturating_sub(1),
    };
    let element = transaction.field(list, Field::ListElement(index)).await?.ok_or_else(missing)?;
    transaction.delete_field(list, Field::ListElement(index));
    shorten(list, end, 1);
    Ok(element)
}

/// The list ends `count` elements further in, which are deleted already.
pub(super) fn shorten(list: &mut Collection, end: End, count: u64) {
    let (mut head, mut tail) = list.ends();
    match end {
        End::Left => head += count,
        End::Right => tail -= count,
    }
    list.set_ends((head, tail), tail - head);
}
