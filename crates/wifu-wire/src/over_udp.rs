//! What the carrier `udp` puts before a segment: which protocol the rest of a datagram is of.
//!
//! Both ends have the port of ATP, whose own header, with another first octet, may come there too.

use crate::format::{Class, Field, Format, PacketType, WordDecl};
use std::borrow::Cow;

/// Octets of the header.
pub const HEADER: usize = 4;
/// The port of both ends, unless another is asked for.
pub use crate::atp::PORT;

/// The first octet of the header.
pub const KIND: u8 = 2;
const VERSION: u8 = 1;

/// The header of a datagram with a segment of this IP protocol number.
pub const fn header(proto: u8) -> [u8; HEADER] {
    [KIND, VERSION, 0, proto]
}

/// The protocol number and the segment in a datagram; `None` if it is none of this kind.
pub const fn parse(datagram: &[u8]) -> Option<(u8, &[u8])> {
    match datagram {
        [KIND, VERSION, 0, proto, segment @ ..] => Some((*proto, segment)),
        _ => None,
    }
}

/// Whether a datagram is of this kind, whatever is wrong with it.
pub const fn is_ours(datagram: &[u8]) -> bool {
    matches!(datagram, [KIND, ..])
}

const WORDS: &[WordDecl] = &[
    WordDecl::octets("kind", 0, 1, Field::Is(KIND as u32, "another kind"))
        .doc("2: a segment of any protocol. ATP's own header has 1."),
    WordDecl::octets(
        "version",
        1,
        1,
        Field::Is(VERSION as u32, "unknown version"),
    )
    .doc("1."),
    WordDecl::octets("reserved", 2, 1, Field::Is(0, "reserved byte set")).doc("0."),
    WordDecl::octets("inner", 3, 1, Field::Inner)
        .doc("IP protocol of what follows; 0: TCP of a composition that both ends were told."),
];

/// The declaration.
pub static FORMAT: Format = Format {
    name: "over-udp",
    doc: "In datagrams of the carrier `udp`, before the segment.",
    cites: &["Behaviour 8.1"],
    number: None,
    port: Some(PORT),
    base: 0,
    header: HEADER as u8,
    words: Cow::Borrowed(WORDS),
    types: Cow::Borrowed(const { &[PacketType::rest("any", Class::Data)] }),
    covers_hops: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_says_what_is_written_and_read() {
        assert_eq!(FORMAT.faults(), Vec::<String>::new());
        let header = header(214);
        for word in FORMAT.words.iter() {
            let value = u32::from(header[usize::from(word.byte)]);
            match word.field {
                Field::Is(expected, _) => assert_eq!(value, expected, "{}", word.name),
                _ => assert_eq!(value, 214, "{}", word.name),
            }
        }
        let datagram = [&header[..], &[7, 8]].concat();
        assert_eq!(parse(&datagram), Some((214, &[7, 8][..])));
        for at in 0..3 {
            let mut other = datagram.clone();
            other[at] ^= 0x40;
            assert_eq!(parse(&other), None, "byte {at}");
        }
        for short in 0..HEADER {
            assert_eq!(parse(&datagram[..short]), None);
        }
        assert!(is_ours(&datagram) && is_ours(&[KIND]));
        assert!(!is_ours(&[1, 1]) && !is_ours(&[]));
    }
}
