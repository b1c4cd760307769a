//! What an owner hands to the radios, and what it learns from them.

use crate::driver::Times;
use crate::phy::Mode;
use crate::trace::FrameKind;
use wifu_wire::{Span, Time};

/// A packet for the radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The neighbour; `None`: all that hear it.
    pub to: Option<u16>,
    /// Length of the IP packet, octets.
    pub bytes: u16,
    /// The owner's handle of it: in use until [`Event::Done`].
    pub cookie: u32,
}

/// What a node has to learn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// A packet arrived; copies were filtered out.
    Received {
        /// Where.
        node: u16,
        /// Who transmitted it.
        from: u16,
        /// The packet.
        cookie: u32,
        /// Received power, dBm.
        rssi_dbm: i8,
        /// Rate of the frame.
        mode: Mode,
        /// It was for all.
        broadcast: bool,
        /// It is a repetition.
        retry: bool,
        /// Its sequence number.
        seq: u16,
    },
    /// A promiscuous node decoded a data frame that is not for it.
    Overheard {
        /// Where.
        node: u16,
        /// Who transmitted it.
        from: u16,
        /// Whom it is for.
        to: u16,
        /// The packet.
        cookie: u32,
        /// Received power, dBm.
        rssi_dbm: i8,
        /// Rate of the frame.
        mode: Mode,
        /// It is a repetition.
        retry: bool,
        /// Its sequence number.
        seq: u16,
    },
    /// The driver reports that a packet is finished; the owner may reuse the cookie.
    Done {
        /// Where.
        node: u16,
        /// The neighbour, or `None` for all.
        to: Option<u16>,
        /// The packet.
        cookie: u32,
        /// It was acknowledged, or was for all.
        delivered: bool,
        /// Attempts. 0: the queueing discipline dropped it, or the radio was restarted.
        tries: u8,
        /// Rate of the last attempt.
        mode: Mode,
        /// Its sequence number.
        seq: u16,
        /// What the driver measured: from entering the ring to this report.
        sample: Span,
        /// Where its time went.
        times: Times,
    },
    /// The queueing discipline says that a packet in the queue is to be marked.
    Marked {
        /// Where.
        node: u16,
        /// The packet.
        cookie: u32,
    },
    /// The queue was full and takes packets again.
    Room {
        /// Where.
        node: u16,
    },
}

/// A transmission, for whoever draws or records the air.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnAir {
    /// When it began.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// Who transmits.
    pub from: u16,
    /// Whom it is for; `None`: all.
    pub to: Option<u16>,
    /// Kind of frame.
    pub kind: FrameKind,
    /// Rate.
    pub mode: Mode,
    /// It is a repetition.
    pub retry: bool,
    /// Sequence number (data only).
    pub seq: u16,
    /// Length of the MPDU, octets.
    pub bytes: u32,
    /// The Duration field.
    pub duration: Span,
    /// The packet (data only).
    pub cookie: u32,
}
