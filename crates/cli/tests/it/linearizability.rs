//! Clients on different workers, a server that is killed again and again, and histories that must be linearizable.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use firn_protocol::resp::{Value, decode};
use firn_sim::linear::{
    Answer, Counters, CountersInput, List, ListInput, Model, Operation, Text, TextInput, check,
};

use crate::serve::Serving;

const CLIENTS: usize = 6;
const OBJECTS: usize = 6;
/// Values beside the objects, so that these are cold: several times what the server may keep in memory.
const FILLERS: usize = 60_000;
const FILLER_BYTES: usize = 2_000;

/// What all clients of a round have in common.
struct Round {
    /// Where the server is; changes when it is started again.
    address: Mutex<String>,
    start: Instant,
    is_over: AtomicBool,
    /// How many operations the clients have begun.
    begun: AtomicUsize,
    /// For values that are never written twice.
    next: AtomicU64,
    number: u64,
}

impl Round {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn unique(&self) -> String {
        format!("{},", self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn address(&self) -> String {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Ends a round when it is dropped: clients do not look for a server that did not start again.
struct Over<'r>(&'r Round);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

#[derive(Default)]
struct Histories {
    texts: Vec<Vec<Operation<Text>>>,
    counters: Vec<Vec<Operation<Counters>>>,
    lists: Vec<Vec<Operation<List>>>,
}

impl Histories {
    fn new() -> Self {
        Self {
            texts: vec![Vec::new(); OBJECTS],
            counters: vec![Vec::new(); OBJECTS],
            lists: vec![Vec::new(); OBJECTS],
        }
    }

    fn absorb(&mut self, other: Self) {
        let join = |ours: &mut Vec<_>, theirs: Vec<_>| ours.extend(theirs);
        self.texts.iter_mut().zip(other.texts).for_each(|(ours, theirs)| ours.extend(theirs));
        self.counters.iter_mut().zip(other.counters).for_each(|(ours, theirs)| ours.extend(theirs));
        self.lists.iter_mut().zip(other.lists).for_each(|(ours, theirs)| join(ours, theirs));
    }
}

/// A connection that is made again when it breaks.
struct Link<'r> {
    round: &'r Round,
    stream: Option<TcpStream>,
}

impl Link<'_> {
    /// Sends requests together and returns their replies; `None` if the connection broke, whatever was done by then.
    fn ask(&mut self, requests: &[Vec<String>]) -> Option<Vec<Value>> {
        while self.stream.is_none() {
            match TcpStream::connect(self.round.address()) {
                Ok(stream) => {
                    stream.set_nodelay(true).expect("an option");
                    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
                    self.stream = Some(stream);
                }
                Err(_) if self.round.is_over.load(Ordering::Acquire) => return None,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        let replies = self.stream.as_mut().and_then(|stream| exchange(stream, requests));
        if replies.is_none() {
            self.stream = None;
        }
        replies
    }
}

fn exchange(stream: &mut TcpStream, requests: &[Vec<String>]) -> Option<Vec<Value>> {
    let mut bytes = Vec::new();
    for request in requests {
        bytes.extend_from_slice(format!("*{}\r\n", request.len()).as_bytes());
        for word in request {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    stream.write_all(&bytes).ok()?;
    let (mut input, mut replies) = (Vec::new(), Vec::new());
    let mut piece = [0; 16 << 10];
    while replies.len() < requests.len() {
        if let Some((reply, length)) = decode(&input).expect("a reply") {
            input.drain(..length);
            replies.push(reply);
            continue;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(length) => input.extend_from_slice(&piece[..length]),
        }
    }
    Some(replies)
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn answer_of(reply: &Value) -> Answer {
    match reply {
        Value::Simple(_) => Answer::Ok,
        Value::Null => Answer::None,
        Value::Integer(number) => Answer::Number(*number),
        Value::Bulk(text) => Answer::Text(String::from_utf8(text.clone()).expect("text")),
        Value::Array(values) => Answer::Numbers(values.iter().map(number_of).collect()),
        other => panic!("{other:?}"),
    }
}

fn number_of(value: &Value) -> i64 {
    match value {
        Value::Null => 0,
        Value::Integer(number) => *number,
        Value::Bulk(digits) => std::str::from_utf8(digits).expect("digits").parse().expect("a number"),
        other => panic!("{other:?}"),
    }
}

/// One operation: asks, and notes what came of it.
fn operate<M: Model<Output = Answer>>(
    link: &mut Link<'_>,
    client: usize,
    history: &mut Vec<Operation<M>>,
    input: M::Input,
    requests: &[Vec<String>],
    answer: impl Fn(&[Value]) -> Answer,
) {
    let begin = link.round.now();
    let end = link.ask(requests).map(|replies| (link.round.now(), answer(&replies)));
    history.push(Operation { client, begin, end, input });
}

fn on_text(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = rng.usize(..OBJECTS);
    let (round, key) = (link.round, format!("text:{}:{object}", link.round.number));
    let (input, line) = match rng.u8(..10) {
        0..4 => (TextInput::Get, format!("GET {key}")),
        4..6 => {
            let value = round.unique();
            (TextInput::Set(value.clone()), format!("SET {key} {value}"))
        }
        6..9 => {
            let value = round.unique();
            (TextInput::Append(value.clone()), format!("APPEND {key} {value}"))
        }
        _ => (TextInput::GetDel, format!("GETDEL {key}")),
    };
    let history = &mut histories.texts[object];
    operate(link, client, history, input, &[words(&line)], |replies| answer_of(&replies[0]));
}

fn on_counters(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = rng.usize(..OBJECTS);
    let key = |name: u8| format!("counter:{}:{object}:{name}", link.round.number);
    let keys = [key(0), key(1)];
    let history = &mut histories.counters[object];
    match rng.u8(..4) {
        0 => {
            let request = words(&format!("INCRBY {} 3", keys[1]));
            operate(link, client, history, CountersInput::Add(1, 3), &[request], |replies| {
                answer_of(&replies[0])
            });
        }
        1 => {
            let lines = [
                "MULTI".to_owned(),
                format!("INCRBY {} 5", keys[0]),
                format!("DECRBY {} 5", keys[1]),
                "EXEC".to_owned(),
            ];
            let requests: Vec<Vec<String>> = lines.iter().map(|line| words(line)).collect();
            let input = CountersInput::AddAll(vec![(0, 5), (1, -5)]);
            operate(link, client, history, input, &requests, |replies| answer_of(&replies[3]));
        }
        2 => {
            let mut request = words("EVAL");
            // Every other time a key is not named, so that the script is begun again with all locks.
            let named = rng.usize(1..=2);
            let other = if named == 2 { "KEYS[2]" } else { "ARGV[1]" };
            request.push(format!(
                "return {{redis.call('INCRBY', KEYS[1], 7), redis.call('DECRBY', {other}, 7)}}"
            ));
            request.extend([named.to_string(), keys[0].clone(), keys[1].clone()]);
            let input = CountersInput::AddAll(vec![(0, 7), (1, -7)]);
            operate(link, client, history, input, &[request], |replies| answer_of(&replies[0]));
        }
        _ => {
            let request = words(&format!("MGET {} {}", keys[0], keys[1]));
            let input = CountersInput::Read(vec![0, 1]);
            operate(link, client, history, input, &[request], |replies| answer_of(&replies[0]));
        }
    }
}

fn on_list(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = rng.usize(..OBJECTS);
    let (round, key) = (link.round, format!("list:{}:{object}", link.round.number));
    let history = &mut histories.lists[object];
    if rng.bool() {
        let value = round.unique();
        let request = words(&format!("RPUSH {key} {value}"));
        operate(link, client, history, ListInput::Push(value), &[request], |_| Answer::Ok);
    } else {
        let request = words(&format!("BLPOP {key} 0.02"));
        operate(link, client, history, ListInput::Pop, &[request], |replies| match &replies[0] {
            Value::Array(pair) => answer_of(&pair[1]),
            other => answer_of(other),
        });
    }
}

fn fill(address: &str) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let filler = "f".repeat(FILLER_BYTES);
    for first in (0..FILLERS).step_by(500) {
        let requests: Vec<Vec<String>> =
            (first..first + 500).map(|number| words(&format!("SET filler:{number} {filler}"))).collect();
        exchange(&mut stream, &requests).expect("it is written");
    }
}

/// Lets clients work for `operations` each while the server is killed `kills` times.
fn run_round(dir: &Path, seed: u64, number: u64, operations: usize, kills: u32) -> Histories {
    let mut serving = Serving::start(dir);
    if number == 0 {
        fill(&serving.address);
    }
    let round = Round {
        address: Mutex::new(serving.address.clone()),
        start: Instant::now(),
        is_over: AtomicBool::new(false),
        begun: AtomicUsize::new(0),
        next: AtomicU64::new(0),
        number,
    };
    let mut histories = Histories::new();
    std::thread::scope(|scope| {
        let over = Over(&round);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let round = &round;
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed ^ number << 32 ^ client as u64);
                    let mut link = Link { round, stream: None };
                    let mut histories = Histories::new();
                    for _ in 0..operations {
                        round.begun.fetch_add(1, Ordering::Relaxed);
                        match rng.u8(..3) {
                            0 => on_text(&mut link, client, &mut rng, &mut histories),
                            1 => on_counters(&mut link, client, &mut rng, &mut histories),
                            _ => on_list(&mut link, client, &mut rng, &mut histories),
                        }
                    }
                    histories
                })
            })
            .collect();
        let mut rng = Rng::with_seed(seed ^ number);
        // By what is done, not by the clock: a quick machine is as busy at each kill as a slow one.
        let between = CLIENTS * operations / (kills as usize + 1);
        for kill in 0..kills as usize {
            let due = kill * between + rng.usize(between / 4..between);
            while round.begun.load(Ordering::Relaxed) < due {
                std::thread::sleep(Duration::from_millis(1));
            }
            serving.signal("KILL");
            serving.process.wait().expect("it ends");
            serving = Serving::start(dir);
            *round.address.lock().unwrap_or_else(PoisonError::into_inner) = serving.address.clone();
        }
        for client in clients {
            histories.absorb(client.join().expect("a client"));
        }
        drop(over);
    });
    serving.signal("TERM");
    serving.process.wait().expect("it ends");
    histories
}

fn judge<M: Model>(kind: &str, seed: u64, histories: &[Vec<Operation<M>>]) -> usize {
    for (object, history) in histories.iter().enumerate() {
        if let Err(anomaly) = check(history) {
            panic!("seed {seed}, {kind} {object}: {}", anomaly.explanation);
        }
    }
    histories.iter().map(Vec::len).sum()
}

/// How many operations were under way when the server was killed.
fn unanswered<M: Model>(histories: &[Vec<Operation<M>>]) -> usize {
    histories.iter().flatten().filter(|operation| operation.end.is_none()).count()
}

fn check_rounds(rounds: u64, operations: usize, kills: u32) {
    let seed = std::env::var("FIRN_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    let dir = tempfile::tempdir().expect("a folder");
    let mut lost = 0;
    for number in 0..rounds {
        let histories = run_round(dir.path(), seed, number, operations, kills);
        let texts = judge("text", seed, &histories.texts);
        let counters = judge("counters", seed, &histories.counters);
        let lists = judge("list", seed, &histories.lists);
        lost += unanswered(&histories.texts) + unanswered(&histories.counters) + unanswered(&histories.lists);
        eprintln!(
            "round {number}, {lost} unanswered yet: {texts} operations on strings, {counters} on counters, {lists} on lists"
        );
    }
    assert!(kills == 0 || lost > 0, "seed {seed}: no operation was under way at any kill");
}

#[test]
fn what_clients_see_is_linearizable_although_the_server_is_killed() {
    check_rounds(1, 500, 4);
}

#[test]
#[ignore = "minutes: the soak runs it"]
fn many_rounds_are_linearizable() {
    check_rounds(20, 1500, 10);
}
