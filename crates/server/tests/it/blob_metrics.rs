//! Metrics of separated values: each is there, and they add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn::storage::backend::Memory;
use firn_protocol::resp::Value;
use firn_server::{ServeSettings, Server};

use super::client::{Client, ok};
use super::http::{ANYWHERE, get, samples};

const KEYS: usize = 200;
const VALUE_BYTES: usize = 3000;

fn settings() -> firn::Settings {
    firn::Settings { space_amplification_max: 1.2, ..firn::Settings::for_memory(64 << 20) }.with_engine(
        |tree| {
            tree.separate_bytes = 1000;
            tree.blob_segment_bytes = 128 << 10;
        },
    )
}

/// Every metric of values and collections, without labels but those that tell its samples apart.
const GAUGES: [&str; 10] = [
    "blob_segments",
    "blob_segment_bytes",
    "blob_dead_bytes",
    "blob_obsolete_references",
    "blob_unreclaimed_bytes",
    "blob_debt_bytes",
    "blob_retired_segments",
    "blob_retired_bytes",
    "relocations",
    "relocation_bytes",
];
const COUNTERS: [&str; 14] = [
    "blob_writes_total",
    "blob_syncs_total",
    "blob_reads_total",
    "blob_read_bytes_total",
    "blob_gcs_total",
    "blob_gc_segments_total",
    "failed_blob_gcs_total",
    "blob_gc_read_bytes_total",
    "blob_survivors_total",
    "blob_survivor_bytes_total",
    "blob_dropped_total",
    "blob_dropped_bytes_total",
    "blob_wholly_dead_segments_total",
    "blob_wholly_dead_bytes_total",
];
const SHARES: [&str; 5] = ["0", "0.25", "0.5", "0.75", "1"];

fn by_dead(share: &str) -> String {
    format!("blob_segments_by_dead{{share=\"{share}\"}}")
}

/// Writes and overwrites until segments were collected and others were wholly dead. Leaves one dead
/// value, for which nothing is collected, and reads each key. Answers how often it wrote.
fn work(db: &firn::Db, client: &mut Client) -> u64 {
    let (mut random, mut writes) = (fastrand::Rng::with_seed(1), 0);
    // Nothing of these lives when they are flushed.
    for key in 0..KEYS {
        assert_eq!(client.call(&[b"SET", format!("key:{key}").as_bytes(), &[b'0'; VALUE_BYTES]]), ok());
        writes += 1;
    }
    for round in 0.. {
        assert!(round < 100, "nothing is collected: {:?}", db.stats().tree.expect("a tree").blobs);
        for key in 0..KEYS {
            if round == 0 || random.u32(0..3) == 0 {
                let value = vec![b'a' + round as u8 % 26; VALUE_BYTES];
                assert_eq!(client.call(&[b"SET", format!("key:{key}").as_bytes(), &value]), ok());
                writes += 1;
            }
        }
        db.flush().expect("a flush");
        db.wait_idle().expect("it rests");
        let values = db.stats().tree.expect("a tree").blobs;
        if values.gc_count > 2 && values.relocation_count > 0 {
            break;
        }
    }
    assert_eq!(client.call(&[b"SET".as_slice(), b"key:0", &[b'z'; VALUE_BYTES]]), ok());
    db.flush().expect("a flush");
    db.wait_idle().expect("it rests");
    for key in 0..KEYS {
        let Value::Bulk(value) = client.say(&format!("GET key:{key}")) else { panic!("key {key} is lost") };
        assert_eq!(value.len(), VALUE_BYTES);
    }
    writes + 1
}

#[test]
fn separated_values_are_told_and_add_up() {
    let db = firn::Db::builder("served").storage(Arc::new(Memory::new())).settings(settings());
    let db = Arc::new(db.open().unwrap());
    let serve = ServeSettings { threads: 1, port: 0, http: Some(ANYWHERE), ..ServeSettings::default() };
    let server = Server::start(&db, serve).unwrap();
    let (address, client) = (server.http_address().unwrap(), &mut Client::connect(server.address()));
    let found = |text: &str| -> BTreeMap<String, f64> {
        let all = samples(text).into_iter();
        all.filter_map(|(name, value)| Some((name.strip_prefix("firn_engine_")?.to_owned(), value))).collect()
    };
    let none = found(&get(address, "/metrics").1);
    for name in GAUGES.into_iter().chain(COUNTERS) {
        assert_eq!(none.get(name), Some(&0.0), "{name} of a database without values");
    }
    let writes = work(&db, client);
    let (_, text) = get(address, "/metrics");
    let found = found(&text);
    let of = |name: &str| *found.get(name).unwrap_or_else(|| panic!("no {name} in {text}"));
    // All that there are, so that a new one is not forgotten here.
    let reported = found.keys().filter(|name| name.starts_with("blob_")).cloned();
    let known = GAUGES.into_iter().chain(COUNTERS).filter(|name| name.starts_with("blob_"));
    let mut known: Vec<String> = known.map(str::to_owned).chain(SHARES.map(by_dead)).collect();
    known.sort_unstable();
    assert!(reported.eq(known), "{text}");
    let zero = ["blob_retired_segments", "blob_retired_bytes", "failed_blob_gcs_total"];
    let any = ["blob_obsolete_references", "blob_unreclaimed_bytes", "blob_debt_bytes"];
    for name in GAUGES.into_iter().chain(COUNTERS) {
        let plausible = any.contains(&name) || (of(name) == 0.0) == zero.contains(&name);
        assert!(plausible, "{name} is {}", of(name));
    }
    // Of values that are all of one length, and of what is around them.
    let record = |name: &str| of(&format!("blob_{name}_bytes_total")) / of(&format!("blob_{name}s_total"));
    assert_eq!(record("survivor"), of("blob_dropped_bytes_total") / of("blob_dropped_total"));
    assert!((VALUE_BYTES as f64..VALUE_BYTES as f64 + 100.0).contains(&record("survivor")), "{text}");
    assert_eq!(record("read"), record("survivor"));
    let reads = of("blob_reads_total");
    // Others count keys for the metrics.
    assert!(reads > (KEYS - 61) as f64, "all but the last 61 at most: {reads}");
    // What was collected is what was copied and what was left behind.
    let values = of("blob_survivor_bytes_total") + of("blob_dropped_bytes_total");
    let read = of("blob_gc_read_bytes_total");
    assert!(values <= read && values > 0.9 * read, "{values} of {read}");
    let written = of("write_bytes_total{by=\"blob_gc\"}");
    assert!(written >= of("blob_survivor_bytes_total") && written < read, "{written} of {read}");
    let came = of("write_bytes_total{by=\"values\"}");
    assert_eq!(of("blob_writes_total"), writes as f64);
    assert!(came >= (writes * VALUE_BYTES as u64) as f64, "{came} of {writes} values");
    let segments = of("blob_segments") + of("blob_gc_segments_total") - of("blob_gcs_total");
    let sealed = segments + of("blob_wholly_dead_segments_total") - 1.0;
    assert!(of("blob_syncs_total") >= sealed, "each is synced as it is sealed: {text}");
    let whole = of("blob_wholly_dead_bytes_total") / of("blob_wholly_dead_segments_total");
    assert!(whole > (KEYS * VALUE_BYTES) as f64 / 100.0 && whole < (256 << 10) as f64, "{whole} bytes each");
    assert!(of("blob_gc_segments_total") > of("blob_gcs_total"), "{text}");
    assert!(of("blob_dropped_bytes_total") < came, "no value goes twice");
    let (all, dead) = (of("blob_segment_bytes"), of("blob_dead_bytes"));
    assert!(dead < all && all - dead > (KEYS * VALUE_BYTES) as f64, "{dead} of {all}");
    assert!(all < came + written);
    let shares = SHARES.map(|share| of(&by_dead(share)));
    let sealed: f64 = shares.iter().sum();
    assert!(sealed <= of("blob_segments") && sealed + 1.0 >= of("blob_segments"), "one is being written to");
    assert!(shares[1..].iter().sum::<f64>() > 0.0, "some have dead values: {shares:?}");
    assert_eq!(of("jobs_total{kind=\"blob_gc\",place=\"here\"}"), of("blob_gcs_total"));
    let of_stage = |kind: &str, stage: &str| {
        of(&format!("job_stage_seconds_count{{kind=\"{kind}\",stage=\"{stage}\"}}"))
    };
    for kind in ["l0_compaction", "deep_compaction", "blob_gc"] {
        let jobs = of(&format!("jobs_total{{kind=\"{kind}\",place=\"here\"}}"));
        assert_eq!(of_stage(kind, "here"), jobs, "all jobs of kind {kind} ran here");
    }
    assert!(of_stage("l0_compaction", "here") > 0.0, "{text}");
    assert_eq!(of_stage("blob_gc", "commit"), of("blob_gcs_total"));
    check_info(client, &of);
    server.stop().unwrap();
}

fn check_info(client: &mut Client, of: &dyn Fn(&str) -> f64) {
    let Value::Bulk(info) = client.say("INFO firn") else { panic!("a text") };
    let info = String::from_utf8(info).expect("a text");
    let in_info = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
    };
    for (name, metric) in [
        ("blob_segment_count", "blob_segments"),
        ("blob_segment_bytes", "blob_segment_bytes"),
        ("blob_dead_bytes", "blob_dead_bytes"),
        ("blob_retired_count", "blob_retired_segments"),
        ("blob_retired_bytes", "blob_retired_bytes"),
        ("blob_write_count", "blob_writes_total"),
        ("blob_write_bytes_total", "write_bytes_total{by=\"values\"}"),
        ("blob_sync_count", "blob_syncs_total"),
        ("blob_read_count", "blob_reads_total"),
        ("blob_read_bytes_total", "blob_read_bytes_total"),
        ("relocation_count", "relocations"),
        ("relocation_bytes", "relocation_bytes"),
        ("blob_gc_count", "blob_gcs_total"),
        ("blob_gc_segment_count", "blob_gc_segments_total"),
        ("blob_gc_failure_count", "failed_blob_gcs_total"),
        ("blob_gc_read_bytes_total", "blob_gc_read_bytes_total"),
        ("blob_gc_write_bytes_total", "write_bytes_total{by=\"blob_gc\"}"),
        ("blob_survivor_count", "blob_survivors_total"),
        ("blob_survivor_bytes_total", "blob_survivor_bytes_total"),
        ("blob_dropped_count", "blob_dropped_total"),
        ("blob_dropped_bytes_total", "blob_dropped_bytes_total"),
        ("blob_wholly_dead_count", "blob_wholly_dead_segments_total"),
        ("blob_wholly_dead_bytes_total", "blob_wholly_dead_bytes_total"),
    ] {
        assert_eq!(in_info(name).parse::<f64>().expect("a number"), of(metric), "{name}");
    }
    let commits = of("job_stage_seconds_count{kind=\"blob_gc\",stage=\"commit\"}");
    assert!(in_info("jobs_blob_gc_commit").starts_with(&format!("count={commits},us_total=")), "{info}");
    let shares = SHARES.map(|share| format!("le_{share}={}", of(&by_dead(share))));
    assert_eq!(in_info("blob_segments_by_dead"), shares.join(","));
}
