//! How a server is, in sentences for people: `/status`.

use std::sync::atomic::Ordering;

use firn_engine::Stats;
use firn_protocol::command::{self, Command};
use serde_json::{Value, json};

use crate::server_thread::Shared;

/// How much a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Something is refused.
    Bad,
    /// All is served, but is worth a look.
    Warn,
}

/// What people should know, the worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notice {
    level: Level,
    text: String,
}

/// How `shared` is, as JSON: `state` in a few words, the `engine`, `is_good`, and `notices` with
/// why. Where the engine keeps no order, `not_offered` names the commands that need it.
pub(super) fn of(shared: &Shared) -> String {
    let now_ms = shared.store.clock.now().as_millis() as u64;
    // All commands, or else those that write.
    let paused = [(false, "all commands"), (true, "writes")].into_iter().find_map(|(may_write, what)| {
        Some((what, shared.pause.until_ms(may_write, now_ms)?.saturating_sub(now_ms)))
    });
    let is_ending = shared.threads.is_ending.load(Ordering::Acquire);
    let (state, notices) = described(&shared.store.db.stats(), is_ending, paused);
    let mut status = json!({
        "state": state,
        "engine": shared.store.engines.name(),
        "is_good": notices.is_empty(),
        "notices": notices.iter().map(shown).collect::<Vec<_>>(),
    });
    if !shared.store.engines.is_ordered() {
        let needs_order = |command: &&Command| command.is_offered() && command.needs_order();
        let names: Vec<String> = command::all().iter().filter(needs_order).map(ToString::to_string).collect();
        status["not_offered"] = names.into();
    }
    status.to_string() + "\n"
}

fn shown(notice: &Notice) -> Value {
    json!({ "level": if notice.level == Level::Bad { "bad" } else { "warn" }, "text": notice.text })
}

/// `paused` is what CLIENT PAUSE holds, and for how many milliseconds more.
fn described(stats: &Stats, is_ending: bool, paused: Option<(&str, u64)>) -> (&'static str, Vec<Notice>) {
    let (mut state, mut notices) = ("serving", Vec::new());
    let mut add = |level, text: String| notices.push(Notice { level, text });
    if let Some(why) = &stats.write_failure {
        state = "takes no writes";
        add(Level::Bad, format!("Nothing is written any more, and reads go on: {why}"));
    }
    if let Some(why) = &stats.write_refusal {
        state = "takes no writes";
        add(Level::Bad, format!("Writes that add something are refused; removals and reads go on: {why}"));
    }
    if let Some((what, ms)) = paused {
        if state == "serving" {
            state = "paused";
        }
        let seconds = ms.div_ceil(1000);
        add(
            Level::Warn,
            format!("CLIENT PAUSE holds {what} for another {seconds} s; CLIENT UNPAUSE ends that."),
        );
    }
    let files = |count: u64| match count {
        1 => "1 file is".to_owned(),
        _ => format!("{count} files are"),
    };
    if let Some(why) = &stats.damage {
        add(Level::Warn, format!("{} damaged: {why}", files(stats.damaged_file_count)));
    }
    if let Some(why) = &stats.set_aside {
        add(Level::Warn, format!("{} set aside: {why}", files(stats.set_aside_file_count)));
    }
    if let Some(why) = &stats.background_refusal {
        add(Level::Warn, format!("Background work waits to be tried again: {why}"));
    }
    if stats.jobs.is_executor_away {
        let why = stats.jobs_passed_on_reason.as_deref().unwrap_or("they do not answer");
        add(Level::Warn, format!("Workers are away, and their jobs are done here: {why}"));
    }
    if is_ending {
        state = "stopping";
        add(Level::Bad, "The server is ending: connections are closed.".to_owned());
    }
    (state, notices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trouble_comes_with_its_reason_and_the_worst_first() {
        assert_eq!(described(&Stats::default(), false, None), ("serving", Vec::new()));
        let full = Stats {
            write_refusal: Some("the disk has 3 bytes".to_owned()),
            background_refusal: Some("no room".to_owned()),
            damage: Some("a.table: checksum".to_owned()),
            damaged_file_count: 1,
            ..Stats::default()
        };
        let (state, notices) = described(&full, false, Some(("writes", 1500)));
        let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
        assert_eq!(state, "takes no writes");
        assert_eq!(notices[0].level, Level::Bad);
        let wanted =
            ["the disk has 3 bytes", "writes for another 2 s", "1 file is damaged: a.table", "no room"];
        assert!(texts.iter().zip(wanted).all(|(text, wanted)| text.contains(wanted)), "{texts:?}");
        assert_eq!(texts.len(), wanted.len());
        let poisoned = Stats { write_failure: Some("sync of 0.log".to_owned()), ..Stats::default() };
        let (state, notices) = described(&poisoned, true, None);
        assert_eq!((state, notices.len()), ("stopping", 2));
        assert!(notices[0].text.contains("sync of 0.log"));
        assert_eq!(described(&Stats::default(), false, Some(("all commands", 10))).0, "paused");
    }
}
