use firn_server::{ServeSettings, Server};

use super::*;
use crate::args::YcsbArgs;
use crate::progress::Silent;
use crate::suite::{BenchDir, Store, Suite, YcsbSuite};

/// A server with a database of its own; both go with it.
struct Served {
    server: Server,
    _dir: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let settings = firn::Settings::for_memory(64 << 20);
        let db = firn::Db::builder(dir.path()).settings(settings).open().expect("a database");
        let serve = ServeSettings { port: 0, ..ServeSettings::default() };
        Self { server: Server::start(&db, serve).expect("a server"), _dir: dir }
    }

    fn factory(&self, connections: Option<usize>, pipeline: usize) -> RespFactory {
        let address = format!("resp://{}/1", self.server.address()).parse().expect("an address");
        RespFactory::new(address, connections, pipeline)
    }
}

fn options(threads: usize) -> OpenOptions {
    OpenOptions {
        dir: std::path::PathBuf::new(),
        memory_bytes: None,
        separate_bytes: None,
        worker: None,
        space_amplification_max: None,
        read_compaction_price: None,
        compression: None,
        durability: firn_engine::Durability::Process,
        threads,
    }
}

#[derive(clap::Parser)]
struct Ycsb {
    #[command(flatten)]
    args: YcsbArgs,
}

fn suite(words: &[&str]) -> YcsbSuite {
    let parsed = <Ycsb as clap::Parser>::try_parse_from([&["ycsb"], words].concat()).expect("arguments");
    YcsbSuite::new(&parsed.args, false).expect("a suite")
}

#[test]
fn records_are_strings() {
    let served = Served::start();
    let target = served.factory(Some(3), 2).open(&options(1)).unwrap();
    assert_eq!(target.settings()["connections"], "3");
    let (mut client, mut found) = (target.client().unwrap(), b"left over".to_vec());
    assert!(!client.read(b"k", &mut found).unwrap());
    client.insert(b"k", b"one").unwrap();
    assert!(client.read(b"k", &mut found).unwrap());
    assert_eq!(found, b"one");
    assert!(client.read_modify_write(b"k", b"two", &mut found).unwrap());
    assert_eq!(found, b"one");
    client.read(b"k", &mut found).unwrap();
    assert_eq!(found, b"two");
    client.delete(b"k").unwrap();
    assert!(!client.read(b"k", &mut found).unwrap());
    assert!(client.scan(b"", 1, &mut |_, _| ()).unwrap_err().message().contains("no scans"));
    // Two are sent at once, the third by `finish`.
    for key in [b"a", b"b", b"c"] {
        client.load(key, b"loaded").unwrap();
    }
    assert!(client.read(b"b", &mut found).unwrap());
    client.finish().unwrap();
    assert!(client.read(b"c", &mut found).unwrap());
}

#[test]
fn ycsb_finds_every_record_on_a_server_and_leaves_out_scans() {
    let served = Served::start();
    let mut suite = suite(&["--records", "300", "--ops", "200", "--value-bytes", "50", "--threads", "2"]);
    assert_eq!(suite.leave_out_scans().unwrap(), ["e"]);
    assert_eq!(suite.steps(), ["load", "a", "b", "c", "d", "f"]);
    let dir = BenchDir::new(None).unwrap();
    let factory = served.factory(None, 16);
    let mut store = Store::new(&factory, suite.open_options(dir.path()));
    for step in 0..suite.steps().len() {
        let result = suite.run_step(step, &mut store, &mut Silent).unwrap();
        assert_eq!(result.not_found, 0, "{}", result.context.workload);
        assert_eq!(result.operations, if step == 0 { 300 } else { 200 });
        assert!(result.context.engine.starts_with("resp://127.0.0.1:"), "{}", result.context.engine);
        assert_eq!((result.write_amplification, result.space_amplification), (None, None));
    }
}

#[test]
fn scans_alone_are_refused() {
    let error = suite(&["--workload", "load,e"]).leave_out_scans().unwrap_err();
    assert!(error.message().contains("no scans over strings"), "{error}");
    assert_eq!(suite(&["--workload", "load"]).leave_out_scans().unwrap(), [""; 0]);
    assert_eq!(suite(&["--workload", "e,c"]).leave_out_scans().unwrap(), ["e"]);
}

#[test]
fn what_cannot_be_reached_is_told() {
    let open = |text: &str, connections, threads| {
        let factory = RespFactory::new(text.parse().expect("an address"), connections, 1);
        factory.open(&options(threads)).map(drop)
    };
    let served = Served::start();
    let there = format!("resp://{}", served.server.address());
    let error = open(&there, Some(3), 2).unwrap_err();
    assert!(error.message().contains("--connections 3"), "{error}");
    let error = open(&format!("{there}/99"), None, 1).unwrap_err();
    assert!(error.message().contains("no such database"), "{error}");
    served.server.stop().unwrap();
    let error = open(&there, None, 1).unwrap_err();
    assert!(error.message().contains("cannot connect to resp://127.0.0.1"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retry);
}
