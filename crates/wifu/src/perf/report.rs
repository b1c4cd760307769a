//! The report: iperf3's JSON, key for key, with our additions below keys named `wifu`.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use wifu_linux::bsd::TcpInfo;

use super::control::{Results, Test};

/// The whole report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was set up.
    pub start: Start,
    /// What happened meanwhile.
    pub intervals: Vec<Interval>,
    /// What came out; empty when there was no test.
    pub end: End,
    /// The client's `-T`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The client's `--extra-data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<String>,
    /// The server's report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<serde_json::Value>,
    /// The server's lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// Why the test failed or ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Ours.
    pub wifu: Wifu,
}

/// What we add at the top.
#[derive(Debug, Clone, Serialize)]
pub struct Wifu {
    /// Version of our additions.
    pub schema: &'static str,
    /// Where the protocol ran: always `live`.
    pub substrate: &'static str,
    /// `client` or `server`.
    pub role: &'static str,
    /// The protocol under test, as `-C` takes it.
    pub protocol: String,
    /// Whether the test ended before its time.
    pub interrupted: bool,
    /// Jain's index over the client's streams' goodput at their receivers (1 is even).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// The same over the server's streams with --bidir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain_bidir_reverse: Option<f64>,
    /// Busy time of the whole machines, which includes the WiFu daemons and the kernel, in
    /// percent of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu_percent: Option<Machines>,
}

/// One figure for each machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machines {
    /// This one.
    pub host: f64,
    /// The other; 0 if unknown.
    pub remote: f64,
}

/// What was set up.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Start {
    /// The data streams.
    pub connected: Vec<Connected>,
    /// This program.
    pub version: String,
    /// This machine.
    pub system_info: String,
    /// When the test began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Client: the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connecting_to: Option<HostPort>,
    /// Server: the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_connection: Option<HostPort>,
    /// The test's name, the same at both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// Segment size of the first data stream, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_mss_default: Option<u32>,
    /// Bit/s of each stream; 0 is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bitrate: Option<u64>,
    /// Always 0: no pacing by the kernel's fair queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fq_rate: Option<u64>,
    /// `-w`, bytes; 0 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sock_bufsize: Option<u64>,
    /// SO_SNDBUF as it is, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sndbuf_actual: Option<i32>,
    /// SO_RCVBUF as it is, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcvbuf_actual: Option<i32>,
    /// The parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_start: Option<TestStart>,
}

/// A data stream's addresses.
#[derive(Debug, Clone, Serialize)]
pub struct Connected {
    /// The stream's number.
    pub socket: i32,
    /// This end's address.
    pub local_host: String,
    /// This end's port.
    pub local_port: u16,
    /// The other end's address.
    pub remote_host: String,
    /// The other end's port.
    pub remote_port: u16,
}

/// An address.
#[derive(Debug, Clone, Serialize)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A moment in three spellings.
#[derive(Debug, Clone, Serialize)]
pub struct Timestamp {
    /// As in `Sat, 21 Nov 2026 11:53:16 GMT`.
    pub time: String,
    /// Seconds since 1970.
    pub timesecs: u64,
    /// Milliseconds since 1970.
    pub timemillisecs: u64,
}

/// The parameters under iperf3's names.
#[derive(Debug, Clone, Serialize)]
pub struct TestStart {
    protocol: String,
    num_streams: u32,
    blksize: u64,
    omit: Seconds,
    duration: Seconds,
    bytes: u64,
    blocks: u64,
    reverse: u8,
    tos: u8,
    target_bitrate: u64,
    bidir: u8,
    fqrate: u64,
    interval: f64,
}

impl TestStart {
    /// Translates `test`.
    pub fn new(test: &Test) -> Self {
        let sized = test.bytes.is_some();
        Self {
            protocol: test.protocol.label(),
            num_streams: test.streams,
            blksize: test.block,
            omit: Seconds(test.omit),
            duration: Seconds(if sized { 0.0 } else { test.seconds }),
            bytes: if test.blocks.is_some() {
                0
            } else {
                test.bytes.unwrap_or(0)
            },
            blocks: test.blocks.unwrap_or(0),
            reverse: test.reverse.into(),
            tos: 0,
            target_bitrate: test.rate,
            bidir: test.bidir.into(),
            fqrate: 0,
            interval: test.interval,
        }
    }
}

/// Seconds, written as an integer where they are whole, as iperf3's always are.
#[derive(Debug, Clone, Copy)]
struct Seconds(f64);

impl Serialize for Seconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 {
            serializer.serialize_u64(self.0 as u64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

/// One report interval.
#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    /// Each stream's row.
    pub streams: Vec<Row>,
    /// All streams of the test's direction.
    pub sum: Sum,
    /// With --bidir: all streams on which the server sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_bidir_reverse: Option<Sum>,
}

/// One stream in one interval.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The stream's number.
    pub socket: i32,
    /// Seconds since the start.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Length.
    pub seconds: f64,
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// Their rate.
    pub bits_per_second: f64,
    /// State of the sender.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpRow>,
    /// Within the time that does not count.
    pub omitted: bool,
    /// Whether this side sends.
    pub sender: bool,
    /// Ours.
    pub wifu: RowWifu,
}

/// State of a sending stream at an interval's end.
#[derive(Debug, Clone, Serialize)]
pub struct TcpRow {
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// Congestion window, bytes.
    pub snd_cwnd: u64,
    /// The peer's window, bytes.
    pub snd_wnd: u64,
    /// Smoothed round-trip time, microseconds.
    pub rtt: u32,
    /// Its variation, microseconds.
    pub rttvar: u32,
    /// Path MTU, bytes.
    pub pmtu: u32,
    /// Tolerated reordering, segments.
    pub reorder: u32,
}

/// What we add to a row.
#[derive(Debug, Clone, Serialize)]
pub struct RowWifu {
    /// The sending end.
    pub from: SocketAddr,
    /// The receiving end.
    pub to: SocketAddr,
    /// Slow start threshold, bytes; absent before the first loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u64>,
    /// The sender's latest delivery rate sample, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_rate_bps: Option<u64>,
}

impl RowWifu {
    /// The additions for a stream between `ends`.
    pub fn new(ends: (SocketAddr, SocketAddr), info: Option<&TcpInfo>) -> Self {
        // Linux and WiFu write the largest 31-bit number for "no threshold yet".
        let known = 1..0x7fff_ffff;
        let ssthresh = info.filter(|info| known.contains(&info.snd_ssthresh));
        Self {
            from: ends.0,
            to: ends.1,
            ssthresh: ssthresh.map(|info| u64::from(info.snd_ssthresh) * u64::from(info.snd_mss)),
            delivery_rate_bps: info.map(|info| info.delivery_rate * 8),
        }
    }
}

/// Several streams together.
#[derive(Debug, Clone, Serialize)]
pub struct Sum {
    /// Seconds since the start.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Length.
    pub seconds: f64,
    /// Bytes of all.
    pub bytes: u64,
    /// Their rate.
    pub bits_per_second: f64,
    /// Segments retransmitted by all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Within the time that does not count; only in intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<bool>,
    /// Whether this side sends.
    pub sender: bool,
    /// Ours; only in what receivers measured, at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wifu: Option<Arrival>,
}

/// When data arrived, and the goodput that follows.
#[derive(Debug, Clone, Serialize, PartialEq)]
pub struct Arrival {
    /// Completion of the first receive call, seconds after the receiver's start of the test.
    pub first_byte_s: f64,
    /// Completion of the last, likewise.
    pub last_byte_s: f64,
    /// Bytes received over the time between the two: how the 2012 WiFu paper measured. It
    /// leaves out connection set-up and the first one-way delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goodput_bits_per_second: Option<f64>,
}

impl Arrival {
    fn new(bytes: u64, times: Option<(f64, f64)>) -> Option<Self> {
        let (first, last) = times?;
        let goodput = (last > first).then(|| bytes as f64 * 8.0 / (last - first));
        Some(Self {
            first_byte_s: first,
            last_byte_s: last,
            goodput_bits_per_second: goodput,
        })
    }
}

/// What came out.
#[derive(Debug, Clone, Serialize, Default)]
pub struct End {
    /// Each stream at both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<EndStream>>,
    /// The senders' view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_sent: Option<Sum>,
    /// The receivers' view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_received: Option<Sum>,
    /// With --bidir: the server as sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_sent_bidir_reverse: Option<Sum>,
    /// With --bidir: the client as receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_received_bidir_reverse: Option<Sum>,
    /// Processor use of the two processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_utilization_percent: Option<Cpu>,
    /// Congestion control of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_tcp_congestion: Option<String>,
    /// Congestion control of the receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_tcp_congestion: Option<String>,
}

/// Processor use, percent of one processor.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Cpu {
    /// This process.
    pub host_total: f64,
    /// In user mode.
    pub host_user: f64,
    /// In the kernel.
    pub host_system: f64,
    /// The other process.
    pub remote_total: f64,
    /// In user mode.
    pub remote_user: f64,
    /// In the kernel.
    pub remote_system: f64,
}

/// One stream's outcome.
#[derive(Debug, Clone, Serialize)]
pub struct EndStream {
    /// As its sender saw it.
    pub sender: EndSide,
    /// As its receiver saw it.
    pub receiver: EndSide,
    /// Ours.
    pub wifu: EndWifu,
}

/// One end's view of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct EndSide {
    /// The stream's number.
    pub socket: i32,
    /// 0.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Length.
    pub seconds: f64,
    /// Bytes.
    pub bytes: u64,
    /// Their rate.
    pub bits_per_second: f64,
    /// Round-trip times and windows, at the sender.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Extremes>,
    /// Whether this process is the stream's sender.
    pub sender: bool,
}

/// A sender's state over the whole test.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct Extremes {
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Largest congestion window, bytes.
    pub max_snd_cwnd: u64,
    /// Largest window of the peer, bytes.
    pub max_snd_wnd: u64,
    /// Largest smoothed round-trip time at an interval's end, microseconds.
    pub max_rtt: u32,
    /// Smallest.
    pub min_rtt: u32,
    /// Mean.
    pub mean_rtt: u32,
}

/// What we add to a stream's outcome.
#[derive(Debug, Clone, Serialize)]
pub struct EndWifu {
    /// The sending end.
    pub from: SocketAddr,
    /// The receiving end.
    pub to: SocketAddr,
    /// Time that connecting took, seconds; at the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_s: Option<f64>,
    /// Completion of the first write, seconds after the sender's start of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_write_s: Option<f64>,
    /// What the receiver saw.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
}

/// What one side counted on one stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// Seconds from the start to the end, or in tests of fixed size to the last byte.
    pub seconds: f64,
    /// Completion of the first and the last write or read, seconds since the start.
    pub times: Option<(f64, f64)>,
    /// The sender's state.
    pub tcp: Option<Extremes>,
    /// Time that connecting took, seconds.
    pub connect_s: Option<f64>,
}

/// A stream as the end of the report names it.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// Its number.
    pub socket: i32,
    /// This process sends on it.
    pub sends: bool,
    /// The sending and the receiving end.
    pub ends: (SocketAddr, SocketAddr),
}

/// `bytes` per `seconds` in bit/s; 0 without time.
pub fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        bytes as f64 * 8.0 / seconds
    } else {
        0.0
    }
}

impl End {
    /// Puts the two sides' results together. `reversed` tells for each stream whether it is one
    /// of --bidir's server-to-client streams.
    pub fn new(names: &[Name], reversed: &[bool], own: &Results, other: Option<&Results>) -> Self {
        let none = Totals::default();
        let mut ends = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let mine = own.streams.get(at).unwrap_or(&none);
            let theirs = other.and_then(|other| other.streams.get(at));
            let silent = Totals {
                seconds: mine.seconds,
                ..Totals::default()
            };
            let theirs = theirs.unwrap_or(&silent);
            let (tx, rx) = if name.sends {
                (mine, theirs)
            } else {
                (theirs, mine)
            };
            ends.push(EndStream {
                sender: side(name, tx),
                receiver: side(name, rx),
                wifu: EndWifu {
                    from: name.ends.0,
                    to: name.ends.1,
                    connect_s: mine.connect_s.or(theirs.connect_s),
                    first_write_s: tx.times.map(|times| times.0),
                    arrival: Arrival::new(rx.bytes, rx.times),
                },
            });
        }
        let part = |wanted: bool| -> Vec<&EndStream> {
            let chosen = ends
                .iter()
                .zip(reversed)
                .filter(|(_, back)| **back == wanted);
            chosen.map(|(end, _)| end).collect()
        };
        let (forward, backward) = (part(false), part(true));
        let sums = |part: &[&EndStream]| (sum_sent(part), sum_received(part));
        let (sum_sent, sum_received) = sums(&forward);
        let (sent_back, received_back) = if backward.is_empty() {
            (None, None)
        } else {
            sums(&backward)
        };

        // As iperf3, the client's role in the first direction decides which name is whose.
        let sending = names.first().is_some_and(|name| name.sends);
        let other_congestion = other.and_then(|other| other.congestion.clone());
        let (sender, receiver) = if sending {
            (own.congestion.clone(), other_congestion)
        } else {
            (other_congestion, own.congestion.clone())
        };
        let remote = other.map_or((0.0, 0.0), |other| other.cpu_percent);
        Self {
            sum_sent,
            sum_received,
            sum_sent_bidir_reverse: sent_back,
            sum_received_bidir_reverse: received_back,
            cpu_utilization_percent: Some(Cpu {
                host_total: own.cpu_percent.0 + own.cpu_percent.1,
                host_user: own.cpu_percent.0,
                host_system: own.cpu_percent.1,
                remote_total: remote.0 + remote.1,
                remote_user: remote.0,
                remote_system: remote.1,
            }),
            sender_tcp_congestion: sender,
            receiver_tcp_congestion: receiver,
            streams: Some(ends),
        }
    }
}

fn side(name: &Name, totals: &Totals) -> EndSide {
    EndSide {
        socket: name.socket,
        start: 0.0,
        end: totals.seconds,
        seconds: totals.seconds,
        bytes: totals.bytes,
        bits_per_second: rate(totals.bytes, totals.seconds),
        tcp: totals.tcp,
        sender: name.sends,
    }
}

fn sum_sent(streams: &[&EndStream]) -> Option<Sum> {
    let mut sum = sum_sides(streams.iter().map(|stream| &stream.sender))?;
    let states = streams.iter().filter_map(|stream| stream.sender.tcp);
    sum.retransmits = states.map(|tcp| tcp.retransmits).reduce(|a, b| a + b);
    Some(sum)
}

fn sum_received(streams: &[&EndStream]) -> Option<Sum> {
    let mut sum = sum_sides(streams.iter().map(|stream| &stream.receiver))?;
    let times = streams
        .iter()
        .filter_map(|stream| stream.wifu.arrival.as_ref());
    let times = times.map(|arrival| (arrival.first_byte_s, arrival.last_byte_s));
    let times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    sum.wifu = Arrival::new(sum.bytes, times);
    Some(sum)
}

fn sum_sides<'a>(sides: impl Iterator<Item = &'a EndSide>) -> Option<Sum> {
    sides.fold(None, |sum: Option<Sum>, side| {
        let seconds = sum
            .as_ref()
            .map_or(side.seconds, |sum| sum.seconds.max(side.seconds));
        let bytes = sum.as_ref().map_or(0, |sum| sum.bytes) + side.bytes;
        Some(Sum {
            start: 0.0,
            end: seconds,
            seconds,
            bytes,
            bits_per_second: rate(bytes, seconds),
            retransmits: None,
            omitted: None,
            sender: side.sender,
            wifu: None,
        })
    })
}

/// Jain's fairness index of `rates`: 1 when all are the same, 1/n when one has all. `None` when
/// there are none or all are 0.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), rate| {
        (sum + rate, squares + rate * rate)
    });
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// The present moment.
pub fn timestamp() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        time: http_date(since.as_secs()),
        timesecs: since.as_secs(),
        timemillisecs: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
    }
}

/// `seconds` since 1970 in the form of RFC 9110, which is iperf3's too. The calendar is that of
/// Howard Hinnant's `civil_from_days`.
fn http_date(seconds: u64) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_across_leap_days() {
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(http_date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(http_date(1_795_261_996), "Sat, 21 Nov 2026 11:53:16 GMT");
    }

    #[test]
    fn jain_is_one_for_even_and_one_nth_for_a_single_winner() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[9.0, 0.0, 0.0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn goodput_runs_from_the_first_completed_receive_to_the_last() {
        // 100 kB at 10 Mb/s in 1538-byte frames, of which 68 come after the first completion.
        let arrival = Arrival::new(100_000, Some((0.05, 0.05 + 68.0 * 1.2304e-3))).unwrap();
        let goodput = arrival.goodput_bits_per_second.unwrap();
        assert!((goodput - 9.561e6).abs() < 1e3, "{goodput}");
        let one_read = Arrival::new(10, Some((0.1, 0.1))).unwrap();
        assert_eq!(one_read.goodput_bits_per_second, None);
        assert_eq!(Arrival::new(0, None), None);
    }

    #[test]
    fn the_two_sides_of_a_stream_meet_in_one_entry() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (a, b) = (addr("10.0.0.1:1"), addr("10.0.0.2:2"));
        let names = [
            Name {
                socket: 5,
                sends: true,
                ends: (a, b),
            },
            Name {
                socket: 7,
                sends: false,
                ends: (b, a),
            },
        ];
        let totals = |bytes, seconds, times| Totals {
            bytes,
            seconds,
            times,
            ..Totals::default()
        };
        let own = Results {
            streams: vec![totals(1000, 1.0, None), totals(600, 1.0, Some((0.2, 1.0)))],
            ..Results::default()
        };
        let other = Results {
            streams: vec![totals(900, 1.1, Some((0.1, 1.0))), totals(700, 1.0, None)],
            ..Results::default()
        };
        let end = End::new(&names, &[false, true], &own, Some(&other));
        assert_eq!(end.sum_sent.unwrap().bytes, 1000);
        let received = end.sum_received.unwrap();
        assert_eq!((received.bytes, received.seconds), (900, 1.1));
        assert_eq!(received.wifu.unwrap().goodput_bits_per_second, Some(8000.0));
        assert_eq!(end.sum_sent_bidir_reverse.unwrap().bytes, 700);
        assert_eq!(end.sum_received_bidir_reverse.unwrap().bytes, 600);

        let alone = End::new(&names[..1], &[false], &own, None);
        assert_eq!(alone.sum_received.unwrap().bytes, 0);
    }
}
