//! Saving, and the end of the server.

use crate::execute::call::{Call, Origin};
use crate::failure::{Failure, Result};
use crate::saver::Saving;
use crate::server_thread::ServerThread;
use crate::statistics::Measure;
use crate::wake::TaskWaker;

/// `SAVE`: everything is durable once this is answered. Others are served meanwhile.
pub(super) async fn save(call: &mut Call<'_>) -> Result<()> {
    saved(call, Saving::Sync).await?;
    call.reply(|reply| reply.ok());
    Ok(())
}

/// Saves, and waits for it.
pub(super) async fn saved(call: &Call<'_>, saving: Saving) -> Result<()> {
    let thread = call.thread;
    begin(thread, saving, Some(thread.waker()))?;
    thread.until(|| thread.shared.saver.running().is_none()).await;
    match thread.shared.saver.last().failure {
        None => Ok(()),
        Some(failure) => Err(Failure::of(format!("ERR {failure}"))),
    }
}

/// Begins to save.
fn begin(thread: &ServerThread, saving: Saving, waiting: Option<TaskWaker>) -> Result<()> {
    let changes = thread.shared.diagnostics.statistics.all().of(Measure::Changes);
    thread.shared.saver.begin(saving, changes, waiting)
}

/// `BGSAVE [SCHEDULE]`: the same, and the client does not wait.
pub(super) fn save_in_background(call: &mut Call<'_>) -> Result<()> {
    let is_scheduled = match call.arguments.len() {
        1 => false,
        2 if call.is_word(1, "schedule") => true,
        _ => return Err(Failure::SYNTAX),
    };
    let text = match call.thread.shared.saver.running() {
        // What goes on saves everything up to its beginning; the log has the rest anyway.
        Some((Saving::Flush, _)) if is_scheduled => "Background saving scheduled",
        _ => {
            begin(call.thread, Saving::Sync, None)?;
            "Background saving started"
        }
    };
    call.reply(|reply| reply.simple(text));
    Ok(())
}

/// `BGREWRITEAOF`: writes what the log holds to tables, so that the log becomes short.
pub(super) fn rewrite(call: &mut Call<'_>) -> Result<()> {
    begin(call.thread, Saving::Flush, None)
        .map_err(|_| Failure::new("ERR Background append only file rewriting already in progress"))?;
    call.reply(|reply| reply.simple("Background append only file rewriting started"));
    Ok(())
}

/// `LASTSAVE`
pub(super) fn last_save(call: &mut Call<'_>) -> Result<()> {
    let unix_s = call.thread.shared.saver.last().unix_s;
    call.reply(|reply| reply.integer(unix_s as i64));
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: ends the server; the connection is closed
/// without an answer.
pub(super) async fn shutdown(call: &mut Call<'_>) -> Result<()> {
    let (mut saves, mut is_forced, mut aborts) = (None, false, false);
    for index in 1..call.arguments.len() {
        if call.is_word(index, "save") && saves != Some(false) {
            saves = Some(true);
        } else if call.is_word(index, "nosave") && saves != Some(true) {
            saves = Some(false);
        } else if call.is_word(index, "force") {
            is_forced = true;
        } else if call.is_word(index, "abort") {
            aborts = true;
        } else if !call.is_word(index, "now") {
            return Err(Failure::SYNTAX);
        }
    }
    if aborts {
        return Err(match call.arguments.len() {
            2 => Failure::new("ERR No shutdown in progress."),
            _ => Failure::SYNTAX,
        });
    }
    if call.origin != Origin::Client {
        return Err(Failure::new("ERR SHUTDOWN is not allowed here"));
    }
    if saves != Some(false) {
        // A save that goes on already began too early.
        while call.thread.shared.saver.running().is_some() {
            call.thread.sleep_until(call.thread.monotonic_ms() + 5).await;
        }
        if saved(call, Saving::Sync).await.is_err() && !is_forced {
            return Err(Failure::new("ERR Errors trying to SHUTDOWN. Check logs."));
        }
    }
    call.client.is_closing.set(true);
    call.thread.shared.end();
    Ok(())
}
