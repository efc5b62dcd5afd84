//! Databases whose shared directory is full, or may not be written in, while workers run jobs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::bad_store::{Busy, status};
use crate::job_service::Scene;
use crate::program::{say_left_out, text};
use crate::small_disk::SmallDisk;

/// How long it is bad, at least.
const MEANWHILE: Duration = Duration::from_secs(4);

/// A database with a log of its own, whose tables and values lie in `directory`, a control plane
/// and a worker.
fn busy(directory: &Path) -> Busy {
    let mut scene = Scene::new(false);
    scene.location = text(directory).to_owned();
    Busy::on(scene, "process")
}

/// Writes until it is said why nothing can be written there, with each of `words`; what is taken is
/// found later.
fn goes_on_meanwhile(busy: &mut Busy, words: &[&str]) {
    let (mut client, began) = (busy.client(), Instant::now());
    let (mut taken, mut why) = (0, String::new());
    while began.elapsed() < MEANWHILE || !words.iter().all(|word| why.contains(word)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{why:?} is no reason");
        match busy.write_more(&mut client) {
            Ok(()) => taken += 1,
            Err(text) => assert!(words.iter().all(|word| text.contains(word)), "{text}"),
        }
        std::thread::sleep(Duration::from_millis(10));
        why = status(&mut client, "background_refusal");
    }
    assert!(taken >= 10, "{taken} taken");
}

#[test]
fn a_shared_directory_that_is_full_is_waited_for() {
    let Some(disk) = SmallDisk::mount(256 << 20) else { return };
    let ballast = disk.path().join("ballast");
    let mut busy = busy(&disk.path().join("db"));
    busy.wait_for_room();
    // As much as fits.
    let mut file = std::fs::File::create(&ballast).expect("made");
    while std::io::Write::write_all(&mut file, &[1; 64 << 10]).is_ok() {}
    // Or its bytes would stay after it.
    drop(file);
    goes_on_meanwhile(&mut busy, &["free", "space"]);
    busy.heals_once(|_| std::fs::remove_file(&ballast).expect("removed"));
}

/// A directory in which not even root makes a file, until it is dropped.
struct Closed(PathBuf);

impl Closed {
    fn close(directory: &Path) -> Option<Self> {
        let changed = Command::new("chattr").arg("+i").arg(directory).output();
        if changed.as_ref().is_ok_and(|output| output.status.success()) {
            return Some(Self(directory.to_owned()));
        }
        say_left_out(&format!(
            "a directory that nobody may write in, since chattr +i was refused: {changed:?}"
        ));
        None
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        let changed = Command::new("chattr").arg("-i").arg(&self.0).status();
        assert!(changed.is_ok_and(|it| it.success()) || std::thread::panicking(), "{}", self.0.display());
    }
}

#[test]
fn a_shared_directory_that_nobody_may_write_in_is_waited_for() {
    let place = tempfile::tempdir().expect("a directory");
    let shared = place.path().join("db");
    let mut busy = busy(&shared);
    busy.wait_for_room();
    let Some(closed) = Closed::close(&shared) else { return };
    goes_on_meanwhile(&mut busy, &["not permitted"]);
    busy.heals_once(|_| drop(closed));
}
