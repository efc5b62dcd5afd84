//! What a thread looks at now and then, and which clients it shows every command.

use std::fmt::Display;
use std::hint::black_box;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use firn_protocol::resp::Arguments;

use super::{ClientFilter, Message, ServerThread};
use crate::bounds::{MONITOR_UNREAD_BYTES_MAX, cut, name_memory_bytes};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::log::{Field, LogLevel};
use crate::statistics::{Gauge, Measure};

/// Time between two rounds of upkeep.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// More than an allocator takes out of memory that it holds already.
const ALLOCATOR_NUDGE_BYTES: usize = 32 << 20;

/// Asks the allocator for a large piece of memory, and frees it untouched. Allocators keep large
/// freed pieces for a while. They return them to the system only when the next large piece is
/// freed. Without this a server would keep the memory of one large request for as long as only
/// small ones follow.
fn nudge_allocator() {
    let mut nothing = Vec::<u8>::new();
    // Where no such piece can be had, the allocator holds nothing that it could return.
    let _ = nothing.try_reserve_exact(ALLOCATOR_NUDGE_BYTES);
    drop(black_box(nothing));
}

impl ServerThread {
    /// Does what is due: notes how fast counters rise, closes connections that have been idle for
    /// too long.
    pub(super) fn upkeep(&self) {
        let (now_ms, interval_ms) = (self.now_ms(), INTERVAL.as_millis() as u64);
        let due_ms = self.upkeep_due_ms.get();
        // Too far ahead: the clock was set back.
        if now_ms < due_ms && due_ms - now_ms <= interval_ms {
            return;
        }
        self.upkeep_due_ms.set(now_ms + interval_ms);
        nudge_allocator();
        self.note_accept_failures();
        // Writes without replies are settled too, since clients may wish for none. A failure is
        // reported to clients that wait for a reply.
        let _ = self.engine.settle();
        if self.index == 0 {
            self.shared.diagnostics.statistics.note_rates(self.shared.store.clock.now());
            self.shared.diagnostics.log.note_engine(|| self.shared.store.db.stats());
            self.shared.diagnostics.log.note_more_slow(false);
            if self.shared.parameters.syncs_each_second() {
                self.shared.saver.sync_each_second();
            }
        }
        if let Some([input_bytes, output_bytes]) = self.peaks.look(self.monotonic_ms()) {
            self.report_clients(input_bytes, output_bytes);
        }
        let idle_ms_max = self.shared.parameters.idle_s_max().saturating_mul(1000);
        if idle_ms_max > 0 {
            self.close_idle(idle_ms_max);
        }
    }

    /// Reports what connections take, and the largest input and output that there were.
    fn report_clients(&self, input_bytes: usize, output_bytes: usize) {
        let mut client_bytes = 0;
        self.clients.for_each(|client| client_bytes += client.memory_bytes());
        let counters = self.counters();
        counters.set(Gauge::ClientBytes, client_bytes as u64);
        counters.set(Gauge::InputBytesMax, input_bytes as u64);
        counters.set(Gauge::OutputBytesMax, output_bytes as u64);
    }

    /// Counts what the sockets could not accept, and tells of it now and then.
    fn note_accept_failures(&self) {
        let failures = self.sockets.borrow_mut().take_accept_failures();
        if let Some((count, why)) = failures {
            self.counters().add(Measure::AcceptFailures, count);
            self.shared.diagnostics.log.note_accept_failure(&why);
        }
    }

    /// Logs that a connection was refused.
    pub(super) fn note_refused(&self, stream: &TcpStream, why: &str) {
        let peer = stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
        let fields = [("client", Field::Text(&peer)), ("why", Field::Text(why))];
        self.shared.diagnostics.log.note(LogLevel::Warn, "connection_refused", &fields);
    }

    /// Logs that a connection is ended for what came on it.
    pub(crate) fn note_cut_off(&self, client: &Client, why: &str) {
        let address = client.address();
        let fields = [("client", Field::Text(&address)), ("why", Field::Text(why))];
        self.shared.diagnostics.log.note(LogLevel::Warn, "connection_cut_off", &fields);
    }

    /// What stands at the engine's key `key` is found to have expired at `expires_at_ms`: it is
    /// counted, unless it was, and removed soon.
    pub(crate) fn note_expired(&self, key: &[u8], expires_at_ms: u64) {
        if self.shared.store.expired.note(key, expires_at_ms) {
            self.counters().add(Measure::Expired, 1);
        }
    }

    /// Background work passes over the record at the engine's key `key`, for it cannot be read.
    /// That is counted and logged, once for each record.
    pub(crate) fn note_damaged(&self, keyspace: &'static str, key: &[u8], why: &dyn Display) {
        if self.shared.diagnostics.damaged_records.note(keyspace, key) {
            self.counters().add(Measure::DamagedRecords, 1);
            let (key, why) = (cut(key).escape_ascii().to_string(), why.to_string());
            let fields =
                [("keyspace", Field::Text(keyspace)), ("key", Field::Text(&key)), ("why", Field::Text(&why))];
            self.shared.diagnostics.log.note(LogLevel::Error, "record_damaged", &fields);
        }
    }

    /// Ends the connection of a client whose requests take more memory than one request may have.
    /// It is told so as the reply to the last one, it is logged, and counted.
    pub(crate) fn end_over_limit(&self, client: &Client) {
        let failure = self.over_limit(client);
        client.reply(|reply| reply.error(failure.line()));
    }

    /// Refuses `names` that a client is about to leave here: watched, subscribed to or waited for.
    /// It does so if they and those left before would take more memory than one request may have.
    ///
    /// # Errors
    /// What the client is told; its connection ends after that, it is logged, and counted.
    pub(crate) fn check_names(&self, client: &Client, names: Arguments<'_>) -> Result<()> {
        let bytes: usize = names.iter().map(name_memory_bytes).sum();
        match client.left_bytes() + bytes > self.shared.parameters.request_bytes_max() {
            true => Err(self.over_limit(client)),
            false => Ok(()),
        }
    }

    fn over_limit(&self, client: &Client) -> Failure {
        client.is_closing.set(true);
        self.counters().add(Measure::OverLimitConnections, 1);
        self.note_cut_off(client, "its requests are beyond client-query-buffer-limit");
        Failure::new("ERR requests beyond client-query-buffer-limit")
    }

    fn close_idle(&self, idle_ms_max: u64) {
        let now_ms = self.monotonic_ms();
        let clients = self.clients_of(&ClientFilter::default());
        let is_idle = |client: &&Rc<Client>| {
            let waits = client.waiting.is_waiting.get() || client.is_subscriber() || client.is_monitor.get();
            !waits && client.description.idle_ms(now_ms) > idle_ms_max
        };
        clients.iter().filter(is_idle).for_each(|client| self.close_soon(client));
    }

    /// Shows `client` every command from now on.
    pub(crate) fn monitor(&self, client: &Rc<Client>) {
        if !client.is_monitor.replace(true) {
            self.monitors.borrow_mut().push(Rc::clone(client));
            self.shared.monitors.add(self.index);
        }
    }

    /// Shows `client` nothing more.
    pub(crate) fn unmonitor(&self, client: &Rc<Client>) {
        if client.is_monitor.replace(false) {
            self.monitors.borrow_mut().retain(|known| !Rc::ptr_eq(known, client));
            self.shared.monitors.remove(self.index);
        }
    }

    /// Shows `line` to all clients, of whichever thread, that are shown every command. Those of
    /// this one get it by its mailbox too. So a command that another thread had answered before
    /// this one began is shown before it everywhere.
    pub(crate) fn show_monitors(&self, line: &[u8]) {
        let line: Arc<[u8]> = line.into();
        for thread in self.shared.monitors.threads() {
            self.shared.threads.mailboxes[thread].send(Message::Show(Arc::clone(&line)));
        }
    }

    pub(super) fn show_own_monitors(&self, line: &[u8]) {
        for client in self.monitors.borrow().iter().filter(|client| !client.is_closing.get()) {
            if client.outbox.output.borrow().len() + line.len() > MONITOR_UNREAD_BYTES_MAX {
                client.cut_off();
                self.tasks.wake(client.id);
                continue;
            }
            client.outbox.output.borrow_mut().own().extend_from_slice(line);
            self.mark_dirty(client);
        }
    }
}
