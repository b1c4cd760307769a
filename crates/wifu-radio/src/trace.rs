//! What became of each frame, as records of 32 octets.
//!
//! A trace is a sequence of [`Record`]s in little-endian order without a header; as a numpy dtype:
//!
//! ```text
//! [("time_ns","<u8"),("frame","<u4"),("node","<u2"),("peer","<u2"),("what","u1"),("mode","u1"),
//!  ("tries","u1"),("why","u1"),("bytes","<u2"),("signal","<i2"),("other","<u2"),("kind","u1"),
//!  ("flags","u1"),("value","<u4")]
//! ```

use wifu_wire::Time;

/// No node: a broadcast's receiver, an interferer that isn't known.
pub const NOBODY: u16 = u16::MAX;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum What {
    /// The node's queue took the frame; `value`: how many wait with it.
    Queued = 0,
    /// The node's queue was full.
    Refused = 1,
    /// The station backs off; `value`: slots.
    Deferred = 2,
    /// A transmission begins; `value`: its airtime, ns.
    Sent = 3,
    /// `node` decoded what `peer` sent.
    Received = 4,
    /// `node` lost a frame that `peer` sent to it, of any `kind`; see `why` and `other`.
    Lost = 5,
    /// `node` let go of `peer`'s frame for a stronger one from `other`.
    Captured = 6,
    /// The frame was acknowledged; `value`: ns since it was queued.
    Acknowledged = 7,
    /// An attempt failed: no CTS or no ACK.
    Failed = 8,
    /// The frame was given up.
    Dropped = 9,
    /// The driver reported the frame; `value`: its delay sample, ns.
    Reported = 10,
    /// A copy of a frame received before.
    Duplicate = 11,
}

impl What {
    /// All, each at its number's place.
    pub const ALL: [What; 12] = [
        What::Queued,
        What::Refused,
        What::Deferred,
        What::Sent,
        What::Received,
        What::Lost,
        What::Captured,
        What::Acknowledged,
        What::Failed,
        What::Dropped,
        What::Reported,
        What::Duplicate,
    ];
}

/// Why a frame was lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(u8)]
pub enum Why {
    /// It was not.
    #[default]
    None = 0,
    /// The receiver was transmitting.
    Transmitting = 1,
    /// The receiver was listening to another frame, `other`'s.
    Locked = 2,
    /// No lock: too weak by itself, or, if there is an `other`, drowned by what else was on the
    /// air, of which `other`'s was the strongest.
    Weak = 3,
    /// Interference while it was received; `other`: the strongest.
    Collision = 4,
    /// Noise alone.
    Noise = 5,
    /// A stronger frame, `other`'s, took the receiver.
    Captured = 6,
    /// What is no 802.11, before the receiver noticed the frame or while it received it.
    Interference = 7,
    /// The link to the receiver was cut.
    Cut = 8,
}

impl Why {
    /// All, each at its number's place.
    pub const ALL: [Why; 9] = [
        Why::None,
        Why::Transmitting,
        Why::Locked,
        Why::Weak,
        Why::Collision,
        Why::Noise,
        Why::Captured,
        Why::Interference,
        Why::Cut,
    ];

    /// What the hash over a run knows of it. A link that is cut is one that is too weak there, as
    /// before the two were told apart: hashes that were published stay true.
    pub(crate) fn hashed(self) -> u64 {
        match self {
            Why::Cut => Why::Weak as u64,
            why => why as u64,
        }
    }
}

/// Kind of a transmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Data, to one station or to all.
    Data = 0,
    /// Acknowledgement.
    Ack = 1,
    /// Request to send.
    Rts = 2,
    /// Clear to send.
    Cts = 3,
}

impl FrameKind {
    /// All, each at its number's place.
    pub const ALL: [FrameKind; 4] = [
        FrameKind::Data,
        FrameKind::Ack,
        FrameKind::Rts,
        FrameKind::Cts,
    ];
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub time: Time,
    /// Number of the frame, counted over the whole run; of the frame that is answered for control
    /// frames.
    pub frame: u32,
    /// Where.
    pub node: u16,
    /// The other side, or [`NOBODY`].
    pub peer: u16,
    /// What happened.
    pub what: What,
    /// Rate, as [`crate::phy::Mode`].
    pub mode: u8,
    /// Attempts so far.
    pub tries: u8,
    /// See [`Why`].
    pub why: Why,
    /// Length of the MPDU, octets.
    pub bytes: u16,
    /// Received power, hundredths of a dBm.
    pub signal: i16,
    /// A third station, or [`NOBODY`].
    pub other: u16,
    /// See [`FrameKind`].
    pub kind: FrameKind,
    /// Bit 0: a repetition. Bits 1 and 2: see [`Record::UNSENSED`] and [`Record::UNHEARD`].
    pub flags: u8,
    /// Depends on `what`.
    pub value: u32,
}

/// Octets of a record.
pub const SIZE: usize = 32;

impl Record {
    /// Of `flags`, where a frame was lost to a third station: its sender did not sense `other` at
    /// this time, by the mean power that reaches it from there.
    pub const UNSENSED: u8 = 2;

    /// Of `flags`, where data or an RTS were lost to another station, the receiver among them: its
    /// sender does sense `other` by the mean power, and yet neither `other` nor whom that one
    /// answered began to contend within a slot of it. One did not hear the other for that moment:
    /// a signal had faded, or an answer came of a frame that is not sensed.
    pub const UNHEARD: u8 = 4;

    /// See [`Record::UNHEARD`].
    pub fn unheard(&self) -> bool {
        self.flags & Record::UNHEARD != 0
    }

    /// Whether the sender of a lost frame did not sense `other`.
    pub fn unsensed(&self) -> bool {
        self.flags & Record::UNSENSED != 0
    }

    /// As octets.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0; SIZE];
        b[0..8].copy_from_slice(&self.time.0.to_le_bytes());
        b[8..12].copy_from_slice(&self.frame.to_le_bytes());
        b[12..14].copy_from_slice(&self.node.to_le_bytes());
        b[14..16].copy_from_slice(&self.peer.to_le_bytes());
        b[16] = self.what as u8;
        b[17] = self.mode;
        b[18] = self.tries;
        b[19] = self.why as u8;
        b[20..22].copy_from_slice(&self.bytes.to_le_bytes());
        b[22..24].copy_from_slice(&self.signal.to_le_bytes());
        b[24..26].copy_from_slice(&self.other.to_le_bytes());
        b[26] = self.kind as u8;
        b[27] = self.flags;
        b[28..32].copy_from_slice(&self.value.to_le_bytes());
        b
    }

    /// From octets; `None` if a code is unknown.
    pub fn decode(b: &[u8; SIZE]) -> Option<Record> {
        let u16_at = |i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let mut time = [0; 8];
        time.copy_from_slice(&b[..8]);
        Some(Record {
            time: Time(u64::from_le_bytes(time)),
            frame: u32_at(8),
            node: u16_at(12),
            peer: u16_at(14),
            what: *What::ALL.get(usize::from(b[16]))?,
            mode: b[17],
            tries: b[18],
            why: *Why::ALL.get(usize::from(b[19]))?,
            bytes: u16_at(20),
            signal: u16_at(22) as i16,
            other: u16_at(24),
            kind: *FrameKind::ALL.get(usize::from(b[26]))?,
            flags: b[27],
            value: u32_at(28),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_round_trip_and_unknown_codes_are_refused() {
        let r = Record {
            time: Time(123_456_789_012),
            frame: 0x0403_0201,
            node: 3,
            peer: NOBODY,
            what: What::Lost,
            mode: 8,
            tries: 2,
            why: Why::Collision,
            bytes: 1536,
            signal: -8_150,
            other: 5,
            kind: FrameKind::Cts,
            flags: 1,
            value: 0x0D0C_0B0A,
        };
        let b = r.encode();
        assert_eq!(Record::decode(&b), Some(r));
        let codes = What::ALL.iter().map(|w| *w as usize);
        assert!(codes.eq(0..12), "each what is at its number's place");
        assert!(Why::ALL.iter().map(|w| *w as usize).eq(0..9));
        assert!(FrameKind::ALL.iter().map(|k| *k as usize).eq(0..4));
        for at in [16, 19, 26] {
            let mut bad = b;
            bad[at] = 200;
            assert_eq!(Record::decode(&bad), None);
        }
    }
}
