//! What came out of a test: the two sides' results put together, under iperf3's keys.

use std::net::SocketAddr;

use serde::Serialize;
use wifu_sim::outcome::Percentiles;

use super::measured::{Extremes, Results, Stack, Totals};

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

/// All streams of one direction in an interval, or over the whole test.
#[derive(Debug, Clone, Serialize)]
pub struct Sum {
    /// Seconds since the start.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Seconds from `start` to `end`.
    pub seconds: f64,
    /// Bytes of all.
    pub bytes: u64,
    /// `bytes` over `seconds`, bit/s.
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

/// What came out of a test: the `end` of the JSON report, with the names of iperf3.
#[derive(Debug, Clone, Serialize, Default)]
pub struct End {
    /// Each stream at both ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<EndStream>>,
    /// All streams of the test's direction as their senders counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum_sent: Option<Sum>,
    /// All streams of the test's direction as their receivers counted them.
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
    /// Of this process, in user mode and in the kernel.
    pub host_total: f64,
    /// Of this process in user mode.
    pub host_user: f64,
    /// Of this process in the kernel.
    pub host_system: f64,
    /// Of the process at the other end, in user mode and in the kernel.
    pub remote_total: f64,
    /// Of the process at the other end in user mode.
    pub remote_user: f64,
    /// Of the process at the other end in the kernel.
    pub remote_system: f64,
}

/// One stream over the whole test, as both of its ends saw it.
#[derive(Debug, Clone, Serialize)]
pub struct EndStream {
    /// As its sender saw it.
    pub sender: EndSide,
    /// As its receiver saw it.
    pub receiver: EndSide,
    /// What iperf3 does not have: addresses, when it connected and wrote first, what arrived.
    pub wifu: EndWifu,
}

/// One end's view of a stream.
#[derive(Debug, Clone, Serialize)]
pub struct EndSide {
    /// Number of the stream, the same in all rows of a report.
    pub socket: i32,
    /// Seconds since the start; always 0, for the whole test is meant.
    pub start: f64,
    /// Seconds since the start.
    pub end: f64,
    /// Seconds from `start` to `end`.
    pub seconds: f64,
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// `bytes` over `seconds`, bit/s.
    pub bits_per_second: f64,
    /// Round-trip times and windows, at the sender.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Extremes>,
    /// Segments that a sender retransmitted for an application, without `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Whether this process is the stream's sender.
    pub sender: bool,
}

impl EndSide {
    /// Segments retransmitted, at the sender, as far as its stack tells.
    pub fn retransmitted(&self) -> Option<u64> {
        self.tcp.map(|tcp| tcp.retransmits).or(self.retransmits)
    }
}

/// What we add to a stream's outcome.
#[derive(Debug, Clone, Serialize)]
pub struct EndWifu {
    /// Address of the sending end, as this side sees it.
    pub from: SocketAddr,
    /// Address of the receiving end, as this side sees it.
    pub to: SocketAddr,
    /// Time that connecting took, seconds; at the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_s: Option<f64>,
    /// Completion of the first write, seconds after the sender's start of the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_write_s: Option<f64>,
    /// What the sender's stack counted.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// Round-trip times as a sender's stack of WiFu's timed them, each sample once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Percentiles>,
    /// What the sender had written and had not arrived when the time was over, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlasted: Option<Outlasted>,
    /// Bytes of the receiver's row that the sender wrote while seconds were omitted, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<u64>,
    /// Segments that the receiver's stack sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback_segments: Option<u64>,
    /// What the receiver saw.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub arrival: Option<Arrival>,
    /// When bytes arrived, if that was asked for: seconds after the receiver's start of the test,
    /// bytes by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Vec<(f64, u64)>>,
    /// Bytes that arrived and are not what was sent; compared where `arrivals` are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<u64>,
    /// When the receiver started, by its host's monotonic clock, seconds: not exactly when the
    /// sender did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monotonic_s: Option<f64>,
}

/// Bytes that a test's time was too short for: the receiver's rows do not count them, the sender's
/// do but for those that it wrote while seconds were omitted.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub struct Outlasted {
    /// Bytes in the send buffer or on their way.
    pub bytes: u64,
    /// How long they would take at the receiver's mean rate, seconds; absent if nothing arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl Outlasted {
    fn new(tx: &Totals, rx: &Totals) -> Option<Self> {
        // What was written while seconds were omitted arrives, too, before the rest.
        let before = tx.omitted.zip(rx.omitted).unwrap_or_default();
        let written = tx.bytes.saturating_add(before.0);
        let arrived = rx.bytes.saturating_add(before.1);
        let bytes = written.checked_sub(arrived).filter(|bytes| *bytes > 0)?;
        let seconds = (rx.bytes > 0).then(|| bytes as f64 * rx.seconds / rx.bytes as f64);
        Some(Self { bytes, seconds })
    }

    /// Whether it is worth telling after a test of so many seconds.
    pub fn counts(self, test: f64) -> bool {
        self.seconds.is_none_or(|seconds| seconds > 0.01 * test)
    }
}

/// A stream as the end of the report names it.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    /// Number of the stream in the report.
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
        let ends: Vec<EndStream> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let theirs = other.and_then(|other| other.streams.get(at));
                EndStream::new(name, own.streams.get(at), theirs)
            })
            .collect();
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

impl EndStream {
    fn new(name: &Name, own: Option<&Totals>, other: Option<&Totals>) -> Self {
        let own = own.cloned().unwrap_or_default();
        let told = other.is_some();
        // A side that did not say has no bytes; its time is ours, as in iperf3.
        let other = other.cloned().unwrap_or(Totals {
            seconds: own.seconds,
            ..Totals::default()
        });
        let connect_s = own.connect_s.or(other.connect_s);
        let (tx, rx) = if name.sends {
            (own, other)
        } else {
            (other, own)
        };
        let sender = EndSide {
            retransmits: tx.retransmits.filter(|_| tx.tcp.is_none()),
            ..side(name, &tx)
        };
        Self {
            sender,
            receiver: side(name, &rx),
            wifu: EndWifu {
                from: name.ends.0,
                to: name.ends.1,
                connect_s,
                first_write_s: tx.times.map(|times| times.0),
                round_trips: tx.stack.as_ref().and_then(Stack::percentiles),
                outlasted: Outlasted::new(&tx, &rx).filter(|_| told),
                omitted_bytes: (tx.omitted.zip(rx.omitted))
                    .and_then(|(written, arrived)| written.checked_sub(arrived))
                    .map(|bytes| bytes.min(rx.bytes))
                    .filter(|bytes| told && *bytes > 0),
                stack: tx.stack,
                // Of questions and answers the server tells, whichever way the bytes go that count.
                feedback_segments: rx.feedback_segments.or(tx.feedback_segments),
                arrival: Arrival::new(rx.bytes, rx.times),
                arrivals: rx.arrivals,
                corrupt: rx.corrupt,
                monotonic_s: rx.monotonic_s,
            },
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
        retransmits: None,
        sender: name.sends,
    }
}

fn sum_sent(streams: &[&EndStream]) -> Option<Sum> {
    let mut sum = sum_sides(streams.iter().map(|stream| &stream.sender))?;
    let told = streams.iter().filter_map(|s| s.sender.retransmitted());
    sum.retransmits = told.reduce(|a, b| a + b);
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

#[cfg(test)]
mod tests {
    use super::*;

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

        // 100 bytes were not there when the time was over: 1/9 of what had arrived in 1.1 s.
        let late = end.streams.as_ref().unwrap()[0].wifu.outlasted.unwrap();
        assert_eq!(late.bytes, 100);
        assert!((late.seconds.unwrap() - 1.1 / 9.0).abs() < 1e-9 && late.counts(1.1));
        assert!(!late.counts(100.0), "not worth a word");

        // 5000 had been written when counting began, and 2000 of them had arrived: 3000 of what
        // the receiver counted are of these, and as many more of the sender's wait at the end.
        let omitting = |bytes, omitted| Results {
            streams: vec![Totals {
                omitted: Some(omitted),
                ..totals(bytes, 1.0, Some((0.1, 1.0)))
            }],
            ..Results::default()
        };
        let (own_row, other_row) = (omitting(4000, 5000), omitting(3500, 2000));
        let end = End::new(&names[..1], &[false], &own_row, Some(&other_row));
        let told = end.streams.unwrap()[0].wifu.clone();
        assert_eq!(told.outlasted.unwrap().bytes, 3500);
        assert_eq!(told.omitted_bytes, Some(3000));

        let alone = End::new(&names[..1], &[false], &own, None);
        assert_eq!(alone.sum_received.unwrap().bytes, 0);
        // Of a receiver that did not say nothing is known.
        assert_eq!(alone.streams.unwrap()[0].wifu.outlasted, None);
    }
}
