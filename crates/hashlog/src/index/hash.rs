//! What the index knows of a key.

/// Slots of a database: the units of ownership, and of the index.
pub(crate) const SLOTS: usize = if cfg!(loom) { 2 } else { 16384 };

/// Bits of the hash that say the slot.
const SLOT_BITS: u32 = 14;

/// Bits of the hash that an entry keeps.
pub(crate) const TAG_BITS: u32 = 16;

/// Where the index keeps a key: its slot, and 50 bits of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash {
    bits: u64,
}

impl KeyHash {
    /// The key whose hash is `bits`; its slot is the upper 14 of them.
    #[inline]
    pub(crate) fn new(bits: u64) -> Self {
        Self { bits }
    }

    /// Any key of `slot` with this tag.
    pub(crate) fn of(slot: usize, tag: u16) -> Self {
        Self::new((slot as u64) << 50 | u64::from(tag))
    }

    /// The same hash in the slot of another one.
    pub(crate) fn in_slot_of(self, bits: u64) -> Self {
        const SLOT: u64 = !0 << 50;
        Self::new(bits & SLOT | self.bits & !SLOT)
    }

    /// All bits, so that keys whose slots and tags rise have rising orders.
    #[inline]
    pub(crate) fn order(self) -> u64 {
        const MIDDLE: u32 = 64 - SLOT_BITS - TAG_BITS;
        let middle = self.bits >> TAG_BITS & ((1 << MIDDLE) - 1);
        self.bits >> (64 - SLOT_BITS) << (64 - SLOT_BITS) | u64::from(self.tag()) << MIDDLE | middle
    }

    /// The least order of a key of `slot` with this tag, and the greatest.
    pub(crate) fn orders_of(slot: usize, tag: u16) -> (u64, u64) {
        const MIDDLE: u32 = 64 - SLOT_BITS - TAG_BITS;
        let first = (slot as u64) << (64 - SLOT_BITS) | u64::from(tag) << MIDDLE;
        (first, first | ((1 << MIDDLE) - 1))
    }

    /// A key with this order, as far as the index tells keys apart.
    pub(crate) fn of_order(order: u64) -> Self {
        Self::of((order >> (64 - SLOT_BITS)) as usize, Self::tag_of(order))
    }

    /// The tag of keys with this order.
    pub(crate) fn tag_of(order: u64) -> u16 {
        (order >> (64 - SLOT_BITS - TAG_BITS)) as u16
    }

    /// The same hash in this slot.
    #[inline]
    pub(crate) fn in_slot(self, slot: u16) -> Self {
        self.in_slot_of(u64::from(slot) << 50)
    }

    /// All bits.
    pub(crate) fn bits(self) -> u64 {
        self.bits
    }

    #[inline]
    pub(crate) fn slot(self) -> usize {
        (self.bits >> 50) as usize & (SLOTS - 1)
    }

    /// The lower 16 bits: what an entry keeps of the hash.
    #[inline]
    pub(crate) fn tag(self) -> u16 {
        self.bits as u16
    }

    /// Which of `1 << size` buckets: the upper `size` bits of the tag. So splitting a bucket reads
    /// no record, and buckets are in the order of tags, whatever the size.
    #[inline]
    pub(crate) fn bucket(self, size: u32) -> u64 {
        u64::from(u32::from(self.tag()) >> (TAG_BITS - size))
    }

    /// The first tag of the bucket behind this one, of `1 << size`; `None` behind the last.
    pub(crate) fn next_bucket(self, size: u32) -> Option<u16> {
        let first = (self.bucket(size) + 1) << (TAG_BITS - size);
        u16::try_from(first).ok()
    }
}
