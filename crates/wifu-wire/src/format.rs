//! A wire format as data: declared once, and everything that must know where its words are is made
//! from that. The codec, what handlers read and write, dissector, book and fuzz dictionary.

use crate::head::{Flags, Place, WORDS, Word};
use std::borrow::Cow;

/// Octets of a header that looks like UDP's: ports, length, checksum.
pub const UDP_FORM: usize = 8;

/// Packet types of a format: each has a bit in a word of the codec.
pub const TYPES: usize = 32;

/// What a packet is for: lanes and handlers treat the classes differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Carries what the application wrote, or its end.
    Data,
    /// Opens, asks or destroys.
    Control,
    /// Acknowledges and carries nothing else.
    Ack,
    /// Reports what the path or the receiver is like.
    Feedback,
    /// For the next node only: it goes no further.
    Hop,
}

impl Class {
    /// The name in declarations and in the book.
    pub fn name(self) -> &'static str {
        match self {
            Class::Data => "data",
            Class::Control => "control",
            Class::Ack => "ack",
            Class::Feedback => "feedback",
            Class::Hop => "hop",
        }
    }
}

/// Who writes a word of a packet of some type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The end that sends it, and nobody after it.
    End,
    /// Nodes on the way.
    Hop,
    /// The sending end first, then nodes on the way.
    Both,
}

/// Of every type: written by ends only.
pub const BY_END: &[(&str, By)] = &[];
/// Of every type: nodes on the way may write it too.
pub const BY_BOTH: &[(&str, By)] = &[("*", By::Both)];

/// What a word of the header is to the decoded one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// A word of the format's own, by name.
    Own,
    /// The same, and it counts the nodes that looked at the packet: the receiver compares it with
    /// the IP TTL lost on the way.
    HopCount,
    /// The same, counting down: this less the nodes that looked at it. An end that did not write it
    /// sends this.
    HopsLeft(u8),
    /// The same, and it is the IPv4 address of the node that transmits this copy: lanes write it,
    /// and do not believe an overheard packet that names another node than the link does.
    Transmitter,
    /// The same, and it is the packet's type as a number. Where no part says one, it follows from
    /// flags and acknowledgement: the first entry that fits counts.
    Type(&'static [Stands]),
    /// Always this; a packet with another value is refused for the reason.
    Is(u32, &'static str),
    /// Source port.
    Sport,
    /// Destination port.
    Dport,
    /// Connection identifier.
    ConnId,
    /// Sequence number.
    Seq,
    /// Acknowledgement number, if `HasAck`.
    Ack,
    /// One bit: the packet acknowledges.
    HasAck,
    /// The window, in units of 2^n octets.
    Window(u8),
    /// Nodes that did not serve what came the other way, if `HasUnserved`: the engine fills it from
    /// what the counts of nodes showed, and puts on the board what it reads.
    Unserved,
    /// One bit: the packet tells of such nodes, or that there are none.
    HasUnserved,
    /// Timestamp, if `HasTs`, or on the types on which it stands.
    Ts,
    /// One bit: the packet carries a timestamp.
    HasTs,
    /// Timestamp echo.
    TsEcho,
    /// One bit of [`Flags`].
    Flag(Flags),
    /// Largest segment that a SYN offers.
    Mss,
    /// Window scale that a SYN offers, if `HasScale`.
    Scale,
    /// One bit: a window scale is offered.
    HasScale,
    /// One bit: selective acknowledgements are offered.
    SackOk,
    /// One bit: timestamps are offered.
    TsOk,
    /// Length of the fixed header in units of this many octets.
    Length(u8),
    /// How many ranges follow the fixed header, in units of this many per range.
    Ranges(u8),
    /// The same as a plain number, of ranges in six octets: the first number, and how many they are
    /// (16 bits).
    Runs,
    /// Octets of payload.
    Payload,
    /// The Internet checksum.
    Checksum,
    /// IP protocol number of what follows the header, which is no transport's own.
    Inner,
    /// Understood by the format's own code, or by nobody.
    Other,
}

/// A value of [`Field::Type`], and what of the common header it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stands {
    /// Of the word, as wide as that.
    pub value: u32,
    /// Flags that a packet of this type has.
    pub flags: Flags,
    /// Whether it acknowledges; `None`: it may.
    pub acks: Option<bool>,
}

impl Stands {
    /// This value stands for these flags.
    pub const fn new(value: u32, flags: Flags, acks: Option<bool>) -> Stands {
        Stands { value, flags, acks }
    }

    /// Whether a header with these is of this type.
    pub(crate) fn fits(&self, flags: Flags, acks: bool) -> bool {
        flags.0 & self.flags.0 == self.flags.0 && self.acks.is_none_or(|a| a == acks)
    }
}

/// A word: 1 to 32 bits of the fixed header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordDecl {
    /// Name, unique on each packet type.
    pub name: &'static str,
    /// First octet, from the beginning of the format's header (behind [`Format::base`]).
    pub byte: u8,
    /// First bit in that octet, 0 the most significant.
    pub bit: u8,
    /// Width, 1 to 32.
    pub bits: u8,
    /// What it is to the decoded header.
    pub field: Field,
    /// Who writes it, by packet type; the first entry that fits counts (`*` fits all), and without
    /// one it is the sending end.
    pub by: &'static [(&'static str, By)],
    /// Packet types on which it stands; empty: on all.
    pub on: &'static [&'static str],
    /// Unit, e.g. `us`; empty for plain numbers and bits.
    pub unit: &'static str,
    /// What zero means, where it does not mean zero.
    pub zero: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

impl WordDecl {
    /// A word of the format's own that only ends write.
    pub const EMPTY: WordDecl = WordDecl {
        name: "",
        byte: 0,
        bit: 0,
        bits: 1,
        field: Field::Own,
        by: BY_END,
        on: &[],
        unit: "",
        zero: "",
        doc: "",
    };

    /// A word that fills whole octets.
    pub const fn octets(name: &'static str, byte: u8, octets: u8, field: Field) -> WordDecl {
        WordDecl {
            name,
            byte,
            bits: octets * 8,
            field,
            ..WordDecl::EMPTY
        }
    }

    /// One bit, given by its value in the 16-bit word at `byte`.
    pub const fn flag(name: &'static str, byte: u8, value: u16, field: Field) -> WordDecl {
        let from_top = value.leading_zeros() as u8;
        WordDecl {
            name,
            byte: byte + from_top / 8,
            bit: from_top % 8,
            bits: 1,
            field,
            ..WordDecl::EMPTY
        }
    }

    /// The same with a meaning.
    #[must_use]
    pub const fn doc(self, doc: &'static str) -> WordDecl {
        WordDecl { doc, ..self }
    }

    /// The same in a unit.
    #[must_use]
    pub const fn unit(self, unit: &'static str) -> WordDecl {
        WordDecl { unit, ..self }
    }

    /// The same, written by others than the sending end alone.
    #[must_use]
    pub const fn by(self, by: &'static [(&'static str, By)]) -> WordDecl {
        WordDecl { by, ..self }
    }

    /// The same on these packet types only.
    #[must_use]
    pub const fn on(self, on: &'static [&'static str]) -> WordDecl {
        WordDecl { on, ..self }
    }

    /// Who writes it on packets of this type.
    pub fn writer(&self, packet: &str) -> By {
        let fits = |(of, _): &&(&str, By)| *of == "*" || *of == packet;
        self.by.iter().find(fits).map_or(By::End, |(_, by)| *by)
    }

    /// Whether it stands on packets of this type.
    pub fn stands_on(&self, packet: &str) -> bool {
        self.on.is_empty() || self.on.contains(&packet)
    }

    /// Whether nodes that look at the packet count themselves in it.
    pub fn counts_nodes(&self) -> bool {
        matches!(self.field, Field::HopCount | Field::HopsLeft(_))
    }

    /// Whether nodes on the way may write it on packets of some type.
    pub fn hop_writable(&self) -> bool {
        self.by.iter().any(|(_, by)| *by != By::End)
    }
}

/// A packet type: how it is told, and its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketType {
    /// Name, unique in the format.
    pub name: &'static str,
    /// What it is for.
    pub class: Class,
    /// It is one if this word has this value; the first type that fits counts.
    pub when: Option<(&'static str, u32)>,
    /// ... and if it carries a payload, or none; `None`: either.
    pub payload: Option<bool>,
    /// It opens the lane of its flow at a node that it comes to, as data do.
    pub opens: bool,
}

impl PacketType {
    /// A type told by a word, with or without a payload.
    pub const fn told(name: &'static str, class: Class, word: &'static str, value: u32) -> Self {
        PacketType {
            name,
            class,
            when: Some((word, value)),
            payload: None,
            opens: matches!(class, Class::Data),
        }
    }

    /// What is none of the types before it.
    pub const fn rest(name: &'static str, class: Class) -> PacketType {
        PacketType {
            name,
            class,
            when: None,
            payload: None,
            opens: matches!(class, Class::Data),
        }
    }

    /// The same, if it carries a payload, or none.
    #[must_use]
    pub const fn payload(self, some: bool) -> PacketType {
        PacketType {
            payload: Some(some),
            ..self
        }
    }

    /// The same, and it opens the lane of its flow.
    #[must_use]
    pub const fn opens(self) -> PacketType {
        PacketType {
            opens: true,
            ..self
        }
    }
}

/// A wire format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// Registry name: `wire = "name"`.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Papers and RFCs that it follows.
    pub cites: &'static [&'static str],
    /// The IP protocol number that is the format's own, whatever composition uses it.
    pub number: Option<u8>,
    /// The UDP port of its service, if it may ride in UDP.
    pub port: Option<u16>,
    /// Octets in front of the header: 0, or [`UDP_FORM`].
    pub base: u8,
    /// Octets of the fixed header behind `base`.
    pub header: u8,
    /// The words of the fixed header.
    pub words: Cow<'static, [WordDecl]>,
    /// Packet types in the order in which they are tried; the last one fits all.
    pub types: Cow<'static, [PacketType]>,
    /// Whether the checksum covers words that hops write, so that it changes with them at each hop;
    /// else they count as zero.
    pub covers_hops: bool,
}

impl Format {
    /// The word of this name; of several that share it, the first.
    pub fn word(&self, name: &str) -> Option<&WordDecl> {
        self.words.iter().find(|w| w.name == name)
    }

    /// Words of the format's own, in the order of their numbers.
    pub fn own(&self) -> impl Iterator<Item = &WordDecl> {
        self.words.iter().filter(|w| w.is_own())
    }

    /// Where a word of the format's own is, from the start of the transport header.
    pub fn place(&self, name: &str) -> Option<Place> {
        let (word, decl) = (0u8..).zip(self.own()).find(|(_, w)| w.name == name)?;
        Some(self.place_of(decl, Word(word)))
    }

    /// Where a word of any kind is. [`Place::word`] says nothing if it is not the format's own.
    pub fn place_of(&self, decl: &WordDecl, word: Word) -> Place {
        let byte = |w: &WordDecl| self.base.saturating_add(w.byte);
        let covered = self.covers_hops && decl.hop_writable();
        let mut words = self.words.iter().filter(|_| covered);
        Place {
            word,
            byte: byte(decl),
            bit: decl.bit,
            bits: decl.bits,
            sum: words.find(|w| w.field == Field::Checksum).map(byte),
        }
    }

    /// Whether its packets are datagrams of UDP as they are: what stands in front of the header has
    /// the form of UDP's, and the service has a port there.
    pub fn is_udp(&self) -> bool {
        usize::from(self.base) == UDP_FORM && self.port.is_some()
    }

    /// Octets up to the end of the fixed header.
    pub fn fixed(&self) -> usize {
        usize::from(self.base) + usize::from(self.header)
    }

    /// What is wrong with the declaration: words outside the header or on each other, names twice,
    /// words that hops could not write, types that name no word, no type that fits all, more of
    /// anything than a codec can tell apart.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.beyond_limits();
        let types: Vec<&str> = self.types.iter().map(|t| t.name).collect();
        for (i, w) in self.words.iter().enumerate() {
            let narrow = (1..=32).contains(&w.bits) && w.bit < 8;
            if !narrow || w.end_bit() > usize::from(self.header) * 8 {
                faults.push(format!("{}: word {} is not inside", self.name, w.name));
            }
            if w.field == Field::Transmitter && (w.bits != 32 || !w.hop_writable()) {
                faults.push(format!(
                    "{}: word {} names the transmitter and is no address that nodes write",
                    self.name, w.name
                ));
            }
            if w.counts_nodes() && !w.hop_writable() {
                faults.push(format!(
                    "{}: word {} counts the nodes, which do not write it",
                    self.name, w.name
                ));
            }
            if w.hop_writable() && !w.is_own() {
                faults.push(format!(
                    "{}: nodes on the way write {}, which is no word of the format's own",
                    self.name, w.name
                ));
            }
            let named = w.on.iter().chain(w.by.iter().map(|(on, _)| on));
            for of in named.filter(|n| **n != "*" && !types.contains(n)) {
                faults.push(format!("{}: {} names no type {of}", self.name, w.name));
            }
            for v in &self.words[..i] {
                let together = types.iter().any(|t| v.stands_on(t) && w.stands_on(t));
                let overlap = v.first_bit() < w.end_bit() && w.first_bit() < v.end_bit();
                if together && (overlap || v.name == w.name) {
                    faults.push(format!(
                        "{}: {} and {} share a place or a name",
                        self.name, v.name, w.name
                    ));
                }
            }
        }
        for t in self.types.iter() {
            if let Some((name, _)) = t.when.filter(|(n, _)| self.word(n).is_none()) {
                faults.push(format!(
                    "{}: {} is told by no word {name}",
                    self.name, t.name
                ));
            }
        }
        let rest = self.types.last();
        if rest.is_none_or(|t| t.when.is_some() || t.payload.is_some()) {
            faults.push(format!("{}: the last type must fit all", self.name));
        }
        faults
    }

    /// What there is more of than a codec can tell apart.
    fn beyond_limits(&self) -> Vec<String> {
        [
            (self.own().count(), WORDS, "words of its own"),
            (self.fixed(), usize::from(u8::MAX), "bytes of fixed header"),
            (self.types.len(), TYPES, "packet types"),
        ]
        .into_iter()
        .filter(|(n, most, _)| n > most)
        .map(|(n, most, what)| format!("{}: {n} {what}; at most {most}", self.name))
        .collect()
    }
}

impl WordDecl {
    /// Whether it is a word of the format's own.
    pub fn is_own(&self) -> bool {
        matches!(
            self.field,
            Field::Own | Field::HopCount | Field::HopsLeft(_) | Field::Type(_) | Field::Transmitter
        )
    }

    fn first_bit(&self) -> usize {
        usize::from(self.byte) * 8 + usize::from(self.bit)
    }

    fn end_bit(&self) -> usize {
        self.first_bit() + usize::from(self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_declaration_is_told_what_is_wrong_with_it() {
        let sound = Format {
            name: "small",
            doc: "",
            cites: &[],
            number: None,
            port: None,
            base: 0,
            header: 4,
            words: Cow::Owned(vec![
                WordDecl::octets("a", 0, 2, Field::Own),
                WordDecl::flag("b", 2, 0x8000, Field::Own),
            ]),
            types: Cow::Owned(vec![PacketType::rest("data", Class::Data)]),
            covers_hops: false,
        };
        assert_eq!(sound.faults(), Vec::<String>::new());
        let place = sound.place("b").unwrap();
        assert_eq!((place.word, place.byte, place.bit), (Word(1), 2, 0));
        let with = |word: WordDecl| Format {
            words: Cow::Owned(vec![sound.words[0], word]),
            ..sound.clone()
        };
        for (word, says) in [
            (WordDecl::octets("c", 1, 2, Field::Own), "a and c share"),
            (WordDecl::octets("a", 2, 2, Field::Own), "a and a share"),
            (WordDecl::octets("d", 3, 2, Field::Own), "d is not inside"),
            (
                WordDecl::octets("e", 2, 2, Field::Own).on(&["ack"]),
                "e names no type ack",
            ),
            (
                WordDecl::octets("f", 2, 2, Field::HopCount),
                "f counts the nodes, which do not write it",
            ),
        ] {
            let faults = with(word).faults();
            assert!(faults.iter().any(|f| f.contains(says)), "{faults:?}");
        }
        let told = Format {
            types: Cow::Owned(vec![PacketType::told("x", Class::Data, "z", 1)]),
            ..sound.clone()
        };
        assert_eq!(told.faults().len(), 2, "no such word, and nothing fits all");
        let number = WordDecl::octets("seq", 2, 2, Field::Seq).by(BY_BOTH);
        let faults = with(number).faults();
        assert!(
            faults[0].contains("seq, which is no word of the format's own"),
            "{faults:?}"
        );
    }

    #[test]
    fn more_than_a_codec_can_tell_apart_is_refused() {
        let bare = Format {
            name: "large",
            doc: "",
            cites: &[],
            number: None,
            port: None,
            base: 8,
            header: 247,
            words: Cow::Owned(vec![WordDecl::octets("last", 246, 1, Field::Own)]),
            types: Cow::Owned(vec![PacketType::rest("data", Class::Data)]),
            covers_hops: false,
        };
        assert_eq!(bare.faults(), Vec::<String>::new());
        assert_eq!(bare.place("last").map(|p| p.byte), Some(254));
        let long = Format {
            header: 250,
            words: Cow::Owned(vec![WordDecl::octets("last", 249, 1, Field::Own)]),
            ..bare.clone()
        };
        assert_eq!(
            long.faults(),
            ["large: 258 bytes of fixed header; at most 255"]
        );
        assert!(long.place("last").is_some() && crate::codec::Codec::new(long, 0).is_err());
        let told = PacketType::told("x", Class::Data, "last", 1);
        let types = |n| [vec![told; n], bare.types.to_vec()].concat();
        let many = |n| Format {
            types: Cow::Owned(types(n)),
            ..bare.clone()
        };
        assert_eq!(many(31).faults(), Vec::<String>::new());
        assert!(crate::codec::Codec::new(many(31), 0).is_ok());
        assert_eq!(many(32).faults(), ["large: 33 packet types; at most 32"]);
    }

    #[test]
    fn who_writes_a_word_depends_on_the_packet() {
        let word = WordDecl::octets("delay", 0, 4, Field::Own)
            .by(&[("feedback", By::End), ("*", By::Both)]);
        assert_eq!(word.writer("feedback"), By::End);
        assert_eq!(word.writer("data"), By::Both);
        assert!(word.hop_writable());
        assert_eq!(WordDecl::EMPTY.writer("data"), By::End);
    }
}
