//! The header of ATP (Behaviour 8.1): behind ports in the form of UDP's, forty octets, then the
//! holes that a feedback reports.

use crate::codec::{Codec, WireSpec};
use crate::format::{BY_END, By, Class, Field, Format, PacketType, UDP_FORM, WordDecl};
use crate::head::Flags;
use std::borrow::Cow;
use std::sync::Arc;

/// Most holes in one feedback.
pub const HOLES: usize = 20;
/// The UDP port of its service, unless another is asked for.
pub const PORT: u16 = 9438;

/// Written by the sending end and raised by nodes, but what a feedback says stands.
const COLLECTED: &[(&str, By)] = &[
    ("feedback", By::End),
    ("link_down", By::End),
    ("*", By::Both),
];

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, value: u16, field: Field) -> WordDecl {
    WordDecl::flag(name, 2, value, field)
}

const WORDS: &[WordDecl] = &[
    octets("id", 0, 1, Field::Is(1, "no ATP packet")).doc("1: ATP."),
    octets("version", 1, 1, Field::Is(1, "unknown ATP version")).doc("1."),
    flag("more", 0x8000, Field::Own)
        .doc("SACK_MORE: nothing came for a while; what is beyond the last hole is missing, too."),
    flag("feedback", 0x4000, Field::Own).doc("SACK_OPT: this is feedback, holes may follow."),
    flag("request", 0x2000, Field::Own).doc("SACK_REQ: answer at once."),
    flag("unserved", 0x1000, Field::Unserved)
        .on(&["feedback"])
        .doc("Fewer nodes collected than forwarded."),
    flag("adapt", 0x0800, Field::Own).doc("The flow is adaptive: nodes do not multiply."),
    flag("idle", 0x0400, Field::Own)
        .by(COLLECTED)
        .doc("The node with the largest delay was idle."),
    flag("quick", 0x0200, Field::Own)
        .doc("QSR: answers a request; `delay` is that of one packet, not averaged."),
    flag("link_down", 0x0100, Field::Own).doc("A link on the path is gone."),
    flag("urg", 0x0020, Field::Flag(Flags::URG)).doc("Reserved."),
    flag("has_ack", 0x0010, Field::HasAck).doc("ACK: `ack` is there."),
    flag("psh", 0x0008, Field::Flag(Flags::PSH)).doc("Reserved."),
    flag("rst", 0x0004, Field::Flag(Flags::RST)).doc("Refuses or destroys a connection."),
    flag("syn", 0x0002, Field::Flag(Flags::SYN)).doc("Opens; one number."),
    flag("fin", 0x0001, Field::Flag(Flags::FIN)).doc("Ends; one number."),
    octets("holes", 4, 2, Field::Ranges(8))
        .unit("B")
        .doc("SACK len: bytes of hole blocks behind the header."),
    WordDecl {
        by: COLLECTED,
        ..octets("hops", 6, 1, Field::HopCount)
            .doc("N_h: nodes that collected; on feedback, the last that arrived.")
    },
    octets("fb_seq", 7, 1, Field::Own).doc("Number of the feedback; 0 on data."),
    octets("seq", 8, 4, Field::Seq).doc("First byte of the payload."),
    octets("ack", 12, 4, Field::Ack).doc("The next byte expected."),
    WordDecl {
        zero: "no node has written it yet",
        ..octets("delay", 16, 4, Field::Own)
            .by(COLLECTED)
            .unit("us")
            .doc("D_max, the largest delay of a node so far; on feedback D_fb, their average.")
    },
    WordDecl {
        zero: "the flow is not adaptive",
        ..octets("ds", 20, 4, Field::Own)
            .unit("us")
            .doc("D_s, the time between the sender's packets.")
    },
    octets("conn_id", 24, 4, Field::ConnId).doc("Of one incarnation of the connection."),
    WordDecl {
        on: &["syn", "rst", "probe", "data"],
        ..octets("ts", 28, 4, Field::Ts)
    }
    .unit("us")
    .doc("The sender's clock."),
    octets("ts_echo", 28, 4, Field::TsEcho)
        .on(&["feedback"])
        .unit("us")
        .doc("`ts` of the packet that came last."),
    octets("hold", 32, 4, Field::Own)
        .unit("us")
        .doc("On feedback: since that packet came; 0 on data."),
    octets("window", 36, 2, Field::Window(8))
        .unit("256 B")
        .doc("Receive buffer less what is in order and not read."),
    WordDecl {
        by: BY_END,
        ..octets("checksum", 38, 2, Field::Checksum)
    }
    .doc("Pseudo-header, header and payload; what nodes may write counts as zero."),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "atp",
    doc: "ATP: data and probes on which nodes collect the largest delay, feedback with holes.",
    cites: &["ATP thesis 3.1", "Behaviour 8.1"],
    number: Some(219),
    port: Some(PORT),
    base: UDP_FORM as u8,
    header: 40,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(
        const {
            &[
                PacketType::told("feedback", Class::Feedback, "feedback", 1),
                PacketType::told("link_down", Class::Feedback, "link_down", 1),
                PacketType::told("syn", Class::Control, "syn", 1),
                PacketType::told("rst", Class::Control, "rst", 1),
                PacketType::told("probe", Class::Control, "request", 1).payload(false),
                PacketType::rest("data", Class::Data),
            ]
        },
    ),
    covers_hops: false,
};

/// As compositions name it.
pub static WIRE: WireSpec = WireSpec {
    format: &FORMAT,
    make: || Arc::new(codec()),
};

fn codec() -> Codec {
    Codec::new(FORMAT.clone(), HOLES).expect("a test holds that the declaration is sound")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Pseudo;
    use crate::head::{Head, Wire};
    use crate::units::Seq;
    use core::net::Ipv4Addr;

    #[test]
    fn octets_are_where_the_specification_has_them() {
        let codec = codec();
        let mut head = Head::default();
        (head.sport, head.dport, head.conn_id) = (0x1111, 0x24DE, 0xC0FF_EE00);
        (head.seq, head.ack, head.window) = (Seq(0x0102_0304), Some(Seq(0x0506_0708)), 131_071);
        head.ts_echo = 0x2122_2324;
        for (name, value) in [
            ("feedback", 1),
            ("quick", 1),
            ("hops", 4),
            ("fb_seq", 9),
            ("delay", 2_044),
            ("ds", 2_000),
            ("hold", 77),
        ] {
            head.set(codec.place(name).unwrap().word, value);
        }
        head.push_range((Seq(10), Seq(20)));
        let mut out = [0u8; 256];
        let n = codec.emit(&head, &mut out);
        assert_eq!(n, 8 + 40 + 8);
        assert_eq!(out[..8], [0x11, 0x11, 0x24, 0xDE, 0, 0, 0, 0]);
        let atp = &out[8..n];
        assert_eq!(atp[..8], [1, 1, 0x42, 0x10, 0, 8, 4, 9]);
        assert_eq!(atp[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(atp[16..24], [0, 0, 7, 0xFC, 0, 0, 7, 0xD0]);
        assert_eq!(
            atp[24..36],
            [0xC0, 0xFF, 0xEE, 0, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 77]
        );
        assert_eq!(atp[36..38], 511u16.to_be_bytes());
        assert_eq!(atp[40..48], [0, 0, 0, 10, 0, 0, 0, 20]);
        let mut back = Head::default();
        assert_eq!(codec.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(
            (back.window, back.ts, back.ts_echo),
            (511 << 8, None, 0x2122_2324)
        );
        assert_eq!(codec.class(&out[..n]), Class::Feedback);
        // Half a hole is no payload.
        out[8 + 5] = 4;
        assert_eq!(codec.parse(&out[..n], &mut back), Err("part of a range"));
    }

    #[test]
    fn nodes_may_write_on_data_what_they_may_not_on_feedback() {
        let (codec, mut head, mut out) = (codec(), Head::default(), [0u8; 256]);
        let pseudo = Pseudo::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 219);
        let place = |name: &str| codec.place(name).unwrap();
        for feedback in [0, 1] {
            head.set(place("feedback").word, feedback);
            let n = codec.emit(&head, &mut out) + 5;
            codec.seal(&pseudo, &mut out[..n]);
            assert_eq!(out[4..6], (n as u16).to_be_bytes());
            for name in ["delay", "hops", "idle"] {
                place(name).write(&mut out, 1);
                let stands = codec.verify(&pseudo, &out[..n]);
                assert_eq!(stands, feedback == 0, "{name}");
                place(name).write(&mut out, 0);
            }
            assert!(codec.verify(&pseudo, &out[..n]));
            place("hold").write(&mut out, 1);
            assert!(!codec.verify(&pseudo, &out[..n]));
        }
    }
}
