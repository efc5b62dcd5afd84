//! DEBUG: what tests of clients and of servers need. Only for clients of this machine.

mod sample;
mod populate;

use firn_protocol::{glob, number};

use super::help;
use super::saving::saved;
use crate::bounds::cut_text;
use crate::execute::call::{Call, Origin};
use crate::failure::{Failure, Result};
use crate::saver::Saving;
use crate::transaction::type_name;

const HELP: &[(&str, &str)] = &[
    ("CHANGE-REPL-ID", "Accepted, without effect."),
    ("ERROR <string>", "Answer an error that is this text."),
    ("LOADAOF", "The same as RELOAD."),
    ("OBJECT <key>", "How the value of a key is kept."),
    (
        "POPULATE <count> [<prefix>] [<size>]",
        "Add strings at so many keys key:<number>, where nothing is yet.",
    ),
    ("PROTOCOL <type>", "Answer a value of this type, one of those that the error for another one names."),
    ("QUICKLIST-PACKED-THRESHOLD <bytes>", "Accepted, without effect."),
    ("RELOAD", "Write everything to tables. Nothing is closed."),
    ("SET-ACTIVE-EXPIRE <0|1>", "Whether keys that have expired are removed in the background."),
    ("SET-DISABLE-DENY-SCRIPTS <0|1>", "Accepted, without effect."),
    ("SLEEP <seconds>", "Wait; other connections are served."),
    ("STRINGMATCH-LEN <len> <pattern>", "Match a pattern against so many letters `a`."),
];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    if !call.client.description.peer.ip().is_loopback() {
        return Err(Failure::new(
            "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it \
             from a local connection, otherwise you need to set this option in the configuration file, and then \
             restart the server.",
        ));
    }
    let word = String::from_utf8_lossy(call.argument(1)).to_ascii_lowercase();
    match (word.as_str(), call.arguments.len()) {
        ("help", 2) => return help(call, HELP),
        ("error", 3) => {
            let text = String::from_utf8_lossy(call.argument(2)).into_owned();
            call.reply(|reply| reply.error(&text));
            return Ok(());
        }
        ("protocol", 3) => return sample::answer(call),
        ("populate", 3..=5) => populate::populate(call).await?,
        ("sleep", 3) => sleep(call).await?,
        ("object", 3..) => return object(call).await,
        ("reload" | "loadaof", 2..) => saved(call, Saving::Flush).await?,
        ("set-active-expire", 3) => {
            let is_on = number::parse_integer(call.argument(2)).unwrap_or(0) != 0;
            call.thread.shared.pause.set_expiry(is_on);
        }
        ("stringmatch-len", 4) => {
            let len = number::parse_integer(call.argument(2)).filter(|len| (0..=1 << 20).contains(len));
            let text = vec![b'a'; len.ok_or(Failure::NOT_AN_INTEGER)? as usize];
            let _ = glob::matches(call.argument(3), &text);
        }
        ("quicklist-packed-threshold" | "set-disable-deny-scripts", 3) | ("change-repl-id", 2) => {}
        _ => {
            let word = cut_text(call.argument(1));
            return Err(Failure::of(format!(
                "ERR unknown subcommand or wrong number of arguments for '{word}'. Try DEBUG HELP."
            )));
        }
    }
    call.reply(|reply| reply.ok());
    Ok(())
}

/// Longest sleep.
const SLEEP_S_MAX: f64 = 1e6;

async fn sleep(call: &mut Call<'_>) -> Result<()> {
    let seconds = number::parse_double(call.argument(2)).unwrap_or(0.0).clamp(0.0, SLEEP_S_MAX);
    if call.origin == Origin::Client {
        let until_ms = call.thread.monotonic_ms() + (seconds * 1000.0).ceil() as u64;
        call.thread.sleep_until(until_ms).await;
    }
    Ok(())
}

async fn object(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(2).await?;
    let value = entry.value()?.ok_or(Failure::NO_SUCH_KEY)?;
    let (bytes, kind) = (entry.record_bytes(), type_name(value.tag()));
    let count = value.collection().map_or(0, |collection| collection.count);
    let text = format!(
        "Value at:0x0 refcount:1 encoding:raw serializedlength:{bytes} lru:0 lru_seconds_idle:0 type:{kind} \
         count:{count}"
    );
    call.reply(|reply| reply.simple(&text));
    Ok(())
}
