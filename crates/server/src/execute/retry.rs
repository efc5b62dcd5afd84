//! Units that may have to be done again: EXEC and scripts.
//!
//! The keys that a script touches are known only while it runs. Those that it names are locked
//! before. When it touches another one, everything it did is dropped and it begins again with all
//! locks held. No client sees that: its writes were in the transaction only, and its messages were
//! not sent.

use std::rc::Rc;

use firn_engine::KeyLocks;

use super::serving::hand_over;
use super::single::LockNames;
use crate::failure::{Failure, Result};
use crate::handover::Cover;
use crate::server_thread::ServerThread;
use crate::transaction::{Coverage, Demand, Transaction};

/// What the next try of a unit begins with.
pub(super) struct Retry {
    /// `None` = it only reads: one moment, no locks.
    names: Option<LockNames>,
    is_all: bool,
    is_in_place: bool,
}

/// One try: its locks are held until it is dropped.
pub(super) struct Try {
    pub(super) transaction: Transaction,
    pub(super) coverage: Rc<Coverage>,
    pub(super) locks: Option<KeyLocks>,
}

impl Retry {
    /// Of a unit that names these keys.
    pub(super) fn naming(names: LockNames) -> Self {
        Self { names: Some(names), is_all: false, is_in_place: false }
    }

    /// Of a unit that touches keys which are unknown before it runs.
    pub(super) fn of_all(thread: &ServerThread) -> Self {
        Self { names: Some(LockNames::new(thread)), is_all: true, is_in_place: false }
    }

    /// Of a unit that only reads.
    pub(super) fn reading() -> Self {
        Self { names: None, is_all: false, is_in_place: false }
    }

    /// Takes the locks.
    pub(super) async fn begin(&mut self, thread: &Rc<ServerThread>) -> Result<Try> {
        if self.is_in_place {
            // What it waited for may belong to another task of this server thread.
            thread.pause().await;
        }
        let Some(names) = &mut self.names else {
            let coverage = Rc::new(Coverage::new(None, self.is_in_place));
            let mut transaction = Transaction::reading(thread);
            transaction.cover(Rc::clone(&coverage));
            return Ok(Try { transaction, coverage, locks: None });
        };
        let is_all = self.is_all || names.is_all();
        let locks = match is_all {
            true => Some(thread.lock_all().await?),
            false => names.lock(thread).await?,
        };
        let known = (!is_all).then(|| names.names().cloned().collect());
        let coverage = Rc::new(Coverage::new(known, self.is_in_place));
        let databases = match is_all {
            true => thread.shared.store.databases.load_full(),
            false => names.databases(),
        };
        let mut transaction = Transaction::locked(thread, databases);
        transaction.cover(Rc::clone(&coverage));
        Ok(Try { transaction, coverage, locks })
    }

    /// Writes what a try has done, and serves the clients that waited for that.
    pub(super) async fn commit(&self, thread: &Rc<ServerThread>, one_try: &mut Try) -> Result<()> {
        let ready = one_try.transaction.commit_ready().await?;
        hand_over(thread, ready, one_try.locks.take(), || match &self.names {
            Some(names) if !self.is_all && !names.is_all() => names.cover(),
            _ => Cover::new(None, thread.shared.store.databases.load_full()),
        })
        .await;
        Ok(())
    }

    /// Whether what was done is to be dropped and done again.
    ///
    /// # Errors
    /// It is to be dropped for good.
    pub(super) fn is_again(&mut self, coverage: &Coverage) -> Result<bool> {
        match coverage.demanded() {
            None => return Ok(false),
            Some(Demand::AllLocks) => self.is_all = true,
            Some(Demand::InPlace) => self.is_in_place = true,
            Some(Demand::Late) => return Err(Failure::LATE_SCRIPT),
            Some(Demand::End) => return Err(Failure::KILLED),
        }
        Ok(true)
    }
}
