//! The `wifu` command, with what comes with WiFu.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wifu::run(wifu::standard())
}
