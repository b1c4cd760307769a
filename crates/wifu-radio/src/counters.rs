//! What stations and links count.

use crate::trace::Why;
use wifu_wire::Span;

/// A station's account since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Packets that its queue took.
    pub queued: u64,
    /// Packets refused because the queue was full.
    pub refused: u64,
    /// Packets that its queueing discipline dropped before it was full.
    pub early: u64,
    /// Packets that its queueing discipline had marked.
    pub marked: u64,
    /// With a queueing discipline: packets that waited in it, in front of a full ring.
    pub waited: u64,
    /// With a queueing discipline: the most packets in the ring at a time.
    pub ring: u32,
    /// Packets that the hardware finished: delivered (or broadcast), and given up.
    pub delivered: u64,
    /// Given up after the last attempt.
    pub failed: u64,
    /// Transmissions of data frames.
    pub attempts: u64,
    /// Attempts at packets that were finished, an RTS that got no answer included.
    pub tries: u64,
    /// Those of them beyond the first one of each packet.
    pub retries: u64,
    /// RTS sent.
    pub rts: u64,
    /// CTS sent.
    pub cts: u64,
    /// ACK sent.
    pub acks: u64,
    /// Frames received for this station, copies not counted.
    pub received: u64,
    /// Copies of frames received before.
    pub duplicates: u64,
    /// Data frames of others that were decoded.
    pub overheard: u64,
    /// Data frames for this station that were lost, by [`Why`].
    pub lost: [u64; Why::ALL.len()],
    /// Time spent transmitting.
    pub airtime: Span,
    /// Time during which the medium was busy here, own transmissions included.
    pub busy: Span,
}

impl Counters {
    /// Data frames for this station that were lost for this reason.
    pub fn lost_by(&self, why: Why) -> u64 {
        self.lost[why as usize]
    }
}

/// The account of one direction of a link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Packets that were finished.
    pub frames: u64,
    /// Transmissions of data frames.
    pub attempts: u64,
    /// Data frames that the receiver decoded, copies included.
    pub decoded: u64,
    /// Attempts at the packets that were finished, an RTS that got no answer included.
    pub tries: u64,
    /// Packets acknowledged.
    pub acked: u64,
    /// Packets given up.
    pub failed: u64,
    /// Data frames to others that the receiver decoded.
    pub overheard: u64,
    /// Packets for others of which the receiver heard at least one attempt, what its capture path
    /// loses left out (Behaviour 13).
    pub overheard_frames: u64,
}
