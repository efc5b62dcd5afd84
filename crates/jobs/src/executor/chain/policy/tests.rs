//! What a chain does next, as text, in `chain/policy/scenes`.
//!
//! ```text
//! chain device remote             links of these names before `local`, the last executor; `inline`,
//!                                 `share=1` (done again), `rate=MB` (a second, of deep work)
//! refuse device unavailable       what it says from now on to each job; `take device` ends that
//! submit a deep 8 needs=m         a job of that many MB; `entries=N` are gone over
//! answer a well                   what has come of the attempt, or look, that goes on: `well`,
//!                                 `well ran=2 opened=1`, `failed KIND`, `unseen own`, `unseen link`
//! see a waiting syncing           what its executor says of it until something else is: `waiting`,
//!                                 `syncing`, `tried`, `passed=N`
//! cancel a, close, urge 5, idle 2 its submitter, the owner, writers that stop in so many seconds,
//!                                 processors that idle
//! width remote 1                  jobs that it does at a time
//! at 1.5                          so many seconds after the begin
//! trust                           which links are relied on
//! ```
//! Every command is answered with what [`next`] says until it says to wait. The driver of a scene
//! does it at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::executor::chain::about::About;
use crate::executor::chain::patience::Patience;
use crate::executor::chain::state::{Seen, Took};

#[path = "../../../../tests/it/scenes.rs"]
mod script;

use script::Command;

/// Most actions that one event leads to; more of them are a rule that repeats itself.
const ACTIONS_MAX: usize = 40;

const MB: f64 = 1e6;

#[derive(Default)]
struct Scene {
    chain: Option<Chain>,
}

/// A chain whose driver does what it is told at once.
struct Chain {
    state: State,
    now: Duration,
    links: Vec<String>,
    refusals: BTreeMap<String, ErrorKind>,
    names: BTreeMap<u64, String>,
    seen: BTreeMap<u64, Seen>,
    /// Processors that idle.
    idle: usize,
}

#[test]
fn actions_are_those_that_their_scenes_show() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/executor/chain/policy/scenes");
    script::check(&folder, Scene::answer);
}

impl Scene {
    fn answer(&mut self, command: &Command<'_>) -> String {
        assert!(command.input.is_empty(), "no command takes lines");
        if command.name == "chain" {
            self.chain = Some(Chain::new(&command.arguments));
            return "made".to_owned();
        }
        self.chain.as_mut().expect("a scene begins with a chain").answer(command)
    }
}

impl Chain {
    fn new(arguments: &[&str]) -> Self {
        let option = |name: &str| arguments.iter().find_map(|it| it.strip_prefix(name)).map(number);
        let is_inline = arguments.contains(&"inline");
        let links = arguments.iter().filter(|it| !it.contains('=') && **it != "inline");
        let links: Vec<String> = links.map(|link| (*link).to_owned()).collect();
        let patience = Patience {
            reexecuted_share: option("share=").unwrap_or(0.0),
            deep_bytes_per_second: option("rate=").map_or(16 << 20, |rate| (rate * MB) as u64),
            ..Patience::default()
        };
        Self {
            state: State::new(links.len(), patience, is_inline, 1),
            now: Duration::ZERO,
            links,
            refusals: BTreeMap::new(),
            names: BTreeMap::new(),
            seen: BTreeMap::new(),
            idle: 0,
        }
    }

    fn answer(&mut self, command: &Command<'_>) -> String {
        let words = &command.arguments;
        match command.name {
            "at" => self.now = Duration::from_secs_f64(number(words[0])),
            "refuse" => drop(self.refusals.insert(words[0].to_owned(), kind(words[1]))),
            "take" => drop(self.refusals.remove(words[0])),
            "submit" => self.submit(words),
            "answer" => self.seen_of(words[0]).answer = Some(answer(&words[1..])),
            "see" => {
                let passed =
                    words.iter().find_map(|it| it.strip_prefix("passed=")).map_or(0, |it| number(it) as u64);
                let seen = self.seen_of(words[0]);
                (seen.is_waiting, seen.is_syncing) = (words.contains(&"waiting"), words.contains(&"syncing"));
                (seen.was_tried, seen.passed) = (words.contains(&"tried"), passed);
            }
            "cancel" => self.seen_of(words[0]).is_unwanted = true,
            "close" => self.state.is_closed = true,
            "urge" => self.state.rate.urge(self.now, Some(Duration::from_secs_f64(number(words[0])))),
            "idle" => self.idle = number(words[0]) as usize,
            "width" => {
                let link = self.links.iter().position(|link| link == words[0]).expect("a link");
                self.state.links[link].width = Some(number(words[1]) as usize);
            }
            "trust" => {
                let trusts = self.links.iter().zip(&self.state.links);
                let is = |is_doubted| if is_doubted { "doubted" } else { "relied on" };
                let lines = trusts.map(|(name, link)| format!("{name} is {}", is(link.trust.is_doubted())));
                return lines.collect::<Vec<_>>().join("\n");
            }
            other => panic!("no command `{other}`"),
        }
        let lines = self.run();
        if lines.is_empty() { "wait".to_owned() } else { lines.join("\n") }
    }

    fn submit(&mut self, words: &[&str]) {
        let option = |name: &str| words.iter().find_map(|it| it.strip_prefix(name));
        let need = (words.contains(&"gc"), option("needs=").map(str::to_owned).into_iter().collect());
        let entries = (!words.contains(&"gc")).then(|| option("entries=").map_or(0, |it| number(it) as u64));
        let bytes = (number(words[2]) * MB) as u64;
        let about = About { is_l0: words[1] == "l0", bytes, entries, need };
        let number = self.state.add(about);
        self.names.insert(number, words[0].to_owned());
        self.seen.insert(number, Seen::default());
    }

    /// The latest job of this name.
    fn seen_of(&mut self, name: &str) -> &mut Seen {
        let number = *self.names.iter().rev().find(|(_, it)| *it == name).expect("a job").0;
        self.seen.get_mut(&number).expect("a job")
    }

    /// Does what is to be done until that is nothing.
    fn run(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            assert!(lines.len() < ACTIONS_MAX, "it goes on for ever:\n{}", lines.join("\n"));
            for (number, seen) in &self.seen {
                self.state.see(*number, *seen, self.now);
            }
            let jobs = self.state.idle_count();
            if self.idle > 0 {
                self.state.idleness.note(self.idle, jobs, (Duration::ZERO, self.idle as f64), self.now);
            }
            let action = next(&self.state, self.now);
            if action == Action::Wait {
                return lines;
            }
            self.do_it(action, &mut lines);
        }
    }

    fn do_it(&mut self, action: Action, lines: &mut Vec<String>) {
        let number = job_of(action);
        self.state.apply(action, self.now);
        lines.push(format!("{} {}", self.names[&number], self.words(number, action)));
        let to = match action {
            Action::Hand(_, to, _) => to,
            Action::TakeBack(_, allowed) => To::Idle(allowed),
            Action::Stop(_) | Action::Extend(..) | Action::Hold(_) => return,
            _ => return self.forget(number),
        };
        self.forget(number);
        let name = self.name_of(to);
        match self.refusals.get(&name) {
            None => self.state.handed(number),
            Some(kind) => {
                lines.push(format!("  {name} refuses it: {kind:?}"));
                self.state.refused(number, *kind, self.now);
            }
        }
    }

    /// What was seen is of an attempt that goes on no longer.
    fn forget(&mut self, number: u64) {
        let is_unwanted = self.seen[&number].is_unwanted;
        self.seen.insert(number, Seen { is_unwanted, ..Seen::default() });
    }

    fn name_of(&self, to: To) -> String {
        match to {
            To::Link { link, .. } => self.links[link].clone(),
            To::Last => "local".to_owned(),
            To::Idle(_) => "idle".to_owned(),
        }
    }

    /// What `action`, which has been applied, is for its job.
    fn words(&self, number: u64, action: Action) -> String {
        match action {
            Action::Wait => unreachable!(),
            Action::Hand(_, to @ To::Link { is_probe, .. }, _) => {
                format!("goes to {}{}", self.name_of(to), if is_probe { ", to find out" } else { "" })
            }
            Action::Hand(_, to, reason) => {
                let cause = self.state.jobs[&number].cause.name();
                format!("goes to {}, {cause} ({reason:?})", self.name_of(to))
            }
            Action::Hold(_) => "is held".to_owned(),
            Action::Stop(_) => "is asked to stop".to_owned(),
            Action::Cancel(_) => "is answered as cancelled".to_owned(),
            Action::GiveUp(_, why) => format!("is given up: {why:?}"),
            Action::Check(_, until) => format!("is looked at until {}", seconds(until)),
            Action::Reexecute(_) => "is done again by local".to_owned(),
            Action::Compare(_, until) => format!("is compared until {}", seconds(until)),
            Action::Finish(_, result) => format!("has its result: {result:?}"),
            Action::TakeBack(_, allowed) => format!("is taken back, and may take {}", seconds(allowed)),
            Action::Extend(_, until) => format!("may go on until {}", seconds(until)),
            Action::GiveAway(_, is_late) => {
                format!("is given away again{}", if is_late { ", as too slow" } else { "" })
            }
        }
    }
}

fn job_of(action: Action) -> u64 {
    match action {
        Action::Wait => unreachable!(),
        Action::Hand(job, ..)
        | Action::Hold(job)
        | Action::Stop(job)
        | Action::Cancel(job)
        | Action::GiveUp(job, _)
        | Action::Check(job, _)
        | Action::Reexecute(job)
        | Action::Compare(job, _)
        | Action::Finish(job, _)
        | Action::TakeBack(job, _)
        | Action::Extend(job, _)
        | Action::GiveAway(job, _) => job,
    }
}

fn answer(words: &[&str]) -> Answer {
    let option = |name: &str| {
        words.iter().find_map(|it| it.strip_prefix(name)).map(|it| Duration::from_secs_f64(number(it)))
    };
    match words[0] {
        "well" => Answer::Well(Took { opened: option("opened=").unwrap_or_default(), ran: option("ran=") }),
        "failed" => Answer::Failed(kind(words[1])),
        "unseen" => Answer::Unseen { is_own: words[1] == "own" },
        other => panic!("no answer `{other}`"),
    }
}

fn kind(word: &str) -> ErrorKind {
    match word {
        "unavailable" => ErrorKind::Unavailable,
        "rejected" => ErrorKind::Rejected,
        "storage" => ErrorKind::Storage,
        "corrupt" => ErrorKind::Corrupt,
        "invalid" => ErrorKind::Invalid,
        "cancelled" => ErrorKind::Cancelled,
        other => panic!("no kind `{other}`"),
    }
}

fn number(word: &str) -> f64 {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
