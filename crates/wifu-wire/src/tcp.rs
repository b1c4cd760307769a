//! The TCP header and its options (RFC 9293 3.1, RFC 7323, RFC 2018).

use crate::checksum::Pseudo;
use crate::codec::WireSpec;
use crate::format::{Class, Field, Format, PacketType, WordDecl};
use crate::head::{Flags, Head, Place, Wire};
use crate::units::Seq;
use std::borrow::Cow;
use std::sync::Arc;

/// Length of the fixed header.
pub const HEADER: usize = 20;

/// Octets of a data segment's timestamps: NOP NOP TS (Behaviour 4.1).
pub const TIMESTAMPS: usize = 12;

/// The `tcp` codec.
#[derive(Debug, Default)]
pub struct Tcp;

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, bit: u8, field: Field) -> WordDecl {
    WordDecl::flag(name, 12, bit as u16, field)
}

const WORDS: &[WordDecl] = &[
    octets("sport", 0, 2, Field::Sport).doc("Source port."),
    octets("dport", 2, 2, Field::Dport).doc("Destination port."),
    octets("seq", 4, 4, Field::Seq).doc("Number of the first byte; SYN and FIN take one."),
    octets("ack", 8, 4, Field::Ack).doc("The next byte expected."),
    WordDecl {
        bits: 4,
        ..octets("offset", 12, 1, Field::Other).doc("Length of the header with options, / 4.")
    },
    flag("cwr", CWR, Field::Flag(Flags::CWR)).doc("Congestion window reduced."),
    flag("ece", ECE, Field::Flag(Flags::ECE)).doc("ECN echo."),
    flag("urg", URG, Field::Flag(Flags::URG)).doc("Urgent."),
    flag("has_ack", ACK, Field::HasAck).doc("ACK: `ack` is there."),
    flag("psh", PSH, Field::Flag(Flags::PSH)).doc("Push."),
    flag("rst", RST, Field::Flag(Flags::RST)).doc("Refuses or destroys a connection."),
    flag("syn", SYN, Field::Flag(Flags::SYN)).doc("Opens a sequence space."),
    flag("fin", FIN, Field::Flag(Flags::FIN)).doc("Ends it."),
    octets("window", 14, 2, Field::Window(0))
        .unit("B")
        .doc("What the receiver takes beyond `ack`, before scaling."),
    octets("checksum", 16, 2, Field::Checksum).doc("Pseudo-header, header and payload."),
    octets("urgent", 18, 2, Field::Other).doc("Ignored."),
];

/// The declaration of the fixed header; options are read and written by the code here.
pub static FORMAT: Format = Format {
    name: "tcp",
    doc: "The TCP header with its options.",
    cites: &["RFC 9293 section 3.1", "RFC 7323", "RFC 2018"],
    number: Some(6),
    port: None,
    base: 0,
    header: HEADER as u8,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(
        const {
            &[
                PacketType::told("syn", Class::Control, "syn", 1),
                PacketType::told("rst", Class::Control, "rst", 1),
                PacketType::told("fin", Class::Data, "fin", 1),
                PacketType::rest("data", Class::Data).payload(true),
                PacketType::rest("ack", Class::Ack),
            ]
        },
    ),
    covers_hops: false,
};

/// As compositions name it.
pub static WIRE: WireSpec = WireSpec {
    format: &FORMAT,
    make: || Arc::new(Tcp),
};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;
const URG: u8 = 32;
const ECE: u8 = 64;
const CWR: u8 = 128;

const PAIRS: [(u8, Flags); 7] = [
    (FIN, Flags::FIN),
    (SYN, Flags::SYN),
    (RST, Flags::RST),
    (PSH, Flags::PSH),
    (URG, Flags::URG),
    (ECE, Flags::ECE),
    (CWR, Flags::CWR),
];

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Options: unknown kinds are skipped, a length that lies ends the list (RFC 9293 MUST-7).
fn parse_options(mut o: &[u8], head: &mut Head) {
    while let [kind, rest @ ..] = o {
        match kind {
            0 => return,
            1 => o = rest,
            _ => {
                let len = usize::from(rest.first().copied().unwrap_or(0));
                if len < 2 || len > o.len() {
                    return;
                }
                parse_option(*kind, &o[2..len], head);
                o = &o[len..];
            }
        }
    }
}

fn parse_option(kind: u8, body: &[u8], head: &mut Head) {
    let syn = head.flags.has(Flags::SYN);
    match (kind, body.len()) {
        (2, 2) if syn => head.options.mss = word16(body, 0),
        (3, 1) if syn => head.options.scale = Some(body[0].min(14)),
        (4, 0) if syn => head.options.sack_ok = true,
        (5, n) if n % 8 == 0 && !syn => {
            for block in body.chunks_exact(8) {
                head.push_range((Seq(word32(block, 0)), Seq(word32(block, 4))));
            }
        }
        (8, 8) => {
            head.ts = Some(word32(body, 0));
            head.ts_echo = word32(body, 4);
            head.options.ts_ok = syn;
        }
        _ => {}
    }
}

impl Wire for Tcp {
    fn format(&self) -> &Format {
        &FORMAT
    }

    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str> {
        head.reset();
        if bytes.len() < HEADER {
            return Err("segment shorter than its header");
        }
        let length = usize::from(bytes[12] >> 4) * 4;
        if length < HEADER || length > bytes.len() {
            return Err("data offset out of range");
        }
        (head.sport, head.dport) = (word16(bytes, 0), word16(bytes, 2));
        head.seq = Seq(word32(bytes, 4));
        let bits = bytes[13];
        for (bit, flag) in PAIRS {
            if bits & bit != 0 {
                head.flags.0 |= flag.0;
            }
        }
        head.ack = (bits & ACK != 0).then(|| Seq(word32(bytes, 8)));
        head.window = u32::from(word16(bytes, 14));
        parse_options(&bytes[HEADER..length], head);
        Ok(length)
    }

    fn emit(&self, head: &Head, out: &mut [u8]) -> usize {
        let mut bits = 0;
        for (bit, flag) in PAIRS {
            if head.flags.has(flag) {
                bits |= bit;
            }
        }
        if head.ack.is_some() {
            bits |= ACK;
        }
        let end = emit_options(head, out);
        out[0..2].copy_from_slice(&head.sport.to_be_bytes());
        out[2..4].copy_from_slice(&head.dport.to_be_bytes());
        out[4..8].copy_from_slice(&head.seq.0.to_be_bytes());
        out[8..12].copy_from_slice(&head.ack.map_or(0, |a| a.0).to_be_bytes());
        out[12] = ((end / 4) as u8) << 4;
        out[13] = bits;
        out[14..16].copy_from_slice(&(head.window.min(65_535) as u16).to_be_bytes());
        out[16..20].fill(0);
        end
    }

    fn patch(&self, _head: &Head, _bytes: &mut [u8]) {
        // No hop may write a TCP header.
    }

    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]) {
        bytes[16..18].fill(0);
        let sum = pseudo.sum(bytes.len()).add(bytes).finish();
        bytes[16..18].copy_from_slice(&sum.to_be_bytes());
    }

    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool {
        pseudo.sum(bytes.len()).add(bytes).finish() == 0
    }

    fn place(&self, _word: &str) -> Option<Place> {
        None
    }

    fn class(&self, bytes: &[u8]) -> Class {
        let header = usize::from(bytes.get(12).copied().unwrap_or(0) >> 4) * 4;
        match bytes.get(13).copied().unwrap_or(0) {
            bits if bits & (SYN | RST) != 0 => Class::Control,
            bits if bits & FIN != 0 || bytes.len() > header => Class::Data,
            _ => Class::Ack,
        }
    }

    //= rfc9293#section-3.10.7.1
    fn refuse(&self, head: &Head, len: u32, answer: &mut Head) -> bool {
        answer.reset();
        if head.flags.has(Flags::RST) {
            return false;
        }
        (answer.sport, answer.dport) = (head.dport, head.sport);
        answer.flags = Flags::RST;
        match head.ack {
            Some(ack) => answer.seq = ack,
            None => {
                let marks =
                    u32::from(head.flags.has(Flags::SYN)) + u32::from(head.flags.has(Flags::FIN));
                answer.ack = Some(head.seq.plus(len + marks));
            }
        }
        true
    }

    fn overhead(&self) -> u32 {
        (HEADER + TIMESTAMPS) as u32
    }

    fn stamps(&self) -> u32 {
        TIMESTAMPS as u32
    }
}

/// Write the options after the fixed header; returns the padded end.
fn emit_options(head: &Head, out: &mut [u8]) -> usize {
    let room = out.len().min(60);
    let mut at = HEADER;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let o = &head.options;
    if head.flags.has(Flags::SYN) {
        if o.mss != 0 {
            let m = o.mss.to_be_bytes();
            put(&[2, 4, m[0], m[1]]);
        }
        if let Some(scale) = o.scale {
            put(&[1, 3, 3, scale]);
        }
        if o.sack_ok {
            put(&[1, 1, 4, 2]);
        }
    }
    if let Some(ts) = head.ts {
        let (v, e) = (ts.to_be_bytes(), head.ts_echo.to_be_bytes());
        put(&[1, 1, 8, 10, v[0], v[1], v[2], v[3], e[0], e[1], e[2], e[3]]);
    }
    let fits = room.saturating_sub(at + 4) / 8;
    let blocks = head.ranges();
    let n = blocks
        .len()
        .min(fits)
        .min(if head.ts.is_some() { 3 } else { 4 });
    if n > 0 && !head.flags.has(Flags::SYN) {
        out[at..at + 4].copy_from_slice(&[1, 1, 5, (2 + 8 * n) as u8]);
        at += 4;
        for (start, end) in &blocks[..n] {
            out[at..at + 4].copy_from_slice(&start.0.to_be_bytes());
            out[at + 4..at + 8].copy_from_slice(&end.0.to_be_bytes());
            at += 8;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn sample() -> Head {
        let mut h = Head::default();
        (h.sport, h.dport, h.seq, h.window) = (80, 4242, Seq(7), 1000);
        h.ack = Some(Seq(u32::MAX));
        h.ts = Some(5);
        h.ts_echo = 6;
        h.flags = Flags::FIN;
        h
    }

    #[test]
    fn a_segment_survives_emit_and_parse() {
        let mut h = sample();
        assert!(h.push_range((Seq(10), Seq(20))) && h.push_range((Seq(30), Seq(40))));
        let mut out = [0u8; 60];
        let n = Tcp.emit(&h, &mut out);
        assert_eq!(n, 20 + 12 + 4 + 16);
        let mut back = Head::default();
        assert_eq!(Tcp.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(
            (back.sport, back.dport, back.seq, back.ack),
            (80, 4242, h.seq, h.ack)
        );
        assert_eq!(
            (back.flags, back.ts, back.ts_echo),
            (Flags::FIN, Some(5), 6)
        );
        assert_eq!(back.ranges(), h.ranges());
    }

    /// The code above is the fast form of what the declaration says.
    #[test]
    fn the_code_agrees_with_the_declaration() {
        let declared = crate::codec::Codec::new(FORMAT.clone(), 0).unwrap();
        let mut rng = crate::units::Rng::new(1);
        for _ in 0..2_000 {
            let mut head = Head::default();
            (head.sport, head.dport) = (rng.next_u32() as u16, rng.next_u32() as u16);
            (head.seq, head.window) = (Seq(rng.next_u32()), rng.next_u32() & 0xFFFF);
            head.ack = (rng.below(2) == 0).then(|| Seq(rng.next_u32()));
            let known = PAIRS.iter().fold(0, |all, (_, flag)| all | flag.0);
            head.flags = Flags(rng.next_u32() & known);
            let (mut ours, mut theirs) = ([0u8; 30], [0u8; 30]);
            let n = Tcp.emit(&head, &mut ours);
            assert_eq!(declared.emit(&head, &mut theirs), n);
            // The declaration has no code for the offset.
            theirs[12] |= ours[12];
            assert_eq!(ours, theirs);
            let payload = rng.below(3) as usize;
            assert_eq!(
                Tcp.class(&ours[..n + payload]),
                declared.class(&ours[..n + payload])
            );
            let (mut a, mut b) = (Head::default(), Head::default());
            Tcp.parse(&ours[..n], &mut a).unwrap();
            declared.parse(&ours[..n], &mut b).unwrap();
            let fields = |h: &Head| (h.sport, h.dport, h.seq, h.ack, h.flags, h.window);
            assert_eq!(fields(&a), fields(&b));
            assert_eq!(fields(&a), fields(&head));
        }
    }

    #[test]
    fn ranges_yield_where_there_is_no_room() {
        let mut h = sample();
        h.push_range((Seq(10), Seq(20)));
        let mut out = [0u8; 32];
        assert_eq!(Tcp.emit(&h, &mut out), 32);
    }

    #[test]
    fn syn_options_survive() {
        let mut h = sample();
        h.flags = Flags::SYN;
        h.options.mss = 1460;
        h.options.scale = Some(7);
        h.options.sack_ok = true;
        let mut out = [0u8; 60];
        let n = Tcp.emit(&h, &mut out);
        let mut back = Head::default();
        Tcp.parse(&out[..n], &mut back).unwrap();
        assert_eq!((back.options.mss, back.options.scale), (1460, Some(7)));
        assert!(back.options.sack_ok && back.options.ts_ok);
    }

    #[test]
    fn the_checksum_catches_every_flipped_bit() {
        let pseudo = Pseudo::new(Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(5, 6, 7, 8), 214);
        let mut out = [0u8; 64];
        let n = Tcp.emit(&sample(), &mut out) + 5;
        Tcp.seal(&pseudo, &mut out[..n]);
        assert!(Tcp.verify(&pseudo, &out[..n]));
        for bit in 0..n * 8 {
            out[bit / 8] ^= 1 << (bit % 8);
            assert!(!Tcp.verify(&pseudo, &out[..n]), "bit {bit}");
            out[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn options_that_lie_about_their_length_end_the_list() {
        let mut out = [0u8; 60];
        let mut h = sample();
        h.flags = Flags::SYN;
        h.options.mss = 1460;
        let n = Tcp.emit(&h, &mut out);
        for len in 0..=255u8 {
            out[21] = len;
            let mut back = Head::default();
            assert_eq!(Tcp.parse(&out[..n], &mut back), Ok(n));
        }
    }

    #[test]
    fn a_stray_segment_is_refused_as_rfc_9293_says() {
        let mut answer = Head::default();
        let mut h = sample();
        assert!(Tcp.refuse(&h, 9, &mut answer));
        assert_eq!((answer.seq, answer.ack), (Seq(u32::MAX), None));
        h.ack = None;
        assert!(Tcp.refuse(&h, 9, &mut answer));
        assert_eq!((answer.seq, answer.ack), (Seq(0), Some(Seq(17))));
        h.flags = Flags::RST;
        assert!(!Tcp.refuse(&h, 0, &mut answer));
    }
}
