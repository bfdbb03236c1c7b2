//! The `meridian` command.
fn main() {}
