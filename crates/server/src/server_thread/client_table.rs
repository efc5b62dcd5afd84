//! The clients of one thread, by the numbers of their sockets and tasks.

use std::cell::RefCell;
use std::rc::Rc;

use super::BACKGROUND_TASKS;
use crate::client::Client;

/// The clients of one thread. A number is given again when its client is gone.
pub(super) struct ClientTable {
    /// The numbers of background tasks are never clients'.
    clients: RefCell<Vec<Option<Rc<Client>>>>,
    /// Numbers that no client has.
    free: RefCell<Vec<u32>>,
}

impl ClientTable {
    /// Without clients.
    pub(super) fn new() -> Self {
        Self { clients: RefCell::new(vec![None; BACKGROUND_TASKS as usize]), free: RefCell::default() }
    }

    /// Takes in the client that `make` makes of its number.
    pub(super) fn add(&self, make: impl FnOnce(u32) -> Client) -> Rc<Client> {
        let mut clients = self.clients.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            clients.push(None);
            clients.len() as u32 - 1
        });
        let client = Rc::new(make(id));
        clients[id as usize] = Some(Rc::clone(&client));
        client
    }

    /// The client `id`, if there is one.
    pub(super) fn get(&self, id: u32) -> Option<Rc<Client>> {
        self.clients.borrow().get(id as usize)?.clone()
    }

    /// The client `id`, unless that is another one than `number` by now.
    pub(super) fn get_numbered(&self, id: u32, number: u64) -> Option<Rc<Client>> {
        self.get(id).filter(|client| client.number == number)
    }

    /// The client `id` is gone.
    pub(super) fn remove(&self, id: u32) {
        self.clients.borrow_mut()[id as usize] = None;
        self.free.borrow_mut().push(id);
    }

    /// All numbers are below this.
    pub(super) fn len(&self) -> usize {
        self.clients.borrow().len()
    }

    /// Shows each client to `look`.
    pub(super) fn for_each(&self, look: impl FnMut(&Rc<Client>)) {
        self.clients.borrow().iter().flatten().for_each(look);
    }

    /// The clients that `is_meant` chooses.
    pub(super) fn some(&self, is_meant: impl Fn(&Client) -> bool) -> Vec<Rc<Client>> {
        self.clients.borrow().iter().flatten().filter(|client| is_meant(client)).cloned().collect()
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        self.clients.borrow_mut().clear();
    }
}
