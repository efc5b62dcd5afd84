//! The server as a process of its own, for tests and experiments with a store on another machine.
//! Not a store for production: nothing is synced.
//!
//! `firn-s3-server DIRECTORY BUCKET` says what clients have to be told, a line `NAME=VALUE` each,
//! and ends when its standard input does.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use firn_s3_server::{S3Server, ServerOptions};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, bucket] = words.as_slice() else {
        eprintln!("firn-s3-server: expected DIRECTORY BUCKET");
        return ExitCode::from(2);
    };
    match serve(Path::new(directory), bucket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firn-s3-server: {directory}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(directory: &Path, bucket: &str) -> std::io::Result<()> {
    S3Server::make_bucket(directory, bucket)?;
    let server = S3Server::start(directory, ServerOptions::default())?;
    // All at once: a reader that waits for the first line finds the others too.
    let lines: String = server.settings().iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    std::io::stdout().write_all(lines.as_bytes())?;
    std::io::stdout().flush()?;
    let mut bytes = [0; 512];
    while std::io::stdin().lock().read(&mut bytes)? > 0 {}
    Ok(())
}
