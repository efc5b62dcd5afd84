//! Whether the kernel gives a ring with all that is needed.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::kernel::{Answer, Kernel, Patience};

/// How long a byte between two sockets of this process may take, which takes none.
const PATIENCE: Duration = Duration::from_secs(5);

/// Receives a byte and sends one by a ring of its own.
///
/// # Errors
/// What of it the kernel refuses, and how.
pub(in crate::net) fn trial() -> io::Result<()> {
    // On a thread that ends with the ring: the kernel interrupts a thread some time after its ring
    // was closed, and the caller's system calls would fail for nothing that it knows of.
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("firn-ring-trial".to_owned()).spawn_scoped(scope, try_ring)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the trial of io_uring panicked")))
    })
}

fn try_ring() -> io::Result<()> {
    let refused = |what: &str, error: io::Error| {
        let text = format!("the kernel does not give io_uring as it is needed here: {what}: {error}");
        io::Error::new(io::ErrorKind::Unsupported, text)
    };
    let mut kernel = Kernel::new().map_err(|error| refused("no ring", error))?;
    try_bytes(&mut kernel).map_err(|error| refused("no bytes through a ring", error))
}

fn try_bytes(kernel: &mut Kernel) -> io::Result<()> {
    let (inside, mut outside) = UnixStream::pair()?;
    outside.set_read_timeout(Some(PATIENCE))?;
    let seat = kernel.sit(inside.into());
    kernel.receive(seat);
    kernel.send(seat, b"b".to_vec(), 0, Patience::None);
    outside.write_all(b"a")?;
    let (mut has_received, mut has_sent) = (false, false);
    while !(has_received && has_sent) {
        kernel.enter(Some(PATIENCE))?;
        let mut answer_count = 0;
        while let Some(answer) = kernel.next() {
            answer_count += 1;
            match answer {
                Answer::Received { bytes: b"a", goes_on: true, .. } => has_received = true,
                Answer::Sent { sent: Ok(1), .. } => has_sent = true,
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
        if answer_count == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    let mut byte = [0];
    outside.read_exact(&mut byte)?;
    match byte {
        [b'b'] => Ok(()),
        other => Err(io::Error::other(format!("{other:?} was sent"))),
    }
}
