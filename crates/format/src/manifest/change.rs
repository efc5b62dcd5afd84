//! What a manifest edit says, change by change.
//!
//! ```text
//! size  field  meaning
//!    1  tag    what changes; frozen (see `golden/enums.txt`)
//!    v  bytes  varint, length of the body
//!       body   fields in the order listed, up to its end (their forms: see `bytes`)
//!
//! tag  change           body
//!   1  Database         id u128
//!   2  Keyspace         id number, name text, count of settings number, then per setting name text, value text
//!   3  DropKeyspace     id number
//!   4  AddTable         keyspace number, level number, run number, then file text, bytes number, file_checksum
//!                       u64, smallest bytes, largest bytes, sequence_min number, sequence_max number,
//!                       entry_count number, tombstone_count number, range_tombstone_count number, data_bytes
//!                       number, content_hash u128
//!   5  RemoveTable      file text
//!   6  MoveTable        file text, level number, run number
//!   7  FlushedThrough   keyspace number, position number
//!   8  LogCut           position number, generation number
//!   9  DurableThrough   position number
//!  10  NextNumber       number number
//!  11  Tick             ms number
//!  12  CleanEnd         position number
//!  13  Superseded       file text, thousandths number of at most 1000
//!  14  LogHome          id u128
//!  15  LogObjects       generation number, first number, cut number
//!  16  TakeOver         id u128
//!  17  Boot             id u128
//!  18  Hides            file text, bytes number
//!  19  IngestedThrough  keyspace number, position number
//!  64  AddBlobSegment  number number, file text, bytes number, ordinals number, value_bytes number, checksum u64,
//!                       sealed_at number
//!  65  NextBlobSegment number number
//!  66  RemoveBlobSegment  number number
//!  67  DeadMap          number number, then a set (see `blob::ordinals`): what died since
//!  68  Relocation         victim number, holder number, offset number, bytes number
//!  69  DropRelocation     victim number
//!  70  AddObsolete      keyspace number, then a reference set (see `table::references`): what became obsolete
//!  71  RemoveObsolete   keyspace number, then a reference set: what was obsolete and is no table's any more
//!  96  Hashed           page_bits number, segment_bits number
//!  97  HybridCut        address number, redo number
//!  98  HybridBegin      address number
//!  99  PositionsGiven   position number
//! 100  RedoBegun        redo number
//! 101  Checkpointed     position number
//! 104  ColdCut          address number
//! 105  ColdBegin        address number
//! 106  ColdRun          number number, spilled number
//! 107  DropColdRun      number number
//! 108  HybridExtent     from number, to number, generation number
//! 109  ColdExtent       from number, to number, generation number
//! ```
//! What stands for a keyspace's settings is in `keyspace`, for a table in `table`, for blob
//! segments in `blobs`.
//!
//! Tags that newer releases will write; this one refuses them and says so:
//!
//! ```text
//!  80  UserTimestamps of a keyspace                   81  EncryptionKey of a file
//!  82  FlushedThroughRange   83  SequenceShift of a migrated table
//! ```
//! Since: FormatVersion::V1.

use crate::blob::{Ordinals, SegmentNumber};
use crate::bytes::{Reader, put_bytes};
use crate::error::{Error, Result};
use crate::file_name;
use crate::hybrid::{ADDRESS_BITS, ADDRESS_MAX, Extent};
use crate::key::{POSITION_END, Position};
use crate::manifest::blobs::{BlobSegmentMeta, RelocationTarget, segment_number};
use crate::manifest::cold::ColdChange;
use crate::manifest::keyspace::KeyspaceText;
use crate::manifest::table::TableMeta;
use crate::table::ReferenceSet;
use crate::varint;

/// One change to the state of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Names the database; the first change of every base edit.
    Database {
        /// Drawn when it was created; stands in each log segment.
        id: u128,
    },
    /// Creates a keyspace, or gives a live one new settings.
    Keyspace {
        /// Never used again after a drop.
        id: u32,
        /// Its name for people.
        name: String,
        /// Its settings.
        settings: KeyspaceText,
    },
    /// Removes a keyspace and its tables.
    DropKeyspace {
        /// The keyspace.
        id: u32,
    },
    /// Makes a table live.
    AddTable {
        /// The keyspace it belongs to.
        keyspace: u32,
        /// Its level, from 0.
        level: u32,
        /// Which sorted run of the level it is part of.
        run: u64,
        /// What is known about the file.
        table: TableMeta,
    },
    /// Ends the life of a table.
    RemoveTable {
        /// Its file's name.
        file: String,
    },
    /// Puts a live table elsewhere without touching its file.
    MoveTable {
        /// Its file's name.
        file: String,
        /// Its new level.
        level: u32,
        /// Its new sorted run.
        run: u64,
    },
    /// All records of a keyspace below a log position are in tables.
    FlushedThrough {
        /// The keyspace.
        keyspace: u32,
        /// Replay skips its records below this.
        position: Position,
    },
    /// Records that ingestions brought to tables of a keyspace have sequences of positions below a
    /// log position. None of them is in the log, which may end before that position.
    IngestedThrough {
        /// The keyspace.
        keyspace: u32,
        /// The log goes on behind it.
        position: Position,
    },
    /// Recovery threw away the log from a position on; frames written afterwards carry a new
    /// generation.
    LogCut {
        /// First position thrown away.
        position: Position,
        /// The generation from here on.
        generation: u64,
    },
    /// The log was synced below a position when the edit was written.
    DurableThrough {
        /// One past the last synced byte.
        position: Position,
    },
    /// Numbers below this one have been given to files, jobs or keyspaces.
    NextNumber(
        /// The next one to give.
        u64,
    ),
    /// The engine's time has reached this.
    Tick {
        /// Milliseconds since the Unix epoch.
        ms: u64,
    },
    /// The database was closed and its log ends exactly here.
    CleanEnd {
        /// One past the last frame.
        position: Position,
    },
    /// How much of a live table is estimated to supersede something in older tables. Without it
    /// that is unknown.
    Superseded {
        /// Its file's name.
        file: String,
        /// Share of the table's bytes, 0 to 1000.
        thousandths: u32,
    },
    /// How many bytes of older tables a live table hides, about. Without it as large a share of its
    /// own size as it supersedes.
    Hides {
        /// Its file's name.
        file: String,
        /// Bytes in the older tables.
        bytes: u64,
    },
    /// The log of this generation lies in the directory of this identity (see `home`). Without it
    /// the database is all in one place.
    LogHome {
        /// The directory's.
        id: u128,
    },
    /// What is needed of the log lies in log objects, too (see `log_object`): those of a generation
    /// from a number on. Instead of what was said before.
    LogObjects {
        /// Of the log.
        generation: u64,
        /// Log objects before are not needed any more.
        first: u64,
        /// What lies from here on in the log does not count: an opening did not find it. The end of
        /// all positions = all counts.
        cut: Position,
    },
    /// The owner of the directory of this identity (see `home`) is about to take the database over.
    /// It takes the edit's number, so that no earlier owner can write another edit. Changes nothing
    /// else; the log stays where it was until a [`LogHome`](Self::LogHome).
    TakeOver {
        /// The directory's.
        id: u128,
    },
    /// The run of the machine, from its start to its end, in which the log of this generation is
    /// written. As long as it lasts, what a process has written is there in the order of its
    /// writes, even after the process was killed.
    Boot {
        /// The system's name of it.
        id: u128,
    },
    /// Makes a sealed blob segment live: all its values, except those marked dead.
    AddBlobSegment {
        /// What is known about the file.
        segment: BlobSegmentMeta,
    },
    /// Numbers below this one have been given to blob segments.
    NextBlobSegment(
        /// The next one to give.
        SegmentNumber,
    ),
    /// Ends the life of a blob segment: none of its values is live, or the live ones have gone to
    /// another segment.
    RemoveBlobSegment {
        /// Its number.
        number: SegmentNumber,
    },
    /// Nothing live refers to these values of a live blob segment any more.
    DeadMap {
        /// The segment's number.
        number: SegmentNumber,
        /// Which values, besides those that were dead before.
        dead: Ordinals,
    },
    /// Says where the survivors of a collected blob segment are; instead of what was said before.
    Relocation {
        /// The segment that was collected.
        victim: SegmentNumber,
        /// The relocation, by its place.
        place: RelocationTarget,
    },
    /// No table refers to a collected blob segment any more.
    DropRelocation {
        /// The segment that was collected.
        victim: SegmentNumber,
    },
    /// References of live tables that no reader follows any more. A newer record of the same key is
    /// in a table, and no snapshot sees what was before it. Their values are dead.
    AddObsolete {
        /// The tables' keyspace.
        keyspace: u32,
        /// By the names that the values were born with, besides those that were obsolete before.
        references: ReferenceSet,
    },
    /// No live table has these obsolete references any more.
    RemoveObsolete {
        /// The tables' keyspace.
        keyspace: u32,
        /// All of them were obsolete.
        references: ReferenceSet,
    },
    /// The database is one of the hashed engine; its log has these sizes.
    Hashed {
        /// Words of a page, as a power of two.
        page_bits: u32,
        /// Words of a segment, as a power of two.
        segment_bits: u32,
    },
    /// A checkpoint of the hashed engine: its hybrid log lies on the device up to an address, and
    /// what came later is in redo logs.
    HybridCut {
        /// One past the last word that counts.
        address: u64,
        /// The first generation of redo logs that counts.
        redo: u64,
    },
    /// Positions below this one may have been given to writes.
    PositionsGiven {
        /// The next opening gives none below.
        position: Position,
    },
    /// The hybrid log begins here: what lies before is not needed any more.
    HybridBegin {
        /// The oldest word.
        address: u64,
    },
    /// Redo logs up to a generation are there, each of them: one that is missing is damage.
    RedoBegun {
        /// The last generation of redo logs that may hold entries.
        redo: u64,
    },
    /// Writes before a position lie before the last [`HybridCut`](Self::HybridCut), no others do.
    Checkpointed {
        /// Of each session's writes those before it are the first ones.
        position: Position,
    },
    /// Of the cold log.
    Cold(ColdChange),
    /// Words of a log lie where other machines reach them. Extents that begin among these words are
    /// not needed any more.
    Extent(Extent),
}

/// Tags that this release reads.
const TAGS: &str = "a change of tag 1 to 19, 64 to 71, 96 to 101 or 104 to 107";

impl Change {
    /// The number that stands for this kind of change.
    pub fn tag(&self) -> u8 {
        match self {
            Change::Database { .. } => 1,
            Change::Keyspace { .. } => 2,
            Change::DropKeyspace { .. } => 3,
            Change::AddTable { .. } => 4,
            Change::RemoveTable { .. } => 5,
            Change::MoveTable { .. } => 6,
            Change::FlushedThrough { .. } => 7,
            Change::LogCut { .. } => 8,
            Change::DurableThrough { .. } => 9,
            Change::NextNumber(_) => 10,
            Change::Tick { .. } => 11,
            Change::CleanEnd { .. } => 12,
            Change::Superseded { .. } => 13,
            Change::Hides { .. } => 18,
            Change::IngestedThrough { .. } => 19,
            Change::LogHome { .. } => 14,
            Change::LogObjects { .. } => 15,
            Change::TakeOver { .. } => 16,
            Change::Boot { .. } => 17,
            Change::AddBlobSegment { .. } => 64,
            Change::NextBlobSegment(_) => 65,
            Change::RemoveBlobSegment { .. } => 66,
            Change::DeadMap { .. } => 67,
            Change::Relocation { .. } => 68,
            Change::DropRelocation { .. } => 69,
            Change::AddObsolete { .. } => 70,
            Change::RemoveObsolete { .. } => 71,
            Change::Hashed { .. } => 96,
            Change::HybridCut { .. } => 97,
            Change::HybridBegin { .. } => 98,
            Change::PositionsGiven { .. } => 99,
            Change::RedoBegun { .. } => 100,
            Change::Checkpointed { .. } => 101,
            Change::Cold(change) => change.tag(),
            Change::Extent(extent) => extent.tag(),
        }
    }

    /// Appends tag, length and body.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.encode_body(&mut body);
        out.push(self.tag());
        put_bytes(&body, out);
    }

    fn encode_body(&self, out: &mut Vec<u8>) {
        match self {
            Change::Database { id }
            | Change::LogHome { id }
            | Change::TakeOver { id }
            | Change::Boot { id } => out.extend_from_slice(&id.to_le_bytes()),
            Change::Keyspace { id, name, settings } => {
                varint::encode((*id).into(), out);
                put_bytes(name.as_bytes(), out);
                settings.encode(out);
            }
            Change::DropKeyspace { id } => varint::encode((*id).into(), out),
            Change::AddTable { keyspace, level, run, table } => {
                varint::encode((*keyspace).into(), out);
                varint::encode((*level).into(), out);
                varint::encode(*run, out);
                table.encode(out);
            }
            Change::Hashed { .. }
            | Change::HybridCut { .. }
            | Change::HybridBegin { .. }
            | Change::RedoBegun { .. }
            | Change::Cold(_)
            | Change::Extent(_) => self.encode_hashed(out),
            Change::RemoveTable { file } => put_table(file, out),
            Change::MoveTable { file, level, run } => {
                put_table(file, out);
                varint::encode((*level).into(), out);
                varint::encode(*run, out);
            }
            Change::FlushedThrough { keyspace, position }
            | Change::IngestedThrough { keyspace, position } => {
                varint::encode((*keyspace).into(), out);
                varint::encode(position.0, out);
            }
            Change::LogObjects { generation, first, cut } => {
                [*generation, *first, cut.0].iter().for_each(|number| varint::encode(*number, out));
            }
            Change::LogCut { position, generation } => {
                [position.0, *generation].iter().for_each(|number| varint::encode(*number, out));
            }
            Change::DurableThrough { position }
            | Change::CleanEnd { position }
            | Change::PositionsGiven { position }
            | Change::Checkpointed { position } => {
                varint::encode(position.0, out);
            }
            Change::NextNumber(number) => varint::encode(*number, out),
            Change::Tick { ms } => varint::encode(*ms, out),
            Change::Superseded { file, thousandths: number } => put_table_and(file, (*number).into(), out),
            Change::Hides { file, bytes } => put_table_and(file, *bytes, out),
            Change::AddBlobSegment { segment } => segment.encode(out),
            Change::NextBlobSegment(number)
            | Change::RemoveBlobSegment { number }
            | Change::DropRelocation { victim: number } => varint::encode(number.0.into(), out),
            Change::DeadMap { number, dead } => {
                varint::encode(number.0.into(), out);
                dead.encode(out);
            }
            Change::Relocation { victim, place } => {
                varint::encode(victim.0.into(), out);
                place.encode(out);
            }
            Change::AddObsolete { keyspace, references }
            | Change::RemoveObsolete { keyspace, references } => {
                varint::encode((*keyspace).into(), out);
                references.encode(out);
            }
        }
    }

    /// The body of a change of the hashed engine's own.
    fn encode_hashed(&self, out: &mut Vec<u8>) {
        match self {
            Change::Hashed { page_bits, segment_bits } => {
                varint::encode((*page_bits).into(), out);
                varint::encode((*segment_bits).into(), out);
            }
            Change::HybridCut { address, redo } => {
                varint::encode(*address, out);
                varint::encode(*redo, out);
            }
            Change::HybridBegin { address } => varint::encode(*address, out),
            Change::RedoBegun { redo } => varint::encode(*redo, out),
            Change::Cold(change) => change.encode(out),
            Change::Extent(extent) => extent.encode(out),
            _ => {}
        }
    }

    /// The next change of an edit.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let offset = reader.offset();
        let tag = reader.u8()?;
        let body = reader.bytes()?;
        let mut fields = Reader::new(body, reader.offset() - body.len());
        let change = Self::decode_body(tag, offset, &mut fields)?;
        if !fields.is_empty() {
            let expected = format!("the end of change {tag}");
            return Err(Error::new(fields.offset(), expected, "more fields (written by a newer Firn?)"));
        }
        Ok(change)
    }

    fn decode_body(tag: u8, offset: usize, fields: &mut Reader<'_>) -> Result<Self> {
        Ok(match tag {
            1 => Change::Database { id: fields.u128()? },
            2 => Change::Keyspace {
                id: fields.number32()?,
                name: fields.text()?.to_owned(),
                settings: KeyspaceText::decode(fields)?,
            },
            3 => Change::DropKeyspace { id: fields.number32()? },
            4 => Change::AddTable {
                keyspace: fields.number32()?,
                level: fields.number32()?,
                run: fields.number()?,
                table: TableMeta::decode(fields)?,
            },
            5 => Change::RemoveTable { file: table(fields)? },
            6 => Change::MoveTable { file: table(fields)?, level: fields.number32()?, run: fields.number()? },
            7 => Change::FlushedThrough { keyspace: fields.number32()?, position: position(fields)? },
            8 => Change::LogCut { position: position(fields)?, generation: fields.number()? },
            9 => Change::DurableThrough { position: position(fields)? },
            10 => Change::NextNumber(fields.number()?),
            11 => Change::Tick { ms: fields.number()? },
            12 => Change::CleanEnd { position: position(fields)? },
            13 => Change::Superseded { file: table(fields)?, thousandths: thousandths(fields)? },
            18 => Change::Hides { file: table(fields)?, bytes: fields.number()? },
            19 => Change::IngestedThrough { keyspace: fields.number32()?, position: position(fields)? },
            14 => Change::LogHome { id: fields.u128()? },
            15 => Change::LogObjects {
                generation: fields.number()?,
                first: fields.number()?,
                cut: position(fields)?,
            },
            16 => Change::TakeOver { id: fields.u128()? },
            17 => Change::Boot { id: fields.u128()? },
            64 => Change::AddBlobSegment { segment: BlobSegmentMeta::decode(fields)? },
            65 => Change::NextBlobSegment(segment_number(fields)?),
            66 => Change::RemoveBlobSegment { number: segment_number(fields)? },
            67 => Change::DeadMap { number: segment_number(fields)?, dead: Ordinals::decode(fields)? },
            68 => Change::Relocation {
                victim: segment_number(fields)?,
                place: RelocationTarget::decode(fields)?,
            },
            69 => Change::DropRelocation { victim: segment_number(fields)? },
            70 => Change::AddObsolete {
                keyspace: fields.number32()?,
                references: ReferenceSet::take_from(fields)?,
            },
            71 => Change::RemoveObsolete {
                keyspace: fields.number32()?,
                references: ReferenceSet::take_from(fields)?,
            },
            96 => Change::Hashed { page_bits: bits(fields)?, segment_bits: bits(fields)? },
            97 => Change::HybridCut { address: address(fields)?, redo: fields.number()? },
            98 => Change::HybridBegin { address: address(fields)? },
            99 => Change::PositionsGiven { position: position(fields)? },
            100 => Change::RedoBegun { redo: fields.number()? },
            101 => Change::Checkpointed { position: position(fields)? },
            104..=107 => Change::Cold(ColdChange::decode(tag, fields)?),
            108 | 109 => Change::Extent(Extent::decode(tag, fields)?),
            _ => {
                let what = reserved(tag).unwrap_or("unknown");
                let found = format!("tag {tag} ({what}; written by a newer Firn: upgrade to read it)");
                return Err(Error::new(offset, TAGS, found));
            }
        })
    }
}

/// What a tag that this release refuses stands for.
pub(crate) fn reserved(tag: u8) -> Option<&'static str> {
    Some(match tag {
        80 => "UserTimestamps",
        81 => "EncryptionKey",
        82 => "FlushedThroughRange",
        83 => "SequenceShift",
        _ => return None,
    })
}

/// A log position below the end of all positions, or that end.
pub(super) fn position(fields: &mut Reader<'_>) -> Result<Position> {
    let offset = fields.offset();
    let number = fields.number()?;
    if number > POSITION_END.0 {
        return Err(Error::new(offset, "a log position of at most 2^59", format!("{number}")));
    }
    Ok(Position(number))
}

/// An address of the hybrid log, or of the cold one.
pub(super) fn address(fields: &mut Reader<'_>) -> Result<u64> {
    let offset = fields.offset();
    match fields.number()? {
        address @ ..=ADDRESS_MAX => Ok(address),
        address => Err(Error::new(offset, "an address below 2^45", format!("{address}"))),
    }
}

/// A size of the hybrid log, as a power of two.
fn bits(fields: &mut Reader<'_>) -> Result<u32> {
    let offset = fields.offset();
    match fields.number32()? {
        bits @ 9..ADDRESS_BITS => Ok(bits),
        bits => Err(Error::new(offset, "the logarithm of a size, 9 to 44", format!("{bits}"))),
    }
}

/// A share of a whole.
fn thousandths(fields: &mut Reader<'_>) -> Result<u32> {
    let offset = fields.offset();
    match fields.number32()? {
        share @ ..=1000 => Ok(share),
        share => Err(Error::new(offset, "a share of at most 1000 thousandths", format!("{share}"))),
    }
}

pub(super) fn put_file(name: &str, out: &mut Vec<u8>) {
    debug_assert!(file_name::is_valid(name), "{name:?} is no file's name");
    put_bytes(name.as_bytes(), out);
}

/// The name of a file in the database's directory. A name that could lead elsewhere is refused.
pub(super) fn file(fields: &mut Reader<'_>) -> Result<String> {
    let offset = fields.offset();
    let name = fields.text()?;
    if !file_name::is_valid(name) {
        return Err(Error::new(offset, "the name of a file in this directory", format!("{name:?}")));
    }
    Ok(name.to_owned())
}

pub(super) fn put_table(name: &str, out: &mut Vec<u8>) {
    debug_assert!(file_name::is_table_name(name), "{name:?} is no table's name");
    put_bytes(name.as_bytes(), out);
}

/// A table's name, and a number about it.
fn put_table_and(name: &str, number: u64, out: &mut Vec<u8>) {
    put_table(name, out);
    varint::encode(number, out);
}

/// The name of a table in the database's directory, a file's or a part's. A name that could lead
/// elsewhere is refused.
pub(super) fn table(fields: &mut Reader<'_>) -> Result<String> {
    let offset = fields.offset();
    let name = fields.text()?;
    if !file_name::is_table_name(name) {
        return Err(Error::new(offset, "the name of a table in this directory", format!("{name:?}")));
    }
    Ok(name.to_owned())
}
