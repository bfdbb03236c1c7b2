//! The habits a person repeats, as verbs.
fn main() {}
