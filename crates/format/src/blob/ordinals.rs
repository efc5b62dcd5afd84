//! A set of values of one segment, by their ordinals.
//!
//! ```text
//! count  varint, how many ordinals
//! form   one byte, 0 = steps, 1 = bitmap; absent if there are none
//!        steps: the first ordinal, then for each further one how many ordinals lie between it and the one before;
//!               varints
//!        bitmap: first ordinal / 8, varint; then bytes with bit o % 8 of byte o / 8 - first / 8 set for each
//!               ordinal o, up to the last one's
//! ```
//! The bitmap stands where it is shorter than the steps. Equal sets have equal bytes. Since:
//! FormatVersion::V1.

use roaring::RoaringBitmap;

use crate::bytes::Reader;
use crate::error::{Error, Result};
use crate::varint;

/// A set of ordinals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ordinals {
    set: RoaringBitmap,
}

impl Eq for Ordinals {}

impl FromIterator<u32> for Ordinals {
    fn from_iter<I: IntoIterator<Item = u32>>(ordinals: I) -> Self {
        let mut all = Self::new();
        for ordinal in ordinals {
            all.insert(ordinal);
        }
        all
    }
}

const STEPS: u8 = 0;
const BITMAP: u8 = 1;

impl Ordinals {
    /// No ordinals.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; whether it is new.
    #[inline]
    pub fn insert(&mut self, ordinal: u32) -> bool {
        // Most sets are made in rising order, where nothing has to be searched.
        self.set.try_push(ordinal).is_ok() || self.set.insert(ordinal)
    }

    /// Whether it has `ordinal`.
    pub fn contains(&self, ordinal: u32) -> bool {
        self.set.contains(ordinal)
    }

    /// How many.
    pub fn len(&self) -> u64 {
        self.set.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// How many below `ordinal`.
    pub fn rank(&self, ordinal: u32) -> u64 {
        ordinal.checked_sub(1).map_or(0, |last| self.set.rank(last))
    }

    /// Rising.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.set.iter()
    }

    /// The greatest.
    pub fn last(&self) -> Option<u32> {
        self.set.max()
    }

    /// The first `count` ordinals.
    #[must_use]
    pub fn first(count: u32) -> Self {
        let mut set = RoaringBitmap::new();
        set.insert_range(0..count);
        Self { set }
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Ordinals) {
        self.set |= &other.set;
    }

    /// Takes all of `other` out.
    pub fn remove_all(&mut self, other: &Ordinals) {
        self.set -= &other.set;
    }

    /// The ordinals that are in both.
    #[must_use]
    pub fn common(&self, other: &Ordinals) -> Self {
        Self { set: &self.set & &other.set }
    }

    /// How many are in both.
    pub fn common_count(&self, other: &Ordinals) -> u64 {
        self.set.intersection_len(&other.set)
    }

    /// Memory that it takes, about.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.set.serialized_size()
    }

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        varint::encode(self.set.len(), out);
        let (Some(first), Some(last)) = (self.set.min(), self.set.max()) else { return };
        if matches!(self.form(), (BITMAP, _)) {
            out.push(BITMAP);
            self.encode_bitmap(first, last, out);
        } else {
            out.push(STEPS);
            self.encode_steps(out);
        }
    }

    /// The shorter form of a set that is not empty, and its bytes behind that of the form.
    fn form(&self) -> (u8, usize) {
        let bitmap_bytes = self.bitmap_bytes();
        let mut next = 0_u64;
        let steps = self.set.iter().map(|ordinal| {
            let step = u64::from(ordinal) - next;
            next = u64::from(ordinal) + 1;
            varint::encoded_bytes(step)
        });
        let steps_bytes = steps.sum();
        if bitmap_bytes < steps_bytes { (BITMAP, bitmap_bytes) } else { (STEPS, steps_bytes) }
    }

    fn bitmap_bytes(&self) -> usize {
        let (first, last) = (self.set.min().unwrap_or_default(), self.set.max().unwrap_or_default());
        varint::encoded_bytes(u64::from(first / 8)) + (last / 8 - first / 8) as usize + 1
    }

    fn encode_steps(&self, out: &mut Vec<u8>) {
        let mut next = 0_u64;
        for ordinal in &self.set {
            varint::encode(u64::from(ordinal) - next, out);
            next = u64::from(ordinal) + 1;
        }
    }

    fn encode_bitmap(&self, first: u32, last: u32, out: &mut Vec<u8>) {
        varint::encode(u64::from(first / 8), out);
        let start = out.len();
        out.resize(start + (last / 8 - first / 8) as usize + 1, 0);
        for ordinal in &self.set {
            if let Some(byte) = out.get_mut(start + (ordinal / 8 - first / 8) as usize) {
                *byte |= 1 << (ordinal % 8);
            }
        }
    }

    /// The next set of `input`.
    ///
    /// # Errors
    /// Anything [`encode`](Self::encode) does not produce.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self> {
        let at = input.offset();
        let count = input.number()?;
        if count == 0 {
            return Ok(Self::new());
        }
        let form = input.u8()?;
        let set = match form {
            STEPS => decode_steps(input, count)?,
            BITMAP => decode_bitmap(input, count)?,
            other => return Err(Error::new(at, "form 0 or 1 of a set", format!("{other}"))),
        };
        let decoded = Self { set };
        let bytes = input.offset() - at - varint::encoded_bytes(count) - 1;
        let bitmap_bytes = decoded.bitmap_bytes();
        let is_shorter = match form {
            STEPS => bytes <= bitmap_bytes,
            // A step has a byte at least.
            _ => bytes == bitmap_bytes && (bitmap_bytes as u64) < count || decoded.form() == (form, bytes),
        };
        match is_shorter {
            true => Ok(decoded),
            false => Err(Error::new(at, "the shorter form of a set", "the longer one")),
        }
    }
}

fn decode_steps(input: &mut Reader<'_>, count: u64) -> Result<RoaringBitmap> {
    let mut set = Ordinals::new();
    let mut next = 0_u64;
    for _ in 0..count {
        let at = input.offset();
        let ordinal = next.checked_add(input.number()?).and_then(|ordinal| u32::try_from(ordinal).ok());
        let Some(ordinal) = ordinal else {
            return Err(Error::new(at, "an ordinal below 2^32", "a greater one"));
        };
        set.insert(ordinal);
        next = u64::from(ordinal) + 1;
    }
    Ok(set.set)
}

/// Bytes of a bitmap that are decoded at once.
const PART_BYTES: usize = 1 << 20;
const PART_BITS: u32 = 8 << 20;

fn decode_bitmap(input: &mut Reader<'_>, count: u64) -> Result<RoaringBitmap> {
    let at = input.offset();
    let first = input.number()?;
    let start = first.checked_mul(8).and_then(|start| u32::try_from(start).ok());
    let Some(start) = start else {
        return Err(Error::new(at, "an ordinal below 2^32", "a greater one"));
    };
    // As many bytes as the last ordinal needs, which is told by the count.
    let (mut found, mut bytes) = (0, 0);
    for byte in input.peek() {
        if found >= count {
            break;
        }
        found += u64::from(byte.count_ones());
        bytes += 1;
    }
    if found < count {
        let missing = format!("{found} in the {bytes} bytes that are left");
        return Err(Error::new(at, format!("a bitmap of {count} ordinals"), missing));
    }
    let bits = input.take(bytes)?;
    if found != count || bits.first() == Some(&0) || u64::from(start) + 8 * bytes as u64 > 1 << 32 {
        return Err(Error::new(at, format!("a bitmap of {count} ordinals from byte {first}"), "another"));
    }
    let mut set = RoaringBitmap::new();
    // In parts, as not all of 2^32 bits may come at once.
    for (part, bits) in (0_u32..).zip(bits.chunks(PART_BYTES)) {
        set |= RoaringBitmap::from_lsb0_bytes(start + part * PART_BITS, bits);
    }
    Ok(set)
}

#[cfg(test)]
mod tests;
