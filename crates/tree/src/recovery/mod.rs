//! From the files of a directory to the state they promise.

mod begin; // reading what is there, and the first changes on disk
mod manifest; // what is read there, and the first edits
mod tables; // keyspaces with their tables open
mod blobs; // value segments as a process left them
mod log; // the chain of frames, and its end
mod shared_log; // the log of a machine that may be gone

pub(crate) use self::begin::{Begun, begin};
pub(crate) use self::blobs::{FoundValues, LoggedReferences};
pub(crate) use self::log::{Gap, RecoveredLog, gap};
pub(crate) use self::manifest::log_conflict;
