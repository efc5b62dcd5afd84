//! What CONFIG reads and changes.
//!
//! Some parameters have an effect:
//! - `appendfsync`: what an acknowledged write survives.
//! - `maxclients`, `timeout`, `tcp-keepalive`: how many clients there may be, how long they may be
//!   idle, and when the system asks for them.
//! - `slowlog-*`, `latency-monitor-threshold`: what is noted as slow.
//! - `proto-max-bulk-len`, `client-query-buffer-limit`: how large requests may be.
//! - `protected-mode`, `requirepass`: which clients may connect.
//! - `busy-reply-threshold`: after which time a script is busy.
//! - Which percentiles INFO tells.
//!
//! The others are refused if they promise something, and otherwise kept and answered: the table
//! says which. Every name of Redis 7.0.15 is known, also the few that it answers only to their
//! whole name.

mod kind;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use firn_engine::Durability;
use firn_protocol::glob;

use crate::bounds::cut_text;
use crate::settings::ServeSettings;
use kind::Kind;
use table::TABLE;

/// A name that CONFIG knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    /// The name it is kept under, if that is another.
    same_as: Option<&'static str>,
    /// No pattern finds it.
    is_hidden: bool,
}

impl Parameter {
    /// The name its value is kept under.
    fn key(&self) -> &'static str {
        self.same_as.unwrap_or(self.name)
    }
}

/// The values of all parameters. The ones that are read often are kept as numbers beside the map.
#[derive(Debug)]
pub(crate) struct Parameters {
    values: RwLock<BTreeMap<&'static str, Vec<u8>>>,
    clients_max: AtomicU64,
    idle_s_max: AtomicU64,
    slow_us: AtomicI64,
    slow_log_len: AtomicU64,
    latency_ms: AtomicU64,
    busy_ms: AtomicU64,
    argument_bytes_max: AtomicU64,
    request_bytes_max: AtomicU64,
    is_protected: AtomicBool,
    keepalive_s: AtomicU64,
    /// A [`Syncing`].
    syncing: AtomicU8,
    /// What the database was opened with. Where that is shared storage, no parameter changes it.
    opened_with: Durability,
    /// Clients that the process has descriptors for.
    clients_room: usize,
}

/// When what is acknowledged is synced to the device, as `appendfsync` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Syncing {
    /// By the system, when it likes.
    Never,
    /// Every second, in the background.
    EachSecond,
    /// Before it is acknowledged.
    Always,
    /// As the database was opened: `appendfsync` was not set.
    AsOpened,
}

/// Below this many microseconds what counts as slow is measured command by command, at some cost.
const EXACT_BELOW_US: i64 = 1000;

impl Parameters {
    /// The defaults, but for what the server was started with.
    pub(crate) fn new(settings: &ServeSettings, port: u16, dir: &str, durability: Durability) -> Self {
        let mut values: BTreeMap<&'static str, Vec<u8>> = TABLE
            .iter()
            .filter(|parameter| parameter.same_as.is_none())
            .map(|parameter| (parameter.name, parameter.default.as_bytes().to_vec()))
            .collect();
        // Parameters are signed numbers.
        let limit = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX).to_string();
        let started_with = [
            ("bind", settings.bind.to_string()),
            ("port", port.to_string()),
            ("dir", dir.to_owned()),
            ("io-threads", settings.threads.to_string()),
            ("maxclients", limit(settings.clients_max.min(settings.clients_room))),
            ("client-query-buffer-limit", limit(settings.request_bytes_max)),
            ("proto-max-bulk-len", limit(settings.argument_bytes_max)),
            ("timeout", settings.idle_s_max.min(i64::MAX as u64).to_string()),
            ("tcp-keepalive", settings.keepalive_s.to_string()),
            ("appendfsync", if durability <= Durability::Process { "no" } else { "always" }.to_owned()),
            ("protected-mode", if settings.is_protected { "yes" } else { "no" }.to_owned()),
        ];
        values.extend(started_with.map(|(name, value)| (name, value.into_bytes())));
        let parameters = Self {
            values: RwLock::default(),
            clients_max: AtomicU64::default(),
            idle_s_max: AtomicU64::default(),
            slow_us: AtomicI64::default(),
            slow_log_len: AtomicU64::default(),
            latency_ms: AtomicU64::default(),
            busy_ms: AtomicU64::default(),
            argument_bytes_max: AtomicU64::default(),
            request_bytes_max: AtomicU64::default(),
            is_protected: AtomicBool::new(true),
            keepalive_s: AtomicU64::default(),
            syncing: AtomicU8::default(),
            opened_with: durability,
            clients_room: settings.clients_room,
        };
        values.iter().for_each(|(name, value)| parameters.take_effect(name, value));
        parameters.syncing.store(Syncing::AsOpened as u8, Ordering::Relaxed);
        *parameters.values.write().unwrap_or_else(PoisonError::into_inner) = values;
        parameters
    }

    fn values(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, Vec<u8>>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds names and values of the parameters that match `pattern` and are not `found` yet. A
    /// parameter asked for by its whole name is named as the pattern spells it.
    pub(crate) fn add_matching(&self, pattern: &[u8], found: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let values = self.values();
        let is_name = !pattern.iter().any(|byte| b"*?[".contains(byte));
        let lower = pattern.to_ascii_lowercase();
        let is_meant =
            |it: &&Parameter| glob::matches(&lower, it.name.as_bytes()) && (is_name || !it.is_hidden);
        for parameter in TABLE.iter().filter(is_meant) {
            if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(parameter.name.as_bytes())) {
                let name = if is_name { pattern.to_vec() } else { parameter.name.as_bytes().to_vec() };
                found.push((name, values.get(parameter.key()).cloned().unwrap_or_default()));
            }
        }
    }

    /// Bytes that a pattern is compared with, all names together and once itself for each.
    pub(crate) fn compared_bytes(pattern: &[u8]) -> usize {
        TABLE.len() * (NAME_BYTES + pattern.len())
    }

    /// The value of one.
    pub(crate) fn value(&self, name: &str) -> Vec<u8> {
        self.values().get(name).cloned().unwrap_or_default()
    }

    /// Sets all of these, or none and says why, in the words of Redis.
    pub(crate) fn set(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), String> {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<&'static Parameter> = Vec::new();
        for (name, _) in pairs {
            let is_named = |it: &&Parameter| it.name.as_bytes().eq_ignore_ascii_case(name);
            let Some(parameter) = TABLE.iter().find(is_named) else {
                let name = cut_text(name);
                return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
            };
            if matches!(parameter.kind, Kind::Fixed | Kind::Guarded) {
                let why = parameter.kind.check(b"", b"").err().unwrap_or_default();
                return Err(refused(parameter, &why));
            }
            if found.iter().any(|known| known.key() == parameter.key()) {
                return Err(refused(parameter, "duplicate parameter"));
            }
            found.push(parameter);
        }
        let mut checked = Vec::new();
        for (parameter, (_, value)) in found.iter().zip(pairs) {
            let kind =
                TABLE.iter().find(|it| it.name == parameter.key()).map_or(parameter.kind, |it| it.kind);
            let before = values.get(parameter.key()).map(Vec::as_slice).unwrap_or_default();
            let value = kind.check(value, before).map_err(|why| refused(parameter, &why))?;
            if parameter.name == "appendfsync" && self.opened_with == Durability::Shared && value != before {
                return Err(refused(parameter, SHARED));
            }
            let number = || firn_protocol::number::parse_integer(&value).unwrap_or(0);
            if parameter.name == "maxclients"
                && number() > i64::try_from(self.clients_room).unwrap_or(i64::MAX)
            {
                let room = self.clients_room;
                let why = format!("the process has descriptors for {room} clients: raise ulimit -Hn");
                return Err(refused(parameter, &why));
            }
            checked.push((parameter.key(), value));
        }
        for (name, value) in checked {
            self.take_effect(name, &value);
            values.insert(name, value);
        }
        Ok(())
    }

    fn take_effect(&self, name: &str, value: &[u8]) {
        let number = firn_protocol::number::parse_integer(value).unwrap_or(0);
        let place = match name {
            "maxclients" => &self.clients_max,
            "timeout" => &self.idle_s_max,
            "slowlog-max-len" => &self.slow_log_len,
            "latency-monitor-threshold" => &self.latency_ms,
            "busy-reply-threshold" => &self.busy_ms,
            "proto-max-bulk-len" => &self.argument_bytes_max,
            "client-query-buffer-limit" => &self.request_bytes_max,
            "tcp-keepalive" => &self.keepalive_s,
            "appendfsync" => {
                let syncing = match value {
                    b"always" => Syncing::Always,
                    b"everysec" => Syncing::EachSecond,
                    _ => Syncing::Never,
                };
                return self.syncing.store(syncing as u8, Ordering::Relaxed);
            }
            "protected-mode" => return self.is_protected.store(value == b"yes", Ordering::Relaxed),
            "slowlog-log-slower-than" => return self.slow_us.store(number, Ordering::Relaxed),
            _ => return,
        };
        place.store(number as u64, Ordering::Relaxed);
    }

    /// Connections at a time.
    pub(crate) fn clients_max(&self) -> usize {
        self.clients_max.load(Ordering::Relaxed) as usize
    }

    /// Seconds after which a connection that says nothing is closed; 0 = never.
    pub(crate) fn idle_s_max(&self) -> u64 {
        self.idle_s_max.load(Ordering::Relaxed)
    }

    /// Whether only this machine may connect while no password is asked for.
    pub(crate) fn is_protected(&self) -> bool {
        self.is_protected.load(Ordering::Relaxed)
    }

    /// Seconds after which the system asks a silent connection's other side whether it is there; 0
    /// = never.
    pub(crate) fn keepalive_s(&self) -> u32 {
        u32::try_from(self.keepalive_s.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// What an acknowledgement promises; `None` = what the database was opened with.
    #[inline]
    pub(crate) fn durability(&self) -> Option<Durability> {
        const NEVER: u8 = Syncing::Never as u8;
        const EACH_SECOND: u8 = Syncing::EachSecond as u8;
        const ALWAYS: u8 = Syncing::Always as u8;
        match self.syncing.load(Ordering::Relaxed) {
            NEVER | EACH_SECOND => Some(Durability::Process),
            ALWAYS => Some(self.opened_with.max(Durability::Disk)),
            _ => None,
        }
    }

    /// Whether each write waits for a device.
    pub(crate) fn syncs_each_write(&self) -> bool {
        self.durability().unwrap_or(self.opened_with) > Durability::Process
    }

    /// Whether what was written is synced every second.
    pub(crate) fn syncs_each_second(&self) -> bool {
        self.syncing.load(Ordering::Relaxed) == Syncing::EachSecond as u8
    }

    /// Bytes of one argument.
    pub(crate) fn argument_bytes_max(&self) -> usize {
        self.argument_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// Bytes of a request that is not complete.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.request_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// Entries that the slow log keeps.
    pub(crate) fn slow_log_len(&self) -> usize {
        self.slow_log_len.load(Ordering::Relaxed) as usize
    }

    /// Whether a command that took so long is noted in the slow log.
    pub(crate) fn is_slow(&self, us: u64) -> bool {
        u64::try_from(self.slow_us.load(Ordering::Relaxed)).is_ok_and(|limit| us >= limit)
    }

    /// Milliseconds after which a script is one that keeps others from what it works on; 0 = none
    /// ever is.
    pub(crate) fn busy_ms(&self) -> u64 {
        match self.busy_ms.load(Ordering::Relaxed) {
            0 => u64::MAX,
            ms => ms,
        }
    }

    /// Whether what took so long is a latency event.
    pub(crate) fn is_latency_event(&self, us: u64) -> bool {
        let limit_ms = self.latency_ms.load(Ordering::Relaxed);
        limit_ms > 0 && us / 1000 >= limit_ms
    }

    /// Milliseconds from which on something is a latency event; 0 = nothing is.
    pub(crate) fn latency_ms(&self) -> u64 {
        self.latency_ms.load(Ordering::Relaxed)
    }

    /// Whether each command must be measured by itself.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        (0..EXACT_BELOW_US).contains(&self.slow_us.load(Ordering::Relaxed))
    }
}

/// What a name has, about, in bytes.
const NAME_BYTES: usize = 24;

const SHARED: &str = "the database was opened with durability = \"shared\", which includes it";

fn refused(parameter: &Parameter, why: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{}') - {why}", parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_holds_together() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each name once");
        for parameter in TABLE {
            assert!(
                TABLE.iter().any(|it| it.name == parameter.key() && it.same_as.is_none()),
                "{parameter:?}"
            );
            let is_settable = !matches!(parameter.kind, Kind::Fixed | Kind::Guarded);
            if is_settable && parameter.same_as.is_none() {
                let default = parameter.default.as_bytes();
                assert_eq!(parameter.kind.check(default, default).as_deref(), Ok(default), "{parameter:?}");
            }
        }
    }

    #[test]
    fn all_are_set_or_none() {
        let parameters = Parameters::new(&ServeSettings::default(), 7, "d", Durability::Process);
        let matching = |pattern: &[u8]| {
            let mut found = Vec::new();
            parameters.add_matching(pattern, &mut found);
            parameters.add_matching(pattern, &mut found);
            found
        };
        assert_eq!(matching(b"PORT"), [(b"PORT".to_vec(), b"7".to_vec())]);
        assert!(parameters.set(&[(b"timeout", b"5"), (b"hz", b"x")]).is_err());
        assert_eq!((parameters.idle_s_max(), parameters.value("timeout")), (0, b"0".to_vec()));
        assert_eq!(parameters.set(&[(b"Timeout", b"5"), (b"slave-priority", b"3")]), Ok(()));
        assert_eq!((parameters.idle_s_max(), parameters.value("replica-priority")), (5, b"3".to_vec()));
        assert_eq!(matching(b"slave-prio*"), [(b"slave-priority".to_vec(), b"3".to_vec())]);
        assert!(parameters.is_slow(10_000) && !parameters.is_slow(9_999) && !parameters.is_exact());
        assert_eq!(parameters.set(&[(b"slowlog-log-slower-than", b"0")]), Ok(()));
        assert!(parameters.is_slow(0) && parameters.is_exact());
        assert_eq!(parameters.set(&[(b"slowlog-log-slower-than", b"-1")]), Ok(()));
        assert!(!parameters.is_slow(u64::MAX) && !parameters.is_exact());
    }
}
