//! More connections than a control plane lets in.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use firn_job_service::{AdminClient, Connections};

use crate::scene::{Scene, any_port, url};

#[test]
fn who_comes_when_there_is_no_room_is_sent_away_and_let_in_once_there_is() {
    let mut scene = Scene::new();
    scene.connections_max = 2;
    let plane = scene.plane(any_port());
    let (at, watch) = (plane.address(), plane.watch());
    let client = || AdminClient::at(&url(at), &scene.token, &scene.tls, &scene.spawn).unwrap();
    let (first, second, third) = (client(), client(), client());
    first.list().unwrap();
    second.list().unwrap();
    assert_eq!(watch.connections(), Connections { open: 2, max: 2, refused: 0 });
    let (mut refused, begun) = (0, scene.clock.now());
    while refused < 3 {
        let said = third.list().unwrap_err().to_string();
        assert!(said.contains("--connections-max"), "{said}");
        let found = watch.connections();
        // A request may still go to a connection that was closed before, and be no other one.
        assert!(found.open == 2 && (refused..=refused + 1).contains(&found.refused), "{found:?}");
        assert!(scene.clock.now() - begun < Duration::from_secs(60), "{found:?}");
        refused = found.refused;
    }
    first.list().unwrap();
    drop(second);
    while watch.connections().open == 2 {
        scene.clock.sleep(Duration::from_millis(5));
    }
    third.list().unwrap();
}

#[test]
fn who_says_nothing_does_not_stay() {
    let mut scene = Scene::new();
    scene.connections_max = 2;
    let plane = scene.plane(any_port());
    let watch = plane.watch();
    let begun = scene.clock.now();
    let mut silent =
        [TcpStream::connect(plane.address()).unwrap(), TcpStream::connect(plane.address()).unwrap()];
    assert!(scene.try_look(plane.address()).is_err());
    for stream in &mut silent {
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "closed");
    }
    let waited = scene.clock.now() - begun;
    assert!((Duration::from_secs(4)..Duration::from_secs(20)).contains(&waited), "{waited:?}");
    // Held, as a connection is gone once it is dropped.
    let here = AdminClient::at(&url(plane.address()), &scene.token, &scene.tls, &scene.spawn).unwrap();
    here.list().unwrap();
    assert_eq!(watch.connections().open, 1);
}
