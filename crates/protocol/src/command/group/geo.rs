//! Geographic indexes.

use crate::command::Flag::{DenyOom, ReadOnly, Write};
use crate::command::absence::NO_GEO;
use crate::command::key_spec::{OW_UPDATE, RO_ACCESS, RW_UPDATE, after, at};
use crate::command::{Command, entry};

/// Looking around a place.
const AROUND: &str = "O(N+log(M)), N members near, M found";

pub(super) const COMMANDS: &[Command] = &[
    entry("geoadd", -5, "3.2.0", "O(log(N)) each member", "Adds members with their places.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RW_UPDATE)])
        .not_yet(&NO_GEO),
    entry("geodist", -4, "3.2.0", "O(log(N)), N members", "Answers how far two members are from each other.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_GEO),
    entry("geohash", -2, "3.2.0", "O(log(N)) each member", "Answers places as geohashes.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_GEO),
    entry("geopos", -2, "3.2.0", "O(N), N members given", "Answers longitudes and latitudes.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_GEO),
    entry("georadius", -6, "3.2.0", AROUND, "Finds or stores the members around a place.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RO_ACCESS), after("STORE", 6, OW_UPDATE), after("STOREDIST", 6, OW_UPDATE)])
        .deprecated("6.2.0", "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS`")
        .not_yet(&NO_GEO),
    entry("georadiusbymember", -5, "3.2.0", AROUND, "Finds or stores the members around a member.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, RO_ACCESS), after("STORE", 5, OW_UPDATE), after("STOREDIST", 5, OW_UPDATE)])
        .deprecated("6.2.0", "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS FROMMEMBER`")
        .not_yet(&NO_GEO),
    entry("georadiusbymember_ro", -5, "3.2.10", AROUND, "Finds the members around a member.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS FROMMEMBER`")
        .not_yet(&NO_GEO),
    entry("georadius_ro", -6, "3.2.10", AROUND, "Finds the members around a place.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS`")
        .not_yet(&NO_GEO),
    entry("geosearch", -7, "6.2.0", AROUND, "Finds the members in a circle or a box.")
        .flags(&[ReadOnly])
        .keys(&[at(1, RO_ACCESS)])
        .not_yet(&NO_GEO),
    entry("geosearchstore", -8, "6.2.0", AROUND, "`GEOSEARCH`, stored as a sorted set.")
        .flags(&[Write, DenyOom])
        .keys(&[at(1, OW_UPDATE), at(2, RO_ACCESS)])
        .not_yet(&NO_GEO),
];
