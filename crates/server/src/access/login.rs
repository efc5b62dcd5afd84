//! What a connection knows of its user.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::{DEFAULT_USER, User, Users};

/// The user of a connection.
#[derive(Debug)]
pub(crate) struct Login {
    /// `None` once the user is removed.
    user: RefCell<Option<Arc<User>>>,
    name: RefCell<Vec<u8>>,
    /// It has logged in, or came when no password was asked for.
    is_known: Cell<bool>,
    /// Everything is allowed: as of the users' version.
    is_unlimited: Cell<bool>,
    version: Cell<u64>,
}

impl Login {
    /// The default user, known if no password is asked for.
    pub(crate) fn new(users: &Users) -> Self {
        let login = Self {
            user: RefCell::default(),
            name: RefCell::default(),
            is_known: Cell::new(false),
            is_unlimited: Cell::new(false),
            version: Cell::new(0),
        };
        login.reset(users);
        login
    }

    /// As when it was new.
    pub(crate) fn reset(&self, users: &Users) {
        *self.name.borrow_mut() = DEFAULT_USER.to_vec();
        self.is_known.set(users.is_open());
        self.renew(users);
    }

    /// It is `user` from now on.
    pub(crate) fn become_user(&self, users: &Users, user: &User) {
        *self.name.borrow_mut() = user.name().to_vec();
        self.is_known.set(true);
        self.renew(users);
    }

    /// Whether everything is allowed: the one question of most requests.
    #[inline]
    pub(crate) fn is_unlimited(&self, users: &Users) -> bool {
        if self.version.get() != users.version() {
            self.renew(users);
        }
        self.is_unlimited.get()
    }

    /// Whether the connection must log in before anything else.
    pub(crate) fn is_unknown(&self, users: &Users) -> bool {
        // A user with all rights is known.
        !self.is_unlimited(users) && !self.is_known.get() && !users.is_open()
    }

    /// What the user may do now; `None` if there is no such user any more.
    pub(crate) fn user(&self, users: &Users) -> Option<Arc<User>> {
        if self.version.get() != users.version() {
            self.renew(users);
        }
        self.user.borrow().clone()
    }

    fn renew(&self, users: &Users) {
        // The number first: a change that comes between is seen next time.
        self.version.set(users.version());
        let user = users.get(&self.name.borrow());
        let is_known = self.is_known.get() || users.is_open();
        self.is_unlimited.set(is_known && user.as_ref().is_some_and(|user| user.is_unlimited()));
        *self.user.borrow_mut() = user;
    }

    /// The name of the user.
    pub(crate) fn name(&self) -> Vec<u8> {
        self.name.borrow().clone()
    }
}
