//! What the server must know about a command before it runs it.

/// One property of a command. The order is the one in which COMMAND lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flag {
    /// May change data.
    Write,
    /// Reads data and changes none.
    ReadOnly,
    /// May need more memory: refused when memory is short.
    DenyOom,
    /// For operators of the server.
    Admin,
    /// Publishes, or changes what a connection is subscribed to.
    PubSub,
    /// Refused in scripts.
    NoScript,
    /// May wait for another client.
    Blocking,
    /// Allowed while data is being loaded.
    Loading,
    /// Allowed on a replica that lost its master.
    Stale,
    /// Never shown by MONITOR, because its arguments may be secret.
    SkipMonitor,
    /// Never noted in SLOWLOG.
    SkipSlowlog,
    /// Allowed on a slot that is being imported, after ASKING.
    Asking,
    /// Constant or logarithmic cost.
    Fast,
    /// Allowed before a client has authenticated.
    NoAuth,
    /// Takes keys, but not necessarily one.
    NoMandatoryKeys,
    /// Refused while data is being loaded in the background.
    NoAsyncLoading,
    /// Refused between MULTI and EXEC.
    NoMulti,
    /// First, last and step do not tell all keys.
    MovableKeys,
    /// Allowed while a script runs past its time.
    AllowBusy,
}

const ALL: [Flag; 19] = [
    Flag::Write,
    Flag::ReadOnly,
    Flag::DenyOom,
    Flag::Admin,
    Flag::PubSub,
    Flag::NoScript,
    Flag::Blocking,
    Flag::Loading,
    Flag::Stale,
    Flag::SkipMonitor,
    Flag::SkipSlowlog,
    Flag::Asking,
    Flag::Fast,
    Flag::NoAuth,
    Flag::NoMandatoryKeys,
    Flag::NoAsyncLoading,
    Flag::NoMulti,
    Flag::MovableKeys,
    Flag::AllowBusy,
];

impl Flag {
    /// The name clients know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Flag::Write => "write",
            Flag::ReadOnly => "readonly",
            Flag::DenyOom => "denyoom",
            Flag::Admin => "admin",
            Flag::PubSub => "pubsub",
            Flag::NoScript => "noscript",
            Flag::Blocking => "blocking",
            Flag::Loading => "loading",
            Flag::Stale => "stale",
            Flag::SkipMonitor => "skip_monitor",
            Flag::SkipSlowlog => "skip_slowlog",
            Flag::Asking => "asking",
            Flag::Fast => "fast",
            Flag::NoAuth => "no_auth",
            Flag::NoMandatoryKeys => "no_mandatory_keys",
            Flag::NoAsyncLoading => "no_async_loading",
            Flag::NoMulti => "no_multi",
            Flag::MovableKeys => "movablekeys",
            Flag::AllowBusy => "allow_busy",
        }
    }
}

/// A set of [`Flag`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);

    /// The set of these.
    pub const fn of(flags: &[Flag]) -> Self {
        let (mut set, mut rest) = (Self::NONE, flags);
        while let [flag, after @ ..] = rest {
            (set, rest) = (set.with(*flag), after);
        }
        set
    }

    /// The set with `flag`.
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | 1 << flag as u32)
    }

    /// Whether `flag` is in the set.
    pub const fn has(self, flag: Flag) -> bool {
        self.0 & (1 << flag as u32) != 0
    }

    /// Its flags in the order of [`Flag`].
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        ALL.into_iter().filter(move |flag| self.has(*flag))
    }
}
