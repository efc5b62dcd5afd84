use super::{Template, compare, moment, same, seed};

/// Offsets around 524 288 are where a string outgrows its record, those around 8 388 608 where a
/// second block begins.
const BITMAPS: &[Template] = &[
    same("SET K V"),
    same("APPEND K V"),
    same("SETBIT K I 0|1"),
    same("SETBIT K I I"),
    same("SETBIT K 524280|524287|524288|600001|131071|131072 0|1"),
    same("SETBIT K 8388607|8388608|8389000 0|1"),
    same("SETBIT K -1|4294967296|9223372036854775807|abc 1"),
    same("SETBIT K 1"),
    same("GETBIT K I"),
    same("GETBIT K 524280|524287|524288|600001|4294967295|4294967296|-1|abc"),
    same("BITCOUNT K"),
    same("BITCOUNT K I I [BYTE|BIT|abc]"),
    same("BITCOUNT K -70000|-600000|1|65535 65536|70000|-1 [BYTE|BIT]"),
    same("BITCOUNT K I [I] [BYTE] [BIT]"),
    same("BITPOS K 0|1"),
    same("BITPOS K 0|1 I [I]"),
    same("BITPOS K 0|1 I I [BYTE|BIT|abc]"),
    same("BITPOS K 0|1 1|16383|16385|65535|65537|-5 70000|-1|-2|600000 [BYTE|BIT]"),
    same("BITPOS K 0|1 1048570|1048575|1048576|-20 2000000|-1"),
    same("BITCOUNT K 1048570|1048575|1048576|-20 2000000|-1"),
    same("BITPOS K I [I] [I] [BIT] [BIT]"),
    same("BITOP AND|or|Xor K K K"),
    same("BITOP AND|OR|XOR K K"),
    same("BITOP AND|OR|XOR K K K K"),
    same("BITOP NOT K K [K]"),
    same("BITOP NAND K K"),
    same("BITFIELD K"),
    same("BITFIELD K GET u1|u7|u8|i8|i13|u63|i64 I"),
    same("BITFIELD K GET u64|i65|x8|u0|i|8 0"),
    same("BITFIELD K SET u1|u7|u8|i8|i13|u63|i64 I I"),
    same("BITFIELD K INCRBY u1|u7|u8|i8|i13|u63|i64 I I"),
    same("BITFIELD K INCRBY i64|u63|i33|u32 I 9223372036854775807|-9223372036854775808|4294967296"),
    same(
        "BITFIELD K SET i64|u63|i33|u32|u5 #0|#1|#2|#x|#-1 9223372036854775807|-9223372036854775808|-1 GET u8 #1",
    ),
    same("BITFIELD K OVERFLOW WRAP|SAT|FAIL|abc INCRBY u1|u7|u8|i8|i13|u63|i64 I I GET u8 0"),
    same(
        "BITFIELD K OVERFLOW SAT SET u7|i5 I -100|100|3 OVERFLOW FAIL INCRBY u4|i4 I I INCRBY u4|i4 I I GET i64 3",
    ),
    same("BITFIELD K OVERFLOW FAIL SET u8|i8|u63|i64 I -1|1000|-1000 OVERFLOW sat set i8|u8 I -1|1000|-1000"),
    same("BITFIELD K SET u8 131068|131072|524284|524288|600000 255 SET u8 #3 1 GET u16 524280"),
    same("BITFIELD K GET u8 4294967295|4294967296|#536870911|#536870912|#9223372036854775807"),
    same("BITFIELD K GET u8"),
    same("BITFIELD K SET u8 0"),
    same("BITFIELD K OVERFLOW"),
    same("BITFIELD_RO K GET u8|i13|i64 I [GET] [u4] [I]"),
    same("BITFIELD_RO K SET u8 0 1"),
    same("BITFIELD_RO K OVERFLOW FAIL GET u8 0"),
    same("SADD K M"),
    same("GET K"),
    moment("EXPIRETIME K"),
];

#[test]
fn bitmaps_answer_as_in_redis() {
    compare(seed(), BITMAPS, 5000);
}
