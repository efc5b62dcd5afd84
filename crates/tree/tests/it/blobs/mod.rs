//! Separated values: written, read, collected, and given back.

mod kept; // what is read back, and which files are left
mod compressed;
mod asked; // for together, before the first is read
mod moved; // out of tables and back into them
mod counted; // in statistics
mod write_back; // begun before a segment is sealed
mod full; // the buffer, while no table can be written
mod cut; // segments behind the end of a copy's log
mod streamed; // from a source, in bounded memory
mod streamed_broken; // sources that do not come to their end
mod streamed_shared; // where other machines are to have them
mod holes; // known mistakes of other stores
mod obsolete; // references that something newer hides
mod crash; // in the middle of a GC
mod held; // files that jobs may still read
mod interrupted; // a compaction, by a GC of what it is to read
mod spoiled; // outputs of executors
mod turns; // of two executors
mod reuse; // of files of segments that are gone
mod room; // that deleted values took
mod reclaim; // the same after large range deletions
