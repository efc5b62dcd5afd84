//! The program `firn`.
fn main() {}
