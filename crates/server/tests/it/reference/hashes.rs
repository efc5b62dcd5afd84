use super::{Template, compare, pairs, same, seed, step_of_pairs, unordered};

const HASHES: &[Template] = &[
    same("HSET K M V"),
    same("HSET K M V M V"),
    same("HSET K M I M I M I"),
    same("HSET K M V M"),
    same("HSET K M"),
    same("HMSET K M V M I"),
    same("HMSET K M V M"),
    same("HSETNX K M V"),
    same("HSETNX K M V M V"),
    same("HGET K M"),
    same("HGET K"),
    same("HMGET K M M M"),
    same("HMGET K"),
    pairs("HGETALL K"),
    same("HGETALL K K"),
    unordered("HKEYS K"),
    unordered("HVALS K"),
    same("HLEN K"),
    same("HEXISTS K M"),
    same("HSTRLEN K M"),
    same("HDEL K M"),
    same("HDEL K M M M"),
    same("HDEL K m1 m2 m3 m4 x yy 1 -3"),
    same("HINCRBY K M I"),
    same("HINCRBY K 1|-3 9223372036854775807|-9223372036854775808|1"),
    same("HINCRBYFLOAT K M F"),
    same("HINCRBYFLOAT K 1|-3 D"),
    unordered("HRANDFIELD K 100"),
    pairs("HRANDFIELD K 100 WITHVALUES"),
    same("HRANDFIELD K 0 [WITHVALUES]"),
    same("HRANDFIELD K -9223372036854775808|abc [WITHVALUES]"),
    same("HRANDFIELD K -9223372036854775807|9223372036854775807 WITHVALUES"),
    same("HRANDFIELD K 1 WITHVALUE"),
    same("HRANDFIELD K 1 WITHVALUES 1"),
    step_of_pairs("HSCAN K 0 COUNT 1000 [MATCH] [P]"),
    step_of_pairs("HSCAN K 0 COUNT 1000 MATCH P"),
    same("HSCAN K 0 [COUNT|MATCH|TYPE] COUNT 0|-1|abc"),
    same("HSCAN K abc"),
];

#[test]
fn hashes_answer_as_in_redis() {
    compare(seed(), HASHES, 6000);
}
