//! Backends by name: which opener belongs to which URL scheme.
//!
//! ```text
//!   storage ──── file ───────┐
//!   objects ──── s3, gs, az ─┼─► Registry ─► open(name, with) ─► Arc<dyn Storage>
//!   a program's own ─────────┘
//! ```
//! A program makes one registry, has crates register their openers, and passes it on. A scheme is
//! thus a component like a clock: two programs, or a program and its test, may differ in it.

mod directories; // the scheme `file`, and names without a scheme

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::backend::{Throttle, Throttled};
use crate::{Error, ErrorKind, Result, Storage};

use self::directories::Directories;

/// Openers of backends, by the scheme of their names.
///
/// 1. A name with `://` belongs to the opener of its scheme. Any other name is a directory.
/// 2. A scheme has one opener: the one that was registered last.
#[derive(Clone, Debug)]
pub struct Registry {
    /// In the order of registration, which is the order in which users are told of them.
    openers: Vec<(String, Arc<dyn Opener>)>,
}

/// Opens the backends of one scheme.
pub trait Opener: Send + Sync + fmt::Debug {
    /// How its names look, for users: `s3://BUCKET/PREFIX`. Empty where the scheme is another
    /// spelling of one that says so.
    fn form(&self) -> &str;

    /// What limits the backends that it opens.
    fn throttling(&self) -> Throttling;

    /// The backend called `url`. Need not ask it: whether it is there may show with the first
    /// request.
    ///
    /// # Errors
    /// `Invalid`, with what is expected, for a name that cannot be used; what opening says.
    fn open(&self, url: &BackendUrl<'_>, with: &OpenWith) -> Result<Arc<dyn Storage>>;
}

/// What keeps a backend to the limits of [`OpenWith::throttle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttling {
    /// The backend counts the requests that it sends.
    Own,
    /// The registry puts a [`Throttled`] before it: each call counts as one request.
    ByCall,
    /// Nothing: the opener refuses a throttle.
    Never,
}

/// The name of a backend, in its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendUrl<'n> {
    /// All of it.
    pub text: &'n str,
    /// What is before `://`, by which the opener was found.
    pub scheme: &'n str,
    /// What is behind.
    pub rest: &'n str,
}

impl<'n> BackendUrl<'n> {
    /// The parts of `text`; `None` if it has no scheme.
    fn parse(text: &'n str) -> Option<Self> {
        text.split_once("://").map(|(scheme, rest)| Self { text, scheme, rest })
    }
}

/// What a backend is opened with, beside its name. `Debug` shows no value of a setting.
#[derive(Clone, Default)]
pub struct OpenWith {
    /// Endpoints, regions, credentials, by the names that the backends' own tools read from the
    /// environment (`AWS_ACCESS_KEY_ID`). An opener leaves out names that it does not know.
    pub settings: BTreeMap<String, String>,
    /// How often the backend is asked; several may share one. `None` = no limit.
    pub throttle: Option<Arc<Throttle>>,
    /// Whether a directory that is missing is made.
    pub create: bool,
}

impl fmt::Debug for OpenWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.settings.keys().collect();
        f.debug_struct("OpenWith")
            .field("settings", &names)
            .field("throttle", &self.throttle)
            .field("create", &self.create)
            .finish()
    }
}

impl Registry {
    /// Directories, `file:///DIRECTORY` among their names, and nothing else.
    ///
    /// Files of a directory on a file system of this machine are mapped. Files on other file
    /// systems (NFS and the like) are read: what another machine removes there would end a process
    /// that has it mapped. Failures in a directory may pass, except a failed sync
    /// ([`Mounted`](crate::backend::Mounted)). No throttle limits a directory.
    pub fn new() -> Self {
        let mut registry = Self { openers: Vec::new() };
        registry.register("file", Arc::new(Directories));
        registry
    }

    /// `opener` opens what begins with `scheme://`, instead of an earlier opener of the scheme.
    pub fn register(&mut self, scheme: &str, opener: Arc<dyn Opener>) {
        match self.openers.iter_mut().find(|(known, _)| known == scheme) {
            Some((_, known)) => *known = opener,
            None => self.openers.push((scheme.to_owned(), opener)),
        }
    }

    /// The backend called `name`: a directory, or the URL of a registered scheme.
    ///
    /// # Errors
    /// `Invalid` for an empty name and an unknown scheme, with the names that are known; what the
    /// opener says.
    pub fn open(&self, name: &str, with: &OpenWith) -> Result<Arc<dyn Storage>> {
        let Some(url) = BackendUrl::parse(name) else {
            return match name.is_empty() {
                true => Err(self.unknown(name)),
                false => directories::open(name, name, with),
            };
        };
        let opener = self.opener(url.scheme).ok_or_else(|| self.unknown(name))?;
        match (&with.throttle, opener.throttling()) {
            (Some(throttle), Throttling::ByCall) => {
                let inner = opener.open(&url, &OpenWith { throttle: None, ..with.clone() })?;
                Ok(Arc::new(Throttled::new(inner, Arc::clone(throttle))))
            }
            _ => opener.open(&url, with),
        }
    }

    /// Whether a throttle limits the backend called `name`. `false` for names that nothing opens.
    pub fn is_throttled(&self, name: &str) -> bool {
        BackendUrl::parse(name)
            .and_then(|url| self.opener(url.scheme))
            .is_some_and(|opener| opener.throttling() != Throttling::Never)
    }

    fn opener(&self, scheme: &str) -> Option<&dyn Opener> {
        self.openers.iter().find(|(known, _)| known == scheme).map(|(_, opener)| &**opener)
    }

    /// No opener has `name`: what is known, and what would open it.
    fn unknown(&self, name: &str) -> Error {
        let forms = self.openers.iter().map(|(_, opener)| opener.form()).filter(|form| !form.is_empty());
        let mut expected: Vec<&str> = std::iter::once("a directory").chain(forms).collect();
        let last = expected.pop().unwrap_or_default();
        let expected = match expected.is_empty() {
            true => last.to_owned(),
            false => format!("{} or {last}", expected.join(", ")),
        };
        let scheme = BackendUrl::parse(name).map(|url| url.scheme);
        let advice = scheme.and_then(crate_of).map_or_else(String::new, |name| {
            format!("; crate {name} opens that, and this program has not registered its openers")
        });
        Error::new(ErrorKind::Invalid, "", format!("expected {expected}, found {name:?}{advice}"))
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// The crate that has an opener of `scheme`, for programs that were built without it.
fn crate_of(scheme: &str) -> Option<&'static str> {
    let is_object_store = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"].contains(&scheme);
    is_object_store.then_some("firn-objects")
}

#[cfg(test)]
mod tests;
