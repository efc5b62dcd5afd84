//! OBJECT: how values are kept, told as if by Redis.
//!
//! Firn keeps all values of a type in one way. Libraries and tests still ask for the encodings of
//! Redis: the answer is the one that Redis would choose by default for such a value.

use firn_format::datatype::{FieldKind, Tag};
use firn_protocol::command::{CommandId, id_of};
use firn_protocol::number;

use super::call::Call;
use super::members::Walk;
use crate::failure::{Failure, Result};
use crate::transaction::Entry;

const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Answers the encoding that Redis would choose for the value.",
    "FREQ <key>",
    "    Refused: how often keys are used is not counted.",
    "IDLETIME <key>",
    "    Answers 0: when keys were used is not noted.",
    "REFCOUNT <key>",
    "    Answers 1: no value is shared.",
    "HELP",
    "    Answers this help.",
];

pub(super) async fn dispatch(call: &mut Call<'_>) -> Result<()> {
    const ENCODING: CommandId = id_of("object|encoding");
    const FREQ: CommandId = id_of("object|freq");
    const HELP_OF_OBJECT: CommandId = id_of("object|help");
    const IDLETIME: CommandId = id_of("object|idletime");
    const REFCOUNT: CommandId = id_of("object|refcount");
    if call.command.id() == HELP_OF_OBJECT {
        call.reply(|reply| {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        });
        return Ok(());
    }
    let entry = call.entry(2).await?;
    if !entry.exists() {
        call.reply(|reply| reply.null());
        return Ok(());
    }
    match call.command.id() {
        ENCODING => {
            let name = encoding(call, &entry).await?;
            call.reply(|reply| reply.bulk(name.as_bytes()));
        }
        IDLETIME => call.reply(|reply| reply.integer(0)),
        REFCOUNT => call.reply(|reply| reply.integer(1)),
        FREQ => {
            return Err(Failure::new(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        _ => return Err(call.not_offered()),
    }
    Ok(())
}

async fn encoding(call: &mut Call<'_>, entry: &Entry) -> Result<&'static str> {
    let Some(value) = entry.value()? else { return Ok("") };
    Ok(match value.tag() {
        Tag::String | Tag::ExpiringString | Tag::LongString => {
            const EMBEDDED_BYTES_MAX: usize = 44;
            let len = call.transaction.string_len(entry)?.unwrap_or(0);
            match len <= EMBEDDED_BYTES_MAX {
                false => "raw",
                true => {
                    let string = call.transaction.string(entry).await?.unwrap_or_default();
                    if number::parse_integer(&string).is_some() { "int" } else { "embstr" }
                }
            }
        }
        Tag::List => "quicklist",
        Tag::Hash if is_compact(call, entry, FieldKind::HashField, 512).await? => "listpack",
        Tag::SortedSet if is_compact(call, entry, FieldKind::ScoredMember, 128).await? => "listpack",
        Tag::SortedSet => "skiplist",
        Tag::Set if is_of_integers(call, entry).await? => "intset",
        Tag::Hash | Tag::Set => "hashtable",
    })
}

/// Whether there are at most `count_max` elements of `kind`, all of them short.
async fn is_compact(call: &mut Call<'_>, entry: &Entry, kind: FieldKind, count_max: u64) -> Result<bool> {
    const BYTES_MAX: usize = 64;
    let tag = if kind == FieldKind::HashField { Tag::Hash } else { Tag::SortedSet };
    let Some(collection) = entry.collection(tag)?.filter(|it| it.count() <= count_max) else {
        return Ok(false);
    };
    let mut walk = Walk::new(call, &collection, kind)?;
    while let Some((member, value)) = walk.next().await? {
        if member.len() > BYTES_MAX || value.len() > BYTES_MAX {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a set has few members, all of them integers.
async fn is_of_integers(call: &mut Call<'_>, entry: &Entry) -> Result<bool> {
    const COUNT_MAX: u64 = 512;
    let Some(set) = entry.collection(Tag::Set)?.filter(|it| it.count() <= COUNT_MAX) else {
        return Ok(false);
    };
    let mut walk = Walk::new(call, &set, FieldKind::SetMember)?;
    while let Some((member, _)) = walk.next().await? {
        if number::parse_integer(member).is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
