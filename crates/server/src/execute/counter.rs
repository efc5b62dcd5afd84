//! Strings that are numbers.

use firn_protocol::number::{self, Extended};

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
    let entry = call.entry(1).await?;
    let old = match call.transaction.string(&entry).await? {
        None => Extended::ZERO,
        Some(string) => Extended::parse(&string).ok_or(Failure::NOT_A_FLOAT)?,
    };
    let amount = Extended::parse(call.argument(2)).ok_or(Failure::NOT_A_FLOAT)?;
    let digits = float_sum(&old, &amount)?;
    let expires_at_ms = entry.expires_at_ms()?;
    call.transaction.set_string(&entry, &digits, expires_at_ms).await?;
    call.reply(|reply| reply.bulk(&digits));
    Ok(())
}

/// The sum as users see it.
pub(super) fn float_sum(old: &Extended, amount: &Extended) -> Result<Vec<u8>> {
    let new = old.plus(amount);
    if !new.is_finite() {
        return Err(Failure::NAN);
    }
    let mut digits = Vec::new();
    new.append_plain(&mut digits);
    Ok(digits)
}
