//! Lists.

use crate::command::Flag::{Blocking, DenyOom, Fast, NoScript, ReadOnly, Write};
use crate::command::key_spec::{
    RO, RO_ACCESS, RW_ACCESS_DELETE, RW_DELETE, RW_INSERT, RW_UPDATE, at, counted, range,
};
use crate::command::{Command, entry};

pub(super) const COMMANDS: &[Command] = &[
    entry("blmove", 6, "6.2.0", "O(1)", "`LMOVE`, waiting for an element if there is none.")
        .flags(&[Write, DenyOom, NoScript, Blocking])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, RW_INSERT)])
        .built(),
    entry("blmpop", -5, "7.0.0", "O(N+M), N keys, M answered", "`LMPOP`, waiting if all lists are empty.")
        .flags(&[Write, Blocking])
        .keys(&[counted(2, RW_ACCESS_DELETE)])
        .built(),
    entry("blpop", -3, "2.0.0", "O(N), N keys", "Takes the head of the first list that has one, or waits; of lists that one transaction fills, the first named.")
        .flags(&[Write, NoScript, Blocking])
        .keys(&[range(1, -2, 1, RW_ACCESS_DELETE)])
        .built(),
    entry("brpop", -3, "2.0.0", "O(N), N keys", "Takes the tail of the first list that has one, or waits.")
        .flags(&[Write, NoScript, Blocking])
        .keys(&[range(1, -2, 1, RW_ACCESS_DELETE)])
        .built(),
    entry("brpoplpush", 4, "2.2.0", "O(1)", "`RPOPLPUSH`, waiting for an element if there is none.")
        .flags(&[Write, DenyOom, NoScript, Blocking])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, RW_INSERT)])
        .deprecated("6.2.0", "`BLMOVE` with `RIGHT LEFT`")
        .built(),
    entry("lindex", 3, "1.0.0", "O(N), N elements to the index", "Answers the element at an index.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("linsert", 5, "2.2.0", "O(N), N elements to the pivot", "Inserts before or after an element.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("llen", 2, "1.0.0", "O(1)", "Answers the length of a list.")
        .flags(&[ReadOnly, Fast])
        .keys(&[at(1, RO)])
        .built(),
    entry("lmove", 5, "6.2.0", "O(1)", "Moves an element from an end of a list to an end of another.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, RW_INSERT)])
        .built(),
    entry("lmpop", -4, "7.0.0", "O(N+M), N keys, M answered", "Takes elements of the first list with any.")
        .flags(&[Write])
        .keys(&[counted(1, RW_ACCESS_DELETE)])
        .built(),
    entry("lpop", -2, "1.0.0", "O(N), N elements taken", "Takes elements from the head of a list.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE)])
        .built(),
    entry("lpos", -3, "6.0.6", "O(N), N elements", "Finds where an element is in a list.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("lpush", -3, "1.0.0", "O(N), N elements given", "Adds elements at the head of a list.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("lpushx", -3, "2.2.0", "O(N), N elements given", "`LPUSH`, if the list is there.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("lrange", 4, "1.0.0", "O(S+N), S to the start, N answered", "Answers a part of a list.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .built(),
    entry("lrem", 4, "1.0.0", "O(N), N elements", "Removes elements that equal a value.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("lset", 4, "1.0.0", "O(N), N elements to the index", "Sets the element at an index.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_UPDATE)])
        .built(),
    entry("ltrim", 4, "1.0.0", "O(N), N elements removed", "Removes what is outside a part of a list.")
        .flags(&[Write])
        .keys(&[at(1, RW_DELETE)])
        .built(),
    entry("rpop", -2, "1.0.0", "O(N), N elements taken", "Takes elements from the tail of a list.")
        .flags(&[Write, Fast])
        .keys(&[at(1, RW_ACCESS_DELETE)])
        .built(),
    entry("rpoplpush", 3, "1.2.0", "O(1)", "Moves the tail of a list to the head of another.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_ACCESS_DELETE), at(2, RW_INSERT)])
        .deprecated("6.2.0", "`LMOVE` with `RIGHT LEFT`")
        .built(),
    entry("rpush", -3, "1.0.0", "O(N), N elements given", "Adds elements at the tail of a list.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
    entry("rpushx", -3, "2.2.0", "O(N), N elements given", "`RPUSH`, if the list is there.")
        .flags(&[Write, DenyOom, Fast])
        .keys(&[at(1, RW_INSERT)])
        .built(),
];
