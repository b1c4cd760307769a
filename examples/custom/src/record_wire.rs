//! The header of the hop protocol: 32 octets, then the ranges of a list.
//!
//! What a packet does not need has no place on it. Only lists and what opens carry a cumulative
//! acknowledgement, only what lanes take carries `pack`: both have the octets from 12 on.
//!
//! ```text
//!  0 version, last_hop, request, last, syn | 1 rst, has_ack, hops | 2 checksum | 4 sport | 6 dport
//!  8 seq | 12 pack, or ack | 16 ts, or ts_echo | 20 credits | 22 ranges | 24 conn_id
//! 28 transmitter | 32 ranges of 8 octets
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use wifu_wire::format::{By, Class, Field, Format, PacketType, WordDecl};
use wifu_wire::{Codec, Flags, WireSpec};

/// Most ranges in one list: it fits in the smallest MTU of IPv4, 576 octets.
pub const RANGES: usize = 64;

/// What lanes take: the sending end writes these words first, then every node that sends it on.
const LANES: &[(&str, By)] = &[("record", By::Both), ("last", By::Both)];
const ON_LANES: &[&str] = &["record", "last"];

/// What passes nodes: each that serves the protocol counts itself.
const COUNTED: &[(&str, By)] = &[("last_hop", By::End), ("*", By::Both)];

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, value: u16, field: Field) -> WordDecl {
    WordDecl::flag(name, 0, value, field)
}

const WORDS: &[WordDecl] = &[
    WordDecl {
        bits: 4,
        ..octets(
            "version",
            0,
            1,
            Field::Is(1, "unknown version of hop-record"),
        )
        .doc("1.")
    },
    flag("last_hop", 0x0800, Field::Own).doc("The destination has the record `seq`."),
    flag("request", 0x0400, Field::Own).doc("Answer with a list."),
    flag("last", 0x0200, Field::Own).doc("The last record, which carries nothing."),
    flag("syn", 0x0100, Field::Flag(Flags::SYN)).doc("Opens; one number."),
    flag("rst", 0x0080, Field::Flag(Flags::RST)).doc("Refuses or destroys a connection."),
    flag("has_ack", 0x0040, Field::HasAck).doc("`ack` is there."),
    WordDecl {
        bit: 2,
        bits: 6,
        ..octets("hops", 1, 1, Field::HopCount).by(COUNTED)
    }
    .doc("Nodes that served the packet, the sender included; 63: or more."),
    octets("checksum", 2, 2, Field::Checksum)
        .doc("Pseudo-header, header and payload; what nodes may write counts as zero."),
    octets("sport", 4, 2, Field::Sport).doc("Source port."),
    octets("dport", 6, 2, Field::Dport).doc("Destination port."),
    octets("seq", 8, 4, Field::Seq).doc("Number of the record."),
    octets("pack", 12, 4, Field::Own)
        .by(LANES)
        .on(&["record", "last", "last_hop"])
        .doc(
            "All records up to this one reached the destination, as far as the transmitter knows.",
        ),
    octets("ack", 12, 4, Field::Ack)
        .on(&["syn", "rst", "list"])
        .doc("The next record expected."),
    octets("ts", 16, 4, Field::Ts)
        .on(ON_LANES)
        .unit("us")
        .doc("The source's clock."),
    octets("ts_echo", 16, 4, Field::TsEcho)
        .on(&["list"])
        .unit("us")
        .doc("`ts` of the record that came last."),
    WordDecl {
        zero: "send nothing",
        ..octets("credits", 20, 2, Field::Own).by(LANES).on(ON_LANES)
    }
    .unit("packets")
    .doc("What the transmitter takes beyond what it has."),
    octets("ranges", 22, 2, Field::Ranges(1)).doc("How many ranges of missing records follow."),
    octets("conn_id", 24, 4, Field::ConnId).doc("Of one incarnation of the connection."),
    octets("transmitter", 28, 4, Field::Transmitter)
        .by(LANES)
        .on(ON_LANES)
        .doc("IPv4 address of the node that transmits this copy."),
];

/// Told by the header alone, so that a sender that has no payload yet lays it out as it is read.
const TYPES: &[PacketType] = &[
    PacketType::told("last_hop", Class::Hop, "last_hop", 1),
    PacketType::told("syn", Class::Control, "syn", 1),
    PacketType::told("rst", Class::Control, "rst", 1),
    PacketType::told("last", Class::Data, "last", 1),
    PacketType::told("list", Class::Ack, "has_ack", 1),
    PacketType::rest("record", Class::Data),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "hop-record",
    doc: "Numbered records with credits and passive acknowledgements, lists of what is missing.",
    cites: &[],
    number: None,
    port: None,
    base: 0,
    header: 32,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(TYPES),
    covers_hops: false,
};

/// As compositions name it: `wire = "hop-record"`.
pub static WIRE: WireSpec = WireSpec {
    format: &FORMAT,
    make: || {
        let codec = Codec::new(FORMAT.clone(), RANGES);
        Arc::new(codec.expect("a test holds that the declaration is sound"))
    },
};
