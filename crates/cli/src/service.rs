//! What the commands of the service have in common: tokens, locations, numbers drawn for a start.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_job_service::{Backends, Remote, RemoteOptions, SharedToken};
use firn_storage::backend::{Registry, Throttle};
use firn_storage::{Error, ErrorKind, SystemClock, ThreadSpawn};

use crate::backends::{open_with, registry};
use crate::ending::{Ending, Failure, Result};
use crate::output::report;
use crate::secrets;
use crate::store_rates::StoreRates;
use crate::tls::ClientFiles;

/// The first line of `file`; without one none.
pub(crate) fn read_token(file: Option<&Path>) -> Result<SharedToken> {
    let Some(file) = file else { return Ok(SharedToken::none()) };
    secrets::warn_if_open(Some(file), "the token");
    let invalid = |what: String| Failure::new(Ending::Usage, what);
    let text = std::fs::read_to_string(file)
        .map_err(|error| invalid(format!("cannot read {}: {error}", file.display())))?;
    SharedToken::new(text.lines().next().unwrap_or_default()).ok_or_else(|| {
        let expected = "expected a first line of 1 to 4096 visible ASCII characters, which is the token";
        invalid(format!("{}: {expected}", file.display()))
    })
}

/// A number that no other start has.
pub(crate) fn draw() -> u128 {
    // The hasher's keys are the system's randomness.
    let half = |salt: u8| u128::from(RandomState::new().hash_one((salt, std::process::id())));
    half(0) << 64 | half(1)
}

/// How workers name the location that is called `name` here.
pub(crate) fn location_name(name: &str) -> String {
    if name.contains("://") {
        return name.to_owned();
    }
    let path = std::path::absolute(name).unwrap_or_else(|_| PathBuf::from(name));
    path.display().to_string()
}

/// How a database reaches control planes.
#[derive(Debug)]
pub(crate) struct Reach<'o> {
    pub(crate) control_planes: &'o str,
    pub(crate) token_file: Option<&'o Path>,
    pub(crate) tls: ClientFiles,
    /// Where its files are near to.
    pub(crate) zone: Option<&'o str>,
    /// Whose share of the workers its jobs count to; `None` = its own.
    pub(crate) tenant: Option<&'o str>,
    /// Of that share.
    pub(crate) weight: f64,
}

/// The weight of a share for which none is given.
pub(crate) const WEIGHT: f64 = 1.0;

/// Shares of workers are weighed so.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// Bytes of a tenant's name.
const TENANT_BYTES_MAX: usize = 256;

/// The weight of a share, said by people.
pub(crate) fn parse_weight(text: &str) -> std::result::Result<f64, String> {
    let weight = text.parse::<f64>().ok().filter(|weight| WEIGHTS.contains(weight));
    weight
        .ok_or_else(|| "expected a number from 0.001 to 1000: twice the weight is twice the share".to_owned())
}

/// The name of a tenant, said by people.
pub(crate) fn parse_tenant(text: &str) -> std::result::Result<String, String> {
    let is_name = (1..=TENANT_BYTES_MAX).contains(&text.len())
        && text.trim() == text
        && !text.contains(char::is_control);
    let expected = || format!("expected 1 to {TENANT_BYTES_MAX} bytes, none of them a blank at an end");
    is_name.then(|| text.to_owned()).ok_or_else(expected)
}

/// The executor of a database whose files are at `location`.
pub(crate) fn remote(location: &str, reach: &Reach<'_>) -> Result<Remote> {
    let mut options = RemoteOptions::new(urls(reach.control_planes), &location_name(location), draw());
    options.token = read_token(reach.token_file)?;
    options.tls = reach.tls.read()?;
    if reach.token_file.is_some() {
        warn_of_plain_token(reach.control_planes);
    }
    options.zone = reach.zone.unwrap_or_default().to_owned();
    if let Some(tenant) = reach.tenant {
        options.tenant = tenant.to_owned();
    }
    options.weight = reach.weight;
    let remote = Remote::new(options, Arc::new(SystemClock::new()), &ThreadSpawn::new());
    remote.map_err(|error| Failure::new(Ending::Usage, format!("cannot use a control plane: {error}")))
}

/// Several names in one text, a comma between each two.
pub(crate) fn urls(text: &str) -> Vec<String> {
    text.split(',').map(|url| url.trim().trim_end_matches('/').to_owned()).collect()
}

/// Tells people that a token goes over a network as it is.
pub(crate) fn warn_of_plain_token(control_planes: &str) {
    for url in urls(control_planes).iter().filter(|url| is_plain_and_far(url)) {
        report(format_args!(
            "firn: the token goes to {url} unencrypted, and what reads it on the way may use it: start the control plane with --tls-cert, \
             and say https://"
        ));
    }
}

/// Whether what is said to `url` leaves the machine, and others can read it.
fn is_plain_and_far(url: &str) -> bool {
    let Some(host) = url.strip_prefix("http://") else { return false };
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    host != "localhost" && !host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Backends that a worker may touch.
#[derive(Debug)]
pub(crate) struct Allowed {
    within: Vec<String>,
    /// Keeps the rates of all stores among them together.
    throttle: Option<Arc<Throttle>>,
    /// Opens them.
    registry: Registry,
}

impl Allowed {
    /// Locations that are, or lie in, one of `within`; the stores among them are asked as often as
    /// `rates` say, all together.
    ///
    /// # Errors
    /// One of them has no name; there are rates, and no stores.
    pub(crate) fn new(within: &[String], rates: Option<StoreRates>) -> Result<Self> {
        if let Some(name) = within.iter().find(|name| is_everything(plain(name))) {
            let what = format!("--within {name:?} names nothing: name a directory, or s3://BUCKET/PREFIX");
            return Err(Failure::new(Ending::Usage, what));
        }
        let registry = registry();
        if rates.is_some() && !within.iter().any(|name| registry.is_throttled(name)) {
            let what = "--store-rates are for object stores, and no --within names one";
            return Err(Failure::new(Ending::Usage, what));
        }
        let within = within.iter().map(|name| real_name(name)).collect();
        Ok(Self { within, throttle: rates.map(StoreRates::throttle), registry })
    }

    /// The location called `name` as it is opened, if it is one of these.
    fn find(&self, name: &str) -> Option<String> {
        let real = real_name(name);
        let lies_in = |location: &String| {
            let rest = real.strip_prefix(location.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (!may_climb(&real) && self.within.iter().any(lies_in)).then_some(real)
    }
}

/// Whether everything lies below the location called `name`.
fn is_everything(name: &str) -> bool {
    let bucket = name.split_once("://").map_or(name, |(_, rest)| rest);
    bucket.is_empty() || bucket.starts_with('/') && bucket.len() < name.len()
}

/// Whether some part of the name may lead out of what is before it, by whatever a parser of URLs
/// makes of it. It reads `%2e` as a dot, passes over blanks, and ends where a query begins.
fn may_climb(name: &str) -> bool {
    let is_dots = |part: &str| part == "." || part == "..";
    if !name.contains("://") {
        return name.split('/').any(is_dots);
    }
    let read = name.to_ascii_lowercase().replace("%2e", ".");
    let is_plain = !read.contains(|letter: char| letter.is_control() || "?#\\".contains(letter));
    !is_plain || read.split('/').any(|part| is_dots(part.trim()))
}

/// The name of a directory without what says that it is one.
fn plain(name: &str) -> &str {
    name.strip_prefix("file://").unwrap_or(name)
}

/// A directory without links on the way; the URL of a store as it is.
fn real_name(name: &str) -> String {
    let path = plain(name);
    if path.contains("://") {
        return path.to_owned();
    }
    std::fs::canonicalize(path).map_or_else(|_| location_name(path), |path| path.display().to_string())
}

impl Backends for Allowed {
    /// What was looked at is opened, and no link that has taken its name.
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn firn_storage::Storage>> {
        let Some(real) = self.find(name) else {
            let message = format!("it may not touch {name}: start it with --within for that location");
            return Err(Error::new(ErrorKind::Invalid, "", message));
        };
        let throttle = self.throttle.clone().filter(|_| self.registry.is_throttled(&real));
        self.registry.open(&real, &open_with(throttle, false))
    }
}

#[cfg(test)]
mod tests;
