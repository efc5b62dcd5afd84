//! Faults that real use found, a file for rows of docs/internals/faults.md that lie near one
//! another.

mod dead;
mod first_look; // at what was written last
mod many_queues;
mod long_keys;
mod written_is_read; // lengths at their far ends
mod background; // failures of background work
mod descriptors; // few of them
mod damaged_log;
mod torn_edit;
mod full_disk;
mod log;
mod space;
mod joining; // a merge operator
mod large_batches; // beyond the memory budget
mod merges;
mod compression; // as the database's settings say
mod panicking;
mod updates;
mod shared_files; // of many keyspaces
mod shared_crash;
mod price; // of compactions for reads
