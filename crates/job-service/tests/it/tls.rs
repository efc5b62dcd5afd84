//! Connections that are encrypted, and connections that do not come about.

use std::sync::Arc;

use firn_engine::Semantics;
use firn_job_service::{
    AdminClient, Authorities, ClientTls, ControlPlane, ControlPlaneOptions, Identity, ServerTls, SharedToken,
};
use rcgen::CertificateParams;

use crate::authority::{Authority, HERE, Signed, here, pem};
use crate::scene::{Scene, any_port, check, done_by, write};

/// A control plane that shows `identity`, and asks for certificates of `clients`.
fn plane(scene: &Scene, tls: Option<(Identity, Option<&Authority>)>) -> ControlPlane {
    let tls =
        tls.map(|(identity, clients)| ServerTls { identity, clients: clients.map(Authority::authorities) });
    let (address, token, seed) = (here(), SharedToken::none(), 1);
    let options =
        ControlPlaneOptions { address, token, tls, connections_max: 100, limits: Default::default(), seed };
    ControlPlane::start(&options, Arc::clone(&scene.clock), &scene.spawn).unwrap()
}

/// A client that believes `authority` and shows `identity`.
fn client(authority: Option<&Authority>, identity: Option<Identity>) -> ClientTls {
    ClientTls { authorities: authority.map(Authority::authorities), identity, source: None }
}

/// What is said of a look at `plane`; empty = there is an answer.
fn look(scene: &Scene, scheme: &str, plane: &ControlPlane, tls: &ClientTls) -> String {
    let url = format!("{scheme}://{}", plane.address());
    let client = AdminClient::at(&url, &scene.token, tls, &scene.spawn);
    client.and_then(|client| client.list()).err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn jobs_are_done_where_everybody_shows_a_certificate() {
    let mut scene = Scene::new();
    let authority = Authority::new("ours");
    (scene.server_tls, scene.tls) = (Some(authority.server()), authority.client());
    let plane = scene.plane(here());
    let at = [plane.address()];
    let worker = scene.worker("one", &at, Semantics::new());
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(1));
    write(&db, &mut model, random, 4000);
    db.wait_idle().unwrap();
    check(&db, &model);
    assert_eq!(db.stats().jobs_passed_on_count, 0, "{:?}", db.stats());
    assert!(done_by(&scene.look(at[0]))["one"] > 0);
    assert!(worker.troubles().is_empty(), "{:?}", worker.troubles());
    let identities = format!("{:?} {:?}", scene.tls, scene.server_tls);
    assert!(identities.contains("Identity(..)") && !identities.contains("PRIVATE"), "{identities}");
}

#[test]
fn what_keeps_two_sides_apart_is_said_with_what_to_do() {
    let scene = Scene::new();
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let plain = plane(&scene, None);
    let shown = plane(&scene, Some((ours.identity(HERE), None)));
    let elsewhere = plane(&scene, Some((ours.identity("elsewhere.example"), None)));
    let old = {
        let mut params = CertificateParams::new(vec![HERE.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        plane(&scene, Some((ours.sign_as(&params).identity(), None)))
    };
    let both = plane(&scene, Some((ours.identity(HERE), Some(&ours))));
    let nothing = ClientTls::default();
    let believing = client(Some(&ours), None);
    let known = ours.client();
    let stranger = client(Some(&ours), Some(others.identity("somebody")));
    for (scheme, plane, tls) in [
        ("http", &plain, &nothing),
        ("https", &shown, &believing),
        ("https", &shown, &known),
        ("https", &both, &known),
    ] {
        assert_eq!(look(&scene, scheme, plane, tls), "", "{scheme}://{}", plane.address());
    }
    let cases: [(&str, &ControlPlane, ClientTls, &[&str]); 9] = [
        (
            "http",
            &shown,
            nothing.clone(),
            &["closed the connection", "started with --tls-cert, say https://"],
        ),
        ("https", &plain, believing.clone(), &["does not speak TLS", "say http://", "--tls-key"]),
        ("https", &shown, client(Some(&others), None), &["UnknownIssuer", "--control-plane-ca"]),
        // No system believes an authority that was made just now.
        ("https", &shown, nothing, &["--control-plane-ca"]),
        (
            "https",
            &elsewhere,
            believing.clone(),
            &["only valid for", "elsewhere.example", "a name that is in"],
        ),
        ("https", &old, believing.clone(), &["certificate expired", "a certificate that is valid"]),
        (
            "https",
            &both,
            believing.clone(),
            &["--tls-client-ca", "give a certificate with --control-plane-cert"],
        ),
        ("https", &both, stranger, &["its --tls-client-ca must have signed", "--control-plane-cert"]),
        (
            "http",
            &plain,
            believing,
            &["is talked with unencrypted, and certificates are given: say https://"],
        ),
    ];
    for (scheme, plane, tls, expected) in &cases {
        // Which side hears what first is a matter of luck.
        for _ in 0..10 {
            let said = look(&scene, scheme, plane, tls);
            let lacking: Vec<_> = expected.iter().filter(|words| !said.contains(**words)).collect();
            assert!(lacking.is_empty() && said.contains(&plane.address().to_string()), "{lacking:?}: {said}");
        }
    }
}

#[test]
fn a_database_whose_control_plane_is_not_believed_works_alone_and_says_why() {
    let mut scene = Scene::new();
    scene.server_tls = Some(ServerTls { identity: Authority::new("theirs").identity(HERE), clients: None });
    scene.tls = client(Some(&Authority::new("ours")), None);
    let plane = scene.plane(here());
    let at = [plane.address()];
    let worker = scene.worker("one", &at, Semantics::new());
    let db = scene.open(&at);
    let mut model = vec![None; 500];
    write(&db, &mut model, &mut fastrand::Rng::with_seed(1), 3000);
    db.wait_idle().unwrap();
    check(&db, &model);
    let stats = db.stats();
    assert!(stats.jobs_passed_on_count > 0, "{stats:?}");
    let reason = stats.jobs_passed_on_reason.unwrap();
    assert!(reason.contains("UnknownIssuer") && reason.contains("--control-plane-ca"), "{reason}");
    scene.wait_until(|| !worker.troubles().is_empty());
    assert!(worker.troubles()[&scene.url(at[0])].contains("--control-plane-ca"), "{:?}", worker.troubles());
}

#[test]
fn a_control_plane_that_was_heard_and_is_gone_is_no_matter_of_certificates() {
    let mut scene = Scene::new();
    let plane = scene.plane(any_port());
    let at = [plane.address()];
    let worker = scene.worker("one", &at, Semantics::new());
    scene.wait_until(|| !scene.look(at[0]).workers.is_empty());
    drop(plane);
    scene.wait_until(|| !worker.troubles().is_empty());
    assert!(!worker.troubles()[&scene.url(at[0])].contains("--tls-cert"), "{:?}", worker.troubles());
}

#[test]
fn files_that_are_none_are_refused_before_anybody_connects() {
    let authority = Authority::new("ours");
    let (Signed { certificate, key }, other) = (authority.sign(HERE), authority.sign(HERE));
    let broken = pem("cert.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let hollow = pem("cert.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let odd = pem("key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let locked =
        pem("key.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let cases = [
        (&key, &key, "cert.pem: expected a certificate in PEM"),
        (&certificate, &certificate, "key.pem: expected a private key in PEM"),
        (&broken, &key, "cert.pem: is not PEM"),
        (&hollow, &key, "cert.pem: its first certificate cannot be read"),
        (&certificate, &odd, "key.pem: cannot be used"),
        (&certificate, &locked, "without a passphrase"),
        (&certificate, &other.key, "key.pem: is not the key of the first certificate in cert.pem"),
    ];
    for (chain, key, expected) in cases {
        let (chain, key) = (pem("cert.pem", as_text(chain)), pem("key.pem", as_text(key)));
        let error = Identity::new(&chain, &key).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for (file, expected) in [(&key, "found none"), (&broken, "is not PEM"), (&hollow, "cannot be read")] {
        let error = Authorities::new(file).unwrap_err().to_string();
        assert!(error.starts_with(&file.name) && error.contains(expected), "{expected}: {error}");
    }
    assert!(!format!("{key:?}").contains("PRIVATE"), "{key:?}");
}

fn as_text(pem: &firn_job_service::Pem) -> &str {
    std::str::from_utf8(&pem.text).unwrap()
}
