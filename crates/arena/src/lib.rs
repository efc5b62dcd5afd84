//! Byte-addressable regions: the arena of a log segment, and words that change where they lie.
//!
//! A [`Region`] is zeroed memory of fixed capacity that many threads fill at once and many threads
//! read while it fills. A writer reserves a range, fills it, and publishes it as a *frame*. Readers
//! see the frames that lie before the first unpublished one, and nothing else.
//!
//! ```text
//!   reserve ─► Reservation: bytes_mut ─► publish ─► advance ─► read
//!   (fetch_add)  (this thread's alone)   (first word)  (prefix grows)  (any thread)
//! ```
//!
//! [`Words`] is memory without such an order: words that any thread changes at any time.
//!
//! # Not here
//! - What frames hold: crate `format`. Here a frame is its length and bytes.
//! - Files: crate `storage` writes a region's published bytes out.
//!
//! # Safety model
//! All `unsafe` of this crate is in `region` and `memory`, and rests on these invariants. Those of
//! order (which store is seen by which load) are in the protocol at the top of `region.rs`.
//! 1. **Memory.** `Memory` owns `capacity` bytes at a fixed address, 8-aligned, zeroed before the
//!    region exists, mapped until it is dropped. `capacity` is at most `isize::MAX`. Established in
//!    `Memory::zeroed`, and again by `Memory::clear` before a [`Pool`] gives the memory of a
//!    dropped region to a new one.
//! 2. **Reservations are disjoint.** The tail only grows, each growth by a successful reservation's
//!    length, so two reservations never overlap and each lies inside the capacity. Established in
//!    `Region::reserve`.
//! 3. **Words and bodies.** The first 8 bytes of a reservation are touched only as an atomic word
//!    until they are published. Its other bytes are touched only through the one [`Reservation`],
//!    until it publishes. No thread writes either afterwards. Established by `Reservation::publish`
//!    taking `self`.
//! 4. **The published prefix is immutable.** `published` passes a byte only after an acquiring load
//!    has observed the publication of the byte's frame. A frame's length is exactly its
//!    reservation's (asserted in `Reservation::publish`). Bytes from `published` on are never lent
//!    by [`Region::read`].
//! 5. **The tail behind a sealed end** is never reserved, read or written again, so its pages may
//!    go back.
//! 6. **Words are atomics for life.** Of memory in a [`Words`] no bytes are lent: each access is an
//!    atomic one of a whole, aligned word, so no two race. Established by `Words`, which alone has
//!    that memory and calls nothing else of it.

mod sync;
mod memory;
mod recycled;
mod reservation;
mod load;
mod region;
mod pool;
mod words;

pub use load::LoadError;
pub use pool::Pool;
pub use region::{Full, Region};
pub use reservation::Reservation;
pub use words::Words;
