//! Stores of others, each a process on this machine: MinIO, and what behaves as Google's and
//! Azure's do (`tests/fakes`).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use firn_objects::{ObjectBackend, ObjectOptions, Runtime};
use firn_s3_server::Minio;
use tempfile::TempDir;

use crate::world::{BUCKET, PART_BYTES, runtime};

/// What opens the fakes, and nothing else: they forget everything.
const KEY: &str = "b2Ygbm8gd29ydGg=";

/// A store with one bucket, and the thread that talks with it. Ends with this, or with the process
/// of the test.
pub(crate) struct Store {
    pub(crate) scheme: &'static str,
    /// As the environment of a user has them.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) runtime: Runtime,
    server: Server,
    _folder: TempDir,
}

enum Server {
    Fake {
        process: Child,
        /// Open, since the fake may write to it.
        _output: BufReader<ChildStdout>,
    },
    Minio(Mutex<Minio>),
}

impl Store {
    /// MinIO, which keeps what it says that it keeps.
    pub(crate) fn of_minio() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = Minio::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let server = Minio::start(&program, folder.path(), BUCKET).unwrap();
        let settings = server.settings().map(|(name, value)| (name.to_owned(), value));
        Self {
            scheme: "s3",
            settings: settings.into(),
            runtime: runtime(),
            server: Server::Minio(Mutex::new(server)),
            _folder: folder,
        }
    }

    /// Kills the server and starts it again on what is there.
    pub(crate) fn restart(&self) {
        match &self.server {
            Server::Minio(server) => server.lock().unwrap().start_again().unwrap(),
            Server::Fake { .. } => panic!("it would have forgotten everything"),
        }
    }

    /// Azurite, which Microsoft develops against.
    pub(crate) fn of_azure() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = copy_of("azure", folder.path());
        succeed(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&copy));
        let account = "firntest";
        let mut command = Command::new("node");
        command.args(["fake.js", "--silent", "--disableTelemetry", "--inMemoryPersistence"]);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", "0"]);
        command.env("AZURITE_ACCOUNTS", format!("{account}:{KEY}")).current_dir(&copy);
        let (process, output, address) = start(&mut command);
        let endpoint = format!("{address}/{account}");
        let container = ["container.js", &endpoint, account, KEY, BUCKET];
        succeed(Command::new("node").args(container).current_dir(&copy));
        let settings = [
            ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
            ("AZURE_STORAGE_ACCOUNT_NAME", account),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
        ];
        Self::new("az", &settings, process, output, folder)
    }

    /// fake-gcs-server, with what it lacks.
    pub(crate) fn of_google() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = copy_of("gcs", folder.path());
        succeed(Command::new("go").args(["build", "-o", "fake", "."]).current_dir(&copy));
        let (process, output, address) = start(Command::new(copy.join("fake")).args([BUCKET, KEY]));
        let settings = [("GOOGLE_BASE_URL", address.as_str()), ("GOOGLE_BEARER_TOKEN", KEY)];
        Self::new("gs", &settings, process, output, folder)
    }

    fn new(
        scheme: &'static str,
        settings: &[(&str, &str)],
        process: Child,
        output: BufReader<ChildStdout>,
        folder: TempDir,
    ) -> Self {
        let settings = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let server = Server::Fake { process, _output: output };
        Self { scheme, settings, runtime: runtime(), server, _folder: folder }
    }

    pub(crate) fn options(&self, prefix: &str) -> ObjectOptions {
        let mut options = ObjectOptions::new(format!("{}://{BUCKET}/{prefix}", self.scheme));
        options.settings.clone_from(&self.settings);
        options.part_bytes = PART_BYTES;
        options
    }

    pub(crate) fn backend(&self, prefix: &str) -> ObjectBackend {
        ObjectBackend::open(&self.options(prefix), &self.runtime).unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Server::Fake { process, .. } = &mut self.server {
            // It may have ended before, which the test that asks it has seen.
            let _ended = process.kill();
            let _code = process.wait();
        }
    }
}

/// A copy of the fake called `name`, so that nothing is installed among the sources.
fn copy_of(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fakes").join(name);
    succeed(Command::new("cp").arg("-r").arg(source).arg(folder));
    folder.join(name)
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [said, complaint] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complaint}", output.status);
}

/// Starts a fake that ends with its input, and waits until it says where it listens.
#[track_caller]
fn start(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if let Some(at) = line.find("http://") {
            let address = line[at..].trim_end().to_owned();
            return (process, output, address);
        }
        line.clear();
    }
    panic!("{command:?} ended with {}", process.wait().unwrap());
}
