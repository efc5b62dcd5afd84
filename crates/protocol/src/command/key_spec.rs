//! Where keys stand among a command's arguments.

/// One run of keys among the arguments, and what the command does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where the run begins.
    pub begin: Begin,
    /// How far it goes.
    pub extent: Extent,
    /// What is done with its keys.
    pub flags: KeyFlags,
}

/// Where a run of keys begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this position; the command's name is at 0.
    Index(u32),
    /// After this word, looked for from the position on; negative: from so many before the end,
    /// backwards.
    Keyword(&'static str, i32),
    /// No description finds it.
    Unknown,
}

/// How far a run of keys goes from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range of arguments.
    Range {
        /// Last key: so many after the first, or, negative, so many before the end.
        last: i32,
        /// Distance between keys.
        step: u32,
        /// Above 1, and `last` negative: only the first `1 / limit` of the arguments left.
        limit: u32,
    },
    /// An argument that counts the keys, then the keys; positions are relative to the beginning.
    Counted {
        /// Position of the count.
        count: u32,
        /// Position of the first key.
        first: u32,
        /// Distance between keys.
        step: u32,
    },
    /// No description finds it.
    Unknown,
}

/// What a command does with the keys of a run. The order is the one in which COMMAND lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyFlag {
    /// Reads the value, changes nothing.
    ReadOnly,
    /// Changes the value in place.
    ReadWrite,
    /// Replaces the value without regard to the old one.
    Overwrite,
    /// Removes the key.
    Remove,
    /// What the value holds is answered or copied: needs the right to read.
    Access,
    /// Values may change: needs the right to write.
    Update,
    /// Something is added and nothing replaced: needs the right to write.
    Insert,
    /// Something is removed: needs the right to write.
    Delete,
    /// Not a key, only routed like one: a sharded channel.
    NotKey,
    /// There are keys that the description does not find.
    Incomplete,
    /// What is done depends on other arguments.
    Variable,
}

const ALL: [KeyFlag; 11] = [
    KeyFlag::ReadOnly,
    KeyFlag::ReadWrite,
    KeyFlag::Overwrite,
    KeyFlag::Remove,
    KeyFlag::Access,
    KeyFlag::Update,
    KeyFlag::Insert,
    KeyFlag::Delete,
    KeyFlag::NotKey,
    KeyFlag::Incomplete,
    KeyFlag::Variable,
];

impl KeyFlag {
    /// The name clients know it by.
    pub const fn name(self) -> &'static str {
        match self {
            KeyFlag::ReadOnly => "RO",
            KeyFlag::ReadWrite => "RW",
            KeyFlag::Overwrite => "OW",
            KeyFlag::Remove => "RM",
            KeyFlag::Access => "access",
            KeyFlag::Update => "update",
            KeyFlag::Insert => "insert",
            KeyFlag::Delete => "delete",
            KeyFlag::NotKey => "not_key",
            KeyFlag::Incomplete => "incomplete",
            KeyFlag::Variable => "variable_flags",
        }
    }
}

/// A set of [`KeyFlag`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFlags(u16);

impl KeyFlags {
    /// The set of these.
    pub const fn of(flags: &[KeyFlag]) -> Self {
        let (mut set, mut rest) = (Self(0), flags);
        while let [flag, after @ ..] = rest {
            (set, rest) = (set.with(*flag), after);
        }
        set
    }

    /// The set with `flag`.
    pub const fn with(self, flag: KeyFlag) -> Self {
        Self(self.0 | 1 << flag as u16)
    }

    /// Whether `flag` is in the set.
    pub const fn has(self, flag: KeyFlag) -> bool {
        self.0 & (1 << flag as u16) != 0
    }

    /// Whether a user needs the right to read the key (`%R~`).
    pub const fn reads(self) -> bool {
        self.has(KeyFlag::Access)
    }

    /// Whether a user needs the right to write the key (`%W~`).
    pub const fn writes(self) -> bool {
        self.has(KeyFlag::Update) || self.has(KeyFlag::Insert) || self.has(KeyFlag::Delete)
    }

    /// Its flags in the order of [`KeyFlag`].
    pub fn iter(self) -> impl Iterator<Item = KeyFlag> {
        ALL.into_iter().filter(move |flag| self.has(*flag))
    }
}

/// Asks whether the key exists, or what its type or size is.
pub(super) const RO: KeyFlags = KeyFlags::of(&[KeyFlag::ReadOnly]);
/// Reads the value.
pub(super) const RO_ACCESS: KeyFlags = RO.with(KeyFlag::Access);
const RW: KeyFlags = KeyFlags::of(&[KeyFlag::ReadWrite]);
/// Changes the value, whatever it was.
pub(super) const RW_UPDATE: KeyFlags = RW.with(KeyFlag::Update);
/// Adds to the value.
pub(super) const RW_INSERT: KeyFlags = RW.with(KeyFlag::Insert);
/// Removes from the value.
pub(super) const RW_DELETE: KeyFlags = RW.with(KeyFlag::Delete);
/// Changes the value and answers something of it.
pub(super) const RW_ACCESS_UPDATE: KeyFlags = RW_UPDATE.with(KeyFlag::Access);
/// Reads the value and may change how it is kept.
pub(super) const RW_ACCESS: KeyFlags = RW.with(KeyFlag::Access);
/// Adds to the value and looks at what it holds.
pub(super) const RW_ACCESS_INSERT: KeyFlags = RW_INSERT.with(KeyFlag::Access);
/// Removes from the value what it answers.
pub(super) const RW_ACCESS_DELETE: KeyFlags = RW_DELETE.with(KeyFlag::Access);
/// Removes the key.
pub(super) const RM_DELETE: KeyFlags = KeyFlags::of(&[KeyFlag::Remove, KeyFlag::Delete]);
/// Sets the key, old value or not.
pub(super) const OW_UPDATE: KeyFlags = KeyFlags::of(&[KeyFlag::Overwrite, KeyFlag::Update]);
/// Sets the key if there is none.
pub(super) const OW_INSERT: KeyFlags = KeyFlags::of(&[KeyFlag::Overwrite, KeyFlag::Insert]);

const ONE: Extent = Extent::Range { last: 0, step: 1, limit: 0 };

/// One key at `index`.
pub(super) const fn at(index: u32, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(index), extent: ONE, flags }
}

/// Keys from `index` to `last` (as in [`Extent::Range`]).
pub(super) const fn range(index: u32, last: i32, step: u32, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(index), extent: Extent::Range { last, step, limit: 0 }, flags }
}

/// A count at `index`, then so many keys.
pub(super) const fn counted(index: u32, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Index(index), extent: Extent::Counted { count: 0, first: 1, step: 1 }, flags }
}

/// One key after `word`, which stands at `from` or later.
pub(super) const fn after(word: &'static str, from: i32, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Keyword(word, from), extent: ONE, flags }
}

/// Keys after `word` to the end; with `limit` 2 only the first half of what is left.
pub(super) const fn rest_after(word: &'static str, from: i32, limit: u32, flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Keyword(word, from), extent: Extent::Range { last: -1, step: 1, limit }, flags }
}

/// Keys that no description finds.
pub(super) const fn unknown(flags: KeyFlags) -> KeySpec {
    KeySpec { begin: Begin::Unknown, extent: Extent::Unknown, flags }
}

/// Positions of the first and the last key and the distance between keys, where positions are
/// fixed; otherwise 0, 0, 0. Also whether there are other keys.
///
/// A single run is given whole. Of several runs those are joined that follow each other without a
/// gap.
pub(super) const fn fixed_positions(specs: &[KeySpec]) -> (i32, i32, i32, bool) {
    if let [KeySpec { begin: Begin::Index(index), extent: Extent::Range { last, step, .. }, flags }] = specs {
        return (*index as i32, last_of(*index, *last), *step as i32, flags.has(KeyFlag::Incomplete));
    }
    let (mut first, mut last_joined, mut is_movable) = (0, 0, false);
    let mut rest = specs;
    while let [spec, after @ ..] = rest {
        rest = after;
        is_movable |= spec.flags.has(KeyFlag::Incomplete);
        match (spec.begin, spec.extent) {
            (Begin::Index(index), Extent::Range { last, step: 1, .. })
                if last_joined == 0 || last_joined + 1 == index as i32 =>
            {
                first = if first == 0 { index as i32 } else { first };
                last_joined = last_of(index, last);
            }
            _ => is_movable = true,
        }
    }
    (first, last_joined, if first == 0 { 0 } else { 1 }, is_movable)
}

const fn last_of(index: u32, last: i32) -> i32 {
    if last < 0 { last } else { index as i32 + last }
}
