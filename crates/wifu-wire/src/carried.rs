//! What a format carries of the decoded header, found out by sending it: encoded and decoded again.

use crate::format::Field;
use crate::head::{Flags, Head, Wire};
use crate::units::Seq;

/// A field of [`Head`] beside ports, connection identifier and the words of a format's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadField {
    /// [`Head::seq`].
    Seq,
    /// [`Head::ack`].
    Ack,
    /// That a packet has none.
    NoAck,
    /// [`Head::window`].
    Window,
    /// [`Head::ts`].
    Ts,
    /// [`Head::ts_echo`].
    TsEcho,
    /// The two on one packet.
    TsPair,
    /// [`Head::ranges`].
    Ranges,
    /// Largest segment that a SYN offers.
    Mss,
    /// Window scale that a SYN offers.
    Scale,
    /// Selective acknowledgements that a SYN offers.
    SackOk,
    /// Timestamps that a SYN offers.
    TsOk,
    /// One of [`Flags`], in words: `SYN`.
    Flag(Flags, &'static str),
}

impl HeadField {
    /// Opens a sequence space.
    pub const SYN: HeadField = HeadField::Flag(Flags::SYN, "SYN");
    /// Ends it.
    pub const FIN: HeadField = HeadField::Flag(Flags::FIN, "FIN");
    /// Refuses or destroys a connection.
    pub const RST: HeadField = HeadField::Flag(Flags::RST, "RST");
    /// ECN echo.
    pub const ECE: HeadField = HeadField::Flag(Flags::ECE, "ECE");
    /// Congestion window reduced.
    pub const CWR: HeadField = HeadField::Flag(Flags::CWR, "CWR");
    /// Push.
    pub const PSH: HeadField = HeadField::Flag(Flags::PSH, "PSH");
    /// Urgent.
    pub const URG: HeadField = HeadField::Flag(Flags::URG, "URG");

    /// What a packet can say, each by itself: without [`HeadField::NoAck`] and
    /// [`HeadField::TsPair`].
    pub const ALL: [HeadField; 17] = [
        HeadField::Seq,
        HeadField::Ack,
        HeadField::Window,
        HeadField::Ts,
        HeadField::TsEcho,
        HeadField::Ranges,
        HeadField::Mss,
        HeadField::Scale,
        HeadField::SackOk,
        HeadField::TsOk,
        HeadField::SYN,
        HeadField::FIN,
        HeadField::RST,
        HeadField::ECE,
        HeadField::CWR,
        HeadField::PSH,
        HeadField::URG,
    ];

    /// What messages and the book call it.
    pub fn name(self) -> &'static str {
        match self {
            HeadField::Seq => "sequence number",
            HeadField::Ack => "acknowledgement number",
            HeadField::NoAck => "packets without acknowledgement",
            HeadField::Window => "window",
            HeadField::Ts => "timestamp",
            HeadField::TsEcho => "timestamp echo",
            HeadField::TsPair => "timestamp beside its echo",
            HeadField::Ranges => "ranges",
            HeadField::Mss => "segment size",
            HeadField::Scale => "window scale",
            HeadField::SackOk => "offer of ranges",
            HeadField::TsOk => "offer of timestamps",
            HeadField::Flag(_, name) => name,
        }
    }

    /// Whether a header says something there.
    pub fn is_in(self, head: &Head) -> bool {
        match self {
            HeadField::Seq => head.seq != Seq(0),
            HeadField::Ack => head.ack.is_some(),
            HeadField::NoAck => head.ack.is_none(),
            HeadField::Window => head.window != 0,
            HeadField::Ts => head.ts.is_some(),
            HeadField::TsEcho => head.ts_echo != 0,
            HeadField::TsPair => head.ts.is_some() && head.ts_echo != 0,
            HeadField::Ranges => !head.ranges().is_empty(),
            HeadField::Mss => head.options.mss != 0,
            HeadField::Scale => head.options.scale.is_some(),
            HeadField::SackOk => head.options.sack_ok,
            HeadField::TsOk => head.options.ts_ok,
            HeadField::Flag(flag, _) => head.flags.has(flag),
        }
    }

    /// Say something there, with what goes with it: an echo and an offer with a timestamp, as
    /// formats with optional ones have them.
    fn put(self, head: &mut Head) {
        match self {
            HeadField::Seq => head.seq = Seq(0x0102_0304),
            HeadField::Ack => head.ack = Some(Seq(0x0506_0708)),
            HeadField::NoAck => head.ack = None,
            // In units of any size there is something left of it.
            HeadField::Window => head.window = u32::MAX,
            HeadField::Ts => head.ts = Some(0x1112_1314),
            HeadField::TsEcho | HeadField::TsPair => {
                (head.ts, head.ts_echo) = (Some(1), 0x2122_2324);
            }
            HeadField::Ranges => drop(head.push_range((Seq(100), Seq(200)))),
            HeadField::Mss => head.options.mss = 1400,
            HeadField::Scale => head.options.scale = Some(7),
            HeadField::SackOk => head.options.sack_ok = true,
            HeadField::TsOk => (head.ts, head.options.ts_ok) = (Some(1), true),
            HeadField::Flag(flag, _) => head.flags = head.flags.with(flag),
        }
    }

    /// Whether a packet of some type says it to the peer.
    pub fn carried_by(self, wire: &dyn Wire) -> bool {
        let told = |mut head: Head| {
            self.put(&mut head);
            through(wire, &head).is_some_and(|head| self.is_in(&head))
        };
        openings(wire).any(told)
    }
}

/// Headers that make packets of each type, and of a SYN, with an acknowledgement and without.
fn openings(wire: &dyn Wire) -> impl Iterator<Item = Head> {
    let format = wire.format();
    let of_type = |when: Option<(&str, u32)>| {
        let mut head = Head::default();
        let (name, value) = when.unwrap_or_default();
        match format
            .words
            .iter()
            .find(|w| w.name == name)
            .map(|w| w.field)
        {
            Some(Field::Flag(flag)) if value == 1 => head.flags = flag,
            Some(Field::HasAck) if value == 1 => head.ack = Some(Seq(0)),
            _ => {}
        }
        if let Some(place) = wire.place(name) {
            head.set(place.word, value);
        }
        head
    };
    let mut all: Vec<Head> = format.types.iter().map(|t| of_type(t.when)).collect();
    all.push(of_type(None));
    let syn = |mut head: Head| {
        head.flags = head.flags.with(Flags::SYN);
        head
    };
    all.extend(all.clone().into_iter().map(syn));
    let acks = |mut head: Head| {
        head.ack = Some(Seq(1));
        head
    };
    all.extend(all.clone().into_iter().map(acks));
    all.into_iter()
}

/// What the peer decodes of a packet without payload; `None` if it refuses it.
fn through(wire: &dyn Wire, head: &Head) -> Option<Head> {
    let mut packet = [0u8; LONGEST];
    let n = wire.emit(head, &mut packet);
    let mut back = Head::default();
    wire.parse(&packet[..n], &mut back).ok()?;
    Some(back)
}

/// Octets of the longest header: 255 fixed, one range.
const LONGEST: usize = 320;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, PacketType, WordDecl};
    use crate::shim::{self, ShimWord};
    use crate::{Class, Codec, atp, tcp};

    fn lacks(wire: &dyn Wire) -> Vec<&'static str> {
        let all = HeadField::ALL.into_iter();
        let all = all.chain([HeadField::NoAck, HeadField::TsPair]);
        let lacking = all.filter(|f| !f.carried_by(wire));
        lacking.map(HeadField::name).collect()
    }

    #[test]
    fn formats_carry_what_they_say() {
        assert_eq!(lacks(&*(tcp::WIRE.make)()), [""; 0]);
        let marking = ShimWord {
            marks: Some(Class::Hop),
            ..ShimWord::new("last_hop", 1)
        };
        for words in [&[][..], &[marking]] {
            assert_eq!(lacks(&shim::codec(1, words).unwrap()), [""; 0]);
        }
        assert_eq!(
            lacks(&*(atp::WIRE.make)()),
            [
                "segment size",
                "window scale",
                "offer of ranges",
                "offer of timestamps",
                "ECE",
                "CWR",
                "timestamp beside its echo"
            ]
        );
    }

    #[test]
    fn a_window_in_large_units_and_an_acknowledgement_that_is_always_there() {
        const WORDS: &[WordDecl] = &[
            WordDecl::octets("seq", 0, 4, Field::Seq),
            WordDecl::octets("ack", 4, 4, Field::Ack),
            WordDecl::octets("window", 8, 1, Field::Window(20)),
            WordDecl::flag("syn", 8, 1, Field::Flag(Flags::SYN)),
        ];
        let coarse = Format {
            name: "coarse",
            base: 0,
            header: 12,
            words: WORDS.into(),
            types: vec![PacketType::rest("all", Class::Data)].into(),
            ..tcp::FORMAT.clone()
        };
        let codec = Codec::new(coarse, 0).unwrap();
        assert!(HeadField::Window.carried_by(&codec));
        assert!(HeadField::Ack.carried_by(&codec));
        assert!(!HeadField::NoAck.carried_by(&codec));
        assert!(!HeadField::Ranges.carried_by(&codec));
    }
}
