//! What a key's record says of its parts, and which parts there were.

use std::hash::{DefaultHasher, Hasher};

use firn_format::datatype::{DatabaseId, Field, Score, UserKey, Value};

use crate::served::Kind;

/// A collection at a key, while its parts are read.
#[derive(Debug)]
pub(super) struct Owner {
    database: DatabaseId,
    key: Vec<u8>,
    generation: u64,
    count: u64,
    form: Form,
    /// Parts by name, by index or by place.
    parts: u64,
    /// The first part that cannot be one of it.
    misfit: Option<String>,
}

/// What parts it has.
#[derive(Debug)]
enum Form {
    LongString { fragment_bytes: u64 },
    Hash,
    List { head: u64, tail: u64 },
    Set,
    SortedSet { by_score: u64, names: u64, scores: u64 },
}

impl Owner {
    /// Of the collection that `value` describes; `None` for a short string.
    pub(super) fn new(key: &UserKey<'_>, value: &Value<'_>) -> Option<Self> {
        let collection = value.collection()?;
        let form = match value {
            Value::String { .. } => return None,
            Value::LongString { fragment_bytes, .. } => {
                Form::LongString { fragment_bytes: u64::from(*fragment_bytes) }
            }
            Value::Hash(_) => Form::Hash,
            Value::List { head, tail, .. } => Form::List { head: *head, tail: *tail },
            Value::Set(_) => Form::Set,
            Value::SortedSet(_) => Form::SortedSet { by_score: 0, names: 0, scores: 0 },
        };
        Some(Self {
            database: key.database(),
            key: key.bytes().to_vec(),
            generation: collection.generation.0,
            count: collection.count,
            form,
            parts: 0,
            misfit: None,
        })
    }

    pub(super) fn database(&self) -> DatabaseId {
        self.database
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn kind(&self) -> Kind {
        match self.form {
            Form::LongString { .. } => Kind::String,
            Form::Hash => Kind::Hash,
            Form::List { .. } => Kind::List,
            Form::Set => Kind::Set,
            Form::SortedSet { .. } => Kind::SortedSet,
        }
    }

    /// The key, as people write it.
    pub(super) fn name(&self) -> String {
        format!("\"{}\"", self.key.escape_ascii())
    }

    /// Counts a part.
    pub(super) fn take(&mut self, field: &Field<'_>, value: &[u8]) {
        let fits = match field.check_value(value) {
            Err(error) => Err(error.to_string()),
            Ok(()) => self.form.take(field, value, self.count),
        };
        match fits {
            Ok(is_counted) => self.parts += u64::from(is_counted),
            Err(why) => {
                self.misfit.get_or_insert_with(|| format!("its part {} is wrong: {why}", name_of(field)));
            }
        }
    }

    /// What is wrong with it, once all its parts were counted.
    pub(super) fn conclusion(&self) -> Option<String> {
        if let Some(misfit) = &self.misfit {
            return Some(misfit.clone());
        }
        let (count, parts) = (self.count, self.parts);
        let is_counted = !matches!(self.form, Form::LongString { .. });
        if is_counted && parts != count {
            let kind = self.kind();
            return Some(format!("it says {count} {}, and {parts} are there", kind.parts(count)));
        }
        match self.form {
            Form::SortedSet { by_score, .. } if by_score != parts => {
                Some(format!("{parts} members have a score, and {by_score} are found by one"))
            }
            Form::SortedSet { names, scores, .. } if names != scores => {
                Some("a member is not found by its score".to_owned())
            }
            _ => None,
        }
    }
}

impl Form {
    /// Whether `field` counts as an element of what has `count` of them.
    ///
    /// # Errors
    /// It cannot be one, and why.
    fn take(&mut self, field: &Field<'_>, value: &[u8], count: u64) -> Result<bool, String> {
        match (self, field) {
            (Self::Hash, Field::HashField(_)) | (Self::Set, Field::SetMember(_)) => Ok(true),
            (Self::List { head, tail }, Field::ListElement(index)) => match (*head..*tail).contains(index) {
                true => Ok(true),
                false => Err(format!("the list reaches from {head} to {tail}")),
            },
            (Self::LongString { fragment_bytes }, Field::Fragment(index)) => {
                let at = u64::from(*index) * *fragment_bytes;
                if at >= count {
                    return Err(format!("the string has {count} bytes, and this one begins at {at}"));
                }
                match value.len() as u64 <= *fragment_bytes {
                    true => Ok(true),
                    false => Err(format!("{} bytes, expected at most {fragment_bytes}", value.len())),
                }
            }
            (Self::SortedSet { names, .. }, Field::ScoredMember(member)) => {
                let score = Score::decode(value).map_err(|error| error.to_string())?;
                *names = names.wrapping_add(mark(score, member));
                Ok(true)
            }
            (Self::SortedSet { by_score, scores, .. }, Field::ByScore(score, member)) => {
                *by_score += 1;
                *scores = scores.wrapping_add(mark(*score, member));
                Ok(false)
            }
            (form, _) => Err(format!("no {} has such parts", form.name())),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::LongString { .. } => "string",
            Self::Hash => "hash",
            Self::List { .. } => "list",
            Self::Set => "set",
            Self::SortedSet { .. } => "sorted set",
        }
    }
}

/// A part, as people know it.
fn name_of(field: &Field<'_>) -> String {
    match field {
        Field::ListElement(index) => index.to_string(),
        Field::Fragment(index) => index.to_string(),
        field => format!("\"{}\"", field.member().escape_ascii()),
    }
}

/// A number made of a member and its score. The sums over both orders of a sorted set are equal if
/// the same pairs are in both.
fn mark(score: Score, member: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&score.to_bytes());
    hasher.write(member);
    hasher.finish()
}
