//! What every kind of sockets must do.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use super::*;

/// Long enough for anything that comes at all.
const LONG: Duration = Duration::from_secs(10);

/// Longer than what is on its way takes on a loopback.
const SHORT: Duration = Duration::from_millis(20);

/// Sockets of each kind that this kernel gives.
fn each(body: impl Fn(&mut Bench)) {
    for network in [Network::Epoll, Network::Ring] {
        match choose(network) {
            Ok(network) => body(&mut Bench::new(network)),
            Err(error) => {
                // Past the capture of what tests print: a skipped test must not look like a passed
                // one.
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
            }
        }
    }
}

/// Sockets and a place that others connect to.
struct Bench {
    network: Network,
    alarm: Arc<Alarm>,
    sockets: Sockets,
    listener: TcpListener,
}

impl Bench {
    fn new(network: Network) -> Self {
        let alarm = Alarm::new().expect("an alarm");
        let sockets = Sockets::new(network, Arc::clone(&alarm)).expect("sockets");
        Self { network, alarm, sockets, listener: TcpListener::bind("127.0.0.1:0").expect("a listener") }
    }

    /// A connection under `id`: its other side.
    fn connect(&mut self, id: u32) -> TcpStream {
        let outside =
            TcpStream::connect(self.listener.local_addr().expect("an address")).expect("a connection");
        outside.set_read_timeout(Some(LONG)).expect("an option");
        let inside = self.listener.accept().expect("it is there").0;
        self.sockets.adopt(id, inside).expect("it is adopted");
        outside
    }

    fn wait(&mut self, timeout: Duration) -> Vec<Event> {
        let mut events = Vec::new();
        self.sockets.wait(Some(timeout), &mut |event| events.push(event)).expect("it waits");
        events
    }

    /// Receives until `bytes` bytes are there or the stream ends; whether it ended.
    fn receive(&mut self, id: u32, input: &mut Vec<u8>, bytes: usize) -> bool {
        while input.len() < bytes {
            match self.sockets.receive(id, input) {
                Received::Bytes(_) => {}
                Received::Nothing => assert!(!self.wait(LONG).is_empty(), "{}: nothing comes", self.network),
                Received::End => return true,
            }
        }
        false
    }

    /// Sends until `output` is taken.
    fn send(&mut self, id: u32, output: &mut Vec<u8>) {
        while self.sockets.send(id, output) == Sent::Some {
            assert!(!self.wait(LONG).is_empty(), "{}: nothing goes", self.network);
        }
        assert!(output.is_empty());
    }
}

/// Bytes that tell where they belong.
fn pattern(seed: u32, bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|at| (at.wrapping_mul(2654435761).wrapping_add(seed) >> 13) as u8).collect()
}

#[test]
fn bytes_come_and_go() {
    each(|bench| {
        let mut outside = bench.connect(3);
        let mut input = Vec::new();
        for round in 0..100 {
            outside.write_all(&pattern(round, 1000)).unwrap();
            input.clear();
            assert!(!bench.receive(3, &mut input, 1000));
            assert_eq!(input, pattern(round, 1000));
            bench.send(3, &mut input);
            bench.wait(Duration::ZERO);
            let mut echo = vec![0; 1000];
            outside.read_exact(&mut echo).unwrap();
            assert_eq!(echo, pattern(round, 1000));
        }
        // What is there already is kept, and what comes is put behind it.
        input.extend_from_slice(b"before");
        outside.write_all(b" after").unwrap();
        assert!(!bench.receive(3, &mut input, 12));
        assert_eq!(input, b"before after");
        assert_eq!(bench.sockets.receive(3, &mut input), Received::Nothing);
    });
}

#[test]
fn who_is_not_received_from_is_held_back() {
    const BYTES: usize = 64 << 20;
    each(|bench| {
        let mut outside = bench.connect(0);
        outside.set_nonblocking(true).unwrap();
        let bytes = pattern(1, BYTES);
        let (mut at, mut idle_count) = (0, 0);
        while idle_count < 20 && at < BYTES {
            match outside.write(&bytes[at..]) {
                Ok(count) => (at, idle_count) = (at + count, 0),
                Err(error) if error.kind() == ErrorKind::WouldBlock => idle_count += 1,
                Err(error) => panic!("{error}"),
            }
            bench.wait(Duration::from_millis(5));
        }
        // What the two sockets hold, and what an inbox may.
        assert!(at < 24 << 20, "{}: {at} bytes went to nobody", bench.network);
        outside.set_nonblocking(false).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| outside.write_all(&bytes[at..]).unwrap());
            let mut input = Vec::new();
            assert!(!bench.receive(0, &mut input, BYTES));
            assert!(input == bytes, "{}: other bytes came", bench.network);
        });
    });
}

#[test]
fn who_does_not_read_leaves_the_output_to_its_owner() {
    const PIECE: usize = 1 << 20;
    each(|bench| {
        let mut outside = bench.connect(0);
        let (mut output, mut piece_count) = (Vec::new(), 0);
        let is_stuck = |bench: &mut Bench, output: &mut Vec<u8>| {
            (0..10).all(|_| {
                bench.wait(SHORT);
                bench.sockets.send(0, output) == Sent::Some
            })
        };
        while !is_stuck(bench, &mut output) {
            bench.wait(Duration::ZERO);
            output.extend_from_slice(&pattern(piece_count, PIECE));
            piece_count += 1;
            assert!(piece_count < 64, "{}: {piece_count} MiB went to nobody", bench.network);
        }
        assert!(!output.is_empty());
        let reader = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                for number in 0..piece_count {
                    let mut piece = vec![0; PIECE];
                    outside.read_exact(&mut piece).unwrap();
                    assert!(piece == pattern(number, PIECE), "piece {number} is another");
                }
                outside
            });
            let mut is_writable = false;
            while !is_writable {
                let events = bench.wait(LONG);
                assert!(!events.is_empty(), "{}: nothing goes", bench.network);
                is_writable = events.contains(&Event::Writable(0));
            }
            bench.send(0, &mut output);
            while !reader.is_finished() {
                bench.wait(SHORT);
            }
            reader.join()
        });
        drop(reader.unwrap());
    });
}

#[test]
fn a_number_is_free_at_once_and_nothing_of_before_comes_to_its_next_owner() {
    each(|bench| {
        for round in 0..600_u32 {
            let mut outside = bench.connect(0);
            let other = bench.connect(1);
            outside.write_all(&[round as u8; 5000]).unwrap();
            let mut output = vec![round as u8; 100_000];
            if round % 3 == 0 {
                bench.wait(LONG);
            }
            if round % 5 != 0 {
                let mut input = Vec::new();
                assert!(!bench.receive(0, &mut input, 5000));
                assert_eq!(input, [round as u8; 5000], "round {round}");
                assert_eq!(bench.sockets.send(0, &mut output), Sent::All);
            }
            bench.sockets.close(0);
            bench.sockets.close(1);
            drop(other);
            if round % 7 == 0 {
                (0..5).for_each(|_| drop(bench.wait(Duration::from_millis(1))));
                let mut found = Vec::new();
                // Closed with bytes unread, a socket resets its stream.
                if outside.read_to_end(&mut found).is_ok() && round % 5 != 0 {
                    assert_eq!(found, [round as u8; 100_000], "round {round}");
                }
            }
        }
    });
}

#[test]
fn everybody_is_received_from_though_all_speak_at_once() {
    const COUNT: u32 = 300;
    const BYTES: usize = 48 << 10;
    each(|bench| {
        let mut outsides: Vec<_> = (0..COUNT).map(|id| bench.connect(id)).collect();
        for (id, outside) in outsides.iter_mut().enumerate() {
            outside.write_all(&pattern(id as u32, BYTES)).unwrap();
        }
        for id in 0..COUNT {
            let mut input = Vec::new();
            assert!(!bench.receive(id, &mut input, BYTES));
            assert!(input == pattern(id, BYTES), "{}: other bytes came to {id}", bench.network);
        }
    });
}

#[test]
fn what_was_taken_goes_before_a_close_and_before_the_end() {
    each(|bench| {
        let mut outside = bench.connect(0);
        let mut last = bench.connect(1);
        assert_eq!(bench.sockets.send(0, &mut b"goodbye".to_vec()), Sent::All);
        bench.sockets.close(0);
        // A ring closes once it was told of the end of everything.
        (0..5).for_each(|_| drop(bench.wait(SHORT)));
        let mut found = String::new();
        outside.read_to_string(&mut found).unwrap();
        assert_eq!(found, "goodbye");
        assert_eq!(bench.sockets.send(1, &mut b"the end".to_vec()), Sent::All);
        *bench = Bench::new(bench.network);
        found.clear();
        last.read_to_string(&mut found).unwrap();
        assert_eq!(found, "the end");
    });
}

#[test]
fn who_has_said_everything_still_hears() {
    each(|bench| {
        let mut outside = bench.connect(0);
        outside.write_all(b"all").unwrap();
        outside.shutdown(Shutdown::Write).unwrap();
        let mut input = Vec::new();
        assert!(bench.receive(0, &mut input, usize::MAX));
        assert_eq!(input, b"all");
        bench.send(0, &mut b"heard".to_vec());
        bench.wait(Duration::ZERO);
        let mut heard = [0; 5];
        outside.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"heard");
    });
}

#[test]
fn who_is_gone_is_neither_heard_nor_sent_to() {
    each(|bench| {
        let outside = bench.connect(0);
        bench.send(0, &mut b"unread".to_vec());
        bench.wait(SHORT);
        // Closed with bytes unread: a reset.
        drop(outside);
        let mut input = Vec::new();
        assert!(bench.receive(0, &mut input, usize::MAX));
        let is_over = (0..100).any(|_| {
            let is_over = bench.sockets.send(0, &mut b"late".to_vec()) == Sent::End;
            bench.wait(Duration::ZERO);
            is_over
        });
        assert!(is_over, "{}: it still sends", bench.network);
        bench.sockets.close(0);
        assert_eq!(bench.sockets.receive(0, &mut input), Received::End);
        assert_eq!(bench.sockets.send(0, &mut b"nobody".to_vec()), Sent::End);
    });
}

#[test]
fn who_is_stuck_hears_that_the_other_side_is_gone() {
    each(|bench| {
        let outside = bench.connect(0);
        let mut output = Vec::new();
        while bench.sockets.send(0, &mut output) != Sent::Some {
            bench.wait(SHORT);
            output.extend_from_slice(&[0; 8 << 20]);
        }
        drop(outside);
        let is_notified = (0..10).any(|_| bench.wait(LONG).contains(&Event::Writable(0)));
        assert!(is_notified, "{}: nobody says that more can be sent", bench.network);
        assert_eq!(bench.sockets.send(0, &mut output), Sent::End, "{}", bench.network);
    });
}

#[test]
fn an_alarm_wakes_each_time() {
    each(|bench| {
        assert_eq!(bench.wait(SHORT), []);
        for _ in 0..100 {
            let alarm = Arc::clone(&bench.alarm);
            std::thread::scope(|scope| {
                scope.spawn(move || alarm.ring());
                let mut events = Vec::new();
                bench.sockets.wait(None, &mut |event| events.push(event)).unwrap();
                assert_eq!(events, [Event::Woken]);
            });
        }
        assert_eq!(bench.wait(Duration::ZERO), []);
    });
}

#[test]
fn whoever_knocks_is_let_in() {
    each(|bench| {
        let listener = bench.listener.try_clone().unwrap();
        bench.sockets.listen(listener).unwrap();
        for round in 0..50_u32 {
            let address = bench.listener.local_addr().unwrap();
            let mut outsides: Vec<_> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
            let mut count = 0;
            while count < 4 {
                assert!(bench.wait(LONG).contains(&Event::Knock), "round {round}");
                while let Some(inside) = bench.sockets.accept() {
                    bench.sockets.adopt(count, inside).unwrap();
                    count += 1;
                }
            }
            outsides.iter_mut().for_each(|outside| outside.write_all(b"x").unwrap());
            for id in 0..4 {
                assert!(!bench.receive(id, &mut Vec::new(), 1));
                bench.sockets.close(id);
            }
        }
    });
}
