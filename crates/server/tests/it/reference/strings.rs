use super::{Template, compare, moment, same, seed};

const STRINGS: &[Template] = &[
    same("SET K V"),
    same("SET K V [NX|XX] [GET]"),
    same("SET K V [NX|XX|GET|KEEPTTL] [EX 100000] [KEEPTTL]"),
    same("SET K V EX 0|-1|abc|9223372036854775807|100000"),
    same("SET K V PXAT 33000000000000"),
    same("SET K V EXAT 33000000000|0|x EXAT 34000000000|0|x [BAD]"),
    same("SET K V [NX] [GET] PXAT 33000000000000|-1 [KEEPTTL] [PX|PXAT] 34000000000000 [XX]"),
    same("SETEX K 0|-1|abc|9223372036854775807|100000 V"),
    same("PSETEX K 1000000 V"),
    same("SETNX K V"),
    same("GETSET K V"),
    same("GETDEL K"),
    same("GETEX K [PERSIST]"),
    same("GETEX K EXAT 33000000000"),
    same("GETEX K EXAT 33000000000|0|x [EXAT] 34000000000"),
    same("GETEX K EX|EXAT|PERSIST 0|x|PERSIST [PERSIST] [BAD]"),
    same("GET K"),
    same("MGET K K K"),
    same("MSET K V K V"),
    same("MSETNX K V K V"),
    same("MSET K V K"),
    same("APPEND K V"),
    same("STRLEN K"),
    same("GETRANGE K I I"),
    same("GETRANGE K 16380 70000"),
    same("SETRANGE K I V"),
    same("SETRANGE K 65530 V"),
    same("SETRANGE K 200000 V"),
    same("INCR K"),
    same("DECR K"),
    same("INCRBY K I"),
    same("DECRBY K I"),
    same("INCRBYFLOAT K F"),
    same("INCRBYFLOAT K D"),
    same("SUBSTR K I I"),
    moment("EXPIRETIME K"),
    same("SET K"),
    same("GET K K"),
];

#[test]
fn strings_answer_as_in_redis() {
    compare(seed(), STRINGS, 6000);
}

/// Few letters, so that they have much in common.
const SUBSEQUENCES: &[Template] = &[
    same("SET K A"),
    same("APPEND K A"),
    same("LCS K K"),
    same("LCS K K LEN"),
    same("LCS K K IDX"),
    same("LCS K K IDX WITHMATCHLEN"),
    same("LCS K K IDX MINMATCHLEN I WITHMATCHLEN"),
    same("LCS K K [LEN] [IDX] [WITHMATCHLEN] [MINMATCHLEN]"),
    same("LCS K K [abc] [MINMATCHLEN] [I]"),
    same("LCS K"),
    same("SADD K M"),
];

#[test]
fn common_subsequences_are_those_of_redis() {
    compare(seed(), SUBSEQUENCES, 4000);
}

/// What has been appended to, or was larger before, is left out: Redis keeps it otherwise.
const OBJECTS: &[Template] = &[
    same("SET K V"),
    same("SET K 1|10|100000000000000000000|1.5"),
    same("HSET K M I"),
    same("SADD K M I"),
    same("OBJECT ENCODING K"),
    same("OBJECT IDLETIME none"),
    same("OBJECT FREQ K"),
    same("OBJECT ENCODING"),
    same("OBJECT ENCODING K K"),
    same("OBJECT REFCOUNT none"),
    same("OBJECT ABC K"),
    same("OBJECT HELP K"),
];

#[test]
fn objects_are_told_of_as_in_redis() {
    compare(seed(), OBJECTS, 2000);
}
