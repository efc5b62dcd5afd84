//! Faults that real use found, a file for rows of docs/internals/faults.md that lie near one another.

mod dead;
mod waiting_clients;
mod answers;
mod parameters;
mod told;
mod script_bounds;
mod script_bytes;
mod script_ends;
mod script_holes;
mod script_memory;
mod script_rights;
mod script_states;
mod beside;
mod bounds;
mod damaged_records;
mod diagnosis;
mod full_disk;
mod http;
mod large_values;
mod shared_messages;
mod patterns;
mod rights;
mod turns;
mod space;
mod compression;
