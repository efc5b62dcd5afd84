//! Bounds on what scripts size. Those of their libraries are in crate `lua`, and so are
//! instructions and the bytes that calls go over. Steps of patterns and time stand in
//! `execute::script::stage`.

pub(crate) use firn_lua::bounds::SCRIPT_BYTES_MAX;
#[cfg(test)]
pub(crate) use firn_lua::bounds::{
    CAPTURES_MAX, CHOICES_MAX, JSON_DEPTH_MAX, MSGPACK_READ_DEPTH_MAX, MSGPACK_WRITTEN_DEPTH_MAX,
    RESULTS_MAX, SCRIPT_STACK_BYTES_MAX, STRUCT_INTEGER_BYTES_MAX, UNPACKED_MAX,
};

/// The same of all scripts together that run at the same time.
pub(crate) const SCRIPTS_BYTES_MAX: usize = 1 << 30;

/// Scripts of one server thread that run at the same time.
pub(crate) const SCRIPTS_AT_ONCE_MAX: usize = 64;

/// Scripts of EVAL that are kept; the one that was not run for longest goes when there are more.
pub(crate) const EVALUATED_MAX: usize = 500;

/// Memory of scripts of EVAL; the same when they take more. A script that takes more by itself is
/// not kept.
pub(crate) const EVALUATED_BYTES_MAX: usize = 64 << 20;

/// Memory of scripts of SCRIPT LOAD.
pub(crate) const LOADED_BYTES_MAX: usize = 64 << 20;

/// Tables within the first one of what a script answers.
pub(crate) const ANSWER_DEPTH_MAX: usize = 200;
