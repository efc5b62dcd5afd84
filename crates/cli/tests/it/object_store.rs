//! Databases whose tables lie in an S3 bucket: seen from several directories, killed, with a store
//! that fails.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use firn_s3_server::{Faults, S3Server, ServerOptions};
use tempfile::TempDir;

use crate::hosts::own_host;
use crate::program::{Answer, text};
use crate::rounds::{self, Model, SETTINGS};
use crate::serve::Serving;

const BUCKET: &str = "firn-test";
pub(crate) const LOCATION: &str = "s3://firn-test/some/db";

/// A store with a bucket, and room for directories.
pub(crate) struct Scene {
    directory: TempDir,
    /// Where the store is, and nothing else.
    host: Ipv4Addr,
    server: Option<S3Server>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        S3Server::make_bucket(&directory.path().join("s3"), BUCKET).expect("a bucket");
        let mut scene = Self { directory, host: own_host(), server: None };
        scene.start(None);
        scene
    }

    /// Starts the store, where it was before if there was one.
    fn start(&mut self, port: Option<u16>) {
        let options = ServerOptions { address: self.host.into(), port, ..ServerOptions::default() };
        let server = S3Server::start(&self.directory.path().join("s3"), options).expect("it listens");
        self.server = Some(server);
    }

    pub(crate) fn server(&self) -> &S3Server {
        self.server.as_ref().expect("it runs")
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// The program, told where the store is.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.envs(self.server().settings());
        command
    }

    fn firn(&self, dir: &Path, command: &str, arguments: &[&str]) -> Answer {
        self.call(&[&[command, "--shared", LOCATION, "--dir", text(dir)], arguments].concat())
    }

    /// Calls the program with `arguments`, told where the store is.
    pub(crate) fn call(&self, arguments: &[&str]) -> Answer {
        let output = self.command().args(arguments).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            complaint: text(output.stderr),
        }
    }
}

#[test]
fn a_database_in_a_bucket_belongs_to_the_directory_that_has_its_log() {
    let scene = Scene::new();
    let (first, second) = (scene.path("first"), scene.path("second"));
    scene.firn(&first, "get", &["k"]).complained(1, &["does not exist"]);
    scene.firn(&first, "put", &["k", "v"]).complained(1, &["holds no database"]);
    scene.firn(&first, "put", &["--create", "k", "v"]).ended(0);
    assert_eq!(scene.firn(&first, "get", &["k"]).ended(0), "v\n");
    scene.firn(&second, "put", &["k", "w"]).complained(5, &["lies in another directory", "take it over"]);
    scene.firn(&second, "put", &["--take-over", "n", "w"]).ended(0);
    assert_eq!(scene.firn(&second, "get", &["n"]).ended(0), "w\n");
    scene.firn(&first, "put", &["k", "v"]).complained(5, &["lies in another directory"]);
    scene.firn(&first, "get", &["k"]).complained(5, &["lies in another directory"]);
    let alone = crate::program::firn(&["get", "--dir", text(&first), "k"]);
    alone.complained(1, &["has only the log", "--shared"]);
    let mut elsewhere = scene.command();
    let elsewhere = elsewhere.args(["put", "--create", "--shared", "s3://no-such-bucket/db", "--dir"]);
    let output = elsewhere.arg(scene.path("third")).args(["k", "v"]).output().expect("the program runs");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && complaint.contains("the bucket does not exist"), "{complaint}");
}

#[test]
fn a_server_on_a_failing_store_loses_nothing_when_it_is_killed() {
    let mut scene = Scene::new();
    let (dir, settings) = (scene.path("data"), scene.path("settings.toml"));
    std::fs::write(&settings, SETTINGS).expect("written");
    // One too small for all, of which a killed process leaves what it had.
    let cache = scene.path("cache");
    let start = |scene: &Scene, is_cached: bool| {
        let mut command = scene.command();
        command.args(["serve", "--shared", LOCATION, "--config", text(&settings)]);
        if is_cached {
            command.args(["--shared-cache", text(&cache), "--shared-cache-bytes", "1M"]);
        }
        Serving::start_as(&mut command, &dir).expect("it serves")
    };
    let mut model = Model::new();
    for round in 0..3_u32 {
        scene.server().set_faults(Faults { refused_per_mille: 25, lost_per_mille: 25, ..Faults::default() });
        let mut serving = start(&scene, round > 0);
        let mut client = rounds::connect(&serving.address);
        rounds::check(&mut client, &model, &format!("round {round}"));
        for batch in 0..30 {
            rounds::write(&mut client, &mut model, (round, batch), 1500);
            if (round, batch) == (1, 20) {
                // The store goes away for a moment.
                let port = scene.server().port();
                scene.server = None;
                scene.start(Some(port));
            }
        }
        serving.process.kill().expect("it is killed");
        serving.process.wait().expect("it ends");
    }
    let objects =
        std::fs::read_dir(scene.path("s3").join(BUCKET).join("some/db")).expect("objects").flatten();
    let names: Vec<String> =
        objects.map(|object| object.file_name().to_string_lossy().into_owned()).collect();
    let count = |ending: &str| names.iter().filter(|name| name.ends_with(ending)).count();
    assert!(count(".table") > 3 && count(".blobs") > 3, "{names:?}");
    // Another machine, as its log says, has all that was flushed; this one has everything.
    scene.server().set_faults(Faults::default());
    start(&scene, true).end();
}
