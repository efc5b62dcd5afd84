//! Object stores at a registry.

use std::sync::Arc;

use firn_storage::backend::{BackendUrl, OpenWith, Opener, Registry, Throttling};
use firn_storage::{Result, Storage};

use crate::options::SCHEMES;
use crate::{LazyRuntime, ObjectBackend, ObjectOptions};

/// Registers the schemes of object stores (see [`ObjectOptions::url`]) at `registry`. What is
/// opened there shares `runtime`, which starts with the first of it.
pub fn register(registry: &mut Registry, runtime: LazyRuntime) {
    let runtime = Arc::new(runtime);
    for (scheme, form) in SCHEMES {
        registry.register(scheme, Arc::new(ObjectOpener { form, runtime: Arc::clone(&runtime) }));
    }
}

/// Opens object stores. Sends no request: whether a store is there shows with the first one.
#[derive(Debug)]
struct ObjectOpener {
    form: &'static str,
    runtime: Arc<LazyRuntime>,
}

impl Opener for ObjectOpener {
    fn form(&self) -> &str {
        self.form
    }

    /// A call is several requests, or none.
    fn throttling(&self) -> Throttling {
        Throttling::Own
    }

    fn open(&self, url: &BackendUrl<'_>, with: &OpenWith) -> Result<Arc<dyn Storage>> {
        let mut options = ObjectOptions::new(url.text);
        options.settings = with.settings.clone();
        options.throttle = with.throttle.clone();
        Ok(Arc::new(ObjectBackend::open(&options, &self.runtime.get()?)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use firn_storage::{ErrorKind, ThreadSpawn};

    use super::*;

    #[test]
    fn a_registry_opens_object_stores_and_says_how_they_are_named() {
        let mut registry = Registry::new();
        register(&mut registry, LazyRuntime::new(Arc::new(ThreadSpawn::new())));
        let settings = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
        let settings = BTreeMap::from(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let with = OpenWith { settings, ..OpenWith::default() };
        for name in ["s3://bucket/prefix", "s3a://bucket/prefix"] {
            assert_eq!(registry.open(name, &with).unwrap().describe(), name);
            assert!(registry.is_throttled(name), "{name}");
        }
        let half = OpenWith { settings: with.settings.clone().split_off("AWS_S"), ..OpenWith::default() };
        let refused = registry.open("s3://bucket/prefix", &half).unwrap_err();
        assert!(refused.to_string().contains("Missing AccessKeyId"), "{refused}");
        let unknown = registry.open("http://host/x", &with).unwrap_err();
        assert_eq!(unknown.kind, ErrorKind::Invalid);
        assert_eq!(
            unknown.to_string(),
            "expected a directory, file:///DIRECTORY, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or \
             az://CONTAINER/PREFIX, found \"http://host/x\""
        );
    }

    /// What `firn_storage` says of a scheme that is not registered names this crate.
    #[test]
    fn a_registry_without_this_crate_names_it() {
        for (scheme, _) in SCHEMES {
            let error = Registry::new().open(&format!("{scheme}://x/y"), &OpenWith::default()).unwrap_err();
            assert!(error.to_string().contains(concat!("crate ", env!("CARGO_PKG_NAME"))), "{error}");
        }
    }
}
