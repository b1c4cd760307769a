//! The command that reads a file of a trace of frames, and says what it has of each link.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use wifu_radio::phy::Mode;
use wifu_radio::trace::{FrameKind, NOBODY, Record, SIZE, What, Why};
use wifu_sim::causes::Causes;

use super::table::Table;

const HELP: &str = "\
The file is a sequence of records of 32 bytes, little-endian, without a header. In Python:

  import numpy as np
  frames = np.fromfile(\"frames.bin\", dtype=[
      (\"time_ns\", \"<u8\"), (\"frame\", \"<u4\"), (\"node\", \"<u2\"), (\"peer\", \"<u2\"),
      (\"what\", \"u1\"), (\"mode\", \"u1\"), (\"tries\", \"u1\"), (\"why\", \"u1\"),
      (\"bytes\", \"<u2\"), (\"signal\", \"<i2\"), (\"other\", \"<u2\"), (\"kind\", \"u1\"),
      (\"flags\", \"u1\"), (\"value\", \"<u4\")])

In the file nodes are numbered from 0 in the order of the topology, and 65535 is nobody; this
command prints n1 for 0, whatever that node is called. The signal is in hundredths of a dBm. What
`value` means depends on `what`: how many wait with the frame (queued), slots of back-off
(deferred), airtime in ns (sent), ns since it was queued (acknowledged), the driver's delay sample
in ns (reported). Bit 0 of `flags` is set on a repetition; bit 1 where a frame was lost and its
sender did not sense `other` then. `other` is a third station: with whom a frame collided, to whom
the receiver listened. The numbers of the rest:

";

const EXAMPLES: &str = "
Examples:

  wifu sim --topo linear,7 --set TB-B --protocol tcp-newreno -n 2M --frames frames.bin
  wifu trace frames.bin
  wifu trace frames.bin --csv | grep ,lost,";

/// The format of the file with the numbers of its codes.
fn help() -> String {
    let what = What::ALL.map(|w| format!("{} {}", w as u8, word(w)));
    let why = Why::ALL.map(|w| format!("{} {}", w as u8, word(w)));
    let kind = FrameKind::ALL.map(|k| format!("{} {}", k as u8, word(k)));
    let mode = Mode::ALL.map(|m| format!("{} {}", m.0, m.name()));
    let mut text = String::from(HELP);
    for (field, words) in [
        ("what", &what[..]),
        ("why", &why),
        ("kind", &kind),
        ("mode", &mode),
    ] {
        let mut line = format!("  {field:5}");
        for (i, code) in words.iter().enumerate() {
            let end = if i + 1 < words.len() { "," } else { "" };
            if line.len() + code.len() + 2 > 98 {
                text += &format!("{line}\n");
                line = " ".repeat(7);
            }
            line += &format!(" {code}{end}");
        }
        text += &format!("{line}\n");
    }
    text + EXAMPLES
}

fn word(code: impl std::fmt::Debug) -> String {
    format!("{code:?}").to_lowercase()
}

/// A node by its place: traces have no names.
fn node(number: u16) -> String {
    format!("n{}", u32::from(number) + 1)
}

/// `wifu trace`.
#[derive(clap::Args)]
#[command(after_long_help = help(), after_help = "File format and examples: wifu trace --help")]
pub struct TraceArgs {
    /// The file that `wifu sim --frames` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Every record as CSV, instead of a summary per link
    #[arg(long)]
    csv: bool,
}

/// Read a trace.
///
/// # Errors
/// The file cannot be read or is no trace.
pub fn trace(args: &TraceArgs) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let file = std::fs::read(&args.file).with_context(|| format!("reading {path}"))?;
    let (records, rest) = file.as_chunks::<SIZE>();
    ensure!(
        rest.is_empty(),
        "{path}: {} bytes are no multiple of {SIZE}, so this is no trace of frames, or it was cut",
        file.len()
    );
    let mut causes = Causes::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    if args.csv {
        writeln!(out, "{HEADER}")?;
    }
    for (n, octets) in records.iter().enumerate() {
        let record = Record::decode(octets).with_context(|| {
            format!("{path}: record {n} has a code that does not exist; is it a trace of frames?")
        })?;
        if args.csv {
            writeln!(out, "{}", row(&record))?;
        }
        causes.add(&record);
    }
    if !args.csv {
        write!(out, "{}", summary(&causes))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

const HEADER: &str = "time_s,frame,node,peer,what,kind,rate_mbps,tries,retry,why,other,unsensed,unheard,\
     bytes,signal_dbm,value";

fn row(r: &Record) -> String {
    let other = |n: u16| match n {
        NOBODY => String::new(),
        n => node(n),
    };
    // A frame has a rate once the hardware has it.
    let rate = match r.what {
        What::Queued | What::Refused | What::Deferred | What::Reported | What::Duplicate => {
            String::new()
        }
        _ => (Mode(r.mode.min(11)).rate().0 as f64 / 1e6).to_string(),
    };
    let bytes = match r.bytes {
        0 => String::new(),
        n => n.to_string(),
    };
    let signal = match r.what {
        What::Received => format!("{:.2}", f64::from(r.signal) / 100.0),
        _ => String::new(),
    };
    let (s, ns) = (r.time.0 / 1_000_000_000, r.time.0 % 1_000_000_000);
    let why = match r.why {
        Why::None => String::new(),
        why => word(why),
    };
    format!(
        "{s}.{ns:09},{},{},{},{},{},{rate},{},{},{why},{},{},{},{bytes},{signal},{}",
        r.frame,
        node(r.node),
        other(r.peer),
        word(r.what),
        word(r.kind),
        r.tries,
        r.flags & 1,
        other(r.other),
        u8::from(r.unsensed()),
        u8::from(r.unheard()),
        r.value
    )
}

fn summary(causes: &Causes) -> String {
    let Some((first, last)) = causes.span else {
        return String::from("no records\n");
    };
    let mut text = format!(
        "{} records, {:.6} s to {:.6} s\n\n",
        causes.records,
        first as f64 / 1e9,
        last as f64 / 1e9
    );
    let mut table = Table::new(&["<link", ">attempts", ">failed", "<of these"]);
    for ((from, to), link) in &causes.links {
        let to = match *to {
            NOBODY => String::from("all"),
            to => node(to),
        };
        table.row([
            format!("{} > {to}", node(*from)),
            link.attempts.to_string(),
            link.failed.to_string(),
            link.words(usize::MAX, &node),
        ]);
    }
    text += &table.text();
    let broadcasts: u64 = causes.broadcasts.values().sum();
    if broadcasts > 0 {
        let _ = writeln!(text, "{broadcasts} broadcasts");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::Time;

    fn record(what: What, kind: FrameKind, node: u16, peer: u16) -> Record {
        Record {
            time: Time(1_500_000_000),
            frame: 3,
            node,
            peer,
            what,
            mode: 8,
            tries: 2,
            why: Why::None,
            bytes: 1536,
            signal: -7_750,
            other: NOBODY,
            kind,
            flags: 1,
            value: 7,
        }
    }

    #[test]
    fn the_help_has_the_number_of_every_code() {
        let text = help();
        for code in [
            "5 lost",
            "11 duplicate",
            "3 weak",
            "6 captured",
            "2 rts",
            "8 24 Mb/s",
        ] {
            assert!(text.contains(code), "{code} is missing in\n{text}");
        }
        assert!(text.lines().all(|l| l.len() <= 100), "{text}");
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let lost = Record {
            why: Why::Collision,
            other: 5,
            flags: 1 | Record::UNSENSED,
            ..record(What::Lost, FrameKind::Data, 1, 0)
        };
        let text = row(&lost);
        assert_eq!(
            text,
            "1.500000000,3,n2,n1,lost,data,24,2,1,collision,n6,1,0,1536,,7"
        );
        assert_eq!(text.split(',').count(), HEADER.split(',').count());
        let sent = row(&record(What::Sent, FrameKind::Data, 1, NOBODY));
        assert_eq!(sent.split(',').count(), HEADER.split(',').count());
    }
}
