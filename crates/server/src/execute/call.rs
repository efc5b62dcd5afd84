//! A command that runs.

use std::rc::Rc;
use std::sync::Arc;

use firn_protocol::command::{self, Command};
use firn_protocol::number;
use firn_protocol::resp::{Arguments, Protocol, Reply};

use super::{Request, Tools};
use crate::bounds::{READ_TOGETHER_MAX, cut_text};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::handover::Cover;
use crate::server_thread::{ServerThread, Turns};
use crate::store::Database;
use crate::transaction::{Collection, Entry, Key, Transaction};

use firn_format::datatype::Tag;

/// Where a command comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client, by itself.
    Client,
    /// EXEC or a script: it cannot wait, and its reply goes nowhere before everything is done.
    Unit,
}

/// What a command runs with.
pub(crate) struct Call<'a> {
    pub(crate) thread: &'a Rc<ServerThread>,
    pub(crate) client: &'a Rc<Client>,
    pub(crate) tools: &'a Rc<Tools>,
    pub(crate) arguments: Arguments<'a>,
    pub(crate) command: &'static Command,
    pub(crate) transaction: &'a mut Transaction,
    /// Its reply, so far.
    pub(crate) out: &'a mut Vec<u8>,
    /// In which version of the protocol it is.
    pub(crate) protocol: Protocol,
    pub(crate) origin: Origin,
    pub(crate) blocking: Blocking,
    /// A part of the reply is with the client already.
    pub(crate) is_spilled: bool,
    /// Bytes that the reply of a script's command may have: what the script may still take.
    pub(crate) script_reply_bytes_max: usize,
}

/// How a command that may wait for others stands.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// What the command waits for, if it found nothing: set instead of a reply.
    pub(crate) wait: Option<Wait>,
    /// It has waited, and was told to look again.
    pub(crate) has_waited: bool,
    /// What it may touch, where another command's locks are held for it.
    pub(crate) cover: Option<Arc<Cover>>,
    /// It found something, but would touch what the cover does not have.
    pub(crate) lacks_cover: bool,
    /// It waits on although something stands at one of its keys: the next client in line may use
    /// that.
    pub(crate) leaves_some: bool,
}

/// Refuses replies of a unit that are longer than a request may be.
pub(super) fn check_length(thread: &ServerThread, bytes: usize) -> Result<()> {
    match bytes > thread.shared.parameters.request_bytes_max() {
        true => Err(Failure::LONG_REPLIES),
        false => Ok(()),
    }
}

/// What a command that found nothing waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) keys: Vec<Key>,
    /// For how many milliseconds; `None` = for ever.
    pub(crate) timeout_ms: Option<u64>,
    /// What it changes beside the key that it is served from.
    pub(crate) destination: Option<Key>,
}

impl<'a> Call<'a> {
    /// A client's own, which has not waited.
    pub(crate) fn new(
        request: &Request<'a>,
        command: &'static Command,
        transaction: &'a mut Transaction,
        out: &'a mut Vec<u8>,
    ) -> Self {
        let Request { thread, client, tools, arguments } = *request;
        Self {
            thread,
            client,
            tools,
            arguments,
            command,
            transaction,
            out,
            protocol: client.protocol.get(),
            origin: Origin::Client,
            blocking: Blocking::default(),
            is_spilled: false,
            script_reply_bytes_max: usize::MAX,
        }
    }

    /// The argument at `index`, empty if there is none: arity was checked.
    #[inline]
    pub(crate) fn argument(&self, index: usize) -> &'a [u8] {
        self.arguments.get(index).unwrap_or_default()
    }

    /// Whether the argument at `index` is `word`, in any case.
    pub(crate) fn is_word(&self, index: usize, word: &str) -> bool {
        self.argument(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The argument at `index` as an integer.
    pub(crate) fn integer(&self, index: usize) -> Result<i64> {
        number::parse_integer(self.argument(index)).ok_or(Failure::NOT_AN_INTEGER)
    }

    /// The argument at `index` as a number.
    pub(crate) fn double(&self, index: usize) -> Result<f64> {
        number::parse_double(self.argument(index)).ok_or(Failure::NOT_A_FLOAT)
    }

    /// The argument at `index` as a key of the selected database.
    pub(crate) fn key(&self, index: usize) -> Result<Key> {
        self.key_of(self.argument(index))
    }

    /// Whether the key that is the argument at `index` may be touched where it is served by another
    /// command.
    pub(super) fn is_covered(&self, index: usize) -> Result<bool> {
        let Some(cover) = &self.blocking.cover else { return Ok(true) };
        Ok(cover.has(self.transaction.keyspaces().keys, self.key(index)?.bytes()))
    }

    /// `user` as a key of the selected database.
    pub(crate) fn key_of(&self, user: &[u8]) -> Result<Key> {
        Key::new(self.database().id, user)
    }

    /// The first of `words` as keys of the selected database, as many as are read together.
    pub(crate) fn some_keys(&self, words: Arguments<'_>) -> Result<Vec<Key>> {
        let database = self.database().id;
        words.iter().take(READ_TOGETHER_MAX).map(|user| Key::new(database, user)).collect()
    }

    /// The arguments from `first` on as keys of the selected database. Others have their turns
    /// meanwhile.
    pub(crate) async fn keys_from(&self, first: usize) -> Result<Vec<Key>> {
        let database = self.database().id;
        let mut turns = Turns::new(self.thread);
        let mut keys = Vec::new();
        for user in self.arguments.from(first).iter() {
            keys.push(Key::new(database, user)?);
            turns.step(user.len()).await;
        }
        Ok(keys)
    }

    /// The database that the client has selected.
    pub(crate) fn database(&self) -> Arc<Database> {
        self.transaction.database(self.client.database.get())
    }

    /// What stands at the key that is the argument at `index`.
    pub(crate) async fn entry(&mut self, index: usize) -> Result<Entry> {
        let key = self.key(index)?;
        self.transaction.entry(key).await
    }

    /// The collection at the key that is the argument at `index`; `None` if there is no such key,
    /// `WRONGTYPE` if it is something else.
    pub(crate) async fn collection(&mut self, index: usize, tag: Tag) -> Result<Option<Collection>> {
        let key = self.key(index)?;
        self.transaction.collection(key, tag).await
    }

    /// The same, or a new collection that is nothing until it is saved with an element.
    pub(crate) async fn collection_or_new(&mut self, index: usize, tag: Tag) -> Result<Collection> {
        let key = self.key(index)?;
        self.transaction.collection_or_new(key, tag).await
    }

    /// Appends to the reply.
    #[inline]
    pub(crate) fn reply<T>(&mut self, write: impl FnOnce(&mut Reply<'_>) -> T) -> T {
        write(&mut Reply::new(self.out, self.protocol))
    }

    /// Whether the reply is so long that [`spill`](Self::spill) sends what there is of it.
    pub(crate) fn is_to_spill(&self) -> bool {
        let is_long = self.out.len() > self.thread.shared.settings.unread_bytes_max;
        is_long && self.origin == Origin::Client && !self.transaction.is_locked()
    }

    /// Refuses a reply that goes nowhere before everything is done, and is longer than may be held
    /// until then. Whatever makes a reply of many pieces asks after each.
    pub(crate) fn check_reply(&self) -> Result<()> {
        self.check_reply_with(0)
    }

    /// The same of a reply that `more` bytes will be added to, which are in memory already.
    pub(crate) fn check_reply_with(&self, more: usize) -> Result<()> {
        if self.origin == Origin::Client {
            return Ok(());
        }
        let bytes = self.out.len() + more;
        if bytes > self.script_reply_bytes_max {
            return Err(Failure::of(format!(
                "ERR the reply of {} has {bytes} bytes and perhaps more to come, more than the script may still take",
                self.command
            )));
        }
        check_length(self.thread, bytes)
    }

    /// Of a long reply to a client, sends what there is and waits until most of it was read. The
    /// command must not fail any more for reasons of its own.
    ///
    /// # Errors
    /// As [`check_reply`](Self::check_reply).
    pub(crate) async fn spill(&mut self) -> Result<()> {
        self.check_reply()?;
        if self.is_to_spill() {
            // What it waits for is its client: no other command waits for that one.
            self.transaction.fix_moment()?;
            match self.client.is_closing.get() {
                // The client reads no more: the rest is dropped.
                true => self.client.cut_off(),
                false => self.client.append(self.out),
            }
            self.out.clear();
            self.is_spilled = true;
            self.client.outbox.is_replying.set(true);
            let since_ns = self.thread.monotonic_ns();
            self.thread.drained(self.client).await;
            let idle_ns = &self.client.waiting.idle_ns;
            idle_ns.set(idle_ns.get() + self.thread.monotonic_ns() - since_ns);
        }
        Ok(())
    }

    /// Answers the HELP of the command's container: what the table says of its subcommands.
    pub(crate) fn reply_help(&mut self) {
        let container = self.command.container.and_then(|name| command::find(name.as_bytes()));
        let subcommands: &[Command] = container.map_or(&[], Command::subcommands);
        let name = self.command.container.unwrap_or_default().to_ascii_uppercase();
        self.reply(|reply| {
            reply.array(1 + 2 * subcommands.len());
            reply.simple(&format!("{name} and one of these words, with what it needs:"));
            for subcommand in subcommands {
                reply.simple(&subcommand.name.to_ascii_uppercase());
                reply.simple(&format!("    {}", subcommand.summary));
            }
        });
    }

    /// The error of a command that the table has and the server does not offer.
    pub(crate) fn not_offered(&self) -> Failure {
        Failure::of(format!("ERR {} is not offered yet", self.command))
    }

    /// More arguments than a subcommand takes, which the table's arity let pass.
    pub(crate) fn unknown_form(&self) -> Failure {
        let name = cut_text(self.argument(1));
        let container = self.command.container.unwrap_or_default().to_ascii_uppercase();
        Failure::of(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {container} HELP."
        ))
    }

    /// A wrong number of arguments that the table's arity let pass.
    pub(crate) fn wrong_arguments(&self) -> Failure {
        Failure::of(format!("ERR wrong number of arguments for '{}' command", self.command))
    }
}
