//! Clients that write, let expire, delete, count and list, and remember what they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::counted::{Counted, counter, list};
use super::given_up;
use super::history::{History, Operation};
use super::keys::{self, State};
use super::reader::Reader;

/// Clients that write at once.
const CLIENTS: u32 = 4;
/// Keys of each.
const KEYS: u32 = 1000;
/// How long after it was written last all has expired that does so soon, by clocks that are right
/// within a second.
const EXPIRED: Duration = Duration::from_secs(10);
/// How long a client that writes waits for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// How long one round of writing is.
const ROUND: Duration = Duration::from_secs(3);

/// What one client knows.
#[derive(Default)]
struct Known {
    acknowledged: BTreeMap<u32, State>,
    /// What was tried since, without an answer.
    tried: BTreeMap<u32, Vec<State>>,
    /// By key that was found to be what no answer had promised: what it may be once the database is
    /// opened again, which may lose that.
    unsure: BTreeMap<u32, Vec<State>>,
    /// Where the database was at the last check; it is elsewhere once it is opened again.
    checked_at: String,
    /// Rounds that were never answered.
    unanswered: Vec<u32>,
    round: u32,
    count: u64,
    counted: Counted,
    /// All that is known to have been done.
    history: History,
    /// When what expires late does so.
    late_ms: u64,
}

pub(crate) struct Clients {
    known: Vec<Known>,
    seed: u64,
    pub(crate) acknowledged: u64,
    /// How long each waits after what was acknowledged; without, they write as fast as they can.
    pub(crate) pause: Duration,
}

/// A connection on which an answer may take so long.
fn connect(address: &str, answer_max: Duration) -> Option<redis::Connection> {
    let client = redis::Client::open(format!("redis://{address}")).expect("an address");
    let connection = client.get_connection_with_timeout(Duration::from_secs(5)).ok()?;
    connection.set_read_timeout(Some(answer_max)).ok()?;
    Some(connection)
}

/// A connection to a server that may be about to start.
pub(super) fn reach(address: &str) -> redis::Connection {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match connect(address, Duration::from_secs(60)) {
            Some(connection) => return connection,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            None => panic!("nobody answers at {address}"),
        }
    }
}

impl Known {
    /// Writes to keys of client `number` until `end`, and waits for `pause` each time.
    fn write(
        &mut self,
        number: u32,
        random: &mut fastrand::Rng,
        address: &Mutex<String>,
        (pause, end): (Duration, Instant),
    ) {
        let mut connection = None;
        while Instant::now() < end {
            let Some(open) = connection.as_mut() else {
                let at = address.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // A database that sleeps is not waited for.
                connection = connect(&at, ANSWER_MAX);
                if !connection.as_mut().is_some_and(|open| given_up::take_over(number, open, ANSWER_MAX)) {
                    connection = None;
                }
                if connection.is_none() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                continue;
            };
            let batch: BTreeSet<u32> = (0..50).map(|_| random.u32(0..KEYS) * CLIENTS + number).collect();
            let mut pipe = redis::pipe();
            self.round += 1;
            let round = self.round;
            let mut state = || (random.u32(0..8) != 0).then_some(round);
            let states: Vec<(u32, State)> = batch.into_iter().map(|key| (key, state())).collect();
            for (key, state) in &states {
                keys::put(&mut pipe, *key, *state, self.late_ms);
                self.tried.entry(*key).or_default().extend(keys::states(*key, *state));
            }
            self.counted.add(number, &mut pipe);
            match pipe.query(open) {
                Ok(answers) => {
                    let element = self.counted.acknowledge(number, answers);
                    self.history.add(Operation::Add(element));
                    self.count += states.len() as u64;
                    for (key, state) in states {
                        self.history.add(Operation::Put(key, state));
                        self.acknowledged.insert(key, state);
                        self.tried.remove(&key);
                        self.unsure.remove(&key);
                    }
                    std::thread::sleep(pause);
                }
                Err(_) => {
                    self.unanswered.push(round);
                    connection = None;
                }
            }
        }
    }

    /// Expects each key to be what it was acknowledged to be, or what was tried since. From then on
    /// it is to be that, or, where nothing is there, what may have expired. What was found without
    /// an answer is promised to last only until the database is opened again.
    fn check(&mut self, number: u32, address: &str) {
        let mut connection = Reader::reach(address);
        given_up::expect_none(number, &mut connection);
        self.counted.check(number, &mut connection);
        let keys: BTreeSet<u32> = self.acknowledged.keys().chain(self.tried.keys()).copied().collect();
        let keys: Vec<u32> = keys.into_iter().collect();
        let is_opened_again = self.checked_at != address;
        address.clone_into(&mut self.checked_at);
        let mut wrong = Wrong::default();
        for keys in keys.chunks(200) {
            for (key, found) in keys.iter().zip(keys::find(keys, &mut connection)) {
                let before = self.acknowledged.get(key).copied().unwrap_or(None);
                let tried = self.tried.remove(key).unwrap_or_default();
                let unsure = self.unsure.get(key).filter(|_| is_opened_again);
                let states = std::iter::once(before).chain(tried.iter().copied());
                let states = states.chain(unsure.into_iter().flatten().copied());
                let mut possible = states.filter(|state| found.may_be(*key, *state));
                let Some(state) = possible.next() else {
                    wrong.keys.push(*key);
                    wrong.messages.push(format!(
                        "key {key}: expected {before:?} or one of {tried:?} or {unsure:?}, found {}",
                        found.head()
                    ));
                    continue;
                };
                // What is not there may have expired, by a clock that another machine's is behind.
                let others: Vec<State> = possible.collect();
                if !others.is_empty() {
                    self.tried.insert(*key, others);
                }
                if state != before {
                    self.history.add(Operation::Put(*key, state));
                    let unsure = self.unsure.entry(*key).or_default();
                    unsure.push(before);
                    unsure.extend(tried);
                }
                self.acknowledged.insert(*key, state);
            }
        }
        let by = format!(
            "client {number} at {address}, round {}, rounds without an answer {:?}",
            self.round, self.unanswered
        );
        wrong.expect_none(&by, &mut connection);
    }
}

/// Keys that were found to be what they cannot be.
#[derive(Default)]
struct Wrong {
    keys: Vec<u32>,
    messages: Vec<String>,
}

impl Wrong {
    /// Expects that there are none. Else it prints what the database says of itself, and then
    /// whether they are as they should be a moment later: a stale answer is another fault than a
    /// lost write.
    fn expect_none(&self, by: &str, connection: &mut Reader) {
        if self.keys.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_secs(2));
        let some = self.keys.get(..20).unwrap_or(&self.keys);
        let later: Vec<String> = keys::find(some, connection).iter().map(|found| found.head()).collect();
        let info: String = redis::cmd("INFO").query(connection).expect("what it says of itself");
        println!("{info}\nall that are wrong: {:#?}", self.messages);
        let messages = self.messages.iter().zip(&later).take(5);
        let lines = messages.map(|(message, later)| format!("\n  {message}, two seconds later {later}"));
        panic!("{by}: {} keys are wrong, such as{}", self.keys.len(), lines.collect::<String>());
    }
}

impl Clients {
    pub(crate) fn new(seed: u64) -> Self {
        let late_ms = keys::late_ms();
        let known = (0..CLIENTS).map(|_| Known { late_ms, ..Known::default() }).collect();
        Self { known, seed, acknowledged: 0, pause: Duration::ZERO }
    }

    /// All write for a while to wherever the database is. Meanwhile `happens` is called again and
    /// again, with whether that is over; it says where the database is then.
    pub(crate) fn write(
        &mut self,
        address: String,
        random: &mut fastrand::Rng,
        mut happens: impl FnMut(&mut fastrand::Rng, bool) -> String,
    ) {
        let end = Instant::now() + ROUND;
        let address = Mutex::new(address);
        self.seed += 1;
        let (seed, pause) = (self.seed, self.pause);
        std::thread::scope(|scope| {
            let clients: Vec<_> = self
                .known
                .iter_mut()
                .zip(0..)
                .map(|(known, number)| {
                    let address = &address;
                    let mut random = fastrand::Rng::with_seed(seed << 8 | u64::from(number));
                    scope.spawn(move || known.write(number, &mut random, address, (pause, end)))
                })
                .collect();
            // One may have to wait until a machine wakes to which it has connected.
            while !clients.iter().all(|client| client.is_finished()) {
                let now = happens(random, Instant::now() >= end);
                *address.lock().unwrap_or_else(PoisonError::into_inner) = now;
                std::thread::sleep(Duration::from_millis(200 + random.u64(0..800)));
            }
        });
        self.acknowledged = self.known.iter().map(|known| known.count).sum();
    }

    pub(crate) fn check(&mut self, address: String) {
        self.known.iter_mut().zip(0..).for_each(|(known, number)| known.check(number, &address));
    }

    /// All do again at `address`, where nothing is, what they are known to have done until the last
    /// check, each in its order.
    pub(super) fn replay(&self, address: &str) {
        std::thread::scope(|scope| {
            for (known, number) in self.known.iter().zip(0..) {
                scope.spawn(move || {
                    let mut connection = reach(address);
                    // Without a time limit the system goes on by itself after a signal: what is
                    // written must not be asked again.
                    connection.set_read_timeout(None).expect("an option");
                    known.history.replay(number, known.late_ms, &known.counted, &mut connection);
                });
            }
        });
    }

    /// Nothing is there but what was acknowledged, and nothing twice, by a walk over everything;
    /// what was to expire soon is gone in a while.
    pub(crate) fn check_nothing_else(&self, address: String) {
        let mut connection = Reader::reach(&address);
        let live = self.live();
        let end = Instant::now() + EXPIRED;
        loop {
            let found = walk(&mut connection);
            if found == live {
                return;
            }
            let differ = || found.symmetric_difference(&live).take(5).collect::<Vec<_>>();
            assert!(Instant::now() < end && found.is_superset(&live), "{:?}", differ());
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Names of what is there once all has expired that does so soon.
    fn live(&self) -> BTreeSet<String> {
        let mut live = BTreeSet::new();
        for (known, number) in self.known.iter().zip(0..) {
            let is_live = known.acknowledged.iter().filter(|(key, state)| keys::stays(**key, **state));
            live.extend(is_live.map(|(key, _)| key.to_string()));
            if known.counted.is_there() {
                live.extend([counter(number), list(number)]);
            }
        }
        live
    }
}

/// Names of all keys, each of which a walk meets once. A cursor is a place in the order of the
/// keys, and keys that expire meanwhile change nothing of it.
fn walk(connection: &mut Reader) -> BTreeSet<String> {
    let mut found = Vec::new();
    let mut cursor = 0_u64;
    loop {
        let (next, keys): (u64, Vec<String>) =
            redis::cmd("SCAN").arg(cursor).arg("COUNT").arg(500).query(connection).expect("a reply");
        found.extend(keys);
        if next == 0 {
            break;
        }
        cursor = next;
    }
    let count = found.len();
    let found: BTreeSet<String> = found.into_iter().collect();
    assert!(count == found.len(), "a walk met {count} keys, {} of them differ", found.len());
    found
}
