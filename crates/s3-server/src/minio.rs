//! MinIO, as a process that is killed and started again.

use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The one user; its secret opens nothing else.
const USER: &str = "firn-test";
const PASSWORD: &str = "firn-test-secret";

/// A MinIO server on the loopback interface with one bucket. Killed when this is dropped, without a
/// chance to write anything more; its objects stay in their directory.
#[derive(Debug)]
pub struct Minio {
    program: PathBuf,
    directory: PathBuf,
    bucket: String,
    address: SocketAddr,
    running: Option<(Child, BufReader<ChildStdout>)>,
}

impl Minio {
    /// Builds MinIO of its sources into `folder` and answers where the program is. Takes Go, for
    /// the first time the network, and minutes.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn build(folder: &Path) -> io::Result<PathBuf> {
        let program = folder.join("minio");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("minio");
        let mut command = Command::new("go");
        command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg(".");
        let output = command.current_dir(sources).output()?;
        match output.status.success() {
            true => Ok(program),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(io::Error::other(format!("{command:?}: {}: {said}", output.status)))
            }
        }
    }

    /// Starts `program`, which was [built](Self::build), on the objects in `directory`, and returns
    /// when it answers. It has the `bucket`.
    ///
    /// # Errors
    /// What the system says, and how it ended if it did.
    pub fn start(program: &Path, directory: &Path, bucket: &str) -> io::Result<Self> {
        // It takes a port by its number. This one is free unless another process asks for one
        // meanwhile.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut server = Self {
            program: program.to_owned(),
            directory: directory.to_owned(),
            bucket: bucket.to_owned(),
            address,
            running: None,
        };
        server.start_again()?;
        Ok(server)
    }

    /// Ends it as a crash does. Nothing happens if it does not run.
    ///
    /// # Errors
    /// What the system says.
    pub fn kill(&mut self) -> io::Result<()> {
        let Some((mut process, _output)) = self.running.take() else { return Ok(()) };
        process.kill()?;
        process.wait().map(drop)
    }

    /// Starts it where it was, on what is there, and returns when it answers; a running one is
    /// killed.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_again(&mut self) -> io::Result<()> {
        self.kill()?;
        let mut command = Command::new(&self.program);
        command.arg(&self.directory).args([&self.address.to_string(), &self.bucket]);
        command.env("MINIO_ROOT_USER", USER).env("MINIO_ROOT_PASSWORD", PASSWORD);
        // It asks no server for a newer version, has no page, and leaves nothing in the user's
        // directory.
        command.env("MINIO_UPDATE", "off").env("MINIO_BROWSER", "off").env("HOME", &self.directory);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = process.stdout.take().ok_or_else(|| io::Error::other("its output is not piped"))?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        while output.read_line(&mut line)? > 0 {
            if line.starts_with("listens on ") {
                // Its output is kept open: it may write more.
                self.running = Some((process, output));
                return Ok(());
            }
            line.clear();
        }
        let status = process.wait()?;
        Err(io::Error::other(format!("{} ended with {status}", self.program.display())))
    }

    /// Where its objects lie, in files of its own.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What clients have to be told, by the names of S3's own tools.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", USER.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", PASSWORD.to_owned()),
        ]
    }
}

impl Drop for Minio {
    fn drop(&mut self) {
        // A server that ended before has failed requests, which the test has seen.
        let _killed = self.kill();
    }
}
