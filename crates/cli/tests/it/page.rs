//! The pages that `firn serve` and `firn control-plane` show by HTTP, in a real browser.

#![expect(clippy::disallowed_methods, reason = "the server runs in real time")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::job_service::Scene;
use crate::rounds;
use crate::serve::Serving;

/// Browsers that are tried, in this order.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The page as the browser has it some seconds after `address` was opened.
fn rendered(address: &str) -> String {
    browsed(&["--virtual-time-budget=4000"], address)
}

fn browsed(more: &[&str], address: &str) -> String {
    let profile = tempfile::tempdir().expect("a directory");
    let profile = format!("--user-data-dir={}", profile.path().display());
    let arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", &profile];
    let run = |browser: &&str| Command::new(browser).args(arguments).args(more).arg(address).output().ok();
    let output = BROWSERS.iter().find_map(run).expect("one of the browsers is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A page with the one at its `#`, as wide as a desk's and as a phone's screen: with its text,
/// since no page lets itself be framed. After a few looks it says how wide what is in each is, and
/// how much room there was.
const FRAMES: &str = r#"<!doctype html><title>widths</title><body><script>
const address = location.hash.slice(1);
const text = fetch(address).then(answer => answer.text());
for (const width of [1280, 390]) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  text.then(text => { frame.srcdoc = text.replace("<head>", `<head><base href="${address}/">`); });
  document.body.append(frame);
}
setTimeout(() => {
  for (const frame of document.querySelectorAll("iframe")) {
    const said = document.createElement("p");
    const inside = frame.contentDocument;
    said.textContent = `${inside.documentElement.scrollWidth} of ${frame.contentWindow.innerWidth}: ${inside.body.innerText}`;
    document.body.append(said);
  }
}, 5000);
</script>"#;

/// What a person sees of the page at `address`, on a desk's screen and on a phone's.
///
/// # Panics
/// If a part of it is wider than the screen.
fn seen(address: &str) -> [String; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let frames = format!("http://{}/#{address}", listener.local_addr().expect("an address"));
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it is asked");
        let _asked = stream.read(&mut [0; 4096]).expect("it is read");
        let head =
            format!("HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n", FRAMES.len());
        stream.write_all((head + FRAMES).as_bytes()).expect("it is sent");
    });
    // A page of another origin is fetched.
    let looks = ["--disable-web-security", "--disable-site-isolation-trials", "--virtual-time-budget=8000"];
    let page = browsed(&looks, &frames);
    serve.join().expect("it was served");
    let said: Vec<&str> = page.split("<p>").skip(1).filter_map(|said| said.split("</p>").next()).collect();
    let widths = said.iter().map(|said| {
        let (widths, text) = said.split_once(": ").expect("widths and a text");
        let (taken, room) = widths.split_once(" of ").expect("two widths");
        let [taken, room] = [taken, room].map(|width| width.parse::<u32>().expect("a width"));
        assert!(taken <= room, "{taken} pixels are taken and {room} are there: {text}");
        text.to_owned()
    });
    widths.collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("two screens: {page}"))
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
    assert!(page.contains(">set</td>"), "{page}");
    // What a second look finds more than the first one: a rate, and a latency.
    let value = |title: &str| {
        let after = page.split(&format!("<h2>{title}</h2><div class=\"value\">")).nth(1);
        after.and_then(|rest| rest.split('<').next()).unwrap_or_else(|| panic!("no {title} in {page}"))
    };
    assert!(!["0", "–"].contains(&value("Commands a second")), "nothing was done in {page}");
    let p99 = value("99 of 100 within");
    assert!(p99.ends_with('s') && p99 != "0 s", "{page}");
    assert_eq!(value("Clients"), "4");
    assert!(page.contains(" L1000.0 ") || page.contains("L1000.0 "), "a line is drawn: {page}");
    assert!(page.contains(">live data</td>") && page.contains(">preallocated</td>"), "{page}");
    // Values are separated.
    for what in [
        "segments",
        "full segments by obsolete share",
        "removed segments that readers still hold",
        "written so far",
        "read so far",
        "freed by them",
        "freed without them",
    ] {
        assert!(page.contains(&format!(">{what}</td>")), "no row of {what} in {page}");
    }
    assert!(page.contains(">none:&nbsp;"), "segments without obsolete values: {page}");
    for text in seen(&address) {
        assert!(text.contains("serving") && text.contains("Space on disk"), "{text}");
    }
    // A writer is held, and then all is well again.
    let mut client = rounds::connect(&serving.address);
    redis::cmd("CLIENT").arg(&["PAUSE", "600000", "WRITE"]).exec(&mut client).unwrap();
    let page = rendered(&address);
    assert!(
        page.contains(r#"class="bad">paused</span>"#) && page.contains("CLIENT PAUSE holds writes"),
        "{page}"
    );
    redis::cmd("CLIENT").arg("UNPAUSE").exec(&mut client).unwrap();
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
    assert!(page.contains(">none has been heard of") && page.contains(">no job waits</td>"), "{page}");
    let _worker = scene.worker("the-only-one");
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    (0..20).for_each(|round| rounds::put(&mut client, 0..2000, round));
    let page = rendered(address);
    assert!(page.contains(r#"class="good">giving out jobs</span>"#), "{page}");
    assert!(page.contains(">the-only-one</td>") && page.contains(">ready</td>"), "{page}");
    assert!(page.contains(">done</td>"), "a job that has ended: {page}");
    serving.end();
}

/// Jobs fail, and a worker is noticed to be gone, within this.
const TROUBLE_MAX: Duration = Duration::from_secs(60);

#[test]
#[ignore = "needs a browser; the full tier runs it"]
fn a_control_plane_is_readable_when_workers_fail_and_are_lost() {
    let mut scene = Scene::new(false);
    scene.of_planes = ["--http-port", "0"].map(str::to_owned).to_vec();
    let plane = scene.plane();
    let address =
        plane.1.split("HTTP at ").nth(1).and_then(|rest| rest.split(';').next()).expect("it says where");
    scene.location =
        scene.path("shared-under-a-name-that-is-quite-long-and-does-not-break-anywhere-by-itself");
    let elsewhere = scene.path("elsewhere");
    let location = std::mem::replace(&mut scene.location, elsewhere);
    let _failing = scene.worker("reaches-nothing");
    scene.location = location;
    let lost = scene.worker("is-lost");
    let serving = scene.serve();
    let mut client = rounds::connect(&serving.address);
    let states = |scene: &Scene| -> Vec<String> {
        scene.listed("workers").iter().map(|row| row["state"].as_str().unwrap().to_owned()).collect()
    };
    let begun = Instant::now();
    while !states(&scene).contains(&"failing".to_owned()) {
        assert!(begun.elapsed() < TROUBLE_MAX, "{:?}", scene.listed("workers"));
        (0..3).for_each(|round| rounds::put(&mut client, 0..2000, round));
    }
    drop(lost);
    while !states(&scene).contains(&"lost".to_owned()) {
        assert!(begun.elapsed() < TROUBLE_MAX, "{:?}", scene.listed("workers"));
        std::thread::sleep(Duration::from_millis(100));
    }
    for text in seen(address) {
        let wanted =
            ["reaches-nothing", "failing", "lost is-lost", "does-not-break-anywhere-by-itself", "within"];
        for wanted in wanted {
            assert!(text.contains(wanted), "no {wanted} in {text}");
        }
    }
    serving.end();
}
