//! Strings that are numbers.

use firn_protocol::number;

use super::call::Call;
use crate::failure::{Failure, Result};

/// The same number with the other sign.
pub(super) fn negated(amount: i64) -> Result<i64> {
    amount.checked_neg().ok_or(Failure::new("ERR decrement would overflow"))
}

/// `INCR`, `DECR`, `INCRBY`, `DECRBY`: adds `amount` to the key's number; what is not there is 0.
pub(super) async fn add(call: &mut Call<'_>, amount: i64) -> Result<()> {
    let entry = call.entry(1).await?;
    let old = match call.transaction.string(&entry).await? {
        None => 0,
        Some(string) => number::parse_integer(&string).ok_or(Failure::NOT_AN_INTEGER)?,
    };
    let new = old.checked_add(amount).ok_or(Failure::OVERFLOW)?;
    let mut digits = Vec::with_capacity(20);
    number::append_integer(&mut digits, new);
    let expires_at_ms = entry.expires_at_ms()?;
    call.transaction.set_string(&entry, &digits, expires_at_ms).await?;
    call.reply(|reply| reply.integer(new));
    Ok(())
}

/// `INCRBYFLOAT key increment`
pub(super) async fn add_float(call: &mut Call<'_>) -> Result<()> {
    let amount = call.double(2)?;
    let entry = call.entry(1).await?;
    let old = match call.transaction.string(&entry).await? {
        None => 0.0,
        Some(string) => number::parse_double(&string).ok_or(Failure::NOT_A_FLOAT)?,
    };
    let new = old + amount;
    if !new.is_finite() {
        return Err(Failure::NAN);
    }
    let mut digits = Vec::new();
    number::append_plain(&mut digits, new);
    let expires_at_ms = entry.expires_at_ms()?;
    call.transaction.set_string(&entry, &digits, expires_at_ms).await?;
    call.reply(|reply| reply.bulk(&digits));
    Ok(())
}
