//! When keys expire.

use firn_protocol::command::{CommandId, id_of};

use super::call::Call;
use crate::bounds::cut_text;
use crate::failure::{Failure, Result};

/// How a command says when something expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// So many seconds from now.
    InSeconds,
    /// So many milliseconds from now.
    InMs,
    /// Seconds since the Unix epoch.
    AtSeconds,
    /// Milliseconds since the Unix epoch.
    AtMs,
}

impl Deadline {
    /// The one that the option `word`, in lower case, means.
    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"ex" => Deadline::InSeconds,
            b"px" => Deadline::InMs,
            b"exat" => Deadline::AtSeconds,
            b"pxat" => Deadline::AtMs,
            _ => return None,
        })
    }

    /// The moment that `number` means, in milliseconds since the Unix epoch; `None` if no number
    /// can say it.
    fn at_ms(self, number: i64, now_ms: u64) -> Option<i64> {
        let now_ms = i64::try_from(now_ms).ok()?;
        match self {
            Deadline::InSeconds => number.checked_mul(1000)?.checked_add(now_ms),
            Deadline::InMs => number.checked_add(now_ms),
            Deadline::AtSeconds => number.checked_mul(1000),
            Deadline::AtMs => Some(number),
        }
    }
}

/// The argument at `index` as a moment that is no earlier than the epoch: for commands that set a
/// value with it.
pub(super) fn deadline(call: &Call<'_>, index: usize, kind: Deadline) -> Result<u64> {
    let number = call.integer(index)?;
    let at_ms = if number > 0 { kind.at_ms(number, call.transaction.now_ms()) } else { None };
    at_ms.and_then(|at_ms| u64::try_from(at_ms).ok()).filter(|at_ms| *at_ms > 0).ok_or_else(|| invalid(call))
}

fn invalid(call: &Call<'_>) -> Failure {
    Failure::of(format!("ERR invalid expire time in '{}' command", call.command))
}

/// When `EXPIRE` may change what there is.
#[derive(Debug, Default)]
struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    fn of(call: &Call<'_>) -> Result<Self> {
        let mut conditions = Self::default();
        for word in call.arguments.from(3).iter() {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => conditions.nx = true,
                b"xx" => conditions.xx = true,
                b"gt" => conditions.gt = true,
                b"lt" => conditions.lt = true,
                _ => {
                    let word = cut_text(word);
                    return Err(Failure::of(format!("ERR Unsupported option {word}")));
                }
            }
        }
        if conditions.nx && (conditions.xx || conditions.gt || conditions.lt) {
            return Err(Failure::new("ERR NX and XX, GT or LT options at the same time are not compatible"));
        }
        if conditions.gt && conditions.lt {
            return Err(Failure::new("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(conditions)
    }

    /// Whether `new` may replace `old`; 0 = never, which is later than everything.
    fn allow(&self, old: u64, new: i64) -> bool {
        let old_ms = if old == 0 { i64::MAX } else { i64::try_from(old).unwrap_or(i64::MAX) };
        !(self.nx && old != 0 || self.xx && old == 0 || self.gt && new <= old_ms || self.lt && new >= old_ms)
    }
}

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const EXPIRE: CommandId = id_of("expire");
    const PEXPIRE: CommandId = id_of("pexpire");
    const EXPIREAT: CommandId = id_of("expireat");
    const PEXPIREAT: CommandId = id_of("pexpireat");
    const TTL: CommandId = id_of("ttl");
    const PTTL: CommandId = id_of("pttl");
    const EXPIRETIME: CommandId = id_of("expiretime");
    const PEXPIRETIME: CommandId = id_of("pexpiretime");
    const PERSIST: CommandId = id_of("persist");
    let now_ms = call.transaction.now_ms() as i64;
    match call.command.id() {
        EXPIRE => expire(call, Deadline::InSeconds).await,
        PEXPIRE => expire(call, Deadline::InMs).await,
        EXPIREAT => expire(call, Deadline::AtSeconds).await,
        PEXPIREAT => expire(call, Deadline::AtMs).await,
        TTL => reply_expiry(call, |at_ms| (at_ms - now_ms + 500) / 1000).await,
        PTTL => reply_expiry(call, |at_ms| at_ms - now_ms).await,
        EXPIRETIME => reply_expiry(call, |at_ms| (at_ms + 500) / 1000).await,
        PEXPIRETIME => reply_expiry(call, |at_ms| at_ms).await,
        PERSIST => persist(call).await,
        _ => Err(call.not_offered()),
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]` and its sisters. What is over at once is removed at
/// once.
async fn expire(call: &mut Call<'_>, kind: Deadline) -> Result<()> {
    let number = call.integer(2)?;
    let conditions = Conditions::of(call)?;
    let at_ms = kind.at_ms(number, call.transaction.now_ms()).ok_or_else(|| invalid(call))?;
    let entry = call.entry(1).await?;
    let is_set = entry.exists() && conditions.allow(entry.expires_at_ms()?, at_ms);
    match u64::try_from(at_ms).ok().filter(|at_ms| *at_ms > call.transaction.now_ms()) {
        Some(at_ms) if is_set => call.transaction.set_expiry(&entry, at_ms)?,
        // What was over before stays so.
        None if is_set || !entry.exists() => call.transaction.remove(&entry).await?,
        _ => {}
    }
    call.reply(|reply| reply.integer(i64::from(is_set)));
    Ok(())
}

/// `TTL key` and its sisters: -2 without the key, -1 if it never expires.
async fn reply_expiry(call: &mut Call<'_>, answer: impl Fn(i64) -> i64) -> Result<()> {
    let entry = call.entry(1).await?;
    let number = match (entry.exists(), entry.expires_at_ms()?) {
        (false, _) => -2,
        (true, 0) => -1,
        (true, at_ms) => answer(at_ms as i64),
    };
    call.reply(|reply| reply.integer(number));
    Ok(())
}

/// `PERSIST key`
async fn persist(call: &mut Call<'_>) -> Result<()> {
    let entry = call.entry(1).await?;
    let is_changed = entry.expires_at_ms()? != 0;
    if is_changed {
        call.transaction.set_expiry(&entry, 0)?;
    }
    call.reply(|reply| reply.integer(i64::from(is_changed)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_with_what_there_is() {
        let nx = Conditions { nx: true, ..Conditions::default() };
        assert!(nx.allow(0, 5) && !nx.allow(9, 5));
        let xx = Conditions { xx: true, ..Conditions::default() };
        assert!(!xx.allow(0, 5) && xx.allow(9, 5));
        let gt = Conditions { gt: true, ..Conditions::default() };
        assert!(!gt.allow(0, 5) && !gt.allow(9, 5) && !gt.allow(5, 5) && gt.allow(4, 5));
        let lt = Conditions { lt: true, ..Conditions::default() };
        assert!(lt.allow(0, 5) && lt.allow(9, 5) && !lt.allow(5, 5) && !lt.allow(4, 5));
    }

    #[test]
    fn moments_that_no_number_can_say_are_refused() {
        assert_eq!(Deadline::InSeconds.at_ms(i64::MAX / 10, 1), None);
        assert_eq!(Deadline::InMs.at_ms(i64::MAX, 1), None);
        assert_eq!(Deadline::InSeconds.at_ms(2, 500), Some(2500));
        assert_eq!(Deadline::AtSeconds.at_ms(2, 500), Some(2000));
    }
}
