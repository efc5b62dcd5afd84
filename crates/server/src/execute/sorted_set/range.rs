//! Commands on ranges of members.

use firn_format::datatype::Tag;

use super::extent::{Extent, Form, Order};
use super::scored::{begin_members, delete, missing, replace, reply_member};
use super::selection::{Limit, Selection};
use crate::execute::call::Call;
use crate::execute::index::span;
use crate::failure::{Failure, Result};

/// A range with the options of the `ZRANGE` family.
#[derive(Debug)]
struct Asked<'a> {
    extent: Extent<'a>,
    order: Order,
    limit: Limit,
    has_scores: bool,
}

impl<'a> Asked<'a> {
    /// The range whose ends are the arguments at `min` and `min + 1`, with options after them. They
    /// give its form and order, unless the command's name does.
    fn of(call: &Call<'a>, min: usize, mut form: Option<Form>, mut order: Option<Order>) -> Result<Self> {
        let (mut limit, mut has_scores) = (Limit::NONE, false);
        let mut index = min + 2;
        while index < call.arguments.len() {
            match call.argument(index).to_ascii_lowercase().as_slice() {
                b"withscores" if !call.command.name.ends_with("store") => has_scores = true,
                b"limit" if index + 2 < call.arguments.len() => {
                    limit = Limit { offset: call.integer(index + 1)?, count: call.integer(index + 2)? };
                    index += 2;
                }
                b"rev" if order.is_none() => order = Some(Order::Falling),
                b"bylex" if form.is_none() => form = Some(Form::Names),
                b"byscore" if form.is_none() => form = Some(Form::Scores),
                _ => return Err(Failure::SYNTAX),
            }
            index += 1;
        }
        let (form, order) = (form.unwrap_or(Form::Ranks), order.unwrap_or(Order::Rising));
        if limit.count != Limit::NONE.count && form == Form::Ranks {
            return Err(Failure::new(LIMIT_OF_RANKS));
        }
        if has_scores && form == Form::Names {
            return Err(Failure::new(SCORES_OF_NAMES));
        }
        // With the highest first, the upper end is named first.
        let (low, high) = match (form, order) {
            (Form::Ranks, _) | (_, Order::Rising) => (min, min + 1),
            (_, Order::Falling) => (min + 1, min),
        };
        Ok(Self { extent: Extent::of(call, form, low, high)?, order, limit, has_scores })
    }
}

const LIMIT_OF_RANKS: &str =
    "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const SCORES_OF_NAMES: &str = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`, and the older
/// names of its forms.
pub(super) async fn answer(call: &mut Call<'_>, form: Option<Form>, order: Option<Order>) -> Result<()> {
    let asked = Asked::of(call, 2, form, order)?;
    let Some(set) = call.collection(1, Tag::SortedSet).await? else {
        call.reply(|reply| reply.array(0));
        return Ok(());
    };
    let mut selection =
        Selection::open(call.transaction, &set, asked.extent, asked.order, asked.limit).await?;
    // How many there are is known beforehand only of ranks: those replies may go out in pieces.
    let mut announced = None;
    if let Extent::Ranks(first, last) = asked.extent {
        let ranks = span(set.count(), first, last);
        announced = Some(ranks.end - ranks.start);
        call.reply(|reply| begin_members(reply, (ranks.end - ranks.start) as usize, asked.has_scores));
    }
    let mark = call.reply(|reply| reply.mark());
    let mut count = 0;
    while let Some((member, score)) = selection.next().await? {
        call.reply(|reply| reply_member(reply, member, asked.has_scores.then_some(score)));
        count += 1;
        match announced {
            Some(_) => call.spill().await?,
            None => call.check_reply()?,
        }
    }
    match announced {
        Some(announced) if announced != count => return Err(missing()),
        Some(_) => {}
        None => {
            let protocol = call.protocol;
            let is_flat = asked.has_scores && protocol == firn_protocol::resp::Protocol::Resp2;
            let values = if is_flat { 2 * count } else { count };
            call.reply(|reply| reply.finish_array(mark, values as usize));
        }
    }
    Ok(())
}

/// `ZRANGESTORE destination source min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(super) async fn store(call: &mut Call<'_>) -> Result<()> {
    let asked = Asked::of(call, 3, None, None)?;
    let mut members = Vec::new();
    if let Some(set) = call.collection(2, Tag::SortedSet).await? {
        let mut selection =
            Selection::open(call.transaction, &set, asked.extent, asked.order, asked.limit).await?;
        while let Some((member, score)) = selection.next().await? {
            members.push((member.to_vec(), score));
        }
    }
    replace(call, 1, &members).await?;
    call.reply(|reply| reply.integer(members.len() as i64));
    Ok(())
}

/// `ZCOUNT key min max`, `ZLEXCOUNT key min max`: walks over what it counts.
pub(super) async fn count(call: &mut Call<'_>, form: Form) -> Result<()> {
    let extent = Extent::of(call, form, 2, 3)?;
    let mut count = 0;
    if let Some(set) = call.collection(1, Tag::SortedSet).await? {
        let mut selection =
            Selection::open(call.transaction, &set, extent, Order::Rising, Limit::NONE).await?;
        while selection.next().await?.is_some() {
            count += 1;
        }
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}

/// `ZREMRANGEBYRANK key start stop`, `ZREMRANGEBYSCORE key min max`, `ZREMRANGEBYLEX key min max`
pub(super) async fn remove(call: &mut Call<'_>, form: Form) -> Result<()> {
    let extent = Extent::of(call, form, 2, 3)?;
    let mut count = 0;
    if let Some(mut set) = call.collection(1, Tag::SortedSet).await? {
        let mut selection =
            Selection::open(call.transaction, &set, extent, Order::Rising, Limit::NONE).await?;
        while let Some((member, score)) = selection.next().await? {
            delete(call.transaction, &mut set, member, score);
            count += 1;
        }
        if count > 0 {
            call.transaction.save(&mut set);
        }
    }
    call.reply(|reply| reply.integer(count));
    Ok(())
}
