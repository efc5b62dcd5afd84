//! Firn's own build commands.
fn main() {}
