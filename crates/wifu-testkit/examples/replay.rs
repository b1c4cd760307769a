//! Shows where a sender of ours parts from another's, by the other's capture: `cargo run --release
//! -p wifu-testkit --example replay -- [--so_flags=tcp-linux,profile=linux] FILE...`
//!
//! The phase of the clock's ticks is not in a capture: all of 32 ms, the coarsest ticks that a
//! retransmission timer below two seconds has, are tried, and the best is shown.

use std::process::ExitCode;
use wifu_testkit::packetdrill::{Problem, Round, Script, Setup, agreement, replay};
use wifu_wire::Span;

/// Two ticks of 4 ms, and a little.
const TOLERANCE: Span = Span(9_000_000);

fn main() -> ExitCode {
    let mut set = None;
    let mut failed = false;
    for argument in std::env::args().skip(1) {
        if let Some(flags) = argument.strip_prefix("--so_flags=") {
            set = Some(flags.to_owned());
            continue;
        }
        match shown(&argument, set.as_deref()) {
            Ok(text) => println!("{argument}: {text}"),
            Err(what) => {
                failed = true;
                eprintln!("{argument}: {what}");
            }
        }
    }
    ExitCode::from(2 * u8::from(failed))
}

fn shown(path: &str, set: Option<&str>) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let capture: Script = text.parse().map_err(|p: Problem| p.to_string())?;
    let flags = set.or(capture.setup.as_deref()).unwrap_or_default();
    let setup = Setup::parse(flags)?;
    let mut best: Option<(usize, Span, Vec<Round>)> = None;
    for half in 0..64 {
        let phase = Span::MILLI * half / 2;
        let rounds = replay(&capture, &setup, phase).map_err(|p| p.to_string())?;
        let alike = agreement(&rounds, TOLERANCE);
        if best.as_ref().is_none_or(|(most, ..)| alike > *most) {
            best = Some((alike, phase, rounds));
        }
    }
    let (alike, phase, rounds) = best.ok_or("nothing was tried")?;
    let all: usize = rounds.iter().map(|r| r.theirs.len()).sum();
    let mut text = format!(
        "{alike} of {all} segments alike (clock {} ms behind a tick)",
        phase.micros() as f64 / 1e3
    );
    if let Some(parted) = rounds.iter().find(|r| !r.agrees(TOLERANCE)) {
        text += &format!(
            "\n  then, behind the acknowledgement of {} at {} s",
            parted.ack,
            seconds(parted.at)
        );
        for (who, sent) in [("theirs", &parted.theirs), ("ours", &parted.ours)] {
            text += &format!("\n  {who:>6}:");
            for s in sent {
                text += &format!(" {}+{} at {} s;", s.seq, s.len, seconds(s.at));
            }
        }
    }
    Ok(text)
}

fn seconds(span: Span) -> f64 {
    span.micros() as f64 / 1e6
}
