//! Output: lines as iperf3 writes them, one JSON document, or one JSON object per line.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Context;
use serde::Serialize;

use super::args::Args;
use super::outcome::{EndSide, EndStream, Name, Sum};
use super::parameters::OutputKind;
use super::report::{Daemons, Interval, Report, Row, Start};
use super::units::{self, Format};

/// What the lines depend on besides their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Layout {
    /// Both sides send: rows get a role.
    pub bidir: bool,
    /// There is more than one stream in a direction: rows get a sum.
    pub several: bool,
    /// This side sends on some stream.
    pub sends: bool,
    /// The first seconds do not count.
    pub omits: bool,
    /// This is the server.
    pub server: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Text,
    Json,
    Stream { whole: bool },
}

/// Where the output goes, and how.
pub struct Output {
    mode: Mode,
    sink: Box<dyn Write>,
    title: Option<String>,
    format: Format,
    layout: Layout,
    /// The lines so far, for a client that wants them.
    kept: Option<String>,
    /// The rule between intervals is due.
    ruled: bool,
}

/// A sender's row that is so many times as short as the receiver's is of the send buffer.
const EARLY: f64 = 2.0;

/// No receiver of these protocols resets a connection whose program is gone.
const AFTERWARDS: &str =
    "; they are sent all the same, after this program has ended: wait so long before the next test";

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

impl Output {
    /// Opens what `args` ask for.
    pub fn open(args: &Args) -> anyhow::Result<Self> {
        let mode = match (args.json_stream, args.json) {
            (true, _) => Mode::Stream {
                whole: args.json_stream_full_output,
            },
            (false, true) => Mode::Json,
            (false, false) => Mode::Text,
        };
        let sink: Box<dyn Write> = match &args.logfile {
            None => Box::new(io::stdout()),
            Some(path) => {
                let file = OpenOptions::new().append(true).create(true).open(path);
                Box::new(file.with_context(|| format!("opening {}", path.display()))?)
            }
        };
        Ok(Self {
            mode,
            sink,
            title: args.title.clone(),
            format: args.format.unwrap_or_default(),
            layout: Layout::default(),
            kept: None,
            ruled: false,
        })
    }

    /// The form this side writes in.
    pub fn kind(&self) -> OutputKind {
        if self.mode == Mode::Text {
            OutputKind::Text
        } else {
            OutputKind::Json
        }
    }

    /// Keeps a copy of every line from now on.
    pub fn keep(&mut self) {
        self.kept = Some(String::new());
    }

    /// The lines since [`Output::keep`]; keeping ends. None if nothing was to be kept.
    pub fn take_kept(&mut self) -> Option<String> {
        self.kept.take()
    }

    /// Writes one line for people; nothing in the JSON forms.
    pub fn line(&mut self, text: &str) {
        if let Some(kept) = &mut self.kept {
            kept.push_str(text);
            kept.push('\n');
        }
        if self.mode == Mode::Text {
            let title = self
                .title
                .as_ref()
                .map(|title| format!("{title}:  "))
                .unwrap_or_default();
            self.write(&format!("{title}{text}\n"));
        }
    }

    /// Announces the test with the addresses of its streams.
    pub fn begin(&mut self, layout: Layout, start: &Start) {
        self.layout = layout;
        self.event("start", start);
        for stream in &start.connected {
            self.line(&format!(
                "[{:3}] local {} port {} connected to {} port {}",
                stream.socket,
                stream.local_host,
                stream.local_port,
                stream.remote_host,
                stream.remote_port
            ));
        }
        let header = self.header(if layout.sends { "  Retr  Cwnd" } else { "" });
        self.line(&header);
    }

    /// Writes an interval's rows.
    pub fn interval(&mut self, interval: &Interval) {
        self.event("interval", interval);
        if std::mem::replace(&mut self.ruled, true) && interval.streams.len() > 1 {
            self.line(RULE);
        }
        let forward = interval.sum.sender;
        let mut groups = vec![(forward, &interval.sum)];
        groups.extend(
            interval
                .sum_bidir_reverse
                .as_ref()
                .map(|sum| (!forward, sum)),
        );
        for (sends, sum) in groups {
            let rows: Vec<&Row> = interval
                .streams
                .iter()
                .filter(|r| r.sender == sends)
                .collect();
            for row in &rows {
                let line = self.row(row);
                self.line(&line);
            }
            if let (true, Some(row)) = (self.layout.several, rows.first()) {
                let line = self.sum(sum, omitted(sum.omitted == Some(true)), hosts(row));
                self.line(&line);
            }
        }
    }

    /// Writes the summary, or the whole document.
    pub fn finish(&mut self, report: &Report, names: &[Name]) {
        match self.mode {
            Mode::Text => {}
            Mode::Json => {
                self.write_json(report, true);
            }
            Mode::Stream { whole } => {
                if let Some(value) = &report.server_output_json {
                    self.event("server_output_json", value);
                }
                if let Some(value) = &report.server_output_text {
                    self.event("server_output_text", value);
                }
                if let Some(error) = &report.error {
                    self.event("error", error);
                }
                self.event("wifu", &report.wifu);
                self.event("end", &report.end);
                if whole {
                    self.write_json(report, true);
                }
            }
        }
        self.summary(report, names);
        if let Some(error) = &report.error {
            self.line(&format!("wifu perf: {error}"));
        }
    }

    fn summary(&mut self, report: &Report, names: &[Name]) {
        let Some(streams) = &report.end.streams else {
            return;
        };
        self.line(RULE);
        let header = self.header("  Retr");
        self.line(&header);
        let forward = names.first().is_some_and(|name| name.sends);
        let end = &report.end;
        let groups = [
            (forward, &end.sum_sent, &end.sum_received),
            (
                !forward,
                &end.sum_sent_bidir_reverse,
                &end.sum_received_bidir_reverse,
            ),
        ];
        for (sends, sent, received) in groups {
            let part: Vec<&EndStream> = streams
                .iter()
                .filter(|stream| stream.sender.sender == sends)
                .collect();
            for stream in &part {
                for (side, word) in [(&stream.sender, "sender"), (&stream.receiver, "receiver")] {
                    let line = self.end_row(stream, side, word);
                    self.line(&line);
                }
            }
            if let (true, Some(first)) = (self.layout.several, part.first()) {
                let hosts = format!("{} > {}", first.wifu.from.ip(), first.wifu.to.ip());
                for (sum, word) in [(sent, "sender"), (received, "receiver")] {
                    let Some(sum) = sum else { continue };
                    let line = self.sum(sum, word, hosts.clone());
                    self.line(&line);
                }
            }
        }
        self.our_lines(report);
    }

    fn our_lines(&mut self, report: &Report) {
        let end = &report.end;
        let mut facts = vec![format!("protocol {}", report.wifu.protocol)];
        let directions = [
            (&end.sum_received, report.wifu.jain, "to the server "),
            (
                &end.sum_received_bidir_reverse,
                report.wifu.jain_bidir_reverse,
                "to the client ",
            ),
        ];
        for (sum, jain, direction) in directions {
            let direction = if self.layout.bidir { direction } else { "" };
            let arrival = sum.as_ref().and_then(|sum| sum.wifu.as_ref());
            if let Some(goodput) = arrival.and_then(|arrival| arrival.goodput_bits_per_second) {
                let rate = self.format.rate(goodput);
                let rate = rate.trim_start();
                facts.push(format!("goodput {direction}from first byte to last {rate}"));
            }
            if let Some(jain) = jain.filter(|_| self.layout.several) {
                facts.push(format!("Jain's index {direction}{jain:.4}"));
            }
        }
        self.line(&format!("[wifu] {}", facts.join(", ")));
        self.outlasted(report);
        self.early(report);
        self.before(report);
        self.repaired(report);
        self.asked(report);
        if let Some(cpu) = &end.cpu_utilization_percent {
            self.line(&format!(
                "[wifu] CPU of the processes: here {:.1}% ({:.1}%u/{:.1}%s), there {:.1}% \
                 ({:.1}%u/{:.1}%s)",
                cpu.host_total,
                cpu.host_user,
                cpu.host_system,
                cpu.remote_total,
                cpu.remote_user,
                cpu.remote_system
            ));
        }
        if let Some(line) = report.wifu.daemon_cpu_percent.as_ref().map(daemons) {
            self.line(&line);
        }
    }

    /// That a send buffer outlasts the time of the test.
    fn outlasted(&mut self, report: &Report) {
        for stream in report.end.streams.iter().flatten() {
            let late = stream.wifu.outlasted;
            let Some(late) = late.filter(|late| late.counts(stream.sender.seconds)) else {
                continue;
            };
            let lasts = match late.seconds {
                Some(seconds) => format!("{seconds:.2} s more at the rate of the receiver"),
                None => "nothing has arrived".to_owned(),
            };
            // Some of them may have been written while seconds were omitted.
            let counted = match late.bytes <= stream.sender.bytes {
                true => "; the sender's row counts them",
                false => "",
            };
            self.line(&format!(
                "[wifu] when the time was over, {} were in the send buffer or on their way{}: \
                 {lasts}{counted}{}",
                units::bytes(late.bytes as f64).trim_start(),
                ends(stream.wifu.from, stream.wifu.to),
                if with_repairs(stream) { AFTERWARDS } else { "" }
            ));
        }
    }

    /// That all was written long before it arrived, so that the sender's rate is not the path's.
    fn early(&mut self, report: &Report) {
        let streams = report.end.streams.iter().flatten();
        let early = |s: &&EndStream| {
            s.wifu.outlasted.is_none() && EARLY * s.sender.seconds < s.receiver.seconds
        };
        if let Some(stream) = streams.clone().find(early) {
            self.line(&format!(
                "[wifu] all was in the send buffer after {:.2} s: the sender's row is no rate of the path",
                stream.sender.seconds
            ));
        }
    }

    /// That the receiver's row has bytes which the sender wrote while seconds were omitted.
    fn before(&mut self, report: &Report) {
        let streams = report.end.streams.iter().flatten();
        let more: u64 = streams.filter_map(|s| s.wifu.omitted_bytes).sum();
        if more > 0 && self.layout.omits {
            self.line(&format!(
                "[wifu] {} of the receiver's row were sent while seconds were omitted",
                units::bytes(more as f64).trim_start()
            ));
        }
    }

    /// What the sender's numbers are of where nodes on the way retransmit.
    fn repaired(&mut self, report: &Report) {
        if report.end.streams.iter().flatten().any(with_repairs) {
            self.line(
                "[wifu] Retr is of the source alone, without what lanes of nodes retransmit; \
                 round-trip times are from when a packet left first, with what it waited to be repaired",
            );
        }
    }

    /// What the client asked with, where all rows are of the answers, if that is no trifle beside
    /// them.
    fn asked(&mut self, report: &Report) {
        let Some(app) = &report.wifu.application else {
            return;
        };
        let answers = report.end.sum_received.as_ref().map_or(0, |sum| sum.bytes);
        if let Some(asked) = app.asked_bytes.filter(|asked| asked * 20 > answers) {
            let again = match app.retransmits {
                Some(1) => String::from(", 1 retransmission"),
                Some(n) => format!(", {n} retransmissions"),
                None => String::new(),
            };
            self.line(&format!(
                "[wifu] rows are of the answers; the client asked with {}{again}",
                units::bytes(asked as f64).trim_start()
            ));
        }
    }

    fn header(&self, tail: &str) -> String {
        let role = if self.layout.bidir { "[Role]" } else { "" };
        format!("[ ID]{role} Interval           Transfer     Bitrate       {tail}")
            .trim_end()
            .into()
    }

    fn role(&self, sends: bool) -> &'static str {
        match (self.layout.bidir, sends, self.layout.server) {
            (false, ..) => "",
            (true, true, false) => "[TX-C]",
            (true, false, false) => "[RX-C]",
            (true, true, true) => "[TX-S]",
            (true, false, true) => "[RX-S]",
        }
    }

    fn row(&self, row: &Row) -> String {
        let tail = match &row.tcp {
            Some(tcp) => {
                let cwnd = tcp.snd_cwnd.map(|cwnd| units::bytes(cwnd as f64));
                let cwnd = cwnd
                    .unwrap_or_else(|| format!("{:>width$}", "-", width = units::bytes(0.0).len()));
                format!("  {:3}   {cwnd}       ", tcp.retransmits)
            }
            None => " ".repeat(18),
        };
        format!(
            "[{:3}]{} {}{:<36}{}",
            row.socket,
            self.role(row.sender),
            self.span(row.start, row.end, row.bytes, row.bits_per_second),
            tail + omitted(row.omitted),
            ends(row.wifu.from, row.wifu.to)
        )
    }

    fn end_row(&self, stream: &EndStream, side: &EndSide, word: &str) -> String {
        let sends = word == "sender";
        format!(
            "[{:3}]{} {}{:<26}{}",
            side.socket,
            self.role(side.sender),
            self.span(side.start, side.end, side.bytes, side.bits_per_second),
            count(side.retransmitted().filter(|_| sends), sends) + word,
            ends(stream.wifu.from, stream.wifu.to)
        )
    }

    fn sum(&self, sum: &Sum, word: &str, hosts: String) -> String {
        // The rows of an interval leave room for the window, those of the summary do not.
        let width = if sum.omitted.is_some() { 36 } else { 26 };
        format!(
            "[SUM]{} {}{:<width$}  {hosts}",
            self.role(sum.sender),
            self.span(sum.start, sum.end, sum.bytes, sum.bits_per_second),
            count(sum.retransmits, word == "sender") + word,
        )
    }

    fn span(&self, start: f64, end: f64, bytes: u64, rate: f64) -> String {
        let (bytes, rate) = (units::bytes(bytes as f64), self.format.rate(rate));
        format!("{start:6.2}-{end:<6.2} sec  {bytes}  {rate}")
    }

    fn event<T: Serialize>(&mut self, name: &str, data: &T) {
        #[derive(Serialize)]
        struct Event<'a, T> {
            event: &'a str,
            data: &'a T,
        }
        if matches!(self.mode, Mode::Stream { .. }) {
            self.write_json(&Event { event: name, data }, false);
        }
    }

    fn write_json<T: Serialize>(&mut self, value: &T, pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        // The types here have string keys and no failing parts.
        self.write(&(text.expect("the report is plain data") + "\n"));
    }

    /// A reader that went away must not end the measurement, nor the report to the other side.
    fn write(&mut self, text: &str) {
        let _ = self
            .sink
            .write_all(text.as_bytes())
            .and_then(|()| self.sink.flush());
    }
}

/// Whether nodes on the way retransmit what a stream sends (HxH, Hop).
fn with_repairs(stream: &EndStream) -> bool {
    let stack = stream.wifu.stack.as_ref();
    stack.is_some_and(|stack| stack.counted.as_ref().is_some_and(|c| c.rtt_with_repairs))
}

/// What the daemons did, which is not in what the processes did.
fn daemons(daemons: &Daemons) -> String {
    let told = |share: Option<f64>| share.map_or("unknown".to_owned(), |s| format!("{s:.1}%"));
    format!(
        "[wifu] CPU of the WiFu daemons, which do the protocol and are not in that: here {}, there {}",
        told(daemons.host),
        told(daemons.remote)
    )
}

fn omitted(omitted: bool) -> &'static str {
    if omitted { "(omitted)" } else { "" }
}

/// Nothing of an application that had no connection: then an end is not known.
fn ends(from: SocketAddr, to: SocketAddr) -> String {
    let known = [from, to].iter().all(|end| !end.ip().is_unspecified());
    match known {
        true => format!("  {from} > {to}"),
        false => String::new(),
    }
}

fn hosts(row: &Row) -> String {
    format!("{} > {}", row.wifu.from.ip(), row.wifu.to.ip())
}

/// What a row has below Retr; `sends`: it is a sender's in the summary.
fn count(retransmits: Option<u64>, sends: bool) -> String {
    let told = retransmits.map(|count| count.to_string());
    let unknown = if sends { "-" } else { "" };
    let told = told.unwrap_or_else(|| unknown.to_owned());
    format!("  {told:>3}             ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_sender_that_does_not_tell_nobody_knows_what_it_retransmitted() {
        let told = [
            (Some(7), true),
            (None, true),
            (Some(12), false),
            (None, false),
        ];
        let told = told.map(|(n, sends)| count(n, sends));
        assert_eq!(told.each_ref().map(|t| t.trim()), ["7", "-", "12", ""]);
        assert!(told.iter().all(|t| t.len() == 18));
    }

    #[test]
    fn daemons_are_told_beside_the_processes() {
        let told = |host, remote| daemons(&Daemons { host, remote });
        let said = told(Some(55.04), None);
        assert!(
            said.ends_with("not in that: here 55.0%, there unknown"),
            "{said}"
        );
    }

    #[test]
    fn ends_that_are_not_known_are_left_out() {
        let [nowhere, here] = ["0.0.0.0:0", "10.0.0.1:5"].map(|s| s.parse().expect("an address"));
        assert_eq!(ends(here, here), "  10.0.0.1:5 > 10.0.0.1:5");
        assert_eq!(ends(nowhere, here) + &ends(here, nowhere), "");
    }
}
