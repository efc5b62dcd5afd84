//! Sorted sets.
//!
//! A member is two records, one to find its score and one that lies in the order of scores:
//! `scored` writes both. Ranges of scores and names are found by seeks. Nothing counts what lies
//! before a member: ranks are found by walking from the nearer end, which costs as much as the
//! rank.

mod scored;
mod add;
mod look;
mod extent;
mod selection;
mod range;
mod pop;
mod combine;
mod random;

use firn_protocol::command::{CommandId, id_of};

use super::call::Call;
use crate::failure::Result;
use combine::Operation;
use extent::{Form, Order};

const BZMPOP: CommandId = id_of("bzmpop");
const BZPOPMAX: CommandId = id_of("bzpopmax");
const BZPOPMIN: CommandId = id_of("bzpopmin");
const ZADD: CommandId = id_of("zadd");
const ZCARD: CommandId = id_of("zcard");
const ZCOUNT: CommandId = id_of("zcount");
const ZDIFF: CommandId = id_of("zdiff");
const ZDIFFSTORE: CommandId = id_of("zdiffstore");
const ZINCRBY: CommandId = id_of("zincrby");
const ZINTER: CommandId = id_of("zinter");
const ZINTERCARD: CommandId = id_of("zintercard");
const ZINTERSTORE: CommandId = id_of("zinterstore");
const ZLEXCOUNT: CommandId = id_of("zlexcount");
const ZMPOP: CommandId = id_of("zmpop");
const ZMSCORE: CommandId = id_of("zmscore");
const ZPOPMAX: CommandId = id_of("zpopmax");
const ZPOPMIN: CommandId = id_of("zpopmin");
const ZRANDMEMBER: CommandId = id_of("zrandmember");
const ZRANGE: CommandId = id_of("zrange");
const ZRANGEBYLEX: CommandId = id_of("zrangebylex");
const ZRANGEBYSCORE: CommandId = id_of("zrangebyscore");
const ZRANGESTORE: CommandId = id_of("zrangestore");
const ZRANK: CommandId = id_of("zrank");
const ZREM: CommandId = id_of("zrem");
const ZREMRANGEBYLEX: CommandId = id_of("zremrangebylex");
const ZREMRANGEBYRANK: CommandId = id_of("zremrangebyrank");
const ZREMRANGEBYSCORE: CommandId = id_of("zremrangebyscore");
const ZREVRANGE: CommandId = id_of("zrevrange");
const ZREVRANGEBYLEX: CommandId = id_of("zrevrangebylex");
const ZREVRANGEBYSCORE: CommandId = id_of("zrevrangebyscore");
const ZREVRANK: CommandId = id_of("zrevrank");
const ZSCAN: CommandId = id_of("zscan");
const ZSCORE: CommandId = id_of("zscore");
const ZUNION: CommandId = id_of("zunion");
const ZUNIONSTORE: CommandId = id_of("zunionstore");

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    match call.command.id() {
        ZADD => add::add(call).await,
        ZINCRBY => add::increment(call).await,
        ZREM => add::remove(call).await,
        ZSCORE => look::score(call).await,
        ZMSCORE => look::scores(call).await,
        ZCARD => look::count(call).await,
        ZRANK => look::rank(call, Order::Rising).await,
        ZREVRANK => look::rank(call, Order::Falling).await,
        ZUNION => combine::answer(call, Operation::Union).await,
        ZINTER => combine::answer(call, Operation::Intersection).await,
        ZDIFF => combine::answer(call, Operation::Difference).await,
        ZUNIONSTORE => combine::store(call, Operation::Union).await,
        ZINTERSTORE => combine::store(call, Operation::Intersection).await,
        ZDIFFSTORE => combine::store(call, Operation::Difference).await,
        ZINTERCARD => combine::count_common(call).await,
        ZPOPMIN => pop::pop(call, Order::Rising).await,
        ZPOPMAX => pop::pop(call, Order::Falling).await,
        ZMPOP => pop::pop_from_first(call).await,
        BZPOPMIN => pop::wait_for_one(call, Order::Rising).await,
        BZPOPMAX => pop::wait_for_one(call, Order::Falling).await,
        BZMPOP => pop::wait_for_some(call).await,
        ZRANDMEMBER => random::random_members(call).await,
        ZSCAN => random::step(call).await,
        _ => by_range(call).await,
    }
}

/// Commands that name their members by a range.
async fn by_range(call: &mut Call<'_>) -> Result<()> {
    match call.command.id() {
        ZRANGE => range::answer(call, None, None).await,
        ZRANGESTORE => range::store(call).await,
        ZREVRANGE => range::answer(call, Some(Form::Ranks), Some(Order::Falling)).await,
        ZRANGEBYSCORE => range::answer(call, Some(Form::Scores), Some(Order::Rising)).await,
        ZREVRANGEBYSCORE => range::answer(call, Some(Form::Scores), Some(Order::Falling)).await,
        ZRANGEBYLEX => range::answer(call, Some(Form::Names), Some(Order::Rising)).await,
        ZREVRANGEBYLEX => range::answer(call, Some(Form::Names), Some(Order::Falling)).await,
        ZCOUNT => range::count(call, Form::Scores).await,
        ZLEXCOUNT => range::count(call, Form::Names).await,
        ZREMRANGEBYRANK => range::remove(call, Form::Ranks).await,
        ZREMRANGEBYSCORE => range::remove(call, Form::Scores).await,
        ZREMRANGEBYLEX => range::remove(call, Form::Names).await,
        _ => Err(call.not_offered()),
    }
}
