//! What the trace of frames says about each link, and the command that reads its file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use wifu_radio::phy::Mode;
use wifu_radio::trace::{FrameKind, NOBODY, Record, SIZE, What, Why};

use super::table::Table;

/// Why attempts of data frames on one directed link failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Data frames put on the air.
    pub attempts: u64,
    /// Data frames that collided at the receiver, by the strongest interferer.
    pub collisions: BTreeMap<u16, u64>,
    /// Nobody else was on the air: lost to noise alone.
    pub noise: u64,
    /// What is no 802.11 was on.
    pub interference: u64,
    /// Too weak for the receiver to notice, by itself.
    pub weak: u64,
    /// Too weak for the receiver to notice beside others, by the strongest of these.
    pub drowned: BTreeMap<u16, u64>,
    /// The receiver was listening to this other node.
    pub locked: BTreeMap<u16, u64>,
    /// The receiver was transmitting.
    pub transmitting: u64,
    /// RTS put on the air.
    pub requests: u64,
    /// Attempts that got no answer, for whatever reason.
    pub failed: u64,
    /// The sender's queue was full.
    pub refused: u64,
}

/// Why attempts failed, on every link of a run.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    /// By transmitter and receiver.
    pub links: BTreeMap<(u16, u16), Link>,
    /// Broadcasts put on the air, by transmitter.
    pub broadcasts: BTreeMap<u16, u64>,
    /// Records of the trace that were counted.
    pub records: u64,
    /// First and last time, ns.
    pub span: Option<(u64, u64)>,
}

impl Causes {
    /// Count a record; they come in order of time.
    pub fn add(&mut self, r: &Record) {
        self.records += 1;
        let first = self.span.map_or(r.time.0, |s| s.0);
        self.span = Some((first, r.time.0));
        match (r.what, r.kind) {
            (What::Sent, FrameKind::Data) if r.peer == NOBODY => {
                *self.broadcasts.entry(r.node).or_default() += 1;
            }
            (What::Sent, FrameKind::Data) => self.link(r.node, r.peer).attempts += 1,
            (What::Refused, _) => self.link(r.node, r.peer).refused += 1,
            (What::Sent, FrameKind::Rts) => self.link(r.node, r.peer).requests += 1,
            (What::Failed, _) => self.link(r.node, r.peer).failed += 1,
            (What::Lost, _) => self.lost(r),
            _ => {}
        }
    }

    fn link(&mut self, from: u16, to: u16) -> &mut Link {
        self.links.entry((from, to)).or_default()
    }

    fn lost(&mut self, r: &Record) {
        let other = r.other;
        let link = self.link(r.peer, r.node);
        match r.why {
            Why::Collision | Why::Captured => *link.collisions.entry(other).or_default() += 1,
            Why::Noise => link.noise += 1,
            Why::Interference => link.interference += 1,
            Why::Weak if other == NOBODY => link.weak += 1,
            Why::Weak => *link.drowned.entry(other).or_default() += 1,
            Why::Locked => *link.locked.entry(other).or_default() += 1,
            Why::Transmitting => link.transmitting += 1,
            Why::None => {}
        }
    }
}

impl Link {
    /// Attempts that failed although the data arrived, or before it was sent: the trace has no
    /// record of lost control frames.
    pub fn unanswered(&self) -> u64 {
        let others = [&self.collisions, &self.locked, &self.drowned];
        let with: u64 = others.iter().flat_map(|o| o.values()).sum();
        let lost = with + self.noise + self.interference + self.weak + self.transmitting;
        self.failed.saturating_sub(lost)
    }

    /// Attempts that failed, in words, the most frequent causes first. `name` names a node.
    pub fn words(&self, most: usize, name: &dyn Fn(u16) -> String) -> String {
        let with = |what: &str, other: u16| match other {
            NOBODY => what.trim_end_matches(" with").to_string(),
            other => format!("{what} {}", name(other)),
        };
        let unanswered = match self.requests {
            0 => "ACK lost",
            _ => "RTS, CTS or ACK lost",
        };
        let collisions = self.collisions.iter();
        let mut causes: Vec<(u64, String)> = collisions
            .map(|(other, n)| (*n, with("collision with", *other)))
            .collect();
        let locked = self.locked.iter();
        causes.extend(locked.map(|(other, n)| (*n, with("receiver busy with", *other))));
        let drowned = self.drowned.iter();
        causes.extend(drowned.map(|(other, n)| (*n, with("drowned by", *other))));
        causes.extend([
            (self.noise, String::from("noise")),
            (self.interference, String::from("interference")),
            (self.weak, String::from("too weak to notice")),
            (self.transmitting, String::from("receiver sending too")),
            (self.unanswered(), String::from(unanswered)),
            (self.refused, String::from("queue full")),
        ]);
        causes.retain(|(n, _)| *n > 0);
        causes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let others: u64 = causes.iter().skip(most).map(|(n, _)| n).sum();
        causes.truncate(most);
        if others > 0 {
            let what = if others == 1 { "other" } else { "others" };
            causes.push((others, String::from(what)));
        }
        let words: Vec<String> = causes.iter().map(|(n, w)| format!("{n} {w}")).collect();
        words.join(", ")
    }
}

const HELP: &str = "\
The file is a sequence of records of 32 octets, little-endian, without a header. In Python:

  import numpy as np
  frames = np.fromfile(\"frames.bin\", dtype=[
      (\"time_ns\", \"<u8\"), (\"frame\", \"<u4\"), (\"node\", \"<u2\"), (\"peer\", \"<u2\"),
      (\"what\", \"u1\"), (\"mode\", \"u1\"), (\"tries\", \"u1\"), (\"why\", \"u1\"),
      (\"bytes\", \"<u2\"), (\"signal\", \"<i2\"), (\"other\", \"<u2\"), (\"kind\", \"u1\"),
      (\"flags\", \"u1\"), (\"value\", \"<u4\")])

In the file nodes are numbered from 0 in the order of the topology, and 65535 is nobody; this
command prints n1 for number 0, as everything else does. The signal is in hundredths of a dBm. What
`value` means depends on `what`: how many wait with the frame (queued), slots of back-off
(deferred), airtime in ns (sent), ns since it was queued (acknowledged), the driver's delay sample
in ns (reported). Bit 0 of `flags` is set on a repetition. `other` is a third station: with whom a
frame collided, to whom the receiver listened. The numbers of the rest:

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

/// A node by its place, as scenarios may call it too.
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
        "{path}: {} octets are no multiple of {SIZE}, so this is no trace of frames, or it was cut",
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

const HEADER: &str =
    "time_s,frame,node,peer,what,kind,rate_mbps,tries,retry,why,other,bytes,signal_dbm,value";

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
        "{s}.{ns:09},{},{},{},{},{},{rate},{},{},{why},{},{bytes},{signal},{}",
        r.frame,
        node(r.node),
        other(r.peer),
        word(r.what),
        word(r.kind),
        r.tries,
        r.flags & 1,
        other(r.other),
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
    fn causes_are_counted_on_the_link_of_the_data() {
        let mut causes = Causes::default();
        let lost = |why, other| Record {
            why,
            other,
            ..record(What::Lost, FrameKind::Data, 1, 0)
        };
        let all = [
            record(What::Sent, FrameKind::Data, 0, 1),
            record(What::Sent, FrameKind::Data, 0, 1),
            lost(Why::Collision, 3),
            lost(Why::Collision, 3),
            lost(Why::Noise, NOBODY),
            lost(Why::Weak, NOBODY),
            lost(Why::Weak, 2),
            lost(Why::Weak, 2),
            lost(Why::Weak, 2),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Failed, FrameKind::Data, 0, 1),
            record(What::Sent, FrameKind::Ack, 1, 0),
            record(What::Sent, FrameKind::Data, 2, NOBODY),
        ];
        for r in &all {
            causes.add(r);
        }
        let link = &causes.links[&(0, 1)];
        assert_eq!((link.attempts, link.failed), (2, 8));
        let words = |most| link.words(most, &|n| format!("n{}", n + 1));
        let all = "3 drowned by n3, 2 collision with n4, 1 ACK lost, 1 noise, 1 too weak to notice";
        assert_eq!(words(9), all);
        assert_eq!(words(1), "3 drowned by n3, 5 others");
        assert_eq!(causes.links.len(), 1);
        assert_eq!(causes.broadcasts[&2], 1);
        assert!(summary(&causes).contains("n1 > n2"));
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
            ..record(What::Lost, FrameKind::Data, 1, 0)
        };
        let text = row(&lost);
        assert_eq!(
            text,
            "1.500000000,3,n2,n1,lost,data,24,2,1,collision,n6,1536,,7"
        );
        assert_eq!(text.split(',').count(), HEADER.split(',').count());
        let sent = row(&record(What::Sent, FrameKind::Data, 1, NOBODY));
        assert_eq!(sent.split(',').count(), HEADER.split(',').count());
    }
}
