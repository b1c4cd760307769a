//! The `wifu` command with what this crate adds to it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wifu::run(custom::register(wifu::standard()))
}
