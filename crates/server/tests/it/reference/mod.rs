//! The same commands to Firn and to a real redis-server, whose replies must be the same.
//!
//! Commands are drawn at random from templates over few keys, so that types meet, keys vanish and
//! errors happen. A template is a line of words, some of which stand for something drawn:
//!
//! ```text
//!   K     a key of any type           I     a small integer, sometimes none
//!   M     a member or field           F     a number with a fraction, sometimes none
//!   V     a value                     P     a pattern
//!   D     digits with a fraction      A|B   one of these words
//!   S     a short value               A     some letters, few of them different
//!   [..]  what is in brackets, or not
//!   ; two commands, one after the other
//! ```

mod server;
mod template;
mod strings;
mod hashes;
mod sets;
mod bitmaps;
mod lists;
mod sorted_sets;
mod sessions;
mod watched;
mod scripts;

use fastrand::Rng;
use firn_protocol::resp::Value;

use super::client::{Client, Served};
pub(crate) use server::RedisServer;

/// Whether the elements of a reply have an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Same,
    Any,
    /// Of pairs, one element after the other.
    AnyOfPairs,
    /// Of what a step of a walk found, behind the cursor.
    AnyInStep,
    /// Of pairs that a step found.
    AnyOfPairsInStep,
    /// A second that hangs on when the command before came: up to one apart.
    Moment,
}

/// A command with what is drawn left open.
struct Template {
    text: &'static str,
    order: Order,
}

/// Replies come in the same order.
const fn same(text: &'static str) -> Template {
    Template { text, order: Order::Same }
}

/// The elements of the reply have no order.
const fn unordered(text: &'static str) -> Template {
    Template { text, order: Order::Any }
}

/// The pairs of the reply have no order.
const fn pairs(text: &'static str) -> Template {
    Template { text, order: Order::AnyOfPairs }
}

/// What the step of a walk found has no order.
const fn step(text: &'static str) -> Template {
    Template { text, order: Order::AnyInStep }
}

/// The pairs that the step of a walk found have no order.
const fn step_of_pairs(text: &'static str) -> Template {
    Template { text, order: Order::AnyOfPairsInStep }
}

/// The reply is a second, rounded from when an earlier command came to each server.
const fn moment(text: &'static str) -> Template {
    Template { text, order: Order::Moment }
}

/// Commands that every type is tested with.
const KEYS: &[Template] = &[
    same("DEL K"),
    same("DEL K K"),
    same("EXISTS K K"),
    same("TYPE K"),
    same("RENAME K K"),
    same("RENAMENX K K"),
    same("COPY K K [REPLACE]"),
    same("COPY K K DB 3 [REPLACE]"),
    same("MOVE K 3"),
    // Whether one time from now on is later than another hangs on the millisecond: times are
    // compared as they are.
    same("PEXPIRE K 1000000 [NX|XX]"),
    same("EXPIRE K 100000000 [NX|XX]"),
    same("EXPIREAT K 33000000000|34000000000 [NX|XX|GT|LT]"),
    moment("EXPIRETIME K"),
    same("PERSIST K"),
    same("EXPIRE K -1"),
    same("TOUCH K K"),
    same("UNLINK K"),
    same("DBSIZE"),
    unordered("KEYS *"),
    same("SET K V"),
    same("GET K"),
    same("STRLEN K"),
    same("INCR K"),
];

/// Commands of a round where there are many, by each protocol.
const ROUND_COMMANDS: usize = 300;

/// Draws `count` commands from `templates` and from [`KEYS`], some of them between MULTI and EXEC,
/// and compares every reply. `FIRN_ROUNDS` asks for so many rounds instead, each shorter, on
/// emptied servers and with a seed of its own.
fn compare(seed: u64, templates: &[Template], count: usize) {
    let servers = (RedisServer::start(), Served::start(2));
    let rounds = rounds();
    let count = if rounds > 1 { count.min(ROUND_COMMANDS) } else { count };
    let differences: Vec<String> = (seed..seed + rounds)
        .flat_map(|seed| ["2", "3"].map(|protocol| (seed, protocol)))
        .filter_map(|(seed, protocol)| difference(&servers, (seed, protocol), templates, count))
        .collect();
    if rounds > 1 {
        let group = std::thread::current();
        eprintln!("{}: {rounds} rounds, {} differ", group.name().unwrap_or_default(), differences.len());
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// How many rounds there are of each group.
#[expect(clippy::disallowed_methods, reason = "how long a test takes is for its caller to say")]
fn rounds() -> u64 {
    std::env::var("FIRN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// The first reply of a round that is another than that of Redis, and what led to it.
fn difference(
    (redis, served): &(RedisServer, Served),
    (seed, protocol): (u64, &str),
    templates: &[Template],
    count: usize,
) -> Option<String> {
    let (mut theirs, mut ours) = (redis.connect(), served.connect());
    for client in [&mut theirs, &mut ours] {
        client.say("FLUSHALL");
    }
    let mut rng = Rng::with_seed(seed);
    let mut said: Vec<String> = Vec::new();
    if protocol == "3" && !speaks_resp3(&mut theirs, &mut ours) {
        return None;
    }
    while said.len() < count {
        for (words, order) in some_commands(templates, &mut rng) {
            said.push(template::shown(&words));
            let expected = arranged(theirs.call(&words), order);
            let found = arranged(ours.call(&words), order);
            let is_same = match (order, &expected, &found) {
                (Order::Moment, Value::Integer(theirs), Value::Integer(ours)) => theirs.abs_diff(*ours) <= 1,
                _ => expected == found,
            };
            if !is_same || null_arrays(&theirs) != null_arrays(&ours) {
                let from = said.len().saturating_sub(25);
                return Some(format!(
                    "seed {seed}, RESP{protocol}, command {}:\n{}\nRedis: {expected:?}\nFirn:  {found:?}\n\
                     arrays that are none: {}, {}",
                    said.len(),
                    said[from..].join("\n"),
                    null_arrays(&theirs),
                    null_arrays(&ours),
                ));
            }
        }
    }
    None
}

/// How many arrays that are none the last reply has: as a [`Value`] they are what strings are that
/// are none.
fn null_arrays(client: &Client) -> usize {
    client.raw.windows(5).filter(|bytes| bytes == b"*-1\r\n").count()
}

/// One command, or several as a unit.
fn some_commands(templates: &[Template], rng: &mut Rng) -> Vec<(Vec<Vec<u8>>, Order)> {
    let drawn = |rng: &mut Rng| {
        let pool = if rng.u8(..) < 60 { KEYS } else { templates };
        let template = &pool[rng.usize(..pool.len())];
        let commands = template.text.split("; ");
        commands.map(|command| (template::draw(command, rng), template.order)).collect::<Vec<_>>()
    };
    if rng.u8(..) > 10 {
        return drawn(rng);
    }
    let mut unit = vec![(vec![b"MULTI".to_vec()], Order::Same)];
    for _ in 0..rng.usize(1..8) {
        // The replies are in one of EXEC: they are compared as they are.
        unit.extend(drawn(rng).into_iter().filter(|(_, order)| *order == Order::Same));
    }
    unit.push((vec![b"EXEC".to_vec()], Order::Same));
    unit
}

fn speaks_resp3(theirs: &mut Client, ours: &mut Client) -> bool {
    theirs.say("HELLO 3");
    !matches!(ours.say("HELLO 3"), Value::Error(_))
}

/// A reply in which what has no order has been put into one.
fn arranged(reply: Value, order: Order) -> Value {
    let sorted = |mut values: Vec<Value>| {
        values.sort_by_cached_key(|value| format!("{value:?}"));
        values
    };
    match (reply, order) {
        (Value::Array(values), Order::Any) => Value::Array(sorted(values)),
        // Pairs that are arrays themselves, or that stand one after the other.
        (Value::Array(values), Order::AnyOfPairs) if matches!(values.first(), Some(Value::Array(_))) => {
            Value::Array(sorted(values))
        }
        (Value::Array(values), Order::AnyOfPairs) => {
            let pairs = values.chunks(2).map(|pair| Value::Array(pair.to_vec())).collect();
            Value::Array(sorted(pairs))
        }
        (Value::Array(mut values), Order::AnyInStep | Order::AnyOfPairsInStep) => {
            let within = if order == Order::AnyInStep { Order::Any } else { Order::AnyOfPairs };
            if let Some(found) = values.pop() {
                values.push(arranged(found, within));
            }
            Value::Array(values)
        }
        (Value::Array(values), Order::Same) => {
            Value::Array(values.into_iter().map(|value| arranged(value, Order::Same)).collect())
        }
        // Firn keeps no score of minus zero.
        (Value::Bulk(bytes), _) if bytes == b"-0" => Value::Bulk(b"0".to_vec()),
        (Value::Set(values), _) => Value::Set(sorted(values)),
        (Value::Map(mut pairs), _) => {
            pairs.sort_by_cached_key(|pair| format!("{pair:?}"));
            Value::Map(pairs)
        }
        (other, _) => other,
    }
}

/// The seed of a random test: one that changes, unless `FIRN_SEED` says which.
#[expect(clippy::disallowed_methods, reason = "a test's seed comes from its caller, or is a new one")]
pub(crate) fn seed() -> u64 {
    std::env::var("FIRN_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..1 << 32))
}
