//! Clients that work at the same objects, and what each of them saw.
//!
//! A few objects are busy at a time, and the turn of each comes again. What became cold in between
//! is then read and written by several clients at once.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fastrand::Rng;
use firn_protocol::resp::{Value, decode};
use firn_sim::linear::{
    Answer, Counters, CountersInput, List, ListInput, Model, Operation, Text, TextInput, check,
};

pub(super) const CLIENTS: usize = 6;
/// Objects of each kind.
const OBJECTS: usize = 24;
/// How many of them are busy at a time.
const BUSY: usize = 3;
/// Operations after which the next one becomes busy.
const TURN: usize = 24;

/// What all clients of a round have in common.
pub(super) struct Round {
    /// Where the server is; changes when it is started again.
    address: Mutex<String>,
    start: Instant,
    is_over: AtomicBool,
    /// How many operations the clients have begun.
    begun: AtomicUsize,
    /// For values that are never written twice, in no round.
    next: AtomicU64,
    number: u64,
    kinds: u8,
}

/// Kinds of objects on an engine that holds collections, and on one that holds strings alone.
pub(super) const KINDS: u8 = 3;
pub(super) const KINDS_OF_STRINGS: u8 = 2;

impl Round {
    /// A round that works at the first `kinds` kinds of objects: texts, counters, lists.
    pub(super) fn new(number: u64, address: &str, kinds: u8) -> Self {
        Self {
            address: Mutex::new(address.to_owned()),
            start: Instant::now(),
            is_over: AtomicBool::new(false),
            begun: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            number,
            kinds,
        }
    }

    pub(super) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// The server is somewhere else now.
    pub(super) fn move_to(&self, address: &str) {
        address.clone_into(&mut self.address.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn unique(&self) -> String {
        format!("{}.{},", self.number, self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn address(&self) -> String {
        self.address.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One of the busy objects, and now and then any other.
    fn object(&self, rng: &mut Rng) -> usize {
        match rng.u8(..4) {
            0 => rng.usize(..OBJECTS),
            _ => (self.begun() / TURN + rng.usize(..BUSY)) % OBJECTS,
        }
    }

    /// One client, which begins `operations`, each after it did something `aside`.
    pub(super) fn work(
        &self,
        client: usize,
        rng: &mut Rng,
        operations: usize,
        aside: impl Fn(&mut Link<'_>, &mut Rng),
    ) -> Histories {
        let (mut link, mut histories) = (Link::new(self), Histories::new());
        for _ in 0..operations {
            aside(&mut link, rng);
            self.begun.fetch_add(1, Ordering::Relaxed);
            match rng.u8(..self.kinds) {
                0 => on_text(&mut link, client, rng, &mut histories),
                1 => on_counters(&mut link, client, rng, &mut histories),
                _ => on_list(&mut link, client, rng, &mut histories),
            }
        }
        histories
    }

    /// What a client finds that reads everything when all others are done, each object after it did
    /// something `aside`.
    pub(super) fn read_all(&self, aside: impl Fn()) -> Histories {
        let (mut link, mut histories) = (Link::new(self), Histories::new());
        for object in 0..OBJECTS {
            aside();
            get(&mut link, CLIENTS, object, &mut histories);
            aside();
            read_counters(&mut link, CLIENTS, object, &mut histories);
            aside();
            if self.kinds < KINDS {
                continue;
            }
            while let Some(Answer::Text(_)) = pop(&mut link, CLIENTS, object, &mut histories) {}
        }
        histories
    }

    /// A request that removes every object.
    pub(super) fn deletion() -> Vec<String> {
        let names = |object| [text(object), counter(object, 0), counter(object, 1), list(object)];
        words("DEL").into_iter().chain((0..OBJECTS).flat_map(names)).collect()
    }
}

fn text(object: usize) -> String {
    format!("text:{object}")
}

fn counter(object: usize, name: u8) -> String {
    format!("counter:{object}:{name}")
}

fn list(object: usize) -> String {
    format!("list:{object}")
}

/// Ends a round when it is dropped: clients do not look for a server that did not start again.
pub(super) struct Over<'r>(pub(super) &'r Round);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

/// What was seen of each object.
pub(super) struct Histories {
    texts: Vec<Vec<Operation<Text>>>,
    counters: Vec<Vec<Operation<Counters>>>,
    lists: Vec<Vec<Operation<List>>>,
}

impl Histories {
    pub(super) fn new() -> Self {
        Self {
            texts: vec![Vec::new(); OBJECTS],
            counters: vec![Vec::new(); OBJECTS],
            lists: vec![Vec::new(); OBJECTS],
        }
    }

    pub(super) fn absorb(&mut self, other: Self) {
        self.texts.iter_mut().zip(other.texts).for_each(|(ours, theirs)| ours.extend(theirs));
        self.counters.iter_mut().zip(other.counters).for_each(|(ours, theirs)| ours.extend(theirs));
        self.lists.iter_mut().zip(other.lists).for_each(|(ours, theirs)| ours.extend(theirs));
    }

    /// Checks all of them; tells how many operations they have.
    pub(super) fn judge(&self, seed: u64) -> usize {
        judge("text", seed, &self.texts)
            + judge("counters", seed, &self.counters)
            + judge("list", seed, &self.lists)
    }

    /// How many operations were under way when a server was killed.
    pub(super) fn unanswered(&self) -> usize {
        unanswered(&self.texts) + unanswered(&self.counters) + unanswered(&self.lists)
    }
}

fn judge<M: Model>(kind: &str, seed: u64, histories: &[Vec<Operation<M>>]) -> usize {
    for (object, history) in histories.iter().enumerate() {
        if let Err(anomaly) = check(history) {
            panic!("seed {seed}, {kind} {object}: {}", anomaly.explanation);
        }
    }
    histories.iter().map(Vec::len).sum()
}

fn unanswered<M: Model>(histories: &[Vec<Operation<M>>]) -> usize {
    histories.iter().flatten().filter(|operation| operation.end.is_none()).count()
}

/// A connection that is made again when it breaks.
pub(super) struct Link<'r> {
    round: &'r Round,
    stream: Option<TcpStream>,
}

impl<'r> Link<'r> {
    pub(super) fn new(round: &'r Round) -> Self {
        Self { round, stream: None }
    }

    /// Sends requests together and returns their replies; `None` if the connection broke, whatever
    /// was done by then.
    pub(super) fn ask(&mut self, requests: &[Vec<String>]) -> Option<Vec<Value>> {
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
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return None,
            Ok(length) => input.extend_from_slice(&piece[..length]),
        }
    }
    Some(replies)
}

pub(super) fn words(line: &str) -> Vec<String> {
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
) -> Option<Answer> {
    let begin = link.round.now();
    let end = link.ask(requests).map(|replies| (link.round.now(), answer(&replies)));
    let answer = end.as_ref().map(|(_, answer)| answer.clone());
    history.push(Operation { client, begin, end, input });
    answer
}

fn get(link: &mut Link<'_>, client: usize, object: usize, histories: &mut Histories) {
    let request = words(&format!("GET {}", text(object)));
    let history = &mut histories.texts[object];
    operate(link, client, history, TextInput::Get, &[request], |replies| answer_of(&replies[0]));
}

fn on_text(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = link.round.object(rng);
    let (round, key) = (link.round, text(object));
    let (input, line) = match rng.u8(..10) {
        0..4 => return get(link, client, object, histories),
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

fn read_counters(link: &mut Link<'_>, client: usize, object: usize, histories: &mut Histories) {
    let request = words(&format!("MGET {} {}", counter(object, 0), counter(object, 1)));
    let (history, input) = (&mut histories.counters[object], CountersInput::Read(vec![0, 1]));
    operate(link, client, history, input, &[request], |replies| answer_of(&replies[0]));
}

fn on_counters(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = link.round.object(rng);
    let keys = [counter(object, 0), counter(object, 1)];
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
            // Every other time a key is not named, so that the script is begun again with all
            // locks.
            let named = rng.usize(1..=2);
            let other = if named == 2 { "KEYS[2]" } else { "ARGV[1]" };
            request.push(format!(
                "return {{redis.call('INCRBY', KEYS[1], 7), redis.call('DECRBY', {other}, 7)}}"
            ));
            request.extend([named.to_string(), keys[0].clone(), keys[1].clone()]);
            let input = CountersInput::AddAll(vec![(0, 7), (1, -7)]);
            operate(link, client, history, input, &[request], |replies| answer_of(&replies[0]));
        }
        _ => read_counters(link, client, object, histories),
    }
}

fn pop(link: &mut Link<'_>, client: usize, object: usize, histories: &mut Histories) -> Option<Answer> {
    let request = words(&format!("BLPOP {} 0.02", list(object)));
    let history = &mut histories.lists[object];
    operate(link, client, history, ListInput::Pop, &[request], |replies| match &replies[0] {
        Value::Array(pair) => answer_of(&pair[1]),
        other => answer_of(other),
    })
}

fn on_list(link: &mut Link<'_>, client: usize, rng: &mut Rng, histories: &mut Histories) {
    let object = link.round.object(rng);
    if rng.bool() {
        pop(link, client, object, histories);
        return;
    }
    let value = link.round.unique();
    let request = words(&format!("RPUSH {} {value}", list(object)));
    let history = &mut histories.lists[object];
    operate(link, client, history, ListInput::Push(value), &[request], |_| Answer::Ok);
}
