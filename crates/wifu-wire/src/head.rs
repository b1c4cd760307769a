//! The decoded header that parts read and write, and the trait that maps it to bytes.

use crate::checksum::Pseudo;
use crate::format::{Class, Format};
use crate::ipv4::Ecn;
use crate::neighbour::Neighbour;
use crate::notes::Notes;
use crate::units::{Moment, Rate, Seq};

/// How many words of a format's own a [`Head`] holds.
pub const WORDS: usize = 16;

/// The longest range list of any format (HxH, Behaviour 16.8). A codec emits as many as its format
/// holds, in the order given.
pub const RANGES: usize = 150;

/// The flags that formats have in common. Others are one-bit words of a format's own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u32);

impl Flags {
    /// Opens a sequence space.
    pub const SYN: Flags = Flags(1);
    /// Ends it.
    pub const FIN: Flags = Flags(2);
    /// Refuses or destroys a connection.
    pub const RST: Flags = Flags(4);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(256);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(512);
    /// Push (RFC 9293 section 3.9.1).
    pub const PSH: Flags = Flags(1024);
    /// Urgent: ignored.
    pub const URG: Flags = Flags(2048);

    /// Whether any flag of `o` is set.
    pub const fn has(self, o: Flags) -> bool {
        self.0 & o.0 != 0
    }

    /// Both sets together.
    pub const fn with(self, o: Flags) -> Flags {
        Flags(self.0 | o.0)
    }
}

/// What a SYN offers.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct SynOptions {
    /// Largest segment that the sender of this SYN accepts, octets; 0 if the option is missing.
    pub mss: u16,
    /// Window scale shift (RFC 7323), 0 to 14.
    pub scale: Option<u8>,
    /// Selective acknowledgements permitted (RFC 2018).
    pub sack_ok: bool,
    /// Timestamps offered (RFC 7323).
    pub ts_ok: bool,
}

/// Number of a format's own word in [`Head::get`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Word(pub u8);

/// Where a word sits in the header: 1 to 32 bits from bit `bit` (0 is the most significant) of
/// byte `byte`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The word in the decoded header.
    pub word: Word,
    /// Byte offset from the start of the transport header.
    pub byte: u8,
    /// Bit offset in that byte, 0 to 7.
    pub bit: u8,
    /// Width in bits, 1 to 32.
    pub bits: u8,
    /// Byte offset of the checksum that covers the word although nodes on the way write it
    /// ([`crate::Format::covers_hops`]): it follows what is written.
    pub sum: Option<u8>,
}

impl Place {
    /// The value at this place, 0 if the header is too short.
    pub fn read(&self, header: &[u8]) -> u32 {
        let (at, n) = (usize::from(self.byte), self.octets());
        let Some(bytes) = header.get(at..at + n) else {
            return 0;
        };
        let raw = bytes.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
        (raw >> self.shift(n)) as u32 & self.mask()
    }

    /// Write `value`, cut to the width; nothing if the header is too short.
    pub fn write(&self, header: &mut [u8], value: u32) {
        let (at, n) = (usize::from(self.byte), self.octets());
        let (shift, mask) = (self.shift(n), u64::from(self.mask()));
        let Some(bytes) = header.get_mut(at..at + n) else {
            return;
        };
        let before = bytes.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let after = before & !(mask << shift) | (u64::from(value) & mask) << shift;
        let mut raw = after;
        for b in bytes.iter_mut().rev() {
            *b = raw as u8;
            raw >>= 8;
        }
        if let Some(at) = self.sum.map(usize::from)
            && let Some(sum) = header.get_mut(at..at + 2)
        {
            // As whole words of 16 bits, wherever the bytes begin and end.
            let aligned = 8 * ((usize::from(self.byte) + n) % 2);
            let [before, after] = [before, after].map(|v| fold(v << aligned));
            let old = u16::from_be_bytes([sum[0], sum[1]]);
            //= rfc1624#section-3
            let new = !fold(u64::from(!old) + u64::from(!before) + u64::from(after));
            sum.copy_from_slice(&new.to_be_bytes());
        }
    }

    /// The largest value that fits.
    pub fn most(&self) -> u32 {
        self.mask()
    }

    fn octets(&self) -> usize {
        (usize::from(self.bit) + usize::from(self.bits)).div_ceil(8)
    }

    fn shift(&self, octets: usize) -> usize {
        octets * 8 - usize::from(self.bit) - usize::from(self.bits)
    }

    fn mask(&self) -> u32 {
        u32::MAX >> (32 - u32::from(self.bits.clamp(1, 32)))
    }
}

/// The ones' complement sum of a value's 16-bit words.
fn fold(value: u64) -> u16 {
    let mut sum = value;
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// The decoded header. Lives in the endpoint and is reused for every segment.
#[derive(Clone, Debug)]
pub struct Head {
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
    /// Connection id, for formats that demultiplex by one; else 0.
    pub conn_id: u32,
    /// SYN, FIN and their like; a format sets those that it has.
    pub flags: Flags,
    /// Sequence number of the first octet (or packet).
    pub seq: Seq,
    /// Cumulative acknowledgement.
    pub ack: Option<Seq>,
    /// The window field as it stands on the wire (unscaled).
    pub window: u32,
    /// Timestamp value, if the format carries one in this segment.
    pub ts: Option<u32>,
    /// Timestamp echo; meaningful only with `ts` and an acknowledgement.
    pub ts_echo: u32,
    /// TTL as received.
    pub ttl: u8,
    /// The ECN field of the IP header: as received, or to leave with.
    pub ecn: Ecn,
    /// What a SYN offers.
    pub options: SynOptions,
    /// Nodes that did not serve what came to the sender of this segment; `None`: it does not say.
    pub unserved: Option<u8>,
    word: [u32; WORDS],
    /// One bit per word that was set since the last reset.
    touched: u16,
    count: u8,
    ranges: [(Seq, Seq); RANGES],
}

impl Default for Head {
    fn default() -> Head {
        Head {
            sport: 0,
            dport: 0,
            conn_id: 0,
            flags: Flags(0),
            seq: Seq(0),
            ack: None,
            window: 0,
            ts: None,
            ts_echo: 0,
            ttl: 0,
            ecn: Ecn::NotEct,
            options: SynOptions::default(),
            unserved: None,
            word: [0; WORDS],
            touched: 0,
            count: 0,
            ranges: [(Seq(0), Seq(0)); RANGES],
        }
    }
}

impl Head {
    /// Forget everything; touches the range count, not the array.
    pub fn reset(&mut self) {
        (self.sport, self.dport, self.conn_id) = (0, 0, 0);
        (self.flags, self.seq, self.ack, self.window) = (Flags(0), Seq(0), None, 0);
        (self.ts, self.ts_echo, self.unserved) = (None, 0, None);
        (self.ttl, self.ecn) = (0, Ecn::NotEct);
        (self.options, self.count) = (SynOptions::default(), 0);
        if self.touched != 0 {
            (self.word, self.touched) = ([0; WORDS], 0);
        }
    }

    /// A format's own word.
    pub fn get(&self, w: Word) -> u32 {
        self.word[usize::from(w.0)]
    }

    /// Set a format's own word.
    pub fn set(&mut self, w: Word, v: u32) {
        self.word[usize::from(w.0)] = v;
        self.touched |= 1 << w.0;
    }

    /// Whether a word was set since the last reset: [`Wire::patch`] leaves the others as they are.
    pub fn is_set(&self, w: Word) -> bool {
        self.touched & 1 << w.0 != 0
    }

    /// The range list (SACK blocks, holes), most important first; `start..end`.
    pub fn ranges(&self) -> &[(Seq, Seq)] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Whether the first range repeats what this segment itself acknowledges, up to `ack`, or
    /// reports: so much came twice. It says nothing of what is missing.
    //= rfc2883#section-4
    pub fn came_twice(&self, ack: Seq) -> bool {
        let within = |a: &(Seq, Seq), b: &(Seq, Seq)| b.0.upto(a.0) && a.1.upto(b.1);
        match self.ranges() {
            [first, ..] if first.1.upto(ack) => first.0.before(first.1),
            [first, second, ..] => within(first, second),
            _ => false,
        }
    }

    /// Append a range; false if the list is full.
    pub fn push_range(&mut self, range: (Seq, Seq)) -> bool {
        let at = usize::from(self.count);
        if at == RANGES {
            return false;
        }
        self.ranges[at] = range;
        self.count += 1;
        true
    }
}

/// What came with the frame: the radio's account, and what local handlers noted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FrameFacts {
    /// Received signal strength, dBm.
    pub rssi_dbm: Option<i8>,
    /// Data rate of the frame.
    pub rate: Option<Rate>,
    /// Who transmitted it.
    pub transmitter: Option<Neighbour>,
    /// When the device received it, however long it waited since, for the host or where a handler
    /// held it.
    pub received: Option<Moment>,
    /// Length of the IP packet, octets.
    pub bytes: u16,
    /// It goes the way that this end or lane sends; else it comes the other way. What reaches an
    /// end never does, what it overhears may.
    pub along: bool,
    /// Nodes that forwarded the packet and did not look at it, by its count of nodes and the TTL
    /// that it lost; `None` where its format or type has no such count.
    pub unserved: Option<u8>,
    /// The same of packets the other way, as the end that sent this one tells; `None` where it does
    /// not say. Ends alone are told.
    pub told: Option<u8>,
    /// What handlers of this node noted on the packet.
    pub notes: Notes,
}

impl FrameFacts {
    /// Of a packet of which nothing is known.
    pub const NONE: FrameFacts = FrameFacts {
        rssi_dbm: None,
        rate: None,
        transmitter: None,
        received: None,
        bytes: 0,
        along: false,
        unserved: None,
        told: None,
        notes: Notes::EMPTY,
    };

    /// Whether nodes did not look at the packet, or it tells of such nodes.
    pub fn tells_of_unserved(&self) -> bool {
        self.unserved.max(self.told) > Some(0)
    }

    /// Nothing but what handlers noted.
    #[must_use]
    pub fn notes_only(self) -> FrameFacts {
        FrameFacts {
            notes: self.notes,
            ..FrameFacts::NONE
        }
    }
}

const _: () = assert!(size_of::<FrameFacts>() <= 80 && size_of::<Option<Neighbour>>() == 8);

/// A wire format: maps bytes to [`Head`] and back. Belongs to the endpoint, is no component.
pub trait Wire: Send + Sync + core::fmt::Debug {
    /// Its declaration.
    fn format(&self) -> &Format;

    /// Registry name (`tcp`, `shim`).
    fn name(&self) -> &'static str {
        self.format().name
    }

    /// Decode; returns the length of the header.
    ///
    /// # Errors
    /// A reason, for the drop counter.
    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str>;

    /// Encode; returns the length of the header. `out.len()` bounds what is optional (ranges).
    fn emit(&self, head: &Head, out: &mut [u8]) -> usize;

    /// Rewrite, of what a hop may write, the words set in `head`; the rest of a held packet stays
    /// as it came.
    fn patch(&self, head: &Head, bytes: &mut [u8]);

    /// Fill the checksum, once the payload is in place; again after a hop wrote. Leaves alone
    /// what covers only words that no hop writes.
    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]);

    /// Whether the checksum is right.
    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool;

    /// Where a named word of the format's own is, from the start of the transport header.
    fn place(&self, word: &str) -> Option<Place>;

    /// The word that counts the nodes which looked at the packet.
    fn hop_count(&self) -> Option<Place> {
        None
    }

    /// How many nodes have counted themselves on a packet; `None` where the format has no such
    /// word, where nodes do not write it on this type, and where it is full and says no more.
    fn counted(&self, bytes: &[u8]) -> Option<u32> {
        let place = self.hop_count()?;
        Some(place.read(bytes)).filter(|n| *n < place.most())
    }

    /// What that word says when so many nodes have counted themselves.
    fn count_says(&self, nodes: u32) -> u32 {
        nodes
    }

    /// The word that names the node which transmits this copy, by its IPv4 address.
    fn transmitter(&self) -> Option<Place> {
        None
    }

    /// Places whose values tell that a packet is of this format and composition, besides the IP
    /// protocol number.
    fn identity(&self) -> &[(Place, u32)] {
        &[]
    }

    /// What a packet is for, by its transport header and payload.
    fn class(&self, bytes: &[u8]) -> Class;

    /// Whether it opens the lane of its flow at a node that it comes to: data do, and what else the
    /// format says ([`crate::format::PacketType::opens`]).
    fn opens(&self, bytes: &[u8]) -> bool {
        self.class(bytes) == Class::Data
    }

    /// The answer to a segment of no connection (RST, or nothing): stateless, the endpoint's
    /// business. `len` is the payload's length. False if none is due.
    fn refuse(&self, head: &Head, len: u32, answer: &mut Head) -> bool;

    /// Octets of a full data segment's header beyond the IP header, with all per-segment options.
    fn overhead(&self) -> u32;

    /// How many of these are timestamps that segments carry only where both ends offered them.
    fn stamps(&self) -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_what_it_wrote_and_nothing_else_changes() {
        let place = Place {
            word: Word(0),
            byte: 1,
            bit: 3,
            bits: 17,
            sum: None,
        };
        let mut header = [0xFFu8; 6];
        place.write(&mut header, 0x1_2345);
        assert_eq!(place.read(&header), 0x1_2345);
        assert_eq!(
            (header[0], header[1] >> 5, header[3] & 0x0F, header[4]),
            (255, 7, 15, 255)
        );
        place.write(&mut header[..2], 9); // too short: nothing
        assert_eq!(place.read(&header), 0x1_2345);
    }

    #[test]
    fn a_checksum_that_covers_a_word_follows_it() {
        let mut header: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(37)).collect();
        let check = |header: &[u8]| crate::checksum::Sum::default().add(header).finish();
        header[4..6].fill(0);
        let sum = check(&header);
        header[4..6].copy_from_slice(&sum.to_be_bytes());
        for (byte, bit, bits) in [(8, 0, 16), (9, 0, 16), (11, 3, 32), (13, 7, 1), (39, 0, 8)] {
            let place = Place {
                word: Word(0),
                byte,
                bit,
                bits,
                sum: Some(4),
            };
            for value in [0, 1, 0x5A5A_5A5A, u32::MAX] {
                place.write(&mut header, value);
                assert_eq!(place.read(&header), value & place.most());
                assert_eq!(check(&header), 0, "{place:?} {value}");
            }
        }
    }
}
