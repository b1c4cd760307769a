//! The `wifu` command with what this crate adds to it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    wifu::run(
        wifu::standard()
            .with_parts(custom::PARTS)
            .with_handlers(custom::HANDLERS)
            .with_library(custom::library()),
    )
}
