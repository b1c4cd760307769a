//! The `shim` format for new protocols: a fixed base, then words laid out by the blueprint.
//!
//! ```text
//!  0 version=1 | 1 header length/4 | 2 flags u16 | 4 sport | 6 dport | 8 composition id u32
//! 12 checksum  | 14 bits           | 15 scale    | 16 seq  | 20 ack  | 24 window u32
//! 28 ts u32    | 32 ts_echo u32    | 36 mss u16  | 38 number of ranges u16
//! 40 words that hops may write (4-byte aligned), then the other words, then ranges of 8 octets
//! ```
//!
//! Five bits of the flags that no flag takes, the upper ones of octet 3, are the word `unserved`.
//! The checksum takes the words that hops may write as zero, so that a hop needs to mend nothing.
//! A segment whose composition id differs is refused.

use crate::codec::Codec;
use crate::format::{BY_BOTH, BY_END, Class, Field, Format, PacketType, WordDecl};
use crate::head::{Flags, RANGES};
use std::borrow::Cow;

const BASE: u8 = 40;

const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
    WordDecl::octets(name, byte, octets, field)
}

const fn flag(name: &'static str, flag: Flags) -> WordDecl {
    WordDecl::flag(name, 2, flag.0 as u16, Field::Flag(flag))
}

const fn bit(name: &'static str, value: u8, field: Field) -> WordDecl {
    WordDecl::flag(name, 14, (value as u16) << 8, field)
}

/// The fixed base; `id` is put in when a composition is known.
const WORDS: [WordDecl; 29] = [
    octets("version", 0, 1, Field::Is(1, "unknown shim version")).doc("1."),
    octets("length", 1, 1, Field::Length(4)).doc("Bytes of the fixed header and the words, / 4."),
    flag("syn", Flags::SYN).doc("Opens a sequence space."),
    flag("fin", Flags::FIN).doc("Ends it."),
    flag("rst", Flags::RST).doc("Refuses or destroys a connection."),
    flag("ece", Flags::ECE).doc("ECN echo."),
    flag("cwr", Flags::CWR).doc("Congestion window reduced."),
    flag("psh", Flags::PSH).doc("Push."),
    flag("urg", Flags::URG).doc("Urgent."),
    octets("sport", 4, 2, Field::Sport).doc("Source port."),
    octets("dport", 6, 2, Field::Dport).doc("Destination port."),
    octets("checksum", 12, 2, Field::Checksum)
        .doc("Pseudo-header, header and payload; words that hops may write count as zero."),
    bit("has_ack", 1, Field::HasAck).doc("`ack` is there."),
    bit("has_ts", 2, Field::HasTs).doc("`ts` and `ts_echo` are there."),
    bit("sack_ok", 4, Field::SackOk).doc("On SYN: ranges are understood."),
    bit("ts_ok", 8, Field::TsOk).doc("On SYN: timestamps are offered."),
    bit("has_scale", 16, Field::HasScale).doc("On SYN: `scale` is there."),
    bit("has_unserved", 32, Field::HasUnserved).doc("`unserved` is there."),
    WordDecl {
        bits: 5,
        ..octets("unserved", 3, 1, Field::Unserved)
    }
    .doc("Nodes that did not look at what came the other way; 31: so many or more."),
    octets("scale", 15, 1, Field::Scale).doc("On SYN: shift of the window."),
    octets("seq", 16, 4, Field::Seq).doc("Number of the first byte, or of the packet."),
    octets("ack", 20, 4, Field::Ack).doc("The next number expected."),
    octets("window", 24, 4, Field::Window(0))
        .unit("B")
        .doc("What the receiver takes beyond `ack`."),
    octets("ts", 28, 4, Field::Ts)
        .unit("us")
        .doc("The sender's clock."),
    octets("ts_echo", 32, 4, Field::TsEcho)
        .unit("us")
        .doc("The peer's `ts` that this answers."),
    octets("mss", 36, 2, Field::Mss)
        .unit("B")
        .doc("On SYN: the largest payload that its sender takes."),
    octets("ranges", 38, 2, Field::Ranges(1)).doc("How many ranges follow the words."),
    octets("id", 8, 4, Field::Is(0, OTHER)).doc("Hash of the composition's name and words."),
    WordDecl {
        bits: 2,
        ..octets("spare", 14, 1, Field::Other)
    },
];

const OTHER: &str = "the peer runs another composition";

/// A word that a composition declares for its shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShimWord {
    /// Name, unique in the composition.
    pub name: &'static str,
    /// Width, 1 to 32 bits.
    pub bits: u8,
    /// Whether intermediate nodes may write it.
    pub hop_writable: bool,
    /// It counts the nodes that looked at the packet.
    pub counts_hops: bool,
    /// It names the node that transmits this copy, by its IPv4 address.
    pub names_transmitter: bool,
    /// A word of one bit that makes the packet one of this class.
    pub marks: Option<Class>,
}

impl ShimWord {
    /// A word that only ends write.
    pub const fn new(name: &'static str, bits: u8) -> ShimWord {
        ShimWord {
            name,
            bits,
            hop_writable: false,
            counts_hops: false,
            names_transmitter: false,
            marks: None,
        }
    }

    /// The same, written by nodes on the way too.
    #[must_use]
    pub const fn by_hops(self) -> ShimWord {
        ShimWord {
            hop_writable: true,
            ..self
        }
    }

    /// Its declaration but for the name, in words.
    pub fn describe(&self) -> String {
        let mut text = format!("{} bits", self.bits);
        if self.hop_writable {
            text += " by hops";
        }
        if self.counts_hops {
            text += " counting hops";
        }
        if self.names_transmitter {
            text += " naming the transmitter";
        }
        if let Some(class) = self.marks {
            text += &format!(" marking {}", class.name());
        }
        text
    }
}

/// The declaration of a composition's shim. `words` are laid out so: those that hops may write
/// first, each group in the order given, no word across a 32-bit boundary. Frozen: both ends derive
/// the same layout from the composition.
pub fn format(id: u32, words: &[ShimWord]) -> Format {
    let mut all = WORDS.to_vec();
    for w in all.iter_mut().filter(|w| w.name == "id") {
        w.field = Field::Is(id, OTHER);
    }
    let mut at = usize::from(BASE) * 8;
    let mut types = Vec::new();
    for group in [true, false] {
        for w in words.iter().filter(|w| w.hop_writable == group) {
            if at % 32 + usize::from(w.bits) > 32 {
                at = at.next_multiple_of(32);
            }
            all.push(WordDecl {
                name: w.name,
                byte: (at / 8) as u8,
                bit: (at % 8) as u8,
                bits: w.bits,
                field: match (w.counts_hops, w.names_transmitter) {
                    (true, _) => Field::HopCount,
                    (_, true) => Field::Transmitter,
                    _ => Field::Own,
                },
                by: if w.hop_writable { BY_BOTH } else { BY_END },
                ..WordDecl::EMPTY
            });
            at += usize::from(w.bits);
            types.extend(
                w.marks
                    .map(|class| PacketType::told(w.name, class, w.name, 1)),
            );
        }
        at = at.next_multiple_of(32);
    }
    types.extend([
        PacketType::told("syn", Class::Control, "syn", 1),
        PacketType::told("rst", Class::Control, "rst", 1),
        PacketType::told("fin", Class::Data, "fin", 1),
        PacketType::rest("data", Class::Data).payload(true),
        PacketType::rest("ack", Class::Ack),
    ]);
    Format {
        name: "shim",
        doc: "For new protocols: a fixed base, then the words that the parts of a composition \
              declare.",
        cites: &[],
        number: None,
        port: None,
        base: 0,
        header: (at / 8) as u8,
        words: Cow::Owned(all),
        types: Cow::Owned(types),
        covers_hops: false,
    }
}

/// The codec of a composition's shim.
///
/// # Errors
/// Too many words, or one whose width is not 1 to 32.
pub fn codec(id: u32, words: &[ShimWord]) -> Result<Codec, String> {
    Codec::new(format(id, words), RANGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Pseudo;
    use crate::head::{Head, Wire};
    use crate::units::Seq;
    use core::net::Ipv4Addr;

    fn shim(id: u32) -> Codec {
        let words = [
            ShimWord::new("epoch", 12),
            ShimWord::new("delay", 32).by_hops(),
            ShimWord::new("hops", 8).by_hops(),
        ];
        codec(id, &words).unwrap()
    }

    #[test]
    fn the_layout_is_frozen() {
        let places: Vec<_> = ["delay", "hops", "epoch"]
            .iter()
            .map(|w| shim(1).place(w).unwrap())
            .collect();
        assert_eq!(
            places
                .iter()
                .map(|p| (p.byte, p.bit, p.bits))
                .collect::<Vec<_>>(),
            [(40, 0, 32), (44, 0, 8), (48, 0, 12)]
        );
        let mut head = Head::default();
        (head.sport, head.dport, head.flags) = (0x0102, 0x0304, Flags::SYN.with(Flags::PSH));
        (head.seq, head.ack, head.window) = (Seq(5), Some(Seq(6)), 7);
        (head.ts, head.ts_echo) = (Some(8), 9);
        (head.options.mss, head.options.scale) = (10, Some(11));
        head.options.sack_ok = true;
        head.unserved = Some(2);
        head.push_range((Seq(12), Seq(13)));
        let mut out = [0u8; 80];
        assert_eq!(shim(0xA1B2_C3D4).emit(&head, &mut out), 60);
        let expected = [
            1, 13, 4, 0x11, 1, 2, 3, 4, 0xA1, 0xB2, 0xC3, 0xD4, 0, 0, 0b11_0111, 11, 0, 0, 0, 5, 0,
            0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 10, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 12, 0, 0, 0, 13,
        ];
        assert_eq!(out[..60], expected);
        let mut back = Head::default();
        assert_eq!(shim(0xA1B2_C3D4).parse(&out[..60], &mut back), Ok(60));
        assert_eq!((back.flags, back.options), (head.flags, head.options));
        assert_eq!(back.unserved, Some(2));
    }

    #[test]
    fn nodes_that_do_not_serve_are_told_of_as_far_as_the_word_goes_and_none_is_not_silence() {
        let through = |said| {
            let (mut head, mut back, mut out) = (Head::default(), Head::default(), [0u8; 80]);
            head.unserved = said;
            let n = shim(1).emit(&head, &mut out);
            shim(1).parse(&out[..n], &mut back).unwrap();
            assert_eq!((back.flags, out[2]), (Flags(0), 0));
            back.unserved
        };
        for said in [None, Some(0), Some(1), Some(31)] {
            assert_eq!(through(said), said);
        }
        assert_eq!(through(Some(200)), Some(31));
    }

    #[test]
    fn hops_write_their_words_without_touching_the_checksum() {
        let pseudo = Pseudo::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 253);
        let (codec, mut head, mut out) = (shim(1), Head::default(), [0u8; 80]);
        head.push_range((Seq(1), Seq(2)));
        head.set(codec.place("epoch").unwrap().word, 77);
        let n = codec.emit(&head, &mut out);
        codec.seal(&pseudo, &mut out[..n]);
        codec
            .place("delay")
            .unwrap()
            .write(&mut out[..n], 0xDEAD_BEEF);
        assert!(codec.verify(&pseudo, &out[..n]));
        let mut back = Head::default();
        assert_eq!(codec.parse(&out[..n], &mut back), Ok(n));
        assert_eq!(back.get(codec.place("delay").unwrap().word), 0xDEAD_BEEF);
        assert_eq!(back.get(codec.place("epoch").unwrap().word), 77);
        codec.place("epoch").unwrap().write(&mut out[..n], 78);
        assert!(!codec.verify(&pseudo, &out[..n]));
    }

    #[test]
    fn a_patch_changes_the_words_that_hops_may_write_and_that_were_set() {
        let codec = shim(7);
        let word = |name: &str| codec.place(name).unwrap().word;
        let (mut head, mut out) = (Head::default(), [0u8; 80]);
        head.set(word("epoch"), 77);
        head.set(word("delay"), 5);
        head.set(word("hops"), 3);
        let n = codec.emit(&head, &mut out);
        let (mut hop, mut back) = (Head::default(), Head::default());
        hop.set(word("epoch"), 1);
        hop.set(word("delay"), 9);
        codec.patch(&hop, &mut out[..n]);
        codec.parse(&out[..n], &mut back).unwrap();
        let values = ["epoch", "delay", "hops"].map(|name| back.get(word(name)));
        assert_eq!(values, [77, 9, 3]);
    }

    #[test]
    fn another_composition_is_refused() {
        let (mut head, mut out) = (Head::default(), [0u8; 80]);
        let n = shim(1).emit(&head.clone(), &mut out);
        assert_eq!(
            shim(2).parse(&out[..n], &mut head),
            Err("the peer runs another composition")
        );
    }

    #[test]
    fn a_word_may_mark_a_packet() {
        let mark = ShimWord {
            marks: Some(Class::Hop),
            ..ShimWord::new("last_hop", 1)
        };
        let codec = codec(1, &[mark]).unwrap();
        let (mut head, mut out) = (Head::default(), [0u8; 80]);
        let n = codec.emit(&head, &mut out);
        assert_eq!(codec.class(&out[..n]), Class::Ack);
        assert_eq!(codec.class(&out[..n + 9]), Class::Data);
        head.set(codec.place("last_hop").unwrap().word, 1);
        codec.emit(&head, &mut out);
        assert_eq!(codec.class(&out[..n]), Class::Hop);
        head.reset();
        head.flags = Flags::SYN;
        codec.emit(&head, &mut out);
        assert_eq!(codec.class(&out[..n]), Class::Control);
    }

    #[test]
    fn too_many_words_are_refused() {
        let words: Vec<ShimWord> = ["a"; 17].map(|n| ShimWord::new(n, 1)).into();
        assert!(codec(1, &words).unwrap_err().contains("17 words"));
    }
}
