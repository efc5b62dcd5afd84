//! A database on a divided backend, with whatever does its jobs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use firn::{Builder, Db, Settings};
use firn_engine::Semantics;
use firn_job_service::control::pool::Limits;
use firn_job_service::{
    AdminClient, Backends, ClientTls, ControlPlane, ControlPlaneOptions, Remote, RemoteOptions, ServerTls,
    SharedToken, Worker, WorkerOptions, proto,
};
use firn_storage::backend::{Local, LocalOptions};
use firn_storage::{Clock, Storage, SystemClock, ThreadSpawn};

/// Directories of this machine by their paths.
#[derive(Debug)]
pub(crate) struct Directories;

impl Backends for Directories {
    fn open(&self, name: &str) -> firn_storage::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Local::open(std::path::Path::new(name), LocalOptions { create: false })?))
    }
}

pub(crate) struct Scene {
    pub(crate) place: tempfile::TempDir,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawn: ThreadSpawn,
    pub(crate) token: SharedToken,
    pub(crate) server_tls: Option<ServerTls>,
    /// Of all clients and workers.
    pub(crate) tls: ClientTls,
    pub(crate) connections_max: usize,
    next: u128,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (place, clock) = (tempfile::tempdir().unwrap(), Arc::new(SystemClock::new()));
        let (token, spawn) = (SharedToken::none(), ThreadSpawn::new());
        Self {
            place,
            clock,
            spawn,
            token,
            server_tls: None,
            tls: ClientTls::default(),
            connections_max: 100,
            next: 1,
        }
    }

    pub(crate) fn draw(&mut self) -> u128 {
        self.next += 1;
        self.next << 64 | u128::from(self.clock.unix_ms())
    }

    pub(crate) fn shared_name(&self) -> String {
        self.place.path().join("shared").to_str().unwrap().to_owned()
    }

    /// A control plane at `address`, which a former one may just have left.
    pub(crate) fn plane(&mut self, address: SocketAddr) -> ControlPlane {
        // A killed peer is noticed soon.
        let limits =
            Limits { lease: Duration::from_secs(2), no_worker: Duration::from_secs(1), ..Limits::default() };
        self.plane_with(address, limits)
    }

    pub(crate) fn plane_with(&mut self, address: SocketAddr, limits: Limits) -> ControlPlane {
        let seed = self.draw() as u64 ^ (self.draw() >> 64) as u64;
        let options = ControlPlaneOptions {
            address,
            token: self.token.clone(),
            tls: self.server_tls.clone(),
            connections_max: self.connections_max,
            limits,
            seed,
        };
        for _ in 0..100 {
            match ControlPlane::start(&options, Arc::clone(&self.clock), &self.spawn) {
                Ok(plane) => return plane,
                Err(error) => assert!(error.to_string().contains("in use"), "{error}"),
            }
            self.clock.sleep(Duration::from_millis(50));
        }
        panic!("{address} is never free");
    }

    pub(crate) fn worker(&mut self, name: &str, planes: &[SocketAddr], semantics: Semantics) -> Worker {
        let mut options = WorkerOptions::new(self.urls(planes), name, self.draw());
        (options.token, options.tls) = (self.token.clone(), self.tls.clone());
        (options.beat, options.lease) = (Duration::from_millis(200), Duration::from_secs(2));
        let (backends, clock) = (Arc::new(Directories), Arc::clone(&self.clock));
        Worker::start(options, backends, Arc::new(semantics), clock, &self.spawn).unwrap()
    }

    pub(crate) fn remote(&mut self, planes: &[SocketAddr]) -> Remote {
        let mut options = RemoteOptions::new(self.urls(planes), &self.shared_name(), self.draw());
        (options.token, options.tls) = (self.token.clone(), self.tls.clone());
        Remote::new(options, Arc::clone(&self.clock), &self.spawn).unwrap()
    }

    /// A database that hands its jobs to `planes`.
    pub(crate) fn open(&mut self, planes: &[SocketAddr]) -> Db {
        self.builder(planes).open().unwrap()
    }

    pub(crate) fn builder(&mut self, planes: &[SocketAddr]) -> Builder {
        let shared =
            Local::open(std::path::Path::new(&self.shared_name()), LocalOptions { create: true }).unwrap();
        let remote = Arc::new(self.remote(planes));
        let builder = Db::builder(self.place.path().join("db")).settings(settings());
        builder.shared(Arc::new(shared)).executor(remote)
    }

    pub(crate) fn url(&self, plane: SocketAddr) -> String {
        match self.server_tls {
            Some(_) => format!("https://{plane}"),
            None => url(plane),
        }
    }

    fn urls(&self, planes: &[SocketAddr]) -> Vec<String> {
        planes.iter().map(|plane| self.url(*plane)).collect()
    }

    pub(crate) fn look(&self, plane: SocketAddr) -> proto::ListReply {
        self.try_look(plane).unwrap()
    }

    /// Waits until `done`, for a minute at most.
    #[track_caller]
    pub(crate) fn wait_until(&self, done: impl FnMut() -> bool) {
        assert!(self.wait_at_most(Duration::from_secs(60), done), "it takes too long");
    }

    /// Waits until `done`, for `time` at most; whether it is.
    pub(crate) fn wait_at_most(&self, time: Duration, mut done: impl FnMut() -> bool) -> bool {
        let begun = self.clock.now();
        while !done() {
            if self.clock.now() - begun >= time {
                return false;
            }
            self.clock.sleep(Duration::from_millis(1));
        }
        true
    }

    pub(crate) fn try_look(&self, plane: SocketAddr) -> firn_jobs::Result<proto::ListReply> {
        AdminClient::at(&self.url(plane), &self.token, &self.tls, &self.spawn).unwrap().list()
    }
}

/// Under these a few MiB make many jobs.
pub(crate) fn settings() -> Settings {
    Settings { space_amplification_max: 1.2, ..Settings::for_memory(64 << 20) }.with_engine(|tree| {
        tree.separate_bytes = 500;
        tree.blob_segment_bytes = 1 << 20;
        tree.memtable_bytes = 1 << 20;
        tree.table_bytes = 256 << 10;
    })
}

/// A port of a host of this test's own: a control plane that leaves it finds it free again, and no
/// other listens there meanwhile.
pub(crate) fn any_port() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    assert_ne!(host, u8::MAX, "too many hosts");
    ([127, 0, 1, host], 0).into()
}

pub(crate) fn url(plane: SocketAddr) -> String {
    format!("http://{plane}")
}

/// How many jobs each worker has done, by what the control plane remembers.
pub(crate) fn done_by(list: &proto::ListReply) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for row in list.jobs.iter().filter(|row| row.state() == proto::job_row::State::Done) {
        *counts.entry(row.worker.clone()).or_default() += 1;
    }
    counts
}

/// What a database should hold.
pub(crate) type Model = Vec<Option<Vec<u8>>>;

/// Writes `count` random changes to `db` and `model`.
pub(crate) fn write(db: &Db, model: &mut Model, random: &mut fastrand::Rng, count: usize) {
    for step in 0..count {
        let key = random.usize(0..model.len());
        model[key] = (random.u32(0..10) > 0).then(|| vec![random.u8(..); random.usize(10..3000)]);
        match &model[key] {
            Some(value) => db.put(key.to_be_bytes(), value),
            None => db.delete(key.to_be_bytes()),
        }
        .unwrap();
        if step % 500 == 499 {
            db.flush().unwrap();
        }
    }
}

pub(crate) fn check(db: &Db, model: &Model) {
    for (key, value) in model.iter().enumerate() {
        assert_eq!(&db.get(key.to_be_bytes()).unwrap(), value, "key {key}");
    }
}
