//! A header for HxH's parts: 32 octets instead of the 36 of `hxh`, then the ranges of a list.
//!
//! What a packet does not need has no place on it. Only what the destination answers carries a
//! cumulative acknowledgement, only what lanes take carries `pack`: both have the octets from 12 on.
//! There is no length of the payload, and nodes write without mending the checksum.
//!
//! ```text
//!  0 version, type | 1 lh, rtx, last, ackreq, hops | 2 checksum | 4 sport | 6 dport | 8 seq
//! 12 pack, or ack | 16 ts, or ts_echo | 20 credits, or mss | 22 ranges | 24 conn_id
//! 28 transmitter | 32 ranges of 8 octets
//! ```

use std::borrow::Cow;
use std::sync::Arc;
use wifu_wire::format::{By, Class, Field, Format, PacketType, Stands, WordDecl};
use wifu_wire::hxh::{ACK, DATA, LHACK, NACK, RST, SYN, SYNACK};
use wifu_wire::{Codec, Flags, WireSpec};

/// Most ranges in one list: it fits in the smallest MTU of IPv4, 576 octets.
pub const RANGES: usize = 64;

/// What lanes take: the sending end writes these words first, then every node that sends it on.
const LANES: &[(&str, By)] = &[("data", By::Both)];

/// What passes nodes: each that serves the protocol counts itself.
const COUNTED: &[(&str, By)] = &[("lhack", By::End), ("*", By::Both)];

/// Which type a packet has that no part gives one.
const STANDS: &[Stands] = &[
    Stands::new(RST, Flags::RST, None),
    Stands::new(SYNACK, Flags::SYN, Some(true)),
    Stands::new(SYN, Flags::SYN, Some(false)),
    Stands::new(ACK, Flags(0), Some(true)),
    Stands::new(DATA, Flags(0), Some(false)),
];

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, value: u16) -> WordDecl {
    WordDecl::flag(name, 0, value, Field::Own).on(&["data"])
}

const WORDS: &[WordDecl] = &[
    WordDecl {
        bits: 4,
        ..octets("version", 0, 1, Field::Is(1, "unknown version of short"))
    }
    .doc("1."),
    WordDecl {
        bit: 4,
        bits: 4,
        ..octets("type", 0, 1, Field::Type(STANDS))
    }
    .doc("What the packet is."),
    flag("lh", 0x0080).doc("The destination confirms it to the node before, which keeps it."),
    flag("rtx", 0x0040).doc("The source sends it again."),
    flag("last", 0x0020).doc("The last packet, which carries nothing."),
    flag("ackreq", 0x0010).doc("Answer with an acknowledgement."),
    WordDecl {
        bit: 4,
        bits: 4,
        ..octets("hops", 1, 1, Field::HopCount).by(COUNTED)
    }
    .doc("Nodes that served the packet, the sender included; 15: or more."),
    octets("checksum", 2, 2, Field::Checksum)
        .doc("Pseudo-header, header and payload; what nodes may write counts as zero."),
    octets("sport", 4, 2, Field::Sport).doc("Source port."),
    octets("dport", 6, 2, Field::Dport).doc("Destination port."),
    octets("seq", 8, 4, Field::Seq).doc("Number of the packet."),
    octets("pack", 12, 4, Field::Own)
        .by(LANES)
        .on(&["data", "lhack"])
        .doc(
            "All packets up to this one reached the destination, as far as the transmitter knows.",
        ),
    octets("ack", 12, 4, Field::Ack)
        .on(&["ack", "nack", "synack"])
        .doc("All packets up to this one arrived."),
    octets("ts", 16, 4, Field::Ts)
        .on(&["data", "syn"])
        .unit("us")
        .doc("The source's clock."),
    octets("ts_echo", 16, 4, Field::TsEcho)
        .on(&["ack", "nack", "synack"])
        .unit("us")
        .doc("The latest `ts` that came."),
    octets("credits", 20, 2, Field::Own)
        .by(LANES)
        .on(&["data", "ack", "nack"])
        .unit("packets")
        .doc(
            "What the transmitter takes beyond what it has; on ACK and NACK what the destination \
             takes.",
        ),
    octets("mss", 20, 2, Field::Own)
        .on(&["syn", "synack"])
        .unit("B")
        .doc("The largest payload that the end takes."),
    octets("ranges", 22, 2, Field::Ranges(1)).doc("How many ranges of missing numbers follow."),
    octets("conn_id", 24, 4, Field::ConnId).doc("Of one incarnation of the connection."),
    octets("transmitter", 28, 4, Field::Transmitter)
        .by(LANES)
        .on(&["data"])
        .doc("IPv4 address of the node that transmits this copy."),
];

/// Told by the header alone, so that a sender that has no payload yet lays it out as it is read.
const TYPES: &[PacketType] = &[
    PacketType::told("data", Class::Data, "type", DATA),
    PacketType::told("lhack", Class::Hop, "type", LHACK),
    PacketType::told("ack", Class::Ack, "type", ACK),
    PacketType::told("nack", Class::Ack, "type", NACK),
    PacketType::told("syn", Class::Control, "type", SYN),
    PacketType::told("synack", Class::Control, "type", SYNACK),
    PacketType::told("rst", Class::Control, "type", RST),
    PacketType::rest("unassigned", Class::Control),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "short",
    doc: "HxH's words in 32 octets.",
    cites: &[],
    number: None,
    port: None,
    base: 0,
    header: 32,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(TYPES),
    covers_hops: false,
};

/// As compositions name it: `wire = "short"`.
pub static WIRE: WireSpec = WireSpec {
    format: &FORMAT,
    make: || {
        let codec = Codec::new(FORMAT.clone(), RANGES);
        Arc::new(codec.expect("a test holds that the declaration is sound"))
    },
};
