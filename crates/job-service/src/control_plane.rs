//! A control plane: the pool behind sockets.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_storage::{Clock, Error, ErrorKind, Result as StorageResult, Spawn};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::control::pool::{ConnectionId, Figures, Held, Limits, Pool, Rows};
use crate::entrance::{Connections, Entrance, Guests, Line};
use crate::runtime::Runtime;
use crate::tls::ServerTls;
use crate::token::SharedToken;
use crate::trouble::causes;
use crate::wire::proto::jobs_server::{Jobs, JobsServer};
use crate::wire::proto::workers_server::{Workers, WorkersServer};
use crate::wire::{
    self, MESSAGE_BYTES_MAX, agree, held_of, id_of, key_of, micros, order_of, outcome_of, profile_of, proto,
    timings_of,
};

/// What a control plane is told.
#[derive(Clone, Debug)]
pub struct ControlPlaneOptions {
    /// Where to listen; port 0 = any.
    pub address: SocketAddr,
    /// The secret of its clients and workers.
    pub token: SharedToken,
    /// Its certificate; `None` = requests and answers travel unencrypted.
    pub tls: Option<ServerTls>,
    /// Connections at a time; those beyond are closed as they come. Each database, worker and look
    /// has one.
    pub connections_max: usize,
    /// Times and numbers.
    pub limits: Limits,
    /// No two control planes may have the same: tokens of attempts are drawn from it.
    pub seed: u64,
}

/// A control plane that runs until it is dropped. What it knows is soft: another one in its place
/// is told again.
#[derive(Debug)]
pub struct ControlPlane {
    address: SocketAddr,
    plane: Arc<Plane>,
    entrance: Arc<Entrance>,
    token: SharedToken,
    runtime: Runtime,
}

impl ControlPlane {
    /// Listens. One thread of `spawn`'s does everything.
    ///
    /// # Errors
    /// The address cannot be listened on, or the certificate cannot be used.
    pub fn start(
        options: &ControlPlaneOptions,
        clock: Arc<dyn Clock>,
        spawn: &dyn Spawn,
    ) -> StorageResult<Self> {
        let server = server(options.tls.as_ref())?;
        let runtime = Runtime::start("firn-control", spawn)?;
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Io, "", format!("cannot listen on {}: {error}", options.address))
        };
        let listener = runtime.wait(TcpListener::bind(options.address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let plane = Arc::new(Plane {
            pool: Mutex::new(Pool::new(options.limits, options.seed)),
            changed: Notify::new(),
            clock,
        });
        let (entrance, guests, ended) = Entrance::new(options.connections_max);
        runtime.begin(tick(Arc::clone(&plane)));
        runtime.begin(part(Arc::clone(&plane), ended));
        runtime.begin(serve(server, Arc::clone(&plane), options.token.clone(), guests));
        runtime.begin(Arc::clone(&entrance).admit(listener));
        Ok(Self { address, plane, entrance, token: options.token.clone(), runtime })
    }

    /// Clients that connect from now on are shown the certificate of `tls`, and asked for one as it
    /// says. Connections that are there stay as they are. A connection that is just coming about
    /// may be closed, and comes again.
    ///
    /// # Errors
    /// The certificate cannot be used: everything stays as it was.
    pub fn renew(&self, tls: &ServerTls) -> StorageResult<()> {
        let server = server(Some(tls))?;
        let guests = self.entrance.turn();
        self.runtime.begin(serve(server, Arc::clone(&self.plane), self.token.clone(), guests));
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does, in numbers.
    pub fn watch(&self) -> ControlPlaneWatch {
        ControlPlaneWatch { plane: Arc::clone(&self.plane), entrance: Arc::clone(&self.entrance) }
    }
}

/// A look at a control plane from another thread, valid as long as it is kept.
#[derive(Clone, Debug)]
pub struct ControlPlaneWatch {
    plane: Arc<Plane>,
    entrance: Arc<Entrance>,
}

impl ControlPlaneWatch {
    /// What is there now, and has been since the start.
    pub fn figures(&self) -> Figures {
        self.plane.lock().figures(self.plane.clock.now())
    }

    /// Connections that are there, and how many were refused.
    pub fn connections(&self) -> Connections {
        self.entrance.connections()
    }

    /// What happened to workers since the last call, a line each: lost, or back.
    pub fn take_log(&self) -> Vec<String> {
        self.plane.lock().take_log()
    }

    /// What is there now, worker by worker and job by job: at most `jobs_max` waiting, running, and
    /// ended jobs each.
    pub fn rows(&self, jobs_max: usize) -> Rows {
        self.plane.lock().rows(self.plane.clock.now(), jobs_max)
    }

    /// The same as clients are told it.
    pub fn list(&self, jobs_max: usize) -> proto::ListReply {
        self.plane.list(jobs_max)
    }
}

/// How often silent clients and workers are looked for.
const TICK: Duration = Duration::from_millis(250);

/// No question is held longer.
const HOLD_MAX: Duration = Duration::from_secs(60);

/// Jobs that wait, that run, and that ended: of each so many are listed.
const LIST_JOBS_MAX: usize = 1000;

async fn tick(plane: Arc<Plane>) {
    loop {
        tokio::time::sleep(TICK).await;
        plane.with(|pool, now| pool.tick(now));
    }
}

/// Has the pool hear of connections that have `ended`.
async fn part(plane: Arc<Plane>, mut ended: UnboundedReceiver<ConnectionId>) {
    while let Some(connection) = ended.recv().await {
        plane.with(|pool, now| pool.end_connection(now, connection));
    }
}

/// A server of nothing yet, which shows the certificate of `tls`.
fn server(tls: Option<&ServerTls>) -> StorageResult<Server> {
    let server = Server::builder().http2_keepalive_interval(Some(Duration::from_secs(10)));
    let Some(tls) = tls else { return Ok(server) };
    server.tls_config(tls.config()).map_err(|error| {
        let what = format!("cannot use the certificate: {}", causes(&error));
        Error::new(ErrorKind::Invalid, "", what)
    })
}

async fn serve(mut server: Server, plane: Arc<Plane>, token: SharedToken, guests: Guests) {
    let (health, health_service) = tonic_health::server::health_reporter();
    let jobs = JobsServer::from_arc(Arc::clone(&plane)).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let workers = WorkersServer::from_arc(plane).max_decoding_message_size(MESSAGE_BYTES_MAX);
    health.set_serving::<JobsServer<Plane>>().await;
    health.set_serving::<WorkersServer<Plane>>().await;
    let router = server
        .add_service(health_service)
        .add_service(InterceptedService::new(jobs, token.demand()))
        .add_service(InterceptedService::new(workers, token.demand()));
    // Both versions: many clients in other languages ask by the older one alone.
    let router = match (described().build_v1(), described().build_v1alpha()) {
        (Ok(new), Ok(old)) => router.add_service(new).add_service(old),
        _ => router,
    };
    // It ends with the runtime, or when another one serves new connections; a connection that fails
    // is its own affair.
    let _ended = router.serve_with_incoming(guests).await;
}

/// The answer to a client that asks what services there are.
fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

#[derive(Debug)]
struct Plane {
    pool: Mutex<Pool>,
    /// Held questions look again.
    changed: Notify,
    clock: Arc<dyn Clock>,
}

impl Plane {
    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, jobs_max: usize) -> proto::ListReply {
        let pool = self.lock();
        let (rows, lease) = (pool.rows(self.clock.now(), jobs_max), pool.limits().lease);
        drop(pool);
        wire::put_rows(rows, lease)
    }

    /// Changes the pool, and wakes held questions.
    fn with<T>(&self, change: impl FnOnce(&mut Pool, Duration) -> T) -> T {
        let now = self.clock.now();
        let done = change(&mut self.lock(), now);
        self.changed.notify_waiters();
        done
    }

    /// Looks until `look` finds something, for at most `hold_ms`, and answers what the last look
    /// found.
    async fn held<T>(&self, hold_ms: u32, mut look: impl FnMut(&mut Pool, Duration) -> (T, bool)) -> T {
        let hold = Duration::from_millis(u64::from(hold_ms)).min(HOLD_MAX);
        let mut until = std::pin::pin!(tokio::time::sleep(hold));
        loop {
            // Before the look, so that no change after it is missed.
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let (found, is_enough) = look(&mut self.lock(), self.clock.now());
            if is_enough {
                return found;
            }
            tokio::select! {
                () = changed => {}
                () = &mut until => return found,
            }
        }
    }
}

#[tonic::async_trait]
impl Jobs for Plane {
    async fn submit(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::SubmitReply>, Status> {
        let request = request.into_inner();
        let version = agree(request.versions)?;
        let key = key_of(request.key.clone())?;
        let order = order_of(request)?;
        let slots = self
            .with(|pool, now| {
                pool.no_room_for_client(key.client).map_or(Ok(()), Err)?;
                pool.submit(now, key, order).map_err(|refusal| refusal.message)?;
                Ok(pool.slots_for_each(now))
            })
            .map_err(|why: String| Status::resource_exhausted(why))?;
        Ok(Response::new(proto::SubmitReply { version, slots }))
    }

    async fn follow(
        &self,
        request: Request<proto::FollowRequest>,
    ) -> Result<Response<proto::FollowReply>, Status> {
        let request = request.into_inner();
        wire::check_follow(&request)?;
        let proto::FollowRequest { client, waiting, taken, hold_ms, urgency, attempts, begun } = request;
        let client = id_of(&client)?;
        self.lock().no_room_for_client(client).map_or(Ok(()), |why| Err(Status::resource_exhausted(why)))?;
        if let Some(urgency) = urgency {
            let stalls_in = urgency.stalls_in_ms.map(wire::time_of_ms);
            // No held question has to look: it changes what comes first, and neither what has ended
            // nor what is leased.
            self.lock().urge(self.clock.now(), client, stalls_in);
        }
        let known = attempts.map(wire::attempts_of);
        let ((ended, unknown), attempts) = self
            .held(hold_ms, |pool, now| {
                let found = pool.follow(now, client, &waiting, &taken);
                let is_put_back = !pool.unbegun(client, &begun).is_empty();
                let attempts = known.as_ref().map(|_| pool.attempts(client, &waiting));
                let is_news = known.iter().zip(&attempts).any(|(known, now)| !known.is_as(now));
                let is_enough = is_news || is_put_back || !(found.0.is_empty() && found.1.is_empty());
                ((found, attempts), is_enough)
            })
            .await;
        let ended = ended.into_iter().map(|(number, ended)| proto::Ended {
            number,
            outcome: wire::put_outcome(ended.outcome),
            worker: ended.worker,
            queued_us: micros(ended.queued),
            opened_us: micros(ended.timings.opened),
            ran_us: micros(ended.timings.ran),
            read_us: micros(ended.timings.reading),
            write_us: micros(ended.timings.writing),
        });
        let (slots, unbegun) = {
            let pool = self.lock();
            (pool.slots_for_each(self.clock.now()), pool.unbegun(client, &waiting))
        };
        let (ended, attempts) = (ended.collect(), attempts.map(wire::put_attempts));
        Ok(Response::new(proto::FollowReply { ended, unknown, slots, unbegun, attempts }))
    }

    async fn cancel(
        &self,
        request: Request<proto::CancelRequest>,
    ) -> Result<Response<proto::CancelReply>, Status> {
        let key = key_of(request.into_inner().key)?;
        let found = self.with(|pool, now| pool.cancel(now, key));
        Ok(Response::new(proto::CancelReply { found }))
    }

    async fn list(
        &self,
        _request: Request<proto::ListRequest>,
    ) -> Result<Response<proto::ListReply>, Status> {
        Ok(Response::new(self.list(LIST_JOBS_MAX)))
    }
}

/// Has `pool` know the connection of what the worker `id` said, unless that has ended.
fn note(pool: &mut Pool, now: Duration, id: u128, connection: Option<ConnectionId>) {
    if let Some(connection) = connection {
        pool.note_connection(now, id, connection);
    }
}

#[tonic::async_trait]
impl Workers for Plane {
    async fn pull(&self, request: Request<proto::PullRequest>) -> Result<Response<proto::PullReply>, Status> {
        let connection = Line::of(&request);
        let proto::PullRequest { versions, worker, held, hold_ms } = request.into_inner();
        let version = agree(versions)?;
        let (profile, held) = (profile_of(worker)?, held_of(held)?);
        let question = self
            .with(|pool, now| match pool.no_room_for_worker(&profile) {
                Some(why) => Err(why),
                None => {
                    let question = pool.hear(now, profile, &held);
                    note(pool, now, question.worker, connection);
                    Ok(question)
                }
            })
            .map_err(Status::resource_exhausted)?;
        let pulled = self
            .held(hold_ms, |pool, now| {
                // One on a connection that is gone is held for a while yet, and gets nothing.
                let pulled = pool.answer(now, question);
                let is_enough = !(pulled.leases.is_empty() && pulled.stop.is_empty());
                (pulled, is_enough)
            })
            .await;
        Ok(Response::new(proto::PullReply {
            version,
            leases: pulled.leases.into_iter().map(wire::put_lease).collect(),
            stop: pulled.stop.iter().map(|token| token.0).collect(),
        }))
    }

    async fn beat(&self, request: Request<proto::BeatRequest>) -> Result<Response<proto::BeatReply>, Status> {
        let connection = Line::of(&request);
        let proto::BeatRequest { worker, held, elsewhere } = request.into_inner();
        let (worker, held, elsewhere) = (id_of(&worker)?, held_of(held)?, wire::elsewhere_of(elsewhere)?);
        let stop = self.with(|pool, now| {
            let stop = pool.beat(now, worker, &held);
            note(pool, now, worker, connection);
            pool.note_elsewhere(now, worker, elsewhere);
            stop
        });
        let known = stop.is_some();
        let stop = stop.unwrap_or_default().iter().map(|token| token.0).collect();
        Ok(Response::new(proto::BeatReply { known, stop }))
    }

    async fn finish(
        &self,
        request: Request<proto::FinishRequest>,
    ) -> Result<Response<proto::FinishReply>, Status> {
        let request = request.into_inner();
        let timings = timings_of(&request);
        let proto::FinishRequest { worker, key, token, outcome, .. } = request;
        let (worker, key, outcome) = (id_of(&worker)?, key_of(key)?, outcome_of(outcome)?);
        let held = Held {
            key,
            token: crate::control::pool::Token(token),
            done_bytes: 0,
            moved_bytes: 0,
            is_syncing: false,
            is_waiting: false,
        };
        let taken = self.with(|pool, now| pool.finish(now, worker, held, outcome, timings));
        Ok(Response::new(proto::FinishReply { taken }))
    }
}
