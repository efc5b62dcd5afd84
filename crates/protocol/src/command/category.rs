//! Sets of commands that access rules name at once.

use super::{Flag, Flags};

/// One ACL category. The order is the one in which ACL CAT lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Category {
    /// Keys whatever their type.
    Keyspace,
    /// Reads values or what describes them.
    Read,
    /// Writes values or what describes them.
    Write,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Strings.
    String,
    /// Strings as bits.
    Bitmap,
    /// HyperLogLogs.
    HyperLogLog,
    /// Geographic indexes.
    Geo,
    /// Streams.
    Stream,
    /// Publishing and subscribing.
    PubSub,
    /// For operators of the server.
    Admin,
    /// Constant or logarithmic cost.
    Fast,
    /// All that is not fast.
    Slow,
    /// May make the connection wait.
    Blocking,
    /// Can harm the service or show what others do.
    Dangerous,
    /// The connection itself.
    Connection,
    /// MULTI and what belongs to it.
    Transaction,
    /// Scripts and functions.
    Scripting,
}

const ALL: [Category; 21] = [
    Category::Keyspace,
    Category::Read,
    Category::Write,
    Category::Set,
    Category::SortedSet,
    Category::List,
    Category::Hash,
    Category::String,
    Category::Bitmap,
    Category::HyperLogLog,
    Category::Geo,
    Category::Stream,
    Category::PubSub,
    Category::Admin,
    Category::Fast,
    Category::Slow,
    Category::Blocking,
    Category::Dangerous,
    Category::Connection,
    Category::Transaction,
    Category::Scripting,
];

impl Category {
    /// The name in access rules, with the `@`.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Keyspace => "@keyspace",
            Category::Read => "@read",
            Category::Write => "@write",
            Category::Set => "@set",
            Category::SortedSet => "@sortedset",
            Category::List => "@list",
            Category::Hash => "@hash",
            Category::String => "@string",
            Category::Bitmap => "@bitmap",
            Category::HyperLogLog => "@hyperloglog",
            Category::Geo => "@geo",
            Category::Stream => "@stream",
            Category::PubSub => "@pubsub",
            Category::Admin => "@admin",
            Category::Fast => "@fast",
            Category::Slow => "@slow",
            Category::Blocking => "@blocking",
            Category::Dangerous => "@dangerous",
            Category::Connection => "@connection",
            Category::Transaction => "@transaction",
            Category::Scripting => "@scripting",
        }
    }

    /// The category called `name` in any case, without the `@`.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let is_named = |category: &Category| {
            let known = category.name().as_bytes();
            known.split_first().is_some_and(|(_, known)| known.eq_ignore_ascii_case(name))
        };
        ALL.into_iter().find(is_named)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter()
    }
}

/// A set of [`Category`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// No category.
    pub const NONE: Self = Self(0);

    /// The set of these.
    pub const fn of(categories: &[Category]) -> Self {
        let (mut set, mut rest) = (Self::NONE, categories);
        while let [category, after @ ..] = rest {
            (set, rest) = (set.with(*category), after);
        }
        set
    }

    /// The set with `category`.
    pub const fn with(self, category: Category) -> Self {
        Self(self.0 | 1 << category as u32)
    }

    /// Whether `category` is in the set.
    pub const fn has(self, category: Category) -> bool {
        self.0 & (1 << category as u32) != 0
    }

    /// Whether the sets have a category in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Its categories in the order of [`Category`].
    pub fn iter(self) -> impl Iterator<Item = Category> {
        ALL.into_iter().filter(move |category| self.has(*category))
    }

    /// The set with what follows from a command's flags. Scripts that only read are not in `@read`.
    pub(super) const fn following(self, flags: Flags) -> Self {
        let mut set = self;
        if flags.has(Flag::Write) {
            set = set.with(Category::Write);
        }
        if flags.has(Flag::ReadOnly) && !set.has(Category::Scripting) {
            set = set.with(Category::Read);
        }
        if flags.has(Flag::Admin) {
            set = set.with(Category::Admin).with(Category::Dangerous);
        }
        if flags.has(Flag::PubSub) {
            set = set.with(Category::PubSub);
        }
        if flags.has(Flag::Blocking) {
            set = set.with(Category::Blocking);
        }
        set.with(if flags.has(Flag::Fast) { Category::Fast } else { Category::Slow })
    }
}
