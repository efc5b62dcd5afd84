//! The pages that `firn serve` and `firn control-plane` show by HTTP, in a real browser.

#![expect(clippy::disallowed_methods, reason = "the server runs in real time")]

use std::process::{Child, Command, Stdio};

use crate::job_service::Scene;
use crate::rounds;
use crate::serve::Serving;

/// Browsers that are tried, in this order.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The page as the browser has it some seconds after `address` was opened.
fn rendered(address: &str) -> String {
    let arguments =
        ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom"];
    let output =
        BROWSERS.iter().find_map(|browser| Command::new(browser).args(arguments).arg(address).output().ok());
    let output = output.expect("one of the browsers is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs a browser and redis-benchmark; the full tier runs it"]
fn it_shows_what_the_server_does() {
    let dir = tempfile::tempdir().unwrap();
    let settings = dir.path().join("settings.toml");
    std::fs::write(&settings, "[tree]\nseparate_bytes = 1000\n").unwrap();
    let arguments = ["--http-port", "0", "--config", settings.to_str().unwrap()];
    let serving = Serving::start_with(&arguments, &dir.path().join("database"));
    let address = serving.http.clone().expect("it answers by HTTP");
    let port = serving.address.rsplit(':').next().unwrap();
    let mut load = Command::new("redis-benchmark");
    load.args(["-p", port, "-n", "100000000", "-c", "4", "-r", "1000", "-d", "2000", "-t", "set", "-q"]);
    let load = Load(load.stdout(Stdio::null()).spawn().expect("redis-benchmark is installed"));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let page = rendered(&address);
    drop(load);
    assert!(page.contains(r#"<span id="state" role="status" class="good">serving</span>"#), "{page}");
    assert!(page.contains("<td>set</td>"), "{page}");
    // What a second look finds more than the first one: a rate, and a latency.
    let value = |title: &str| {
        let after = page.split(&format!("<h2>{title}</h2><div class=\"value\">")).nth(1);
        after.and_then(|rest| rest.split('<').next()).unwrap_or_else(|| panic!("no {title} in {page}"))
    };
    assert!(!["0", "–"].contains(&value("Commands a second")), "nothing was done in {page}");
    assert!(value("Latency p99").ends_with('s') && value("Latency p99") != "0 s", "{page}");
    assert_eq!(value("Clients"), "4");
    assert!(page.contains("<polyline points=\"1"), "a line is drawn: {page}");
    // Values are separated.
    for what in [
        "segments",
        "sealed ones by dead share",
        "gone, files held",
        "relocations",
        "written so far",
        "read so far",
        "left behind by them",
        "gone without them",
    ] {
        assert!(page.contains(&format!("<td>{what}</td>")), "no row of {what} in {page}");
    }
    assert!(page.contains("<td>none:&nbsp;"), "segments without dead values: {page}");
    serving.end();
}

#[test]
#[ignore = "needs a browser; the full tier runs it"]
fn a_control_plane_shows_its_workers_and_what_they_have_done() {
    let mut scene = Scene::new(false);
    scene.of_planes = ["--http-port", "0"].map(str::to_owned).to_vec();
    let plane = scene.plane();
    let address =
        plane.1.split("HTTP at ").nth(1).and_then(|rest| rest.split(';').next()).expect("it says where");
    let page = rendered(address);
    assert!(page.contains(r#"class="bad">no worker is there</span>"#), "{page}");
    assert!(page.contains("<td>none has been heard of</td>") && page.contains("<td>empty</td>"), "{page}");
    let _worker = scene.worker("the-only-one");
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    (0..20).for_each(|round| rounds::put(&mut client, 0..2000, round));
    let page = rendered(address);
    assert!(page.contains(r#"class="good">giving out jobs</span>"#), "{page}");
    assert!(page.contains("<td>the-only-one</td>") && page.contains("<td>ready</td>"), "{page}");
    assert!(page.contains("<td>done</td>"), "a job that has ended: {page}");
    serving.end();
}
