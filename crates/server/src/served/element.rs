//! The parts of what stands at a key.

use firn_engine::{Error, ErrorKind, Result};
use firn_format::datatype::{CollectionId, Field, FieldKind, Score, Tag, Value};

use super::records::{Records, is_ordered};
use super::{Served, ServedKey};

/// One part of a collection.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// A field of a hash, and its value.
    Field(Vec<u8>, Vec<u8>),
    /// An element of a list.
    Item(Vec<u8>),
    /// A member of a set.
    Member(Vec<u8>),
    /// A member of a sorted set, and its score.
    Scored(f64, Vec<u8>),
}

impl Served {
    /// Gives `sink` the parts of what stands at `key`: lists in their order, sorted sets by their
    /// scores, others by their hashes. Of a string there are none. Goes on until `sink` answers
    /// `false`.
    ///
    /// # Errors
    /// What the engine says; `Corrupt` if a part is none that a server writes.
    pub fn elements(&self, key: &ServedKey, sink: &mut dyn FnMut(Element) -> bool) -> Result<()> {
        let kind = match key.value().tag() {
            Tag::Hash => FieldKind::HashField,
            Tag::List => FieldKind::ListElement,
            Tag::Set => FieldKind::SetMember,
            Tag::SortedSet => FieldKind::ByScore,
            Tag::String | Tag::ExpiringString | Tag::LongString => return Ok(()),
        };
        self.parts(key, kind, &mut |field, value| {
            sink(match field {
                Field::HashField(name) => Element::Field(name.to_vec(), value.to_vec()),
                Field::SetMember(member) => Element::Member(member.to_vec()),
                Field::ByScore(score, member) => Element::Scored(Score::get(score), member.to_vec()),
                _ => Element::Item(value.to_vec()),
            })
        })
    }

    /// Gives `sink` the string that stands at `key` piece by piece; of other kinds nothing. Goes on
    /// until `sink` answers `false`.
    ///
    /// # Errors
    /// As [`elements`](Self::elements).
    pub fn string(&self, key: &ServedKey, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        match key.value() {
            Value::String { bytes, .. } => {
                sink(bytes);
                Ok(())
            }
            Value::LongString { collection, fragment_bytes } => {
                let (fragment_bytes, len) = (u64::from(fragment_bytes), collection.count);
                let mut written = 0;
                let mut goes_on = true;
                self.parts(key, FieldKind::Fragment, &mut |field, bytes| {
                    let Field::Fragment(index) = field else { return true };
                    let at = (u64::from(index) * fragment_bytes).min(len);
                    let end = (at + bytes.len() as u64).min(len);
                    let bytes = bytes.get(..(end - at) as usize).unwrap_or(bytes);
                    // What is missing between fragments, and at the end of one, is zeros.
                    goes_on = zeros(at.saturating_sub(written), sink) && sink(bytes);
                    written = end;
                    goes_on
                })?;
                if goes_on {
                    zeros(len.saturating_sub(written), sink);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Gives `sink` the parts of one kind, as they lie side by side, until it answers `false`.
    fn parts(
        &self,
        key: &ServedKey,
        kind: FieldKind,
        sink: &mut dyn FnMut(Field<'_>, &[u8]) -> bool,
    ) -> Result<()> {
        let Some(collection) = key.collection() else { return Ok(()) };
        if let Value::LongString { collection: it, fragment_bytes } = key.value()
            && !is_ordered(&self.fields)
        {
            return self.fragments(&collection, it.count.div_ceil(u64::from(fragment_bytes)), sink);
        }
        let (mut start, mut end) = (Vec::new(), Vec::new());
        collection.kind_range(kind, &mut start, &mut end);
        for record in Records::of(&self.fields, &start, &end)? {
            let (record, value) = record?;
            if !sink(decode(&collection, &record, key)?, &value) {
                break;
            }
        }
        Ok(())
    }
}

impl Served {
    /// Gives `sink` the fragments of a long string, which are known by their numbers.
    fn fragments(
        &self,
        collection: &CollectionId,
        count: u64,
        sink: &mut dyn FnMut(Field<'_>, &[u8]) -> bool,
    ) -> Result<()> {
        let mut front = Vec::new();
        collection.encode(&mut front);
        for index in 0..count {
            let field = Field::Fragment(index as u32);
            let mut record = front.clone();
            field.encode(&mut record);
            if let Some(value) = self.fields.get(&record)?
                && !sink(field, &value)
            {
                break;
            }
        }
        Ok(())
    }
}

fn decode<'r>(collection: &CollectionId, record: &'r [u8], key: &ServedKey) -> Result<Field<'r>> {
    let mut front = Vec::new();
    collection.encode(&mut front);
    Field::decode(record.get(front.len()..).unwrap_or_default()).map_err(|error| {
        let (kind, key) = (key.kind(), key.key().escape_ascii().to_string());
        let message = format!("a part of the {kind} \"{key}\" is none that `firn serve` writes: {error}");
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// Gives `sink` so many zeros; whether it goes on.
fn zeros(count: u64, sink: &mut dyn FnMut(&[u8]) -> bool) -> bool {
    const ZEROS: &[u8] = &[0; 16 << 10];
    let mut left = count;
    while left > 0 {
        let some = left.min(ZEROS.len() as u64);
        if !sink(ZEROS.get(..some as usize).unwrap_or(ZEROS)) {
            return false;
        }
        left -= some;
    }
    true
}
