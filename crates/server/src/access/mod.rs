//! Users: which commands, keys and channels a connection may use.
//!
//! ```text
//!   catalog ─ read at start ─► Users ─ replaced as a whole by ACL SETUSER ─► Login of a connection
//!                                                                             │
//!   request ─► permit ─ everything allowed? one comparison ◄──────────────────┘
//!                    └─ else the command, its keys, its channels against the user's rules
//! ```
//! A change holds for the next request of every connection: each compares a number that every
//! change raises.

mod password;
mod in_order;
mod user;
mod command_rules;
mod rule;
mod secrets;
mod login;
mod log;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

pub(crate) use log::{AccessLog, Context, Entry, Reason};
pub(crate) use login::Login;
pub(crate) use secrets::secret_arguments;
pub(crate) use user::{Denied, User};

/// The user that every connection is until it says otherwise. Always there.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// Users by name; a change replaces the whole.
pub(crate) type UserTable = BTreeMap<Vec<u8>, Arc<User>>;

/// The users of a server, and what they were refused.
#[derive(Debug)]
pub(crate) struct Users {
    table: ArcSwap<UserTable>,
    /// Raised with every change, after the table was replaced.
    version: AtomicU64,
    log: Mutex<AccessLog>,
}

impl Users {
    /// The users of the catalog, as names and rules, with the default user if it is not among them.
    ///
    /// A user with an unreadable rule may do nothing, not even log in: half of the rules may allow
    /// more than all of them. A sentence about each goes to `unreadable`.
    pub(crate) fn new(recorded: &[(Vec<u8>, Vec<u8>)], unreadable: &mut Vec<String>) -> Self {
        let mut table = UserTable::new();
        table.insert(DEFAULT_USER.to_vec(), Arc::new(User::with_everything(DEFAULT_USER)));
        for (name, rules) in recorded {
            let user = User::read(name, rules).unwrap_or_else(|why| {
                unreadable.push(why);
                User::new(name)
            });
            table.insert(name.clone(), Arc::new(user));
        }
        Self { table: ArcSwap::from_pointee(table), version: AtomicU64::new(1), log: Mutex::default() }
    }

    /// The users as of now.
    pub(crate) fn table(&self) -> Arc<UserTable> {
        self.table.load_full()
    }

    /// The user called `name`.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.table.load().get(name).cloned()
    }

    /// Number of the last change.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Replaces the users from now on. The caller holds the lock of the catalog's users, or runs
    /// alone.
    pub(crate) fn replace(&self, table: UserTable) {
        self.table.store(Arc::new(table));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// The default user's only password from now on, until the server ends; with `None` the user
    /// needs none.
    pub(crate) fn set_default_password(&self, password: Option<&[u8]>) {
        let mut table = UserTable::clone(&self.table());
        let mut user =
            table.get(DEFAULT_USER).map_or_else(|| User::new(DEFAULT_USER), |user| User::clone(user));
        user.set_password(password);
        table.insert(DEFAULT_USER.to_vec(), Arc::new(user));
        self.replace(table);
    }

    /// Whether clients need not log in.
    pub(crate) fn is_open(&self) -> bool {
        self.table.load().get(DEFAULT_USER).is_some_and(|user| user.is_open())
    }

    /// Whether the default user has no password, be the user on or off.
    pub(crate) fn is_open_to_all(&self) -> bool {
        self.table.load().get(DEFAULT_USER).is_some_and(|user| user.needs_no_password())
    }

    /// What was refused.
    pub(crate) fn log(&self) -> MutexGuard<'_, AccessLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
