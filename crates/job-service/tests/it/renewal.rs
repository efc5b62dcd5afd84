//! Certificates that are renewed while all processes run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firn_engine::Semantics;
use firn_job_service::{ClientTls, ClientTlsSource};
use firn_storage::{Error, ErrorKind, Result};

use crate::authority::{Authority, here};
use crate::scene::{Scene, check, done_by, write};

/// Files that are written while clients run; `None` = they are half written.
#[derive(Debug)]
struct Files(Mutex<Option<ClientTls>>);

impl ClientTlsSource for Files {
    fn look(&self) -> Result<ClientTls> {
        let now = self.0.lock().unwrap().clone();
        now.ok_or_else(|| Error::new(ErrorKind::Invalid, "", "half.pem: is not PEM"))
    }
}

#[test]
fn a_control_plane_shows_its_renewed_certificate_to_whoever_comes_and_keeps_who_is_there() {
    let mut scene = Scene::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    (scene.server_tls, scene.tls) = (Some(old.server()), old.client());
    let plane = scene.plane(here());
    let at = [plane.address()];
    let worker = scene.worker("one", &at, Semantics::new());
    scene.wait_until(|| !scene.look(at[0]).workers.is_empty());
    scene.tls = new.client();
    assert!(scene.try_look(at[0]).unwrap_err().to_string().contains("UnknownIssuer"));
    plane.renew(&new.server()).unwrap();
    assert_eq!(scene.look(at[0]).workers.len(), 1);
    scene.tls = old.client();
    assert!(scene.try_look(at[0]).unwrap_err().to_string().contains("UnknownIssuer"));
    // Longer than a lease, so that it has been heard since.
    scene.clock.sleep(Duration::from_millis(2500));
    scene.tls = new.client();
    let row = &scene.look(at[0]).workers[0];
    assert!(row.quiet_ms < 2000 && worker.troubles().is_empty(), "{row:?} {:?}", worker.troubles());
}

#[test]
fn clients_take_what_was_renewed_when_they_connect_anew_and_keep_what_they_have_while_it_is_broken() {
    let mut scene = Scene::new();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let files = Arc::new(Files(Mutex::new(Some(old.client()))));
    scene.server_tls = Some(old.server());
    scene.tls = ClientTls { source: Some(Arc::clone(&files) as Arc<dyn ClientTlsSource>), ..old.client() };
    let plane = scene.plane(here());
    let at = [plane.address()];
    let worker = scene.worker("one", &at, Semantics::new());
    let db = scene.open(&at);
    let (mut model, random) = (vec![None; 1000], &mut fastrand::Rng::with_seed(1));
    write(&db, &mut model, random, 4000);
    db.wait_idle().unwrap();
    let away = db.stats().jobs_passed_on_count;
    assert!(done_by(&scene.look(at[0]))["one"] > 0 && away == 0);
    // While the files are half written the old ones do.
    *files.0.lock().unwrap() = None;
    drop(plane);
    let plane = scene.plane(at[0]);
    scene.wait_until(|| !scene.look(at[0]).workers.is_empty());
    drop(plane);
    scene.server_tls = Some(new.server());
    let _plane = scene.plane(at[0]);
    let url = scene.url(at[0]);
    let trouble = || worker.troubles().get(&url).cloned().unwrap_or_default();
    let complaint = "what was renewed is not used: half.pem: is not PEM";
    scene.wait_until(|| trouble().contains("UnknownIssuer") && trouble().contains(complaint));
    *files.0.lock().unwrap() = Some(new.client());
    scene.wait_until(|| worker.troubles().is_empty());
    // The database finds its way back as well, sooner or later.
    scene.tls = new.client();
    while !done_by(&scene.look(at[0])).contains_key("one") {
        write(&db, &mut model, random, 500);
        db.wait_idle().unwrap();
    }
    check(&db, &model);
}
