//! What every wire format must do, whoever declares it: [`conform`] holds a codec to its own
//! declaration. For the tests of WiFu's formats, and of those in other crates.

use crate::fuzz;
use core::net::Ipv4Addr;
use wifu_wire::checksum::Pseudo;
use wifu_wire::format::{By, Field, PacketType, UDP_FORM, WordDecl};
use wifu_wire::{Flags, Format, Head, Place, Rng, Seq, Wire, Word};

/// Packets of each type.
const SAMPLES: usize = 8;
/// Packets of noise.
const NOISE: usize = 20_000;
/// Room for a header with all its ranges.
const ROOM: usize = 2_048;
/// A payload no part of which adds up to what its checksum would not notice.
const PAYLOAD: [u8; 9] = [0x5A; 9];

fn pseudo() -> Pseudo {
    Pseudo::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2), 253)
}

/// Try a codec against its declaration, with packets of every type: words are where they are
/// declared and come back as they were written; a hop changes the words that it may and no other;
/// the checksum, if there is one, catches every flipped bit; what is cut off is refused; no octets
/// whatever make it panic, and what is understood is understood again after it was written; a
/// refusal is not answered by another.
///
/// The same every time: random numbers have fixed seeds.
///
/// # Panics
/// With the format's name, the packet type and what is wrong.
pub fn conform(wire: &dyn Wire) {
    let format = wire.format();
    let faults = format.faults();
    assert!(faults.is_empty(), "{}", faults.join("; "));
    for (decl, place) in places(format).into_iter().filter(|(d, _)| d.is_own()) {
        let first = format.place(decl.name);
        assert_eq!(wire.place(decl.name), first, "{}: place", format.name);
        assert!(
            !decl.counts_nodes() || wire.hop_count() == Some(place),
            "{}",
            decl.name
        );
    }
    assert!(
        wire.overhead() as usize >= format.fixed(),
        "{}: overhead() is less than the fixed header",
        format.name
    );
    let mut rng = Rng::new(1);
    for kind in format.types.iter() {
        for _ in 0..SAMPLES {
            Sample::of(wire, kind, true, &mut rng).comes_back();
            Sample::of(wire, kind, true, &mut rng).is_patched(&mut rng);
            Sample::of(wire, kind, true, &mut rng).is_refused();
        }
        // Which words count as zero depends on the type, which a flipped bit may change: with
        // zeros in them, the sum differs by that bit alone.
        let sample = Sample::of(wire, kind, false, &mut rng);
        sample.notices_flipped_bits();
        sample.notices_a_cut();
    }
    noise(wire, &mut rng);
}

/// The words of a format with their places.
fn places(format: &Format) -> Vec<(WordDecl, Place)> {
    let mut own = 0u8..;
    let place = |w: &WordDecl| {
        let number = if w.is_own() { own.next() } else { None };
        (*w, format.place_of(w, Word(number.unwrap_or(0))))
    };
    format.words.iter().map(place).collect()
}

/// Octets of any length up to 200, half of them with what tells the format.
fn noise(wire: &dyn Wire, rng: &mut Rng) {
    for i in 0..NOISE {
        let n = rng.below(200);
        let mut bytes: Vec<u8> = (0..n).map(|_| rng.next_u32() as u8).collect();
        for (place, value) in wire.identity().iter().filter(|_| i % 2 == 0) {
            place.write(&mut bytes, *value);
        }
        fuzz::wire(wire, &bytes);
    }
}

/// Put a value into the decoded header.
fn set(head: &mut Head, (decl, place): &(WordDecl, Place), value: u32) {
    match decl.field {
        Field::Own | Field::HopCount | Field::HopsLeft(_) | Field::Type(_) | Field::Transmitter => {
            head.set(place.word, value)
        }
        Field::Sport => head.sport = value as u16,
        Field::Dport => head.dport = value as u16,
        Field::ConnId => head.conn_id = value,
        Field::Seq => head.seq = Seq(value),
        Field::Ack => head.ack = Some(Seq(value)),
        Field::HasAck if value == 0 => head.ack = None,
        Field::Window(shift) => head.window = value << shift,
        Field::Ts => head.ts = Some(value),
        Field::HasTs if value == 0 => head.ts = None,
        Field::TsEcho => head.ts_echo = value,
        Field::Flag(flag) => {
            head.flags = Flags(head.flags.0 & !flag.0 | if value == 1 { flag.0 } else { 0 });
        }
        Field::Mss => head.options.mss = value as u16,
        Field::Scale => head.options.scale = Some(value.min(14) as u8),
        Field::HasScale if value == 0 => head.options.scale = None,
        Field::SackOk => head.options.sack_ok = value == 1,
        Field::TsOk => head.options.ts_ok = value == 1,
        Field::Unserved => head.unserved = Some(value.min(255) as u8),
        Field::HasUnserved if value == 0 => head.unserved = None,
        _ => {}
    }
}

/// What a word must be on the wire; `None` where the decoded header does not say.
fn carried(head: &Head, (decl, place): &(WordDecl, Place)) -> Option<u32> {
    Some(match decl.field {
        Field::Own | Field::HopCount | Field::HopsLeft(_) | Field::Type(_) | Field::Transmitter => {
            head.get(place.word)
        }
        Field::Is(value, _) => value,
        Field::Sport => u32::from(head.sport),
        Field::Dport => u32::from(head.dport),
        Field::ConnId => head.conn_id,
        Field::Seq => head.seq.0,
        Field::Ack => head.ack?.0,
        Field::HasAck => u32::from(head.ack.is_some()),
        Field::Window(shift) => head.window >> shift,
        Field::Ts => head.ts?,
        Field::HasTs => u32::from(head.ts.is_some()),
        Field::TsEcho => head.ts_echo,
        Field::Flag(flag) => u32::from(head.flags.has(flag)),
        Field::Mss => u32::from(head.options.mss),
        Field::Scale => u32::from(head.options.scale?),
        Field::HasScale => u32::from(head.options.scale.is_some()),
        Field::SackOk => u32::from(head.options.sack_ok),
        Field::TsOk => u32::from(head.options.ts_ok),
        Field::Unserved => u32::from(head.unserved?),
        Field::HasUnserved => u32::from(head.unserved.is_some()),
        Field::Length(_)
        | Field::Ranges(_)
        | Field::Runs
        | Field::Payload
        | Field::Checksum
        | Field::Inner
        | Field::Other => return None,
    })
}

/// A sealed packet of a type.
struct Sample<'a> {
    wire: &'a dyn Wire,
    kind: &'a PacketType,
    head: Head,
    /// Header, then [`PAYLOAD`] or nothing.
    bytes: Vec<u8>,
    /// Octets of the header.
    header: usize,
}

impl<'a> Sample<'a> {
    /// A packet with random words; those that hops may write are zero unless `spread`.
    fn of(wire: &'a dyn Wire, kind: &'a PacketType, spread: bool, rng: &mut Rng) -> Self {
        let format = wire.format();
        let before = format.types.iter().take_while(|t| t.name != kind.name);
        let before: Vec<_> = before.collect();
        let mut payload = kind.payload.unwrap_or(rng.below(2) == 0);
        let mut head = Head::default();
        if usize::from(format.base) == UDP_FORM {
            (head.sport, head.dport) = (rng.next_u32() as u16, rng.next_u32() as u16);
        }
        let mut words = places(format);
        // What says that something is there comes when it is.
        let last = |f: Field| {
            use Field::{HasAck, HasScale, HasTs, HasUnserved};
            matches!(f, HasAck | HasTs | HasScale | HasUnserved)
        };
        words.sort_by_key(|(d, _)| last(d.field));
        for (decl, place) in &words {
            let most = place.most();
            let told = |t: &PacketType| t.when.filter(|(name, _)| *name == decl.name);
            let avoid: Vec<u32> = before.iter().filter_map(|t| Some(told(t)?.1)).collect();
            let value = match told(kind) {
                Some((_, value)) => value,
                None if !avoid.is_empty() => {
                    let free = (0..=most).find(|v| !avoid.contains(v));
                    free.unwrap_or(most)
                }
                None if !spread && decl.hop_writable() => 0,
                None => rng.next_u32() & most,
            };
            set(&mut head, &(*decl, *place), value);
        }
        // An earlier type that the same word tells is told apart by its payload.
        let same = before.iter().find(|t| t.when == kind.when);
        if let Some(other) = same.and_then(|t| t.payload) {
            payload = !other;
        }
        let runs = format.words.iter().any(|w| w.field == Field::Runs);
        for _ in 0..rng.below(4) {
            let (start, mut end) = (Seq(rng.next_u32()), Seq(rng.next_u32()));
            if runs {
                end = start.plus(end.0 & 0xFFFF);
            }
            head.push_range((start, end));
        }
        let mut bytes = vec![0; ROOM];
        let header = wire.emit(&head, &mut bytes);
        bytes.truncate(header);
        bytes.extend_from_slice(if payload { &PAYLOAD } else { &[] });
        wire.seal(&pseudo(), &mut bytes);
        Sample {
            wire,
            kind,
            head,
            bytes,
            header,
        }
    }

    fn format(&self) -> &'a Format {
        self.wire.format()
    }

    /// For messages.
    fn name(&self) -> String {
        format!("{}, {}", self.format().name, self.kind.name)
    }

    fn summed(&self) -> bool {
        let mut words = self.format().words.iter();
        words.any(|w| w.field == Field::Checksum)
    }

    /// The words that stand on it.
    fn words(&self) -> impl Iterator<Item = (WordDecl, Place)> {
        let name = self.kind.name;
        let all = places(self.format()).into_iter();
        all.filter(move |(d, _)| d.stands_on(name))
    }

    /// Those of them that nodes on the way may write.
    fn written_by_hops(&self) -> Vec<Place> {
        let hops = |d: &WordDecl| d.writer(self.kind.name) != By::End;
        let found = self.words().filter(|(d, _)| hops(d));
        found.map(|(_, place)| place).collect()
    }

    fn comes_back(&self) {
        let (name, bytes) = (self.name(), &self.bytes[..]);
        let class = self.wire.class(bytes);
        assert_eq!(class, self.kind.class, "{name}: is of another class");
        assert!(
            self.wire.verify(&pseudo(), bytes),
            "{name}: sealed, not valid"
        );
        let mut back = Head::default();
        let read = self.wire.parse(bytes, &mut back);
        assert_eq!(read, Ok(self.header), "{name}: is not understood");
        for word in self.words() {
            let Some(value) = carried(&self.head, &word) else {
                continue;
            };
            let (word_name, found) = (word.0.name, word.1.read(bytes));
            assert_eq!(
                found, value,
                "{name}: {word_name} is not where it is declared"
            );
            if self.tells_nothing(word.0.field) {
                continue;
            }
            let again = carried(&back, &word);
            assert_eq!(again, Some(value), "{name}: {word_name} does not come back");
        }
        for (place, value) in self.wire.identity() {
            assert_eq!(place.read(bytes), *value, "{name}: identity");
        }
        let (sent, came) = (self.head.ranges(), back.ranges());
        assert!(sent.starts_with(came), "{name}: ranges {sent:?}, {came:?}");
    }

    /// Whether the bit says that something is there which has no place on this type.
    fn tells_nothing(&self, bit: Field) -> bool {
        let told = match bit {
            Field::HasAck => Field::Ack,
            Field::HasTs => Field::Ts,
            Field::HasScale => Field::Scale,
            Field::HasUnserved => Field::Unserved,
            _ => return false,
        };
        !self.words().any(|(d, _)| d.field == told)
    }

    fn is_patched(&self, rng: &mut Rng) {
        let (name, mut hop) = (self.name(), Head::default());
        let (mut expected, mut found) = (self.bytes.clone(), self.bytes.clone());
        for (_, place) in self.words().filter(|(d, _)| d.is_own()) {
            hop.set(place.word, rng.next_u32() & place.most());
        }
        for place in self.written_by_hops() {
            place.write(&mut expected, hop.get(place.word));
        }
        self.wire.patch(&hop, &mut found);
        assert_eq!(found, expected, "{name}: a hop wrote what it may not");
        let valid = self.wire.verify(&pseudo(), &found);
        assert!(valid, "{name}: a hop made the checksum wrong");
    }

    /// An answer to an answer would never end.
    fn is_refused(&self) {
        let (mut answer, mut again) = (Head::default(), Head::default());
        let payload = (self.bytes.len() - self.header) as u32;
        if !self.wire.refuse(&self.head, payload, &mut answer) {
            return;
        }
        let (name, mut out) = (self.name(), vec![0; ROOM]);
        let n = self.wire.emit(&answer, &mut out);
        let read = self.wire.parse(&out[..n], &mut answer);
        assert_eq!(read, Ok(n), "{name}: its refusal is not understood");
        let ends = !self.wire.refuse(&answer, 0, &mut again);
        assert!(
            ends,
            "{name}: its refusal is refused; is there a bit for RST?"
        );
    }

    fn notices_flipped_bits(&self) {
        let (name, hops) = (self.name(), self.written_by_hops());
        for bit in 0..self.bytes.len() * 8 {
            let mut bytes = self.bytes.clone();
            bytes[bit / 8] ^= 0x80 >> (bit % 8);
            fuzz::wire(self.wire, &bytes);
            // The form of UDP's header is not summed.
            if bit / 8 < usize::from(self.format().base) || !self.summed() {
                continue;
            }
            let inside = |p: &Place| {
                let first = usize::from(p.byte) * 8 + usize::from(p.bit);
                (first..first + usize::from(p.bits)).contains(&bit)
            };
            let left_out = !self.format().covers_hops && hops.iter().any(inside);
            let valid = self.wire.verify(&pseudo(), &bytes);
            assert_eq!(valid, left_out, "{name}: bit {bit} flipped");
        }
    }

    fn notices_a_cut(&self) {
        let name = self.name();
        for n in 0..self.bytes.len() {
            let bytes = &self.bytes[..n];
            fuzz::wire(self.wire, bytes);
            let read = self.wire.parse(bytes, &mut Head::default());
            if n < self.header {
                assert!(read.is_err(), "{name}: {n} octets pass for a header");
            } else {
                assert_eq!(read, Ok(self.header), "{name}: cut after {n} octets");
                let valid = self.wire.verify(&pseudo(), bytes);
                assert!(!valid || !self.summed(), "{name}: cut after {n} octets");
            }
        }
    }
}
