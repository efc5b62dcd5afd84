//! Connections that a client gave up, on which a server may still do what came.
//!
//! What came on two connections a server that stood still does in any order. A client that went on
//! at once could find what it had given up in place of what was acknowledged after it. So it waits
//! until the server has none of its connections of before: by then all that came on them is done.

use std::time::{Duration, Instant};

use redis::{ConnectionLike, RedisResult};

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(5);

fn name(client: u32) -> String {
    format!("client-{client}")
}

/// How many connections the server has on which `client` writes.
fn count(client: u32, connection: &mut impl ConnectionLike) -> RedisResult<usize> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query(connection)?;
    let name = format!(" name={} ", name(client));
    Ok(list.lines().filter(|line| line.contains(&name)).count())
}

/// Waits until the server has at most `count_max` of them; `false` if that takes longer than
/// `patience`.
fn wait_for(
    client: u32,
    count_max: usize,
    connection: &mut impl ConnectionLike,
    patience: Duration,
) -> RedisResult<bool> {
    let end = Instant::now() + patience;
    while count(client, connection)? > count_max {
        if Instant::now() > end {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(true)
}

/// Makes `connection` the one on which `client` writes. `false` if the server does not answer, or
/// still has another one after `patience`.
pub(super) fn take_over(client: u32, connection: &mut impl ConnectionLike, patience: Duration) -> bool {
    let named: RedisResult<()> = redis::cmd("CLIENT").arg("SETNAME").arg(name(client)).query(connection);
    named.and_then(|()| wait_for(client, 1, connection, patience)).unwrap_or(false)
}

/// Expects that the server soon has no connection on which `client` writes.
pub(super) fn expect_none(client: u32, connection: &mut impl ConnectionLike) {
    let is_over = wait_for(client, 0, connection, Duration::from_secs(60)).expect("replies");
    assert!(is_over, "the server still has connections that client {client} gave up");
}

#[test]
fn a_client_waits_until_what_it_gave_up_is_over() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let serving = crate::serve::Serving::start(directory.path());
    let [mut first, mut second, mut other] = [(); 3].map(|()| super::clients::reach(&serving.address));
    let (short, long) = (Duration::from_millis(50), Duration::from_secs(20));
    assert!(take_over(1, &mut first, long));
    let waits = redis::cmd("BLPOP").arg("nothing").arg(0).get_packed_command();
    first.send_packed_command(&waits).expect("it is sent");
    assert!(!take_over(1, &mut second, short), "the server still waits on the first one");
    assert!(take_over(11, &mut other, short), "another client has no other connection");
    drop(first);
    assert!(take_over(1, &mut second, long));
    drop(second);
    expect_none(1, &mut other);
    serving.end();
}
