//! Control plane, workers and database that talk encrypted, and what is said where that cannot be.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::job_service::Scene;
use crate::program::{firn, text, write_secret};
use crate::rounds;

type Authority = Issuer<'static, KeyPair>;

/// Puts NAME-ca.pem of a new CA into `directory`.
fn authority(directory: &Path, name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("signed").pem();
    std::fs::write(directory.join(format!("{name}-ca.pem")), certificate).expect("written");
    Issuer::new(params, key)
}

/// Puts NAME.pem and NAME.key into the directory of `scene`: a new certificate for its control
/// plane.
fn sign(authority: &Authority, scene: &Scene, name: &str) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![scene.host.to_string()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("signed").pem();
    // One test gives it for the key, of which nothing is to be told but that.
    write_secret(scene.path(&format!("{name}.pem")), &certificate);
    write_secret(scene.path(&format!("{name}.key")), &key.serialize_pem());
}

/// A scene with certificates of the CAs `ours`, which comes too, and `others`; no process is told
/// of them yet.
fn scene() -> (Scene, Authority) {
    let scene = Scene::new(false);
    let directory = scene.directory.path();
    let [ours, others] = ["ours", "others"].map(|name| authority(directory, name));
    sign(&ours, &scene, "ours");
    sign(&others, &scene, "others");
    (scene, ours)
}

/// Options and files of the scene, one after the other.
fn options(scene: &Scene, pairs: &[(&str, &str)]) -> Vec<String> {
    pairs.iter().flat_map(|(option, file)| [(*option).to_owned(), scene.path(file)]).collect()
}

const OF_PLANES: [(&str, &str); 3] =
    [("--tls-cert", "ours.pem"), ("--tls-key", "ours.key"), ("--tls-client-ca", "ours-ca.pem")];
const OF_CLIENTS: [(&str, &str); 3] = [
    ("--control-plane-ca", "ours-ca.pem"),
    ("--control-plane-cert", "ours.pem"),
    ("--control-plane-key", "ours.key"),
];

/// A scene where every process shows a certificate; and the files of a client: the CA, a
/// certificate, its key.
pub(crate) fn encrypted() -> (Scene, Vec<String>) {
    let (mut scene, _) = scene();
    scene.of_planes = options(&scene, &OF_PLANES);
    scene.of_clients = options(&scene, &OF_CLIENTS);
    let files = OF_CLIENTS.iter().map(|(_, file)| scene.path(file)).collect();
    (scene, files)
}

/// Writes to a server until `is_enough`, and reads everything back.
fn write_until(address: &str, mut is_enough: impl FnMut(&mut redis::Connection) -> bool) {
    let mut client = rounds::connect(address);
    for round in 0..200 {
        rounds::put(&mut client, 0..2000, round);
        rounds::check(&mut client, &(0..2000).map(|key| (key, round)).collect(), "written just now");
        if is_enough(&mut client) {
            return;
        }
    }
    panic!("it is never enough");
}

#[test]
fn a_database_has_its_jobs_done_by_who_shows_a_certificate() {
    let (mut scene, _) = scene();
    scene.of_planes = options(&scene, &OF_PLANES);
    scene.of_clients = options(&scene, &OF_CLIENTS);
    let plane = scene.plane();
    let _worker = scene.worker("one");
    let serving = scene.serve();
    write_until(&serving.address, |_| scene.doers().contains("one"));
    // Everything is renewed, the CA too, while all run; each file for itself.
    let renewed = authority(scene.directory.path(), "ours");
    sign(&renewed, &scene, "ours");
    while scene.jobs(&["list"]).code != 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(scene.doers().contains("one"), "it was not started again");
    // Clients that were connected take the new ones when the connection is lost.
    drop(plane);
    let _plane = scene.plane();
    assert!(scene.doers().is_empty(), "it has forgotten");
    write_until(&serving.address, |_| scene.doers().contains("one"));
    serving.end();
    let bare = scene.url.replace("https", "http");
    firn(&["jobs", "--control-plane", &bare])
        .complained(1, &["if it was started with --tls-cert, say https://"]);
    let ca = scene.path("ours-ca.pem");
    let nobody = firn(&["jobs", "--control-plane", &scene.url, "--control-plane-ca", &ca]);
    nobody.complained(1, &["--control-plane-cert", "--tls-client-ca"]);
    scene.of_clients = options(&scene, &[("--control-plane-ca", "others-ca.pem")]);
    scene.jobs(&[]).complained(1, &["UnknownIssuer", "--control-plane-ca"]);
}

/// Whether a job was passed on to the database itself, which says why, with these `words`.
fn is_passed_on(client: &mut redis::Connection, words: &[&str]) -> bool {
    let info: String = redis::cmd("INFO").arg("firn").query(client).expect("a reply");
    let reason = info.lines().find_map(|line| line.strip_prefix("jobs_passed_on_reason:"));
    let reason = reason.filter(|reason| !reason.is_empty());
    assert!(reason.is_none_or(|reason| words.iter().all(|word| reason.contains(word))), "{reason:?}");
    reason.is_some()
}

#[test]
fn a_database_with_a_wrong_token_serves_and_says_why() {
    let mut scene = Scene::new(false);
    let _plane = scene.plane();
    let _worker = scene.worker("one");
    write_secret(scene.path("token"), "another-secret\n");
    let serving = scene.serve();
    write_until(&serving.address, |client| {
        is_passed_on(client, &["is not this control plane's", "--control-plane-token-file"])
    });
    serving.end();
    scene.jobs(&["list"]).complained(1, &["is not this control plane's", "--control-plane-token-file"]);
}

#[test]
fn a_database_that_does_not_believe_its_control_plane_serves_and_says_why() {
    let (mut scene, _) = scene();
    scene.of_planes = options(&scene, &OF_PLANES[..2]);
    scene.of_clients = options(&scene, &[("--control-plane-ca", "others-ca.pem")]);
    let _plane = scene.plane();
    let serving = scene.serve();
    write_until(&serving.address, |client| is_passed_on(client, &["UnknownIssuer", "--control-plane-ca"]));
    serving.end();
}

#[test]
fn without_a_ca_the_system_s_are_believed_and_with_one_they_are_not() {
    let (mut scene, _) = scene();
    scene.of_planes = options(&scene, &OF_PLANES[..2]);
    let _plane = scene.plane();
    let (ours, others) = (scene.path("ours-ca.pem"), scene.path("others-ca.pem"));
    let ask = |system: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.env("SSL_CERT_FILE", system).env("SSL_CERT_DIR", "/nowhere").args([
            "jobs",
            "--control-plane",
            &scene.url,
        ]);
        let output = command
            .args(["--control-plane-token-file", &scene.path("token")])
            .args(more)
            .output()
            .expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(ask(&ours, &[]).0, Some(0));
    let (code, said) = ask(&others, &[]);
    assert!(code == Some(1) && said.contains("UnknownIssuer"), "{said}");
    let (code, said) = ask(&ours, &["--control-plane-ca", &others]);
    assert!(code == Some(1) && said.contains("UnknownIssuer"), "{said}");
    let (code, said) = ask("/nowhere", &[]);
    assert!(
        code == Some(2) && said.contains("no native certs") && said.contains("--control-plane-ca"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_done() {
    let (scene, _) = scene();
    let file = |name: &str| scene.path(name);
    let plane = |arguments: &[&str]| firn(&[&["control-plane", "--port", "0"], arguments].concat());
    let half = plane(&["--tls-cert", &file("ours.pem")]);
    assert!(half.code == 2 && half.complaint.contains("--tls-key"), "{half:?}");
    let alone = plane(&["--tls-client-ca", &file("ours-ca.pem")]);
    assert!(alone.code == 2 && alone.complaint.contains("--tls-cert"), "{alone:?}");
    plane(&["--tls-cert", "/nowhere", "--tls-key", &file("ours.key")])
        .complained(2, &["cannot read /nowhere"]);
    let mixed = plane(&["--tls-cert", &file("ours.pem"), "--tls-key", &file("others.key")]);
    mixed.complained(2, &["others.key: is not the key of the first certificate in", "ours.pem"]);
    let swapped = plane(&["--tls-cert", &file("ours.key"), "--tls-key", &file("ours.pem")]);
    swapped.complained(2, &["ours.key: expected a certificate in PEM"]);
    let within = text(scene.directory.path());
    let ca = ["--control-plane-ca", &file("ours-ca.pem")];
    for command in [
        &["worker", "--within", within, "--control-plane"][..],
        &["jobs", "--control-plane"],
        &["serve", "--port", "0", "--dir", &file("db"), "--control-plane"],
    ] {
        let ask = |url: &str, more: &[&str]| firn(&[command, &[url], more].concat());
        ask("http://127.0.0.1:9", &ca).complained(2, &["certificates are given: say https://"]);
        let half = ["--control-plane-cert", &file("ours.pem")];
        ask("https://127.0.0.1:9", &half).complained(2, &["give both", "--control-plane-key"]);
        let none = ["--control-plane-ca", &file("token")];
        ask("https://127.0.0.1:9", &none).complained(2, &["token: expected a certificate in PEM"]);
        ask("127.0.0.1:9", &[]).complained(2, &["expected http://HOST:PORT or https://HOST:PORT"]);
    }
    let socket = firn(&[&["worker", "--socket", &file("socket")], &ca[..]].concat());
    socket.complained(2, &["needs no certificates", "--control-plane"]);
}

#[test]
fn a_token_that_others_can_read_is_warned_of() {
    let (scene, _) = scene();
    let token = scene.path("token");
    // No host has this address, so that none is asked.
    let cancel = |url: &str| {
        firn(&["jobs", "--control-plane", url, "--control-plane-token-file", &token, "cancel", "seven"])
    };
    let far = cancel("http://192.0.2.1:9");
    assert_eq!(far.code, 2);
    assert!(
        far.complaint.contains("goes to http://192.0.2.1:9 unencrypted")
            && far.complaint.contains("https://"),
        "{far:?}"
    );
    cancel("http://127.0.0.1:9").complained(2, &["expected a job"]);
    // Whether it listens, and its warnings, which come before it does.
    let listen = |more: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firn"));
        command.args(["control-plane", "--bind", "0.0.0.0", "--port", "0", "--http-port", "none"]).args(more);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it is read");
        process.kill().expect("it is killed");
        let output = process.wait_with_output().expect("it ends");
        (!line.is_empty(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (listens, said) = listen(&options(&scene, &[("--token-file", "token")]));
    assert!(listens && said.contains("the token goes there unencrypted"), "{said}");
    assert!(said.contains("--tls-cert"), "{said}");
    let quiet = (true, String::new());
    assert_eq!(listen(&options(&scene, &[&OF_PLANES[..2], &[("--token-file", "token")]].concat())), quiet);
    assert_eq!(listen(&options(&scene, &OF_PLANES)), quiet, "a certificate lets in as a token does");
    let (listens, open) = listen(&options(&scene, &OF_PLANES[..2]));
    assert!(!listens && open.contains("--token-file") && open.contains("--tls-client-ca"), "{open}");
}
