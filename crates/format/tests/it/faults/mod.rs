//! Faults that real use found, a file for rows of docs/internals/faults.md that lie near one
//! another.
