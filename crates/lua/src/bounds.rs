//! Bounds on what scripts size.

/// Memory that one script may make the server hold, Lua's included.
pub const SCRIPT_BYTES_MAX: usize = 256 << 20;

/// Stack that a script may use, of the 2 MiB that threads have: what it calls in the deepest place,
/// a command, has the rest.
pub const SCRIPT_STACK_BYTES_MAX: usize = 1 << 20;

/// Values that `unpack` may answer: Lua's stack has room for 8 000 at a time. With a range two
/// places are the range's.
pub const UNPACKED_MAX: usize = 7_999;

/// Values that one call of a library may answer.
pub const RESULTS_MAX: usize = 7_900;

/// Tables within one another that `cjson` writes and reads, whatever a script sets.
pub const JSON_DEPTH_MAX: usize = 1000;

/// Tables within one another that `cmsgpack` writes.
pub const MSGPACK_WRITTEN_DEPTH_MAX: usize = 16;

/// The same that it reads.
pub const MSGPACK_READ_DEPTH_MAX: usize = 200;

/// Bytes of an integer of `struct`.
pub const STRUCT_INTEGER_BYTES_MAX: usize = 32;

/// Captures that a pattern of a script may have.
pub const CAPTURES_MAX: usize = 32;

/// Places to go back to that one match of a pattern may have.
pub const CHOICES_MAX: usize = 200_000;
