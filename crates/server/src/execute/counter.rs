//! Strings that are numbers.

use firn_protocol::number;

use super::Call;
use super::key::Record;
use crate::failure::{Failure, Result};

/// The number that the command adds, or takes away.
pub(super) fn amount(call: &Call<'_>) -> Result<i64> {
    number::parse_integer(call.argument(2)).ok_or(Failure::NOT_AN_INTEGER)
}

/// The same number with the other sign.
pub(super) fn negated(amount: i64) -> Result<i64> {
    amount.checked_neg().ok_or(Failure::new("ERR decrement would overflow"))
}

/// `INCR`, `DECR`, `INCRBY`, `DECRBY`: adds `amount` to the key's number; what is not there is 0.
pub(super) async fn add(call: &Call<'_>, amount: i64) -> Result<()> {
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let old = match record.string()? {
        None => 0,
        Some(string) => number::parse_integer(string).ok_or(Failure::NOT_AN_INTEGER)?,
    };
    let new = old.checked_add(amount).ok_or(Failure::OVERFLOW)?;
    let mut digits = Vec::with_capacity(20);
    number::append_integer(&mut digits, new);
    record.write_string(call, &digits).await?;
    call.client.reply(|reply| reply.integer(new));
    Ok(())
}

/// `INCRBYFLOAT key increment`
pub(super) async fn add_float(call: &Call<'_>) -> Result<()> {
    let amount = number::parse_double(call.argument(2)).ok_or(Failure::NOT_A_FLOAT)?;
    let (record, _locks) = Record::lock(call, call.argument(1)).await?;
    let old = match record.string()? {
        None => 0.0,
        Some(string) => number::parse_double(string).ok_or(Failure::NOT_A_FLOAT)?,
    };
    let new = old + amount;
    if !new.is_finite() {
        return Err(Failure::NAN);
    }
    let mut digits = Vec::new();
    number::append_plain(&mut digits, new);
    record.write_string(call, &digits).await?;
    call.client.reply(|reply| reply.bulk(&digits));
    Ok(())
}
