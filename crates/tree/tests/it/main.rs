//! The tree from outside: files on a real directory and in memory, threads and none.

mod smoke;
