//! The header of Hop (Li, Agrawal, Ganesan and Venkataramani, NSDI 2009): 36 octets, then the runs
//! of numbers that are missing. The paper gives no layout: this one is HxH's, with a block where
//! that has what its nodes say.
//!
//! ```text
//!  0 version, type | 1 flags | 2 list count | 4 sport | 6 dport | 8 conn id | 12 seq, or ack
//! 16 block | 20 size, or mss | 22 hop ttl | 23 round | 24 transmitter | 28 ts, or ts_echo
//! 32 payload length | 34 checksum | 36 runs of 6 octets: first number, how many
//! ```

use crate::codec::{Codec, WireSpec};
use crate::format::{By, Class, Field, Format, PacketType, Stands, WordDecl};
use crate::head::{Flags, RANGES};
use crate::hxh::{ACK, DATA, RST, SYN, SYNACK};
use std::borrow::Cow;
use std::sync::Arc;

/// "What of this block is missing?": to the next node (Hop, "Reliable Per-Hop Block Transfer").
pub const BSYN: u32 = 3;
/// Its answer: to the node before.
pub const BACK: u32 = 4;

/// Which type a packet has that no part gives one. Those that HxH has are numbered as there.
const STANDS: &[Stands] = &[
    Stands::new(RST, Flags::RST, None),
    Stands::new(SYNACK, Flags::SYN, Some(true)),
    Stands::new(SYN, Flags::SYN, Some(false)),
    Stands::new(ACK, Flags(0), Some(true)),
    Stands::new(DATA, Flags(0), Some(false)),
];

/// What lanes send: the end writes these words first, then every node that sends the packet on.
const LANES: &[(&str, By)] = &[("data", By::Both)];
/// Beside these, what lanes and ends say to the node beside them.
const LINKS: &[(&str, By)] = &[("data", By::Both), ("bsyn", By::Both), ("back", By::Both)];
/// What passes nodes: each lowers it.
const COUNTED: &[(&str, By)] = &[("bsyn", By::End), ("back", By::End), ("*", By::Both)];
/// What belongs to a block.
const BLOCKS: &[&str] = &["data", "bsyn", "back"];

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, value: u16, field: Field) -> WordDecl {
    WordDecl::flag(name, 0, value, field)
}

const WORDS: &[WordDecl] = &[
    WordDecl {
        bits: 4,
        ..octets("version", 0, 1, Field::Is(1, "unknown Hop version")).doc("1.")
    },
    WordDecl {
        bit: 4,
        bits: 4,
        ..octets("type", 0, 1, Field::Type(STANDS)).doc("What the packet is.")
    },
    flag("unserved", 0x0010, Field::Unserved)
        .on(&["ack"])
        .doc("UNSERVED: of what came, hop TTL and IP TTL lost differ."),
    flag("vtx", 0x0008, Field::Own).on(&["bsyn"]).doc(
        "VTX: of a block that the source asks for: it takes no place, and who has it asks on.",
    ),
    flag("rtx", 0x0004, Field::Own)
        .on(&["data"])
        .doc("RTX: the source itself sends it again."),
    flag("last", 0x0002, Field::Own)
        .on(&["data"])
        .doc("LAST: the last packet, which carries nothing."),
    flag("ask", 0x0001, Field::Own)
        .by(LANES)
        .on(&["data"])
        .doc("ASK: a BSYN rides on it, as on the last packet of a micro-block."),
    octets("list", 2, 2, Field::Runs)
        .doc("How many runs of missing numbers follow: the first, and how many."),
    octets("sport", 4, 2, Field::Sport).doc("Source port."),
    octets("dport", 6, 2, Field::Dport).doc("Destination port."),
    octets("conn_id", 8, 4, Field::ConnId).doc("Of one incarnation of the connection."),
    octets("seq", 12, 4, Field::Seq)
        .on(&["data", "bsyn", "back", "syn", "rst"])
        .doc("Number of the packet, SYN 0, the first data 1; that of the block."),
    octets("ack", 12, 4, Field::Ack)
        .on(&["ack", "synack"])
        .doc("All packets up to this one arrived at the destination."),
    octets("block", 16, 4, Field::Own)
        .on(BLOCKS)
        .doc("Number of the first packet of the block."),
    octets("size", 20, 2, Field::Own)
        .on(BLOCKS)
        .unit("packets")
        .doc("Of the block."),
    octets("mss", 20, 2, Field::Own)
        .on(&["syn", "synack"])
        .unit("B")
        .doc("The largest payload that the end takes."),
    octets("hop_ttl", 22, 1, Field::HopsLeft(65))
        .by(COUNTED)
        .doc("64 less the nodes that passed the packet on by Hop."),
    octets("round", 23, 1, Field::Own)
        .by(LANES)
        .on(BLOCKS)
        .doc("Which BSYN of its sender it is, or is answered; 0: of the source's end."),
    octets("transmitter", 24, 4, Field::Transmitter)
        .by(LINKS)
        .on(BLOCKS)
        .doc("IPv4 address of the node that transmits this copy."),
    octets("ts", 28, 4, Field::Ts)
        .on(&["data", "syn"])
        .unit("us")
        .doc("The source's clock."),
    octets("ts_echo", 28, 4, Field::TsEcho)
        .on(&["ack", "synack"])
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
    PacketType::told("bsyn", Class::Hop, "type", BSYN).opens(),
    PacketType::told("back", Class::Hop, "type", BACK),
    PacketType::told("syn", Class::Control, "type", SYN),
    PacketType::told("synack", Class::Control, "type", SYNACK),
    PacketType::told("rst", Class::Control, "type", RST),
    PacketType::rest("unassigned", Class::Control),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "hop",
    doc: "Hop: numbered packets in blocks, which nodes ask each other for and list what is missing \
          of.",
    cites: &["Hop (NSDI 2009)"],
    number: Some(238),
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
    use crate::head::{Head, Wire};
    use crate::units::Seq;

    #[test]
    fn a_question_and_its_answer_are_where_the_page_has_them() {
        let (codec, mut head, mut out) = (codec(), Head::default(), [0u8; 64]);
        let word = |name: &str| codec.place(name).unwrap().word;
        head.seq = Seq(65);
        for (name, value) in [
            ("type", BSYN),
            ("vtx", 1),
            ("block", 65),
            ("size", 64),
            ("round", 3),
            ("transmitter", 0x0A00_0002),
        ] {
            head.set(word(name), value);
        }
        assert_eq!(codec.emit(&head, &mut out), 36);
        assert_eq!(out[..4], [0x13, 0x08, 0, 0]);
        assert_eq!(
            out[12..24],
            [0, 0, 0, 65, 0, 0, 0, 65, 0, 64, 65, 3],
            "seq, block, size, hop ttl, round"
        );
        assert_eq!(out[24..28], [10, 0, 0, 2]);
        head.set(word("type"), BACK);
        head.push_range((Seq(66), Seq(68)));
        let n = codec.emit(&head, &mut out);
        assert_eq!((n, out[0], out[3]), (42, 0x14, 1));
        assert_eq!(out[36..n], [0, 0, 0, 66, 0, 2]);
        let mut back = Head::default();
        assert_eq!(codec.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(back.ranges(), [(Seq(66), Seq(68))]);
    }

    #[test]
    fn a_question_opens_lanes_and_an_answer_does_not() {
        let (codec, mut out) = (codec(), [0u8; 36]);
        let kind = codec.place("type").unwrap().word;
        for (value, opens) in [(DATA, true), (BSYN, true), (BACK, false), (ACK, false)] {
            let mut head = Head::default();
            head.set(kind, value);
            codec.emit(&head, &mut out);
            assert_eq!(codec.opens(&out), opens, "{value}");
        }
    }
}
