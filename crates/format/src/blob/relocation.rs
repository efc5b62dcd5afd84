//! What is left of a collected blob segment: which values survived, and where they are.
//!
//! ```text
//! offset size  field      meaning
//!      0    4  victim     u32 LE, number of the segment that was collected
//!      4    4  segment    u32 LE, number of the one that has its survivors
//!      8    4  base       u32 LE, ordinal there of the first survivor; the others follow, one by one
//!     12    4  ordinals   u32 LE, how many the victim had
//!     16    4  survivors  u32 LE, how many survived; at least one
//!     20    4  form       u32 LE, 0 = list, 1 = lines
//!     24       list: the survivors' ordinals, rising, u32 LE each
//!              lines: for each 480 ordinals begun a line of 64 bytes: how many survivors lie in lines before it, u32 LE;
//!                     then 60 bytes, with bit i % 8 of byte i / 8 set if the line's i-th ordinal survived
//!    end-8  8  checksum   u64 LE, xxh3 over everything before
//! ```
//! The list stands where it is shorter than the lines. Survivors keep their order, so that the n-th
//! of them is value `base + n` of the segment they went to; a lookup reads one line. Relocations
//! compose: when that segment is collected as well, one relocation leads from the first victim to
//! where its survivors are now. Equal relocations have equal bytes. Since: FormatVersion::V1.
//! Golden: golden/blob-segment-v1-collected.{bin,txt}.

use super::ordinals::Ordinals;
use super::reference::SegmentNumber;
use crate::bytes::Reader;
use crate::checksum::xxh3;
use crate::error::{Error, Result};

/// Bytes before the survivors.
const HEADER_BYTES: usize = 24;
/// Ordinals of a line.
const LINE_ORDINALS: u32 = 480;
/// Words of a line.
const LINE_WORDS: usize = 16;

/// Leads from the values of a collected segment to where its survivors are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// The segment that was collected.
    pub victim: SegmentNumber,
    /// The segment that has its survivors.
    pub segment: SegmentNumber,
    /// Ordinal there of the first survivor.
    pub base: u32,
    /// How many ordinals the victim had.
    pub ordinals: u32,
    survivor_count: u32,
    survivors: Survivors,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Survivors {
    List(Vec<u32>),
    Lines(Vec<[u32; LINE_WORDS]>),
}

impl Relocation {
    /// From the `survivors` among the `ordinals` of `victim` to `segment`, from its ordinal `base`
    /// on. `None` if nothing survived, or if what survived has no place among the ordinals.
    pub fn new(
        victim: SegmentNumber,
        ordinals: u32,
        survivors: &Ordinals,
        segment: SegmentNumber,
        base: u32,
    ) -> Option<Self> {
        let survivor_count = u32::try_from(survivors.len()).ok()?;
        if survivors.last()? >= ordinals || base.checked_add(survivor_count).is_none() {
            return None;
        }
        let line_count = ordinals.div_ceil(LINE_ORDINALS) as usize;
        let survivors = match survivors.len() < (line_count * LINE_WORDS) as u64 {
            true => Survivors::List(survivors.iter().collect()),
            false => Survivors::Lines(lines(line_count, survivors)),
        };
        Some(Self { victim, segment, base, ordinals, survivor_count, survivors })
    }

    /// How many survived.
    pub fn survivor_count(&self) -> u32 {
        self.survivor_count
    }

    /// Where the victim's value `ordinal` is in [`segment`](Self::segment) now; `None` if it did
    /// not survive. No allocation, one line of memory for a victim many of whose values survived.
    #[inline]
    pub fn translate(&self, ordinal: u32) -> Option<u32> {
        let rank = match &self.survivors {
            Survivors::List(list) => list.binary_search(&ordinal).ok()? as u32,
            Survivors::Lines(lines) => {
                let (line, at) = line_of(lines, ordinal)?;
                let (rank, words) = line.split_first()?;
                let (before, rest) = words.split_at_checked((at / 32) as usize)?;
                let word = *rest.first()?;
                let bit = 1 << (at % 32);
                if word & bit == 0 {
                    return None;
                }
                let counted: u32 = before.iter().map(|word| word.count_ones()).sum();
                rank + counted + (word & (bit - 1)).count_ones()
            }
        };
        Some(self.base + rank)
    }

    /// The victim's ordinals that survived.
    pub fn survivors(&self) -> Ordinals {
        match &self.survivors {
            Survivors::List(list) => list.iter().copied().collect(),
            Survivors::Lines(lines) => ordinals_of(lines).collect(),
        }
    }

    /// This relocation after the segment that has its survivors was collected too, `next`: from
    /// this victim to where they are then. `None` if none of them survived that as well, or if
    /// `next` is another segment's.
    pub fn then(&self, next: &Relocation) -> Option<Self> {
        if next.victim != self.segment {
            return None;
        }
        let mut first = None;
        let mut survives = |place| {
            let survives = next.survivors.contains(place);
            first = first.or(survives.then_some(place));
            survives
        };
        let survivors = match &self.survivors {
            Survivors::List(list) => {
                let places = list.iter().zip(self.base..);
                Survivors::List(places.filter(|(_, place)| survives(*place)).map(|(it, _)| *it).collect())
            }
            Survivors::Lines(lines) => {
                let (mut lines, mut place) = (lines.clone(), self.base);
                for word in lines.iter_mut().flat_map(|line| line.iter_mut().skip(1)) {
                    for bit in bits(*word) {
                        *word ^= if survives(place) { 0 } else { 1 << bit };
                        place += 1;
                    }
                }
                shorter(lines)
            }
        };
        let (base, survivor_count) = (next.translate(first?)?, survivors.count());
        Some(Self { segment: next.segment, base, survivor_count, survivors, ..*self })
    }

    /// Memory that it takes, about.
    pub fn memory_bytes(&self) -> usize {
        let survivors = match &self.survivors {
            Survivors::List(list) => size_of_val(list.as_slice()),
            Survivors::Lines(lines) => size_of_val(lines.as_slice()),
        };
        size_of::<Self>() + survivors
    }

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let form = u32::from(matches!(self.survivors, Survivors::Lines(_)));
        for field in [self.victim.0, self.segment.0, self.base, self.ordinals, self.survivor_count, form] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        let mut put = |word: &u32| out.extend_from_slice(&word.to_le_bytes());
        match &self.survivors {
            Survivors::List(list) => list.iter().for_each(&mut put),
            Survivors::Lines(lines) => lines.iter().flatten().for_each(&mut put),
        }
        let checksum = xxh3(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// The relocation at the front of `bytes`, which may go on behind it, and how many bytes it
    /// has.
    ///
    /// # Errors
    /// Anything [`encode`](Self::encode) does not produce.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize)> {
        let mut input = Reader::new(bytes, 0);
        let (victim, segment) = (SegmentNumber(input.u32()?), SegmentNumber(input.u32()?));
        let (base, ordinals, survivor_count) = (input.u32()?, input.u32()?, input.u32()?);
        let form = input.u32()?;
        let word_count = match form {
            0 => survivor_count as usize,
            1 => ordinals.div_ceil(LINE_ORDINALS) as usize * LINE_WORDS,
            other => return Err(Error::new(20, "form 0 or 1 of a relocation", format!("{other}"))),
        };
        let words = input.take(word_count * 4)?.as_chunks::<4>().0;
        let end = input.offset();
        let (found, expected) = (input.u64()?, xxh3(bytes.get(..end).unwrap_or_default()));
        if found != expected {
            return Err(Error::new(end, format!("checksum {expected:016x}"), format!("{found:016x}")));
        }
        let words = words.iter().map(|word| u32::from_le_bytes(*word));
        let survivors = match form {
            0 => Survivors::List(words.collect()),
            _ => {
                let words: Vec<u32> = words.collect();
                Survivors::Lines(words.as_chunks().0.to_vec())
            }
        };
        let held = Self { victim, segment, base, ordinals, survivor_count, survivors };
        match held.is_as_written() {
            true => Ok((held, input.offset())),
            false => Err(Error::new(HEADER_BYTES, "survivors as they are written", "others")),
        }
    }

    /// Whether [`new`](Self::new) could have made it: the survivors' order, ranks, the form, and
    /// what lies behind the last ordinal are right.
    fn is_as_written(&self) -> bool {
        let line_count = self.ordinals.div_ceil(LINE_ORDINALS) as usize;
        let is_list = (self.survivor_count as usize) < line_count * LINE_WORDS;
        let has_place = self.survivor_count > 0 && self.base.checked_add(self.survivor_count).is_some();
        has_place
            && match &self.survivors {
                Survivors::List(list) => {
                    is_list && list.is_sorted_by(|a, b| a < b) && list.last() < Some(&self.ordinals)
                }
                Survivors::Lines(lines) => {
                    let mut again = lines.clone();
                    !is_list
                        && rank(&mut again) == self.survivor_count
                        && again == *lines
                        && ordinals_of(lines.get(line_count - 1..).unwrap_or_default())
                            .all(|at| at < self.ordinals - (line_count as u32 - 1) * LINE_ORDINALS)
                }
            }
    }
}

impl Survivors {
    fn count(&self) -> u32 {
        match self {
            Self::List(list) => list.len() as u32,
            Self::Lines(lines) => lines.last().map_or(0, |[before, words @ ..]| before + ones(words)),
        }
    }

    #[inline]
    fn contains(&self, ordinal: u32) -> bool {
        match self {
            Self::List(list) => list.binary_search(&ordinal).is_ok(),
            Self::Lines(lines) => line_of(lines, ordinal)
                .and_then(|(line, at)| line.get(1 + (at / 32) as usize))
                .is_some_and(|word| word >> (ordinal % 32) & 1 == 1),
        }
    }
}

/// The line of `ordinal`, and which of its ordinals that is.
#[inline]
fn line_of(lines: &[[u32; LINE_WORDS]], ordinal: u32) -> Option<(&[u32; LINE_WORDS], u32)> {
    let line = lines.get((ordinal / LINE_ORDINALS) as usize)?;
    Some((line, ordinal % LINE_ORDINALS))
}

/// Those of 0 to 31 whose bits are set, rising.
fn bits(word: u32) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.checked_sub(1)?;
        Some(bit)
    })
}

/// What is set in `lines`, the first of which begins with ordinal 0.
fn ordinals_of(lines: &[[u32; LINE_WORDS]]) -> impl Iterator<Item = u32> {
    let firsts = (0..).step_by(LINE_ORDINALS as usize);
    let words = firsts.zip(lines).flat_map(|(first, line)| (first..).step_by(32).zip(line.iter().skip(1)));
    words.flat_map(|(first, word)| bits(*word).map(move |bit| first + bit))
}

/// The shorter form of what is set in `lines`, whose ranks may be others.
fn shorter(mut lines: Vec<[u32; LINE_WORDS]>) -> Survivors {
    match (rank(&mut lines) as usize) < lines.len() * LINE_WORDS {
        true => Survivors::List(ordinals_of(&lines).collect()),
        false => Survivors::Lines(lines),
    }
}

fn ones(words: &[u32]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

/// Has each of `lines` say how many are set in those before; how many are in all.
fn rank(lines: &mut [[u32; LINE_WORDS]]) -> u32 {
    let mut rank = 0_u32;
    for [before, words @ ..] in lines {
        *before = rank;
        rank = rank.wrapping_add(ones(words));
    }
    rank
}

fn lines(line_count: usize, survivors: &Ordinals) -> Vec<[u32; LINE_WORDS]> {
    let mut lines = vec![[0_u32; LINE_WORDS]; line_count];
    for ordinal in survivors.iter() {
        let at = ordinal % LINE_ORDINALS;
        let line = lines.get_mut((ordinal / LINE_ORDINALS) as usize);
        if let Some(word) = line.and_then(|line| line.get_mut(1 + (at / 32) as usize)) {
            *word |= 1 << (at % 32);
        }
    }
    rank(&mut lines);
    lines
}

#[cfg(test)]
mod tests;
