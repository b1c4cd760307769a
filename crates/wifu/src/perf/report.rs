//! The report: iperf3's JSON, key for key, with our additions below keys named `wifu`.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wifu_linux::bsd::TcpInfo;

use super::app::Outcome;
use super::outcome::{End, Sum};
use super::parameters::Test;

/// The report of a test, as it is written to JSON: iperf3's names, and `wifu` for what it lacks.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was set up.
    pub start: Start,
    /// One entry per interval, in order.
    pub intervals: Vec<Interval>,
    /// What came out; empty when there was no test.
    pub end: End,
    /// Title of the test, which the client gave with `-T`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Text that the client gave with `--extra-data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_data: Option<String>,
    /// The report that the server would write, if it was asked for and is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_json: Option<serde_json::Value>,
    /// The lines that the server printed, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_output_text: Option<String>,
    /// Why the test failed or ended early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What iperf3 does not have.
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
    /// When the test began by this host's monotonic clock, seconds; absent if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monotonic_s: Option<f64>,
    /// `TimedOut` if there was no test because nobody answered the connection under test, as
    /// opposed to the control connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// What became of the application whose traffic it was (`--app`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<Outcome>,
    /// Jain's index over the client's streams' goodput at their receivers (1 is even).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// The same over the server's streams with --bidir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain_bidir_reverse: Option<f64>,
    /// What the daemons did meanwhile, which `cpu_utilization_percent` lacks; absent of the
    /// kernel's TCP, whose work is partly in the system time of the processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon_cpu_percent: Option<Daemons>,
    /// Busy time of the whole machines, which includes the WiFu daemons and the kernel, in
    /// percent of one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_cpu_percent: Option<Machines>,
}

/// One figure for each machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machines {
    /// The machine of this end.
    pub host: f64,
    /// The other; 0 if unknown.
    pub remote: f64,
}

/// What the daemon of each end did, for whomever, in percent of one processor; `null` if that is
/// not known.
#[derive(Debug, Clone, Serialize)]
pub struct Daemons {
    /// This end's.
    pub host: Option<f64>,
    /// The other end's.
    pub remote: Option<f64>,
}

/// What was set up.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Start {
    /// Both ends of each data stream, in order of their numbers.
    pub connected: Vec<Connected>,
    /// Name and version of this program.
    pub version: String,
    /// System, host name, kernel and machine, as `uname -a` has them.
    pub system_info: String,
    /// When the test began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// At the client: the server that it was told to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connecting_to: Option<HostPort>,
    /// At the server: the client whose test this is.
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
    /// What the client asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_start: Option<TestStart>,
}

/// A data stream's addresses.
#[derive(Debug, Clone, Serialize)]
pub struct Connected {
    /// Number of the stream, the same in all rows of a report.
    pub socket: i32,
    /// IP address of this end.
    pub local_host: String,
    /// Port of this end.
    pub local_port: u16,
    /// The other end's address.
    pub remote_host: String,
    /// The other end's port.
    pub remote_port: u16,
}

/// The other side of the control connection.
#[derive(Debug, Clone, Serialize)]
pub struct HostPort {
    /// Name or IP address, as it was given.
    pub host: String,
    /// Port of the control connection.
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
    /// The parameters in the names of iperf3.
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

/// What moved in one report interval (`-i`).
#[derive(Debug, Clone, Serialize)]
pub struct Interval {
    /// One row for each stream, in order of their numbers.
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
    /// Number of the stream, the same in all rows of a report.
    pub socket: i32,
    /// Seconds since the start.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Seconds from `start` to `end`.
    pub seconds: f64,
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// `bytes` over `seconds`, bit/s.
    pub bits_per_second: f64,
    /// State of the sender.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpRow>,
    /// Within the time that does not count.
    pub omitted: bool,
    /// Whether this side sends.
    pub sender: bool,
    /// What iperf3 does not have.
    pub wifu: RowWifu,
}

/// State of a sending stream at an interval's end.
#[derive(Debug, Clone, Serialize)]
pub struct TcpRow {
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// Congestion window, bytes; absent if the protocol has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snd_cwnd: Option<u64>,
    /// The peer's window, bytes; absent if the protocol has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snd_wnd: Option<u64>,
    /// Smoothed round-trip time, microseconds.
    pub rtt: u32,
    /// Variation of the round-trip time, microseconds.
    pub rttvar: u32,
    /// Path MTU, bytes.
    pub pmtu: u32,
    /// Tolerated reordering, segments.
    pub reorder: u32,
}

/// What we add to a row.
#[derive(Debug, Clone, Serialize)]
pub struct RowWifu {
    /// Address of the sending end, as this side sees it.
    pub from: SocketAddr,
    /// Address of the receiving end, as this side sees it.
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

/// The system's clock, in the three spellings of iperf3.
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
}
