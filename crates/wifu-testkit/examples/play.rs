//! Plays packetdrill scripts against a composition in virtual time:
//! `cargo run -p wifu-testkit --example play -- [--so_flags=tcp-cubic,iw=10] FILE...`

use std::process::ExitCode;
use wifu_testkit::packetdrill::{Script, Setup, play};

fn main() -> ExitCode {
    let mut setup = Setup::default();
    let mut failed = 0;
    for argument in std::env::args().skip(1) {
        if let Some(flags) = argument.strip_prefix("--so_flags=") {
            setup = match Setup::parse(flags) {
                Ok(setup) => setup,
                Err(what) => {
                    eprintln!("--so_flags: {what}");
                    return ExitCode::from(2);
                }
            };
            continue;
        }
        let text = match std::fs::read_to_string(&argument) {
            Ok(text) => text,
            Err(e) => {
                eprintln!("{argument}: {e}");
                return ExitCode::from(2);
            }
        };
        match text.parse::<Script>().and_then(|s| play(&s, &setup)) {
            Ok(()) => println!("{argument}: passed"),
            Err(problem) => {
                failed += 1;
                println!("{argument}: {problem}");
            }
        }
    }
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
