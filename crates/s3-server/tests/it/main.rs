//! The program, as the process that starts it sees it.

mod program; // what it says first
