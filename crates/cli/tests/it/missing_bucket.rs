//! A database whose bucket goes away, while a worker runs its jobs, and comes back.

use std::process::Command;
use std::time::{Duration, Instant};

use firn_s3_server::{Faults, S3Server, ServerOptions};

use crate::bad_store::{Busy, GOOD, done_elsewhere, status};
use crate::rounds;

const ADVICE: &str = "the bucket does not exist; create it, or check the URL";

/// How long there is no bucket, at least.
const MEANWHILE: Duration = Duration::from_secs(6);

const NO_BUCKET: Faults = Faults { is_bucket_missing: true, ..GOOD };

/// Reads every key: what is not at hand is refused with the advice, and nothing is wrong. How many
/// answers there were, and how many refusals.
fn read(busy: &Busy) -> (u32, u32) {
    let (mut answered, mut refused) = (0, 0);
    let mut client = busy.client();
    for (key, round) in &busy.model {
        match redis::cmd("GET").arg(key).query::<Vec<u8>>(&mut client) {
            Ok(found) => {
                assert!(found == rounds::value(*key, *round), "key {key} of round {round}");
                answered += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains(ADVICE), "{error}");
                refused += 1;
            }
        }
    }
    (answered, refused)
}

#[test]
fn a_bucket_that_goes_away_is_waited_for_by_who_has_a_log() {
    let mut busy = Busy::new("process");
    busy.wait_for_room();
    busy.have_job_run();
    busy.scene.store().set_faults(NO_BUCKET);
    let (mut client, began) = (busy.client(), Instant::now());
    let (mut taken, mut done) = (0, None);
    let is_said = |client: &mut redis::Connection| status(client, "jobs_passed_on_reason").contains(ADVICE);
    while began.elapsed() < MEANWHILE || !is_said(&mut client) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody says why");
        match busy.write_more(&mut client) {
            Ok(()) => taken += 1,
            Err(text) => assert!(text.contains(ADVICE), "{text}"),
        }
        // More than the buffer has room for, and no more to read back than that needs.
        std::thread::sleep(Duration::from_millis(20));
        if began.elapsed() > MEANWHILE / 3 {
            // What was made before is done by now, but for a job or two on a busy machine.
            done.get_or_insert_with(|| done_elsewhere(&mut client));
        }
    }
    assert!(taken >= 10, "{taken} taken");
    let more = done_elsewhere(&mut client) - done.unwrap_or_default();
    assert!(more <= 2, "{more} jobs were done without a bucket");
    let (answered, refused) = read(&busy);
    assert!(answered >= 1000, "{answered} answered, {refused} refused");
    busy.scene.store().set_faults(Faults::default());
    busy.heals();
}

#[test]
fn a_bucket_that_goes_away_is_waited_for_by_who_writes_there() {
    let mut busy = Busy::new("shared");
    busy.scene.store().set_faults(NO_BUCKET);
    let text = busy.write_more(&mut busy.client()).expect_err("it cannot be shared");
    assert!(text.contains("not `shared` yet") && text.contains(ADVICE), "{text}");
    read(&busy);
    busy.scene.store().set_faults(Faults::default());
    busy.heals();
}

#[test]
fn what_cannot_heal_by_itself_fails_at_once() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, dir) = (home.path().join("s3"), home.path().join("db"));
    S3Server::make_bucket(&store, "there").expect("made");
    let server = S3Server::start(&store, ServerOptions::default()).expect("it listens");
    for (location, secret, advice) in [
        ("s3://none/p", None, ADVICE),
        ("s3://there/p", Some("wrong"), "check the credentials and what they allow"),
    ] {
        for words in [&["put", "--create", "k", "v"][..], &["serve", "--port", "0", "--http-port", "none"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
            command.args(words).args(["--shared", location, "--dir"]).arg(&dir);
            command.envs(server.settings());
            command.envs(secret.map(|secret| ("AWS_SECRET_ACCESS_KEY", secret)));
            let began = Instant::now();
            let output = command.output().expect("it runs");
            let took = began.elapsed();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains(advice), "{said}");
            assert!(!said.contains(" retries"), "{said}");
            assert!(took < Duration::from_secs(5), "{words:?} at {location}: {took:?}");
        }
    }
}
