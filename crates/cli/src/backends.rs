//! Backends by the names that users give them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use firn_objects::LazyRuntime;
use firn_storage::ThreadSpawn;
use firn_storage::backend::{OpenWith, Registry, Throttle};

/// What this program can open: directories and object stores. Clients of all stores that one
/// registry opens share a thread.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    firn_objects::register(&mut registry, LazyRuntime::new(Arc::new(ThreadSpawn::new())));
    registry
}

/// What the environment says of stores, and the rest as the command line has it.
pub(crate) fn open_with(throttle: Option<Arc<Throttle>>, create: bool) -> OpenWith {
    OpenWith { settings: store_settings(std::env::vars_os()), throttle, create }
}

/// What of the environment is for object stores.
fn store_settings(variables: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let texts =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts
        .filter(|(name, _)| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|family| name.starts_with(family)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_gives_stores_their_settings_and_nothing_else() {
        let variables = ["AWS_REGION", "GOOGLE_BUCKET", "AZURE_CONTAINER", "HOME", "MY_AWS_REGION"];
        let settings = store_settings(variables.map(|name| (name.into(), "x".into())).into_iter());
        assert_eq!(
            settings.into_keys().collect::<Vec<_>>(),
            ["AWS_REGION", "AZURE_CONTAINER", "GOOGLE_BUCKET"]
        );
    }

    #[test]
    fn stores_are_throttled_and_directories_are_not() {
        let registry = registry();
        for name in ["s3://bucket/a/b", "gs://bucket", "az://container/x", "abfs://c/x"] {
            assert!(registry.is_throttled(name), "{name}");
        }
        for name in ["/tmp/data", "data", "c:/x", "file:///tmp/data", "http://example/x", "s3:/bucket"] {
            assert!(!registry.is_throttled(name), "{name}");
        }
    }
}
