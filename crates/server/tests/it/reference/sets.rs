use super::{Template, compare, same, seed, step, unordered};

const SETS: &[Template] = &[
    same("SADD K M"),
    same("SADD K M M M M"),
    same("SADD K I I I I I"),
    same("SADD K S"),
    same("SADD K"),
    same("SREM K M"),
    same("SREM K M M M"),
    same("SREM K m1 m2 m3 m4 x yy 1 -3"),
    same("SISMEMBER K M"),
    same("SISMEMBER K S"),
    same("SMISMEMBER K M I M"),
    same("SCARD K"),
    same("SCARD K K"),
    unordered("SMEMBERS K"),
    same("SMOVE K K M"),
    same("SMOVE K K M M"),
    unordered("SPOP K 100"),
    same("SPOP K 0|-1|abc|-9223372036854775808"),
    same("SPOP K 1 1"),
    unordered("SRANDMEMBER K 100"),
    same("SRANDMEMBER K 0|abc|-9223372036854775808"),
    same("SRANDMEMBER K 1 1"),
    unordered("SINTER K K [K]"),
    unordered("SUNION K [K] [K]"),
    unordered("SDIFF K K [K]"),
    same("SINTERCARD 1|2 K K"),
    same("SINTERCARD 2 K K [LIMIT] 0|1|2|-1|abc"),
    same("SINTERCARD 2 K K LIMIT 0|1|2|-1|abc [LIMIT] [2]"),
    same("SINTERCARD 0|-1|abc|3 K K"),
    same("SINTERSTORE K K K [K]"),
    same("SUNIONSTORE K K [K] [K]"),
    same("SDIFFSTORE K K K [K]"),
    same("SUNIONSTORE K"),
    step("SSCAN K 0 COUNT 1000 [MATCH] [P]"),
    step("SSCAN K 0 COUNT 1000 MATCH P"),
    same("SSCAN K 0 [COUNT|MATCH|TYPE] COUNT 0|-1|abc"),
    same("SSCAN K abc"),
];

#[test]
fn sets_answer_as_in_redis() {
    compare(seed(), SETS, 6000);
}
