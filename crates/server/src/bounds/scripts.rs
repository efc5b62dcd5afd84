//! Bounds on what scripts size. Other things that end their turns stand elsewhere: steps of
//! patterns and time in `stage`, what one call goes over in `work`. Instructions and bytes are in
//! crate `lua`.

/// Memory that one script may make the server hold, Lua's included.
pub(crate) const SCRIPT_BYTES_MAX: usize = 256 << 20;

/// The same of all scripts together that run at the same time.
pub(crate) const SCRIPTS_BYTES_MAX: usize = 1 << 30;

/// Stack that a script may use, of the 2 MiB that threads have: what it calls in the deepest place,
/// a command, has the rest.
pub(crate) const SCRIPT_STACK_BYTES_MAX: usize = 1 << 20;

/// Scripts of one server thread that run at the same time.
pub(crate) const SCRIPTS_AT_ONCE_MAX: usize = 64;

/// Scripts of EVAL that are kept; the one that was not run for longest goes when there are more.
pub(crate) const EVALUATED_MAX: usize = 500;

/// Memory of scripts of EVAL; the same when they take more. A script that takes more by itself is
/// not kept.
pub(crate) const EVALUATED_BYTES_MAX: usize = 64 << 20;

/// Memory of scripts of SCRIPT LOAD.
pub(crate) const LOADED_BYTES_MAX: usize = 64 << 20;

/// Values that `unpack` may answer: Lua's stack has room for 8 000 at a time. With a range two
/// places are the range's.
pub(crate) const UNPACKED_MAX: usize = 7_999;

/// Values that one call of a library may answer.
pub(crate) const RESULTS_MAX: usize = 7_900;

/// Tables within one another that `cjson` writes and reads, whatever a script sets.
pub(crate) const JSON_DEPTH_MAX: usize = 1000;

/// Tables within one another that `cmsgpack` writes.
pub(crate) const MSGPACK_WRITTEN_DEPTH_MAX: usize = 16;

/// The same that it reads.
pub(crate) const MSGPACK_READ_DEPTH_MAX: usize = 200;

/// Tables within the first one of what a script answers.
pub(crate) const ANSWER_DEPTH_MAX: usize = 200;

/// Bytes of an integer of `struct`.
pub(crate) const STRUCT_INTEGER_BYTES_MAX: usize = 32;

/// Captures that a pattern of a script may have.
pub(crate) const CAPTURES_MAX: usize = 32;

/// Places to go back to that one match of a pattern may have.
pub(crate) const CHOICES_MAX: usize = 200_000;
