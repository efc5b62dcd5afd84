//! Metrics of values beside the tree: each is there, and they add up.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn::storage::place::Memory;
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
            tree.value_segment_bytes = 128 << 10;
        },
    )
}

/// Every metric of values and collections, without labels but those that tell its samples apart.
const GAUGES: [&str; 10] = [
    "value_segments",
    "value_segment_bytes",
    "value_dead_bytes",
    "value_stale_references",
    "value_hidden_bytes",
    "value_debt_bytes",
    "value_retired_segments",
    "value_retired_bytes",
    "redirects",
    "redirect_bytes",
];
const COUNTERS: [&str; 14] = [
    "value_writes_total",
    "value_syncs_total",
    "value_reads_total",
    "value_read_bytes_total",
    "collections_total",
    "collected_segments_total",
    "failed_collections_total",
    "collection_read_bytes_total",
    "value_survivors_total",
    "value_survivor_bytes_total",
    "value_dropped_total",
    "value_dropped_bytes_total",
    "value_wholly_dead_segments_total",
    "value_wholly_dead_bytes_total",
];
const SHARES: [&str; 5] = ["0", "0.25", "0.5", "0.75", "1"];

fn by_dead(share: &str) -> String {
    format!("value_segments_by_dead{{share=\"{share}\"}}")
}

/// Writes and overwrites until segments were collected and others were wholly dead. Leaves one dead
/// value, for which nothing is collected, and reads each key. Answers how often it wrote.
fn work(db: &firn::Db, client: &mut Client) -> u64 {
    let (mut random, mut writes) = (fastrand::Rng::with_seed(1), 0);
    // Nothing of these lives when they are drained.
    for key in 0..KEYS {
        assert_eq!(client.call(&[b"SET", format!("key:{key}").as_bytes(), &[b'0'; VALUE_BYTES]]), ok());
        writes += 1;
    }
    for round in 0.. {
        assert!(round < 100, "nothing is collected: {:?}", db.stats().tree.expect("a tree").values);
        for key in 0..KEYS {
            if round == 0 || random.u32(0..3) == 0 {
                let value = vec![b'a' + round as u8 % 26; VALUE_BYTES];
                assert_eq!(client.call(&[b"SET", format!("key:{key}").as_bytes(), &value]), ok());
                writes += 1;
            }
        }
        db.flush().expect("a flush");
        db.wait_idle().expect("it rests");
        let values = db.stats().tree.expect("a tree").values;
        if values.collection_count > 2 && values.redirect_count > 0 {
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
fn values_beside_the_tree_are_told_and_add_up() {
    let db = firn::Db::builder("served").storage(Arc::new(Memory::new())).settings(settings());
    let db = Arc::new(db.open().unwrap());
    let serve = ServeSettings { threads: 1, port: 0, http: Some(ANYWHERE), ..ServeSettings::default() };
    let server = Server::start(Arc::clone(&db), serve).unwrap();
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
    let told = found.keys().filter(|name| name.starts_with("value_")).cloned();
    let known = GAUGES.into_iter().chain(COUNTERS).filter(|name| name.starts_with("value_"));
    let mut known: Vec<String> = known.map(str::to_owned).chain(SHARES.map(by_dead)).collect();
    known.sort_unstable();
    assert!(told.eq(known), "{text}");
    let zero = ["value_retired_segments", "value_retired_bytes", "failed_collections_total"];
    let any = ["value_stale_references", "value_hidden_bytes", "value_debt_bytes"];
    for name in GAUGES.into_iter().chain(COUNTERS) {
        let plausible = any.contains(&name) || (of(name) == 0.0) == zero.contains(&name);
        assert!(plausible, "{name} is {}", of(name));
    }
    // Of values that are all of one length, and of what is around them.
    let record = |name: &str| of(&format!("value_{name}_bytes_total")) / of(&format!("value_{name}s_total"));
    assert_eq!(record("survivor"), of("value_dropped_bytes_total") / of("value_dropped_total"));
    assert!((VALUE_BYTES as f64..VALUE_BYTES as f64 + 100.0).contains(&record("survivor")), "{text}");
    assert_eq!(record("read"), record("survivor"));
    let reads = of("value_reads_total");
    // Others count keys for the metrics.
    assert!(reads > (KEYS - 61) as f64, "all but the last 61 at most: {reads}");
    // What was collected is what was copied and what was left behind.
    let values = of("value_survivor_bytes_total") + of("value_dropped_bytes_total");
    let read = of("collection_read_bytes_total");
    assert!(values <= read && values > 0.9 * read, "{values} of {read}");
    let written = of("write_bytes_total{by=\"collection\"}");
    assert!(written >= of("value_survivor_bytes_total") && written < read, "{written} of {read}");
    let came = of("write_bytes_total{by=\"values\"}");
    assert_eq!(of("value_writes_total"), writes as f64);
    assert!(came >= (writes * VALUE_BYTES as u64) as f64, "{came} of {writes} values");
    let segments = of("value_segments") + of("collected_segments_total") - of("collections_total");
    let sealed = segments + of("value_wholly_dead_segments_total") - 1.0;
    assert!(of("value_syncs_total") >= sealed, "each is synced as it is sealed: {text}");
    let whole = of("value_wholly_dead_bytes_total") / of("value_wholly_dead_segments_total");
    assert!(whole > (KEYS * VALUE_BYTES) as f64 / 100.0 && whole < (256 << 10) as f64, "{whole} bytes each");
    assert!(of("collected_segments_total") > of("collections_total"), "{text}");
    assert!(of("value_dropped_bytes_total") < came, "no value goes twice");
    let (all, dead) = (of("value_segment_bytes"), of("value_dead_bytes"));
    assert!(dead < all && all - dead > (KEYS * VALUE_BYTES) as f64, "{dead} of {all}");
    assert!(all < came + written);
    let shares = SHARES.map(|share| of(&by_dead(share)));
    let sealed: f64 = shares.iter().sum();
    assert!(
        sealed <= of("value_segments") && sealed + 1.0 >= of("value_segments"),
        "one is being written to"
    );
    assert!(shares[1..].iter().sum::<f64>() > 0.0, "some have dead values: {shares:?}");
    assert_eq!(of("jobs_total{kind=\"collection\",place=\"here\"}"), of("collections_total"));
    let of_stage = |kind: &str, stage: &str| {
        of(&format!("job_stage_seconds_count{{kind=\"{kind}\",stage=\"{stage}\"}}"))
    };
    for kind in ["relief", "compaction", "collection"] {
        let jobs = of(&format!("jobs_total{{kind=\"{kind}\",place=\"here\"}}"));
        assert_eq!(of_stage(kind, "here"), jobs, "all jobs of kind {kind} ran here");
    }
    assert!(of_stage("relief", "here") > 0.0, "{text}");
    assert_eq!(of_stage("collection", "commit"), of("collections_total"));
    is_told_by_info_too(client, &of);
    server.stop().unwrap();
}

fn is_told_by_info_too(client: &mut Client, of: &dyn Fn(&str) -> f64) {
    let Value::Bulk(info) = client.say("INFO firn") else { panic!("a text") };
    let info = String::from_utf8(info).expect("a text");
    let told = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
    };
    for (name, metric) in [
        ("value_segment_count", "value_segments"),
        ("value_segment_bytes", "value_segment_bytes"),
        ("value_dead_bytes", "value_dead_bytes"),
        ("value_retired_count", "value_retired_segments"),
        ("value_retired_bytes", "value_retired_bytes"),
        ("value_write_count", "value_writes_total"),
        ("value_write_bytes_total", "write_bytes_total{by=\"values\"}"),
        ("value_sync_count", "value_syncs_total"),
        ("value_read_count", "value_reads_total"),
        ("value_read_bytes_total", "value_read_bytes_total"),
        ("redirect_count", "redirects"),
        ("redirect_bytes", "redirect_bytes"),
        ("collection_count", "collections_total"),
        ("collected_segment_count", "collected_segments_total"),
        ("collection_failure_count", "failed_collections_total"),
        ("collection_read_bytes_total", "collection_read_bytes_total"),
        ("collection_write_bytes_total", "write_bytes_total{by=\"collection\"}"),
        ("value_survivor_count", "value_survivors_total"),
        ("value_survivor_bytes_total", "value_survivor_bytes_total"),
        ("value_dropped_count", "value_dropped_total"),
        ("value_dropped_bytes_total", "value_dropped_bytes_total"),
        ("value_wholly_dead_count", "value_wholly_dead_segments_total"),
        ("value_wholly_dead_bytes_total", "value_wholly_dead_bytes_total"),
    ] {
        assert_eq!(told(name).parse::<f64>().expect("a number"), of(metric), "{name}");
    }
    let commits = of("job_stage_seconds_count{kind=\"collection\",stage=\"commit\"}");
    assert!(told("jobs_collection_commit").starts_with(&format!("count={commits},us_total=")), "{info}");
    let shares = SHARES.map(|share| format!("le_{share}={}", of(&by_dead(share))));
    assert_eq!(told("value_segments_by_dead"), shares.join(","));
}
