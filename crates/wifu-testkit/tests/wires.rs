//! Every wire format is what its declaration says; and what the conformance of formats is there to
//! catch, it catches.

use wifu_testkit::wire::conform;
use wifu_wire::format::{Class, Field, Format, PacketType, WordDecl};
use wifu_wire::shim::{self, ShimWord};
use wifu_wire::{Codec, Flags, Head, Place, Pseudo, WIRES, Wire};

#[test]
fn formats_with_a_declaration_of_their_own() {
    for spec in WIRES {
        println!("{}", spec.format.name);
        conform(&*(spec.make)());
    }
}

#[test]
fn the_format_that_compositions_lay_out() {
    let marks = ShimWord {
        marks: Some(Class::Hop),
        ..ShimWord::new("mark", 1)
    };
    let words = [
        ShimWord::new("rate", 32).by_hops(),
        ShimWord::new("hops", 5).by_hops(),
        ShimWord::new("epoch", 16),
        marks,
    ];
    conform(&shim::codec(7, &words).unwrap());
    conform(&shim::codec(8, &[]).unwrap());
}

/// Two ports, a number, a bit that refuses, another that nodes write, and a checksum.
fn small() -> Format {
    let flag = |name, value, field| WordDecl::flag(name, 10, value, field);
    let rst = flag("rst", 0x8000, Field::Flag(Flags::RST));
    let words = vec![
        WordDecl::octets("sport", 0, 2, Field::Sport),
        WordDecl::octets("dport", 2, 2, Field::Dport),
        WordDecl::octets("seq", 4, 4, Field::Seq),
        WordDecl::octets("checksum", 8, 2, Field::Checksum),
        rst,
        flag("seen", 0x0001, Field::Own).by(wifu_wire::format::BY_BOTH),
    ];
    Format {
        name: "small",
        header: 12,
        base: 0,
        words: words.into(),
        types: vec![
            PacketType::told("rst", Class::Control, "rst", 1),
            PacketType::rest("data", Class::Data),
        ]
        .into(),
        number: None,
        port: None,
        ..wifu_wire::atp::FORMAT.clone()
    }
}

fn codec(format: Format) -> Codec {
    Codec::new(format, 0).unwrap()
}

#[test]
fn a_small_format_conforms_whether_its_checksum_covers_what_hops_write_or_not() {
    for covers_hops in [false, true] {
        conform(&codec(Format {
            covers_hops,
            ..small()
        }));
    }
}

#[test]
#[should_panic(expected = "small, data: its refusal is refused; is there a bit for RST?")]
fn a_format_whose_refusals_are_answered_is_caught() {
    let mut words = small().words.into_owned();
    words[4].field = Field::Own;
    conform(&codec(Format {
        words: words.into(),
        types: vec![PacketType::rest("data", Class::Data)].into(),
        ..small()
    }));
}

/// A codec with one thing wrong with it.
#[derive(Debug)]
struct Wrong {
    inner: Codec,
    trusts: bool,
    shortens: bool,
}

impl Wrong {
    fn new() -> Wrong {
        Wrong {
            inner: codec(small()),
            trusts: false,
            shortens: false,
        }
    }
}

impl Wire for Wrong {
    fn format(&self) -> &Format {
        self.inner.format()
    }
    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str> {
        let read = self.inner.parse(bytes, head);
        if self.shortens {
            head.sport &= 0xFF;
        }
        read
    }
    fn emit(&self, head: &Head, out: &mut [u8]) -> usize {
        self.inner.emit(head, out)
    }
    fn patch(&self, head: &Head, bytes: &mut [u8]) {
        self.inner.patch(head, bytes);
    }
    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]) {
        self.inner.seal(pseudo, bytes);
    }
    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool {
        self.trusts || self.inner.verify(pseudo, bytes)
    }
    fn place(&self, word: &str) -> Option<Place> {
        self.inner.place(word)
    }
    fn class(&self, bytes: &[u8]) -> Class {
        self.inner.class(bytes)
    }
    fn refuse(&self, head: &Head, len: u32, answer: &mut Head) -> bool {
        self.inner.refuse(head, len, answer)
    }
    fn overhead(&self) -> u32 {
        self.inner.overhead()
    }
    fn stamps(&self) -> u32 {
        self.inner.stamps()
    }
}

#[test]
#[should_panic(expected = "small, rst: bit 0 flipped")]
fn a_codec_that_trusts_everything_is_caught() {
    conform(&Wrong {
        trusts: true,
        ..Wrong::new()
    });
}

#[test]
#[should_panic(expected = "sport does not come back")]
fn a_codec_that_loses_part_of_a_word_is_caught() {
    conform(&Wrong {
        shortens: true,
        ..Wrong::new()
    });
}
