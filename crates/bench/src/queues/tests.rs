use clap::Parser;
use firn_server::{ServeSettings, Server};

use super::*;

#[derive(Parser)]
struct Queues {
    #[command(flatten)]
    args: QueuesArgs,
}

fn run(words: &[&str]) -> Result<Vec<QueueResult>> {
    run_queues(&Queues::try_parse_from([&["queues"], words].concat()).expect("arguments").args)
}

/// Runs `work` with a server's address.
fn beside_a_server(work: impl FnOnce(&str)) {
    let directory = tempfile::TempDir::new().expect("a directory");
    let settings = ServeSettings { port: 0, threads: 1, ..ServeSettings::default() };
    let db =
        firn::Db::builder(directory.path().join("db")).settings(firn::Settings::for_memory(64 << 20)).open();
    let server = Server::start(&db.expect("it opens"), settings).expect("it starts");
    work(&format!("resp://{}", server.address()));
}

#[test]
fn every_workload_runs_on_every_server_and_leaves_it_empty() {
    beside_a_server(|address| {
        let (one, other) = (format!("one={address}/0"), format!("other={address}/1"));
        let words = ["--compare", &one, &other, "--rounds", "100", "--depths", "1,7", "--repetitions", "2"];
        let results = run(&words).expect("it runs");
        assert_eq!(results.len(), 5 * 2 * 2 * 2);
        assert!(results.iter().all(|result| result.seconds > 0.0 && result.last_to_first > 0.0));
        let servers: Vec<&str> = results.iter().take(4).map(|result| result.server.as_str()).collect();
        assert_eq!(servers, ["one", "other", "other", "one"]);
    });
}

#[test]
fn what_is_not_empty_or_too_short_is_refused() {
    beside_a_server(|address| {
        let one = format!("one={address}");
        let error = run(&["--compare", &one, "--rounds", "100"]).expect_err("too few rounds for 16 at once");
        assert!(error.message().contains("at least 160"), "{error}");
        let mut dialog = Dialog::open(&address.parse().expect("an address")).expect("it answers");
        dialog.call(&[b"SET", b"mine", b"1"]).expect("it is set");
        let error = run(&["--compare", &one, "--rounds", "1000"]).expect_err("there is a key");
        assert!(error.message().contains("one has keys"), "{error}");
    });
}
