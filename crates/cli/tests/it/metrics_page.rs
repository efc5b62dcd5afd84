//! The page of metrics: what the three programs say of their own.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::job_service::{Process, Scene};
use crate::program::text;
use crate::rounds;
use crate::serve::Serving;
use crate::service_http::{get, get_at};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");

/// A metric: its name, kind, what it is, and its labels as far as there are samples.
struct Family {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// The metrics of one answer, in its order: some say what they are of the one before.
fn families(answer: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in answer.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let (name, help) = (name.to_owned(), help.to_owned());
            families.push(Family { name, kind: String::new(), help, labels: BTreeSet::new() });
            continue;
        }
        // What follows is of the metric whose help was last.
        let Some(family) = families.last_mut() else { continue };
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kind.clone_into(&mut family.kind);
        } else if let Some((_, rest)) = line.split_once('{') {
            let names = rest.split("=\"").filter_map(|part| part.rsplit(['{', ',', '"']).next());
            let labels = names.filter(|name| *name != "le" && !name.contains(['}', ' ']) && !name.is_empty());
            family.labels.extend(labels.map(str::to_owned));
        }
    }
    families
}

/// A table of these.
fn push_table(page: &mut String, title: &str, families: &[Family]) {
    let _ = write!(page, "\n## {title}\n\n| metric | kind | labels | what it is |\n|---|---|---|---|\n");
    for Family { name, kind, help, labels } in families {
        let labels: String = labels.iter().flat_map(|label| [label, " "]).collect();
        let _ = writeln!(page, "| `{name}` | {kind} | {labels}| {help} |");
    }
}

/// What `serving` says once it has samples of keys and errors.
fn of_server(serving: &Serving) -> Vec<Family> {
    let mut client = rounds::connect(&serving.address);
    rounds::put(&mut client, 0..10, 0);
    let refused: redis::RedisResult<()> = redis::cmd("XLEN").arg("no stream").query(&mut client);
    assert!(refused.is_err(), "there are no streams");
    let http = serving.http.as_deref().expect("it answers").trim_end().trim_start_matches("http://");
    let since = Instant::now();
    loop {
        let answer = get_at(http, "/metrics").1;
        if answer.contains("\nfirn_keys{") || since.elapsed() > Duration::from_secs(30) {
            return families(&answer);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_page_of_metrics_is_what_programs_say() {
    let mut scene = Scene::new(false);
    let http = ["--http-port", "0"].map(str::to_owned);
    (scene.of_planes, scene.of_workers) = (http.to_vec(), http.to_vec());
    let plane = scene.plane();
    let worker = scene.worker("one");
    let of = |process: &Process| families(&get(process, "/metrics").1);
    let path = |name: &str| scene.directory.path().join(name);
    let (shared, cache) = (path("elsewhere"), path("cache"));
    let options = ["--http-port", "0", "--shared", text(&shared), "--shared-cache", text(&cache)];
    let serving = Serving::start_with(&options, &path("log"));

    let mut page = String::from(
        "# Metrics\n\n\
         What `/metrics` answers, made from the answers themselves: `UPDATE_EXPECT=1 cargo test -p firn-cli --test it\n\
         metrics_page` renews it. [Monitoring](../operate/monitoring.md) says which of them matter, and what deserves an\n\
         alarm.\n\n\
         Names that end in `_total` are counters since the start of the process. Sizes are bytes, times seconds. A\n\
         histogram has buckets by powers of two.\n",
    );
    let of_all = of_server(&serving);
    let hashed = Serving::start_with(&["--http-port", "0", "--engine", "hashlog"], &path("hashed"));
    let mut of_hashed = of_server(&hashed);
    of_hashed.retain(|family| of_all.iter().all(|other| other.name != family.name));
    push_table(&mut page, "Of a server", &of_all);
    push_table(&mut page, "Of a server of the engine hashlog, besides", &of_hashed);
    push_table(&mut page, "Of a control plane", &of(&plane));
    push_table(&mut page, "Of a worker", &of(&worker));
    serving.end();
    hashed.end();

    if is_updating() {
        std::fs::write(PAGE, &page).expect("written");
    }
    let committed = std::fs::read_to_string(PAGE).expect("docs/reference/metrics.md");
    assert_eq!(committed, page, "docs/reference/metrics.md differs; UPDATE_EXPECT=1 renews it");
}

fn is_updating() -> bool {
    std::env::var("UPDATE_EXPECT").is_ok_and(|value| value == "1")
}
