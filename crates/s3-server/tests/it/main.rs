//! The program, as who starts it sees it.

mod program; // what it says first
