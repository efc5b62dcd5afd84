//! Edits that say which log objects are needed.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::{Error, Result};
use firn_format::Position;
use firn_format::file_name;
use firn_format::key::POSITION_END;

use super::env::NameEnv;
use super::send::By;
use super::{NamedObjects, SharedLog};

/// What an edit is to say, so that files can go.
pub struct Unneeded {
    /// Which log objects are needed from then on.
    pub named: NamedObjects,
    names: Vec<String>,
    of: Of,
}

impl Unneeded {
    /// Whether log objects of the opening before go. One may come to be yet that no list has shown:
    /// its process may have been killed as it asked for it.
    fn is_of_another(&self) -> bool {
        self.of != Of::Named && !self.names.is_empty()
    }
}

/// Which opening's log objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Those of the opening before.
    Older,
    /// Those too, as this process's are named instead.
    Unnamed,
    /// This process's.
    Named,
}

impl SharedLog {
    /// Returns when another machine that takes the database over finds everything below `end`. It
    /// is on this machine's device then, too.
    ///
    /// Blocks for a sync and for creating an object. The first time in a process it blocks also for
    /// an edit, and for as many objects as the log has.
    ///
    /// # Errors
    /// As [`send_through`](Self::send_through); what the manifest says.
    pub fn share_through<E: NameEnv>(&self, env: &E, end: Position, by: By) -> Result<()> {
        // So that what is recovered on this machine never is less than what another one would find.
        env.log().sync_through(end)?;
        if !self.is_named() {
            self.name(env, end, by)?;
        }
        self.send_through(env, end, by)
    }

    /// Sends the log below `end`, which is not before what was recovered ends, and says in an edit
    /// where it is.
    fn name<E: NameEnv>(&self, env: &E, end: Position, by: By) -> Result<()> {
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_named() {
            return Ok(());
        }
        {
            let _no_commit = env.manifest();
            // What is flushed from now on is in a log object before.
            self.is_begun.store(true, Ordering::Release);
        }
        self.send_through(env, end, by)?;
        if self.through() < self.recovered_end {
            return Err(Error::bug(format!(
                "log objects that end at {end} cannot be named: more was recovered"
            )));
        }
        let mut manifest = env.manifest();
        let Some(naming) = self.naming_change() else { return Ok(()) };
        manifest.commit(&[E::change(naming.named)])?;
        self.remove_unneeded(env, naming);
        Ok(())
    }

    /// Sends the log below `end` before an edit says that a part of it is in tables, where replay
    /// begins at `needed_from` now. Otherwise another machine would find the half of a batch that
    /// is in tables, and not the other one. Nothing where log objects have not begun and no batch
    /// can be divided.
    ///
    /// # Errors
    /// As [`share_through`](Self::share_through).
    pub fn send_before_flush<E: NameEnv>(&self, env: &E, end: Position, needed_from: Position) -> Result<()> {
        let may_divide = self.may_divide(needed_from);
        // Log objects that lack something of what was recovered cannot be named, and no machine
        // would find them.
        let end = if self.is_named() || !may_divide { end } else { end.max(self.recovered_end) };
        match self.is_begun() {
            true => {
                env.log().sync_through(end)?;
                self.send_through(env, end, By::Flush)
            }
            false if may_divide && env.storage().shared_part().is_some() => {
                self.share_through(env, end, By::Flush)
            }
            false => Ok(()),
        }
    }

    /// Sends the log again, in log objects as large as can be, and has an edit name them instead of
    /// those before. Writers wait meanwhile.
    ///
    /// # Errors
    /// As [`share_through`](Self::share_through).
    pub fn merge<E: NameEnv>(&self, env: &E) -> Result<()> {
        let _naming = self.naming.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.send_again(env)?;
        let mut manifest = env.manifest();
        let unneeded = self.before(first);
        manifest.commit(&[E::change(unneeded.named)])?;
        self.remove_unneeded(env, unneeded);
        Ok(())
    }

    /// What an edit is to say where replay begins at `log_start`; `None` if that is nothing: which
    /// log objects are needed no more, or that these are there. Once it is said:
    /// [`remove_unneeded`](Self::remove_unneeded).
    pub fn unneeded(&self, log_start: Position) -> Option<Unneeded> {
        if !self.is_named() {
            return self.naming_change().or_else(|| self.unneeded_older(log_start));
        }
        let sent = self.lock_sent();
        let flushed = sent.own.iter().take_while(|(_, span_end)| *span_end <= log_start);
        let first = flushed.last().map(|(number, _)| number + 1)?;
        drop(sent);
        Some(self.before(first))
    }

    /// Log objects of the opening before, if none is needed.
    fn unneeded_older(&self, log_start: Position) -> Option<Unneeded> {
        let sent = self.lock_sent();
        let older = sent.older.as_ref().filter(|older| older.needed_to <= log_start)?;
        let named = NamedObjects { generation: older.generation, first: older.next, cut: POSITION_END };
        Some(Unneeded { named, names: older.names.clone(), of: Of::Older })
    }

    /// That this process's log objects are there, instead of those of the opening before; `None` if
    /// there are none, or they lack something of what was recovered.
    fn naming_change(&self) -> Option<Unneeded> {
        if self.through() < self.recovered_end {
            return None;
        }
        let sent = self.lock_sent();
        let (first, _) = sent.own.front().filter(|_| !self.is_named())?;
        let names = sent.older.iter().flat_map(|older| older.names.clone()).collect();
        Some(Unneeded { named: self.named(*first), names, of: Of::Unnamed })
    }

    /// This process's log objects below number `first`.
    fn before(&self, first: u64) -> Unneeded {
        let sent = self.lock_sent();
        let before = sent.own.iter().take_while(|(number, _)| *number < first);
        let names = before.map(|(number, _)| file_name::log_object(self.generation, *number)).collect();
        Unneeded { named: self.named(first), names, of: Of::Named }
    }

    /// This process's log objects from number `first` on.
    fn named(&self, first: u64) -> NamedObjects {
        NamedObjects { generation: self.generation, first, cut: POSITION_END }
    }

    /// Has log objects removed that an edit says are needed no more.
    pub fn remove_unneeded<E: NameEnv>(&self, env: &E, unneeded: Unneeded) {
        let may_follow = unneeded.is_of_another();
        env.remove(self.forget(unneeded), may_follow);
    }

    /// An edit says so: the names of what can be removed.
    pub(super) fn forget(&self, unneeded: Unneeded) -> Vec<String> {
        let mut sent = self.lock_sent();
        match unneeded.of {
            Of::Older => (sent.older, sent.is_older_over) = (None, true),
            Of::Unnamed => {
                sent.older = None;
                self.is_named.store(true, Ordering::Release);
            }
            Of::Named => drop(sent.own.drain(..unneeded.names.len())),
        }
        unneeded.names
    }

    /// Which of the log objects that the manifest has `named` may be needed.
    ///
    /// Of the log objects of the opening before it names those that follow on the last one that was
    /// seen. Once all of that log is in tables, what comes late is not needed either: it was on
    /// this machine's device before it was sent.
    pub fn needed_of(&self, named: NamedObjects) -> NamedObjects {
        match self.lock_sent().is_older_over && named.generation < self.generation {
            true => NamedObjects { first: u64::MAX, ..named },
            false => named,
        }
    }
}
