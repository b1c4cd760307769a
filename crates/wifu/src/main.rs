//! The `wifu` command.
fn main() {}
