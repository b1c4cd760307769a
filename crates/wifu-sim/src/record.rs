//! What happened, as tidy CSV and as a capture file.

use crate::packet::Side;
use std::fmt::Write as _;
use wifu_wire::Time;
use wifu_wire::pcapng::{Captured, Direction, InterfaceId, LinkType, Writer};

/// Kinds of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A data segment leaves its sender.
    Send,
    /// A data segment arrives at its receiver.
    Arrival,
    /// An acknowledgement arrives at the sender.
    Ack,
    /// The network lost a packet.
    Drop,
    /// A retransmission timer fired.
    Timeout,
}

impl Event {
    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Event::Send => "send",
            Event::Arrival => "arrival",
            Event::Ack => "ack",
            Event::Drop => "drop",
            Event::Timeout => "timeout",
        }
    }
}

/// One row of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// When, since the start of the run.
    pub at: Time,
    /// What happened.
    pub event: Event,
    /// Which flow.
    pub flow: usize,
    /// Whose data it is about.
    pub side: Side,
    /// Data segment, from 0: (seq - (iss + 1)) / mss. For [`Event::Ack`] the one that is asked for
    /// next, for [`Event::Timeout`] the oldest unacknowledged one. `None` for packets outside the
    /// data (SYN, FIN, RST).
    pub index: Option<u64>,
    /// Octets of data.
    pub len: u32,
    /// Congestion window of the data's sender after the event, octets.
    pub cwnd: u32,
    /// Slow start threshold of the data's sender after the event, octets.
    pub ssthresh: u32,
    /// The segment repeats data.
    pub again: bool,
    /// Why it was retransmitted, or lost.
    pub reason: &'static str,
}

/// The header of the CSV.
pub const HEADER: &str = "time_s,event,seq_index,len,cwnd,ssthresh,retransmission,reason";

/// Rows as tidy CSV. With several flows a last column `flow` tells them apart, from 1 on, with data
/// in both directions a last column `side`.
pub fn csv(rows: &[Row]) -> String {
    let flows = rows.iter().any(|r| r.flow != 0);
    let sides = rows.iter().any(|r| r.side != Side::A);
    let mut out = String::from(HEADER);
    out += if flows { ",flow" } else { "" };
    out += if sides { ",side\n" } else { "\n" };
    for r in rows {
        let (s, ns) = (r.at.0 / 1_000_000_000, r.at.0 % 1_000_000_000);
        let index = r.index.map_or(String::new(), |i| i.to_string());
        let (event, again) = (r.event.name(), u8::from(r.again));
        let Row {
            len,
            cwnd,
            ssthresh,
            reason,
            ..
        } = r;
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{s}.{ns:09},{event},{index},{len},{cwnd},{ssthresh},{again},{reason}"
        );
        if flows {
            let _ = write!(out, ",{}", r.flow + 1);
        }
        if sides {
            let _ = write!(out, ",{:?}", r.side);
        }
        out.push('\n');
    }
    out
}

/// A capture of the interfaces of one end or both.
pub(crate) struct Capture {
    out: Vec<u8>,
    writer: Writer,
    ends: [Option<InterfaceId>; 2],
}

impl Capture {
    /// `None` if there is no end to capture at.
    pub(crate) fn new(at: &[Side]) -> Option<Capture> {
        if at.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        let mut writer = Writer::begin(&mut out, "wifu mock", 0);
        let ends = Side::BOTH.map(|side| {
            let name = ["A", "B"][side.index()];
            at.contains(&side)
                .then(|| writer.interface(&mut out, name, LinkType::RAW))
        });
        Some(Capture { out, writer, ends })
    }

    pub(crate) fn packet(
        &mut self,
        at: Time,
        end: Side,
        direction: Direction,
        octets: &[u8],
        comment: &str,
    ) {
        let Some(interface) = self.ends[end.index()] else {
            return;
        };
        let packet = Captured {
            interface,
            wall_ns: at.0,
            octets,
            direction: Some(direction),
            comment,
        };
        self.writer.packet(&mut self.out, &packet);
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_tidy() {
        let row = Row {
            at: Time(1_658_000_001),
            event: Event::Drop,
            flow: 0,
            side: Side::A,
            index: Some(14),
            len: 1000,
            cwnd: 8000,
            ssthresh: 65_535,
            again: false,
            reason: "index",
        };
        let text = csv(std::slice::from_ref(&row));
        assert_eq!(
            text,
            format!("{HEADER}\n1.658000001,drop,14,1000,8000,65535,0,index\n")
        );
        let other = Row {
            flow: 1,
            index: None,
            ..row.clone()
        };
        let text = csv(&[row, other]);
        assert!(text.starts_with(&format!("{HEADER},flow\n")));
        assert!(text.ends_with("1.658000001,drop,,1000,8000,65535,0,index,2\n"));
    }
}
