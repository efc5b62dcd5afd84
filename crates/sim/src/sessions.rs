//! Sessions of engines that keep order and of those that do not, as scripts use both.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use firn_engine::blocking::Blocking;
use firn_engine::{Engine, OrderedSession, ReadAt, Result, ScanRange, Session};

use crate::model::Content;

/// A session of either kind.
pub(crate) enum AnySession {
    /// Of an engine that keeps order.
    Ordered(Box<dyn OrderedSession>),
    /// Of one that does not.
    Points(Box<dyn Session>),
}

impl AnySession {
    /// A new session of `engine`.
    pub(crate) fn of(engine: &Arc<dyn Engine>) -> Self {
        match Arc::clone(engine).ordered() {
            Some(ordered) => Self::Ordered(ordered.ordered_session()),
            None => Self::Points(engine.session()),
        }
    }

    /// What only order can do, where there is one.
    pub(crate) fn ordered(&mut self) -> Option<&mut dyn OrderedSession> {
        match self {
            Self::Ordered(session) => Some(&mut **session),
            Self::Points(_) => None,
        }
    }
}

impl Deref for AnySession {
    type Target = dyn Session;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Ordered(session) => &**session,
            Self::Points(session) => &**session,
        }
    }
}

impl DerefMut for AnySession {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Ordered(session) => &mut **session,
            Self::Points(session) => &mut **session,
        }
    }
}

/// Everything that `engine` holds, in the order of keys. Without order it is asked for `keys`,
/// which are all that may be there.
pub(crate) fn content(engine: &Arc<dyn Engine>, keys: &[Vec<u8>]) -> Result<Content> {
    let mut content = Content::new();
    for (name, id) in engine.keyspaces() {
        let records = match Arc::clone(engine).ordered() {
            Some(ordered) => {
                let mut session = Blocking::new(ordered.ordered_session());
                session.scan(ReadAt::Latest, id, ScanRange::all())?.collect::<Result<_>>()?
            }
            None => {
                let mut session = Blocking::new(engine.session());
                let mut records = Vec::new();
                for key in keys {
                    let value = session.get(ReadAt::Latest, id, key)?;
                    records.extend(value.map(|value| (key.clone(), value)));
                }
                records.sort();
                records
            }
        };
        content.insert(name, records);
    }
    Ok(content)
}
