//! Walking a table.

use std::ops::Range;
use std::sync::Arc;

use firn_format::key::Entry;
use firn_format::table::block::{self, Checked};
use firn_format::table::data::{DataBlock, Shape, Walker};

use super::reader::{BlockRef, TableReader};
use crate::Result;
use crate::file::cache::CachedBlock;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// Loaded blocks go to the cache. Off for jobs, which read everything once.
    pub fill_cache: bool,
    /// Every block's checksum is compared, also where it was compared before.
    pub verify_always: bool,
    /// Bytes that a file which is not mapped is asked for at once. Three times as many are on their
    /// way, from what is read next on. Of a mapped file, bytes asked for ahead. In file order; 0 =
    /// none.
    pub read_ahead_bytes: u32,
    /// Where data is larger than memory: bytes of the first read of cached blocks; each further one
    /// takes twice as many, up to 256 KiB. At least a block is read.
    pub first_read_bytes: u32,
}

impl CursorOptions {
    /// For users' scans.
    pub const SCAN: Self =
        Self { fill_cache: true, verify_always: false, read_ahead_bytes: 0, first_read_bytes: 16 << 10 };
    /// For jobs, which read whole tables front to back.
    pub const JOB: Self =
        Self { fill_cache: false, verify_always: true, read_ahead_bytes: 1 << 20, first_read_bytes: 0 };
}

impl CursorOptions {
    /// Asks for what a walk of `table` from `key` on reads first, if it reads ahead and the file is
    /// not mapped. Does not wait.
    pub fn ask(&self, table: &TableReader, key: &[u8]) {
        if self.read_ahead_bytes == 0 || table.is_mapped() {
            return;
        }
        if let Some((first, _)) = window(table, table.index.find(key), self.read_ahead_bytes) {
            table.file.will_need(first.start, first.end - first.start);
        }
    }
}

/// Whole blocks of `table` from block `number` on, up to `bytes` or one block, and the number of
/// the block behind them.
fn window(table: &TableReader, number: usize, bytes: u32) -> Option<(Range<u64>, usize)> {
    let (start, first_bytes) = table.index.block(number)?;
    let (mut end, mut next) = (start + first_bytes, number + 1);
    while let Some((offset, more)) = table.index.block(next)
        && offset + more <= start + u64::from(bytes)
    {
        end = offset + more;
        next += 1;
    }
    Some((start..end, next))
}

/// A place in a table: entries of all versions, by key up, and of one key newest first.
///
/// Holds the table open. Moving to a neighbour costs no allocation; a new block costs one look into
/// the index (and for blocks that are not mapped, loading it).
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<TableReader>,
    options: CursorOptions,
    number: usize,
    block: Held,
    walker: Walker,
    /// Bytes read ahead of a file that is not mapped, and their file offset.
    ahead: Vec<u8>,
    ahead_offset: u64,
    /// How much the next read takes, where data is larger than memory: a scan that goes on reads
    /// more at once.
    ahead_next: u64,
    /// How far the file has been asked for.
    asked_until: u64,
    /// Of a file that is not mapped: the block that begins there.
    ask_next: usize,
}

/// What a file that is not mapped is asked for, in [`CursorOptions::read_ahead_bytes`], with what
/// is being read. To merge what two of three hold takes longer than most stores take to answer.
const WINDOWS_ASKED: u64 = 3;

/// Blocks that it is asked for beyond the one being read, however large they are.
const BLOCKS_ASKED: usize = 2;

/// What is taken at once of what a file that is not mapped was asked for. What several tables'
/// pieces take is still near the processor when it is read again.
const PIECE_BYTES: u32 = 128 << 10;

/// What a scan of data larger than memory comes to read at once.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// The block a cursor stands in.
#[derive(Debug)]
enum Held {
    None,
    /// Offset and length of its payload in the mapping.
    Mapped(u64, u64, Shape),
    /// Where its payload lies in what was read ahead.
    Ahead(Range<usize>, Shape),
    Loaded(CachedBlock),
}

impl TableCursor {
    /// An unpositioned cursor.
    pub fn new(table: Arc<TableReader>, options: CursorOptions) -> Self {
        Self {
            table,
            options,
            number: 0,
            block: Held::None,
            walker: Walker::default(),
            ahead: Vec::new(),
            ahead_offset: 0,
            ahead_next: u64::from(options.first_read_bytes),
            asked_until: 0,
            ask_next: 0,
        }
    }

    /// The table it walks.
    pub fn table(&self) -> &Arc<TableReader> {
        &self.table
    }

    /// The entry it stands on; `None` when unpositioned or past either end.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.walker.entry(self.payload())?;
        Some(match self.table.given {
            None => entry,
            Some(sequence) => Entry { sequence, ..entry },
        })
    }

    /// Whether the sequence of each entry is the table's. The file has 0 there.
    #[inline]
    pub fn has_given_sequence(&self) -> bool {
        self.table.given.is_some()
    }

    /// Whether it stands on an entry.
    #[inline]
    pub fn is_positioned(&self) -> bool {
        self.walker.is_positioned()
    }

    /// Goes to the first entry. Like every move it may block on the device.
    ///
    /// # Errors
    /// For every move: `Corrupt` with file and offset; what reading says. The cursor is then
    /// unpositioned.
    pub fn seek_first(&mut self) -> Result<()> {
        self.enter(0, |walker, block| walker.seek_first(block))
    }

    /// Goes to the last entry.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek_last(&mut self) -> Result<()> {
        match self.table.index.block_count().checked_sub(1) {
            Some(last) => self.enter(last, |walker, block| walker.seek_last(block)),
            None => Ok(()),
        }
    }

    /// Goes to the first entry whose key is `key` or greater.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let number = self.table.index.find(key);
        self.enter(number, |walker, block| walker.seek(block, key))?;
        if !self.walker.is_positioned() && number < self.table.index.block_count() {
            // The separator was above the block's last key, and `key` between them.
            self.enter(number + 1, |walker, block| walker.seek_first(block))?;
        }
        Ok(())
    }

    /// Goes to the last entry whose key is smaller than `key`.
    ///
    /// # Errors
    /// As for every move.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let count = self.table.index.block_count();
        let number = self.table.index.find(key);
        if number >= count {
            return self.seek_last();
        }
        self.enter(number, |walker, block| walker.seek_before(block, key))?;
        match number.checked_sub(1) {
            Some(before) if !self.walker.is_positioned() => {
                self.enter(before, |walker, block| walker.seek_last(block))
            }
            _ => Ok(()),
        }
    }

    /// Goes to the next entry; stays past the end once there.
    ///
    /// # Errors
    /// As for every move.
    #[expect(
        clippy::should_implement_trait,
        reason = "a move that may fail and lends its entry: no iterator"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.walker.is_positioned() {
            return Ok(());
        }
        self.step(|walker, block| walker.next(block))?;
        match self.walker.is_positioned() {
            true => Ok(()),
            false => self.enter(self.number + 1, |walker, block| walker.seek_first(block)),
        }
    }

    /// Goes to the previous entry; stays before the beginning once there.
    ///
    /// # Errors
    /// As for every move.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if !self.walker.is_positioned() {
            return Ok(());
        }
        self.step(|walker, block| walker.prev(block))?;
        match self.number.checked_sub(1) {
            Some(before) if !self.walker.is_positioned() => {
                self.enter(before, |walker, block| walker.seek_last(block))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        match &self.block {
            Held::None => &[],
            Held::Mapped(offset, bytes, _) => self.table.mapped(*offset, *bytes).unwrap_or_default(),
            Held::Ahead(range, _) => self.ahead.get(range.clone()).unwrap_or_default(),
            Held::Loaded(block) => &block.payload,
        }
    }

    /// Moves the walker inside the block it is in.
    #[inline]
    fn step(
        &mut self,
        step: impl FnOnce(&mut Walker, &DataBlock<'_>) -> firn_format::Result<()>,
    ) -> Result<()> {
        let block = match &self.block {
            Held::None => return Ok(()),
            Held::Mapped(offset, bytes, shape) => {
                DataBlock::with_shape(self.table.mapped(*offset, *bytes).unwrap_or_default(), *shape)
            }
            Held::Ahead(range, shape) => {
                DataBlock::with_shape(self.ahead.get(range.clone()).unwrap_or_default(), *shape)
            }
            Held::Loaded(block) => DataBlock::with_shape(&block.payload, block.shape),
        };
        let stepped = step(&mut self.walker, &block);
        stepped.map_err(|error| {
            self.walker.reset();
            self.table.corrupt_block(self.number, &error)
        })
    }

    /// Goes to block `number` (past the last: unpositioned) and places the walker in it.
    fn enter(
        &mut self,
        number: usize,
        place: impl FnOnce(&mut Walker, &DataBlock<'_>) -> firn_format::Result<()>,
    ) -> Result<()> {
        self.walker.reset();
        if number >= self.table.index.block_count() {
            self.block = Held::None;
            return Ok(());
        }
        let stays = number == self.number && !matches!(self.block, Held::None);
        if !stays {
            self.number = number;
            self.block = match self.fetch(number) {
                Ok(block) => block,
                Err(error) => {
                    self.block = Held::None;
                    return Err(error);
                }
            };
        }
        self.step(place)
    }

    fn fetch(&mut self, number: usize) -> Result<Held> {
        let Some((offset, bytes)) = self.table.index.block(number) else { return Ok(Held::None) };
        if self.options.read_ahead_bytes > 0 {
            self.ask_mapped(offset, bytes);
        }
        if self.options.fill_cache && self.table.may_be_evicted() {
            return self.fetch_ahead(offset, bytes);
        }
        if self.options.fill_cache && !self.options.verify_always {
            return match self.table.block(number)? {
                None => Ok(Held::None),
                Some(BlockRef::Loaded(loaded)) => Ok(Held::Loaded(loaded)),
                Some(BlockRef::Mapped(payload)) => {
                    // A walk goes on, mostly.
                    self.table.begin_load(number + 1);
                    let shape = Shape::of(payload).map_err(|error| self.table.corrupt(offset, &error))?;
                    Ok(Held::Mapped(offset, payload.len() as u64, shape))
                }
            };
        }
        self.fetch_alone(number, offset, bytes)
    }

    /// A block of a table that is larger than memory: from the cache, or from the file together
    /// with its neighbours.
    fn fetch_ahead(&mut self, offset: u64, bytes: u64) -> Result<Held> {
        if let Some(found) = self.table.cache.get(self.table.number, offset) {
            return Ok(Held::Loaded(found));
        }
        let table = Arc::clone(&self.table);
        let room = self.take_room();
        let is_after = offset >= self.ahead_offset;
        let wanted = self.ahead_next;
        let fills = !self.is_ahead(offset, bytes);
        let stored = match is_after {
            true => self.read(offset, bytes, wanted)?,
            false => self.read_back(offset, bytes, wanted)?,
        };
        let checked = block::check(stored).map_err(|error| table.corrupt(offset, &error))?;
        let loaded = table.decode(checked, offset, room)?;
        if fills {
            table.cache.count_miss(self.ahead.len() as u64);
            self.ahead_next = (2 * wanted.max(bytes)).min(AHEAD_BYTES_MAX);
        }
        Ok(Held::Loaded(loaded))
    }

    /// Block `number` past the cache; its memory is used again for the next one.
    fn fetch_alone(&mut self, number: usize, offset: u64, bytes: u64) -> Result<Held> {
        let table = Arc::clone(&self.table);
        let wrap = |error| table.corrupt(offset, &error);
        if let Some(stored) = table.mapped(offset, bytes) {
            let compared = !self.options.verify_always && table.is_verified(number);
            let checked =
                if compared { block::trusted(stored) } else { block::check(stored) }.map_err(wrap)?;
            if let Checked::Raw(payload) = checked {
                table.set_verified(number);
                return Ok(Held::Mapped(offset, payload.len() as u64, Shape::of(payload).map_err(wrap)?));
            }
            let room = self.take_room();
            return Ok(Held::Loaded(table.decode(checked, offset, room)?));
        }
        let room = self.take_room();
        if !self.is_ahead(offset, bytes) {
            self.fill_piece(number, offset)?;
        }
        let checked = block::check(self.ahead_at(offset, bytes)).map_err(wrap)?;
        if let Checked::Raw(payload) = checked {
            let shape = Shape::of(payload).map_err(wrap)?;
            // The payload is where the block begins.
            let start = (offset - self.ahead_offset) as usize;
            return Ok(Held::Ahead(start..start + payload.len(), shape));
        }
        Ok(Held::Loaded(table.decode(checked, offset, room)?))
    }

    /// The memory of the block it stood in.
    fn take_room(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.block, Held::None) {
            Held::Loaded(block) => block.payload,
            _ => Vec::new(),
        }
    }

    /// Reads block `number`, which begins at `offset`, and, of a file that is not mapped, what
    /// comes behind it. Asks for more, which is read next if the walk goes on.
    #[inline(never)]
    fn fill_piece(&mut self, number: usize, offset: u64) -> Result<()> {
        let table = Arc::clone(&self.table);
        let read_ahead = self.options.read_ahead_bytes;
        let goes_on = offset == self.ahead_offset + self.ahead.len() as u64;
        let goes_back = !self.ahead.is_empty() && offset < self.ahead_offset;
        if !goes_on || self.ask_next < number {
            self.ask_next = number;
        }
        if read_ahead > 0 && !goes_back {
            let far = offset + WINDOWS_ASKED * u64::from(read_ahead);
            while let Some((window, next)) = window(&table, self.ask_next, read_ahead)
                && (window.end <= far || self.ask_next <= number + BLOCKS_ASKED)
            {
                table.file.will_need(window.start, window.end - window.start);
                self.ask_next = next;
            }
        }
        match window(&table, number, read_ahead.min(PIECE_BYTES)) {
            Some((piece, _)) => self.fill_ahead(piece.start, piece.end - piece.start),
            None => Ok(()),
        }
    }

    /// Asks for more of a mapped file before it is needed; going backward asks for nothing.
    fn ask_mapped(&mut self, offset: u64, bytes: u64) {
        let Some(mapped) = &self.table.bytes else { return };
        let (ahead, end) = (u64::from(self.options.read_ahead_bytes), mapped.len() as u64);
        let is_near = offset + bytes + ahead / 2 > self.asked_until && self.asked_until < end;
        if is_near || offset + 2 * ahead < self.asked_until {
            let from = self.asked_until.clamp(offset, offset + bytes);
            let until = (offset + bytes + ahead).min(end);
            mapped.will_need_unless_there(from as usize..until as usize);
            self.asked_until = until;
        }
    }

    /// The bytes of a block of a file that is not mapped, with what follows if reading ahead.
    fn read(&mut self, offset: u64, bytes: u64, ahead: u64) -> Result<&[u8]> {
        if !self.is_ahead(offset, bytes) {
            let data_end = self.table.footer().data_bytes;
            self.fill_ahead(offset, bytes.max(ahead).min(data_end - offset))?;
        }
        Ok(self.ahead_at(offset, bytes))
    }

    /// As [`read`](Self::read), with what precedes the block.
    fn read_back(&mut self, offset: u64, bytes: u64, ahead: u64) -> Result<&[u8]> {
        if !self.is_ahead(offset, bytes) {
            let end = offset + bytes;
            let start = end.saturating_sub(bytes.max(ahead));
            self.fill_ahead(start, end - start)?;
        }
        Ok(self.ahead_at(offset, bytes))
    }

    fn is_ahead(&self, offset: u64, bytes: u64) -> bool {
        self.ahead_offset <= offset && offset + bytes <= self.ahead_offset + self.ahead.len() as u64
    }

    fn fill_ahead(&mut self, offset: u64, bytes: u64) -> Result<()> {
        // What is there already is overwritten, not zeroed first.
        self.ahead.resize(bytes as usize, 0);
        self.ahead_offset = offset;
        if let Err(error) = self.table.file.read_at(offset, &mut self.ahead) {
            self.ahead.clear();
            return Err(error);
        }
        Ok(())
    }

    fn ahead_at(&self, offset: u64, bytes: u64) -> &[u8] {
        let start = (offset - self.ahead_offset) as usize;
        self.ahead.get(start..start + bytes as usize).unwrap_or_default()
    }
}
