//! The header of HxH (Behaviour 10.1): 36 octets, then the runs of numbers that a list names.
//!
//! ```text
//!  0 version, type | 1 flags | 2 list count | 4 sport | 6 dport | 8 conn id | 12 seq, or ack
//! 16 pack | 20 credits, or mss | 22 hop ttl | 23 reserved | 24 transmitter | 28 ts, or ts_echo
//! 32 payload length | 34 checksum | 36 runs of 6 octets: first number, how many
//! ```

use crate::codec::{Codec, WireSpec};
use crate::format::{By, Class, Field, Format, PacketType, Stands, WordDecl};
use crate::head::{Flags, RANGES};
use std::borrow::Cow;
use std::sync::Arc;

/// Numbered data, the last packet included.
pub const DATA: u32 = 1;
/// Answers a request: what came, what is missing, what there is room for.
pub const ACK: u32 = 2;
/// The same, unasked, because something is missing.
pub const NACK: u32 = 3;
/// The destination has the packet of this number: to the node before it.
pub const LHACK: u32 = 4;
/// Opens.
pub const SYN: u32 = 5;
/// The answer to what opens.
pub const SYNACK: u32 = 6;
/// Refuses or destroys.
pub const RST: u32 = 7;
/// "How many credits have I?": to the next node.
pub const CREDIT_REQUEST: u32 = 8;
/// Its answer.
pub const CREDITS: u32 = 9;
/// What the next node has: to the node before it.
pub const HOP_ACK: u32 = 10;

/// Which type a packet has that no part gives one.
const STANDS: &[Stands] = &[
    Stands::new(RST, Flags::RST, None),
    Stands::new(SYNACK, Flags::SYN, Some(true)),
    Stands::new(SYN, Flags::SYN, Some(false)),
    Stands::new(ACK, Flags(0), Some(true)),
    Stands::new(DATA, Flags(0), Some(false)),
];

/// What lanes send: the end writes these words first, then every node that sends the packet on.
const LANES: &[(&str, By)] = &[("data", By::Both)];
/// Beside these, what lanes say to each other.
const LINKS: &[(&str, By)] = &[
    ("data", By::Both),
    ("credit_request", By::Both),
    ("credits_told", By::Both),
    ("hop_ack", By::Both),
];
/// What passes nodes: each lowers it.
const COUNTED: &[(&str, By)] = &[
    ("lhack", By::End),
    ("credit_request", By::End),
    ("credits_told", By::End),
    ("hop_ack", By::End),
    ("*", By::Both),
];

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, value: u16, field: Field) -> WordDecl {
    WordDecl::flag(name, 0, value, field)
}

const WORDS: &[WordDecl] = &[
    WordDecl {
        bits: 4,
        ..octets("version", 0, 1, Field::Is(1, "unknown HxH version")).doc("1.")
    },
    WordDecl {
        bit: 4,
        bits: 4,
        ..octets("type", 0, 1, Field::Type(STANDS)).doc("What the packet is.")
    },
    flag("unserved", 0x0010, Field::Unserved)
        .on(&["ack", "nack"])
        .doc("UNSERVED: of what came, hop TTL and IP TTL lost differ."),
    flag("lh", 0x0008, Field::Own)
        .on(&["data"])
        .doc("LH: the destination acknowledges to the node before it, which keeps the packet."),
    flag("rtx", 0x0004, Field::Own)
        .on(&["data"])
        .doc("RTX: the source sends it again."),
    flag("last", 0x0002, Field::Own)
        .on(&["data"])
        .doc("LAST: the last packet, which carries nothing."),
    flag("ackreq", 0x0001, Field::Own)
        .on(&["data"])
        .doc("ACKREQ: answer with an ACK."),
    octets("list", 2, 2, Field::Runs)
        .doc("How many runs of missing numbers follow: the first, and how many."),
    octets("sport", 4, 2, Field::Sport).doc("Source port."),
    octets("dport", 6, 2, Field::Dport).doc("Destination port."),
    octets("conn_id", 8, 4, Field::ConnId).doc("Of one incarnation of the connection."),
    octets("seq", 12, 4, Field::Seq)
        .on(&[
            "data",
            "lhack",
            "syn",
            "rst",
            "credit_request",
            "credits_told",
            "hop_ack",
        ])
        .doc("Number of the packet; SYN 0, the first data 1."),
    octets("ack", 12, 4, Field::Ack)
        .on(&["ack", "nack", "synack"])
        .doc("All packets up to this one arrived."),
    octets("pack", 16, 4, Field::Own)
        .by(LANES)
        .on(&["data", "lhack"])
        .doc(
            "All packets up to this one reached the destination, as far as the transmitter knows.",
        ),
    octets("credits", 20, 2, Field::Own)
        .by(LANES)
        .on(&["data", "credits_told", "ack", "nack"])
        .unit("packets")
        .doc(
            "What the transmitter takes beyond what it has; on ACK and NACK what the destination \
             takes.",
        ),
    octets("mss", 20, 2, Field::Own)
        .on(&["syn", "synack"])
        .unit("B")
        .doc("The largest payload that the end takes."),
    octets("hop_ttl", 22, 1, Field::HopsLeft(65))
        .by(COUNTED)
        .doc("64 less the nodes that passed the packet on by HxH."),
    octets("transmitter", 24, 4, Field::Transmitter)
        .by(LINKS)
        .on(&["data", "credit_request", "credits_told", "hop_ack"])
        .doc("IPv4 address of the node that transmits this copy."),
    octets("ts", 28, 4, Field::Ts)
        .on(&["data", "syn"])
        .unit("us")
        .doc("The source's clock."),
    octets("ts_echo", 28, 4, Field::TsEcho)
        .on(&["ack", "nack", "synack"])
        .unit("us")
        .doc("The latest `ts` that came."),
    octets("length", 32, 2, Field::Payload)
        .unit("B")
        .doc("Of the payload."),
    octets("checksum", 34, 2, Field::Checksum)
        .doc("Pseudo-header, header and payload; nodes mend it with what they write."),
];

/// Told by the header alone. What is of no type is refused by both ends.
const TYPES: &[PacketType] = &[
    PacketType::told("data", Class::Data, "type", DATA),
    PacketType::told("ack", Class::Ack, "type", ACK),
    PacketType::told("nack", Class::Ack, "type", NACK),
    PacketType::told("lhack", Class::Hop, "type", LHACK),
    PacketType::told("syn", Class::Control, "type", SYN),
    PacketType::told("synack", Class::Control, "type", SYNACK),
    PacketType::told("rst", Class::Control, "type", RST),
    PacketType::told("credit_request", Class::Hop, "type", CREDIT_REQUEST),
    PacketType::told("credits_told", Class::Hop, "type", CREDITS),
    PacketType::told("hop_ack", Class::Hop, "type", HOP_ACK),
    PacketType::rest("unassigned", Class::Control),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "hxh",
    doc: "HxH: numbered packets that say what their transmitter takes and what arrived, lists of \
          what is missing.",
    cites: &["HxH thesis", "Behaviour 10.1"],
    number: Some(218),
    port: None,
    base: 0,
    header: 36,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(TYPES),
    covers_hops: true,
};

/// As compositions name it.
pub static WIRE: WireSpec = WireSpec {
    format: &FORMAT,
    make: || Arc::new(codec()),
};

fn codec() -> Codec {
    Codec::new(FORMAT.clone(), RANGES).expect("a test holds that the declaration is sound")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Pseudo;
    use crate::head::{Head, Wire, Word};
    use crate::units::Seq;
    use core::net::Ipv4Addr;

    fn word(name: &str) -> Word {
        codec().place(name).unwrap().word
    }

    fn pseudo() -> Pseudo {
        Pseudo::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 4), 218)
    }

    /// A sealed packet of 5 octets of payload.
    fn data() -> Vec<u8> {
        let (codec, mut head, mut out) = (codec(), Head::default(), vec![0u8; 36]);
        (head.sport, head.dport, head.conn_id) = (0x1111, 0x2222, 0xC0FF_EE00);
        (head.seq, head.ts) = (Seq(7), Some(0x0102_0304));
        let words = [
            ("lh", 1),
            ("ackreq", 1),
            ("pack", 5),
            ("credits", 3),
            ("transmitter", 0x0A00_0002),
        ];
        for (name, value) in words {
            head.set(word(name), value);
        }
        assert_eq!(codec.emit(&head, &mut out), 36);
        out.extend_from_slice(b"hello");
        codec.seal(&pseudo(), &mut out);
        out
    }

    //= spec#10.1
    #[test]
    fn octets_are_where_the_specification_has_them() {
        let out = data();
        assert_eq!(out[..4], [0x11, 0x09, 0, 0]);
        assert_eq!(out[4..12], [0x11, 0x11, 0x22, 0x22, 0xC0, 0xFF, 0xEE, 0]);
        assert_eq!(out[12..24], [0, 0, 0, 7, 0, 0, 0, 5, 0, 3, 65, 0]);
        assert_eq!(out[24..34], [10, 0, 0, 2, 1, 2, 3, 4, 0, 5]);
        assert!(codec().verify(&pseudo(), &out));
        assert_eq!(codec().class(&out), Class::Data);
        assert_eq!(
            codec().overhead() + 20,
            56,
            "1444 octets of payload in 1500"
        );
    }

    #[test]
    fn a_list_has_runs_of_six_octets() {
        let (codec, mut head, mut out) = (codec(), Head::default(), [0u8; 64]);
        (head.ack, head.ts_echo) = (Some(Seq(9)), 77);
        head.set(word("type"), NACK);
        head.push_range((Seq(10), Seq(12)));
        head.push_range((Seq(u32::MAX), Seq(1)));
        let n = codec.emit(&head, &mut out);
        assert_eq!(n, 36 + 12);
        assert_eq!((out[0], out[3], &out[12..16]), (0x13, 2, &[0, 0, 0, 9][..]));
        assert_eq!(out[36..n], [0, 0, 0, 10, 0, 2, 255, 255, 255, 255, 0, 2]);
        let mut back = Head::default();
        assert_eq!(codec.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(back.ranges(), head.ranges());
        assert_eq!((back.ack, back.ts_echo, back.ts), (head.ack, 77, None));
        assert_eq!(codec.class(&out[..n]), Class::Ack);
    }

    #[test]
    fn a_list_of_150_runs_fits_and_a_longer_run_is_cut() {
        let (codec, mut head, mut out) = (codec(), Head::default(), [0u8; 1_480]);
        head.ack = Some(Seq(0));
        let runs = (0..150).filter(|i| head.push_range((Seq(i * 9), Seq(i * 9 + 3))));
        assert_eq!(runs.count(), 150);
        let n = codec.emit(&head, &mut out);
        assert_eq!(n, 36 + 900);
        let mut long = Head::default();
        long.ack = Some(Seq(0));
        long.push_range((Seq(1), Seq(100_000)));
        let n = codec.emit(&long, &mut out);
        codec.parse(&out[..n], &mut head).unwrap();
        assert_eq!(head.ranges(), [(Seq(1), Seq(65_536))]);
    }

    #[test]
    fn types_follow_from_what_the_header_says_and_tell_it() {
        let (codec, mut out) = (codec(), [0u8; 36]);
        for (flags, acks, kind) in [
            (Flags::SYN, false, SYN),
            (Flags::SYN, true, SYNACK),
            (Flags::RST, false, RST),
            (Flags::RST, true, RST),
            (Flags(0), true, ACK),
            (Flags(0), false, DATA),
        ] {
            let mut head = Head::default();
            head.flags = flags;
            head.ack = acks.then_some(Seq(3));
            codec.emit(&head, &mut out);
            assert_eq!(u32::from(out[0] & 15), kind);
            let mut back = Head::default();
            codec.parse(&out, &mut back).unwrap();
            assert_eq!((back.flags, back.get(word("type"))), (flags, kind));
            assert_eq!(back.ack.is_some(), acks && kind != RST);
        }
    }

    #[test]
    fn nodes_write_their_words_and_the_sum_follows() {
        let (codec, before) = (codec(), data());
        let mut out = before.clone();
        let mut hop = Head::default();
        let words = [
            ("pack", 6),
            ("credits", 1),
            ("transmitter", 0x0A00_0003),
            ("hop_ttl", 63),
            ("rtx", 1),
        ];
        for (name, value) in words {
            hop.set(word(name), value);
        }
        codec.patch(&hop, &mut out);
        assert!(codec.verify(&pseudo(), &out));
        assert_eq!(
            out[1], before[1],
            "no node says that the source sends again"
        );
        assert_eq!(out[16..24], [0, 0, 0, 6, 0, 1, 63, 0]);
        out[21] ^= 1;
        assert!(!codec.verify(&pseudo(), &out), "the sum covers them");
    }

    #[test]
    fn the_hop_ttl_counts_nodes_down_from_the_senders() {
        let codec = codec();
        let mut out = data();
        let place = codec.hop_count().unwrap();
        assert_eq!(codec.counted(&out), Some(0));
        for nodes in [1, 4, 64] {
            place.write(&mut out, codec.count_says(nodes));
            assert_eq!(codec.counted(&out), Some(nodes));
        }
        assert_eq!(codec.count_says(1), 64, "as the source transmits it");
        place.write(&mut out, codec.count_says(70));
        assert_eq!(codec.counted(&out), None, "it says no more");
    }

    #[test]
    fn a_payload_of_another_length_is_not_valid() {
        let codec = codec();
        let mut out = data();
        out.push(0);
        // Whatever the sum: the header says how much there is.
        let mut head = Head::default();
        assert_eq!(codec.parse(&out, &mut head), Ok(36));
        assert!(!codec.verify(&pseudo(), &out));
        codec.seal(&pseudo(), &mut out);
        assert_eq!((out[33], codec.verify(&pseudo(), &out)), (6, true));
    }
}
