//! The codec of a declared format.

use crate::checksum::{Pseudo, Sum};
use crate::format::{By, Class, Field, Format, UDP_FORM};
use crate::head::{Flags, Head, Place, SynOptions, Wire, Word};
use crate::names::Named;
use crate::units::Seq;
use std::sync::Arc;

/// Octets of one range behind the fixed header.
const RANGE: usize = 8;
/// The same as a first number and how many they are.
const RUN: usize = 6;

/// A word with all that the loops need to know of it.
#[derive(Debug)]
struct Resolved {
    place: Place,
    field: Field,
    /// One bit per packet type on which it stands.
    on: u32,
    /// One bit per packet type on which hops may write it.
    hops: u32,
}

/// A packet type with its tests as places.
#[derive(Debug)]
struct Test {
    when: Option<(Place, u32)>,
    payload: Option<bool>,
    class: Class,
    opens: bool,
}

impl Test {
    fn fits(&self, bytes: &[u8], payload: Option<bool>) -> bool {
        let told = payload.is_none() || self.payload.is_none() || self.payload == payload;
        told && self.when.is_none_or(|(p, value)| p.read(bytes) == value)
    }
}

/// Maps a declared format to [`Head`] and back.
#[derive(Debug)]
pub struct Codec {
    format: Format,
    words: Vec<Resolved>,
    types: Vec<Test>,
    checksum: Option<usize>,
    /// Places that say whose packet it is.
    identity: Vec<(Place, u32)>,
    /// Some word does not stand on all types.
    varies: bool,
    ranges: Option<(Place, u32)>,
    /// Octets of one range.
    range: usize,
    hop_count: Option<Place>,
    /// What the word that counts nodes down begins with.
    hops_left: Option<u32>,
    transmitter: Option<Place>,
    payload: Option<Place>,
    /// Most ranges that a packet carries.
    most: usize,
}

impl Codec {
    /// The codec of a declaration; at most `most` ranges of 8 octets follow the fixed header.
    ///
    /// # Errors
    /// What [`Format::faults`] says.
    pub fn new(format: Format, most: usize) -> Result<Codec, String> {
        let faults = format.faults();
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        let bits = |is: &dyn Fn(&str) -> bool| {
            let each = format.types.iter().enumerate();
            each.fold(0u32, |all, (i, t)| all | u32::from(is(t.name)) << i)
        };
        let mut own = 0u8..;
        let resolve = |w: &crate::format::WordDecl| {
            let number = if w.is_own() { own.next() } else { None };
            Resolved {
                place: format.place_of(w, Word(number.unwrap_or(0))),
                field: w.field,
                on: bits(&|t| w.stands_on(t)),
                hops: bits(&|t| w.stands_on(t) && w.writer(t) != By::End),
            }
        };
        let words: Vec<Resolved> = format.words.iter().map(resolve).collect();
        let at = |name: &str| {
            let i = format.words.iter().position(|w| w.name == name);
            i.map(|i| words[i].place)
        };
        let test = |t: &crate::format::PacketType| Test {
            when: t.when.and_then(|(n, v)| Some((at(n)?, v))),
            payload: t.payload,
            class: t.class,
            opens: t.opens,
        };
        let types: Vec<Test> = format.types.iter().map(test).collect();
        let all = bits(&|_| true);
        let find = |is: &dyn Fn(Field) -> bool| words.iter().find(|w| is(w.field));
        let identity = words.iter().filter_map(|w| match w.field {
            Field::Is(value, _) => Some((w.place, value)),
            _ => None,
        });
        Ok(Codec {
            checksum: find(&|f| f == Field::Checksum).map(|w| usize::from(w.place.byte)),
            identity: identity.collect(),
            varies: words.iter().any(|w| w.on != all),
            ranges: words.iter().find_map(|w| match w.field {
                Field::Ranges(unit) => Some((w.place, u32::from(unit.max(1)))),
                Field::Runs => Some((w.place, 1)),
                _ => None,
            }),
            range: find(&|f| f == Field::Runs).map_or(RANGE, |_| RUN),
            hop_count: find(&|f| matches!(f, Field::HopCount | Field::HopsLeft(_)))
                .map(|w| w.place),
            hops_left: words.iter().find_map(|w| match w.field {
                Field::HopsLeft(from) => Some(u32::from(from)),
                _ => None,
            }),
            transmitter: find(&|f| f == Field::Transmitter).map(|w| w.place),
            payload: find(&|f| f == Field::Payload).map(|w| w.place),
            types,
            words,
            format,
            most,
        })
    }

    /// Number of the packet's type, as far as the header tells it.
    fn kind(&self, bytes: &[u8], payload: Option<bool>) -> usize {
        let found = self.types.iter().position(|t| t.fits(bytes, payload));
        found.unwrap_or(self.types.len() - 1)
    }

    fn mask(&self, bytes: &[u8], payload: Option<bool>) -> u32 {
        if self.varies {
            1 << self.kind(bytes, payload)
        } else {
            u32::MAX
        }
    }

    fn header(&self, bytes: &[u8]) -> usize {
        let count = |(place, unit): (Place, u32)| place.read(bytes) / unit;
        self.format.fixed() + self.range * self.ranges.map_or(0, count) as usize
    }

    /// Write this range in its octets. Of a run that is longer than they can say, its beginning.
    fn put_range(&self, (start, end): (Seq, Seq), out: &mut [u8]) {
        out[..4].copy_from_slice(&start.0.to_be_bytes());
        if self.range == RANGE {
            out[4..].copy_from_slice(&end.0.to_be_bytes());
        } else {
            let length = u16::try_from(end.since(start)).unwrap_or(u16::MAX);
            out[4..].copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Octets behind the header, as many as its word can say.
    fn payload_of(&self, bytes: &[u8]) -> u32 {
        let n = bytes.len().saturating_sub(self.header(bytes));
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    fn sum(&self, pseudo: &Pseudo, bytes: &[u8]) -> Sum {
        let (base, fixed) = (usize::from(self.format.base), self.format.fixed());
        let mut header = [0u8; 256];
        header[..fixed].copy_from_slice(&bytes[..fixed]);
        if !self.format.covers_hops {
            let kind = 1 << self.kind(bytes, Some(bytes.len() > self.header(bytes)));
            for w in self.words.iter().filter(|w| w.hops & kind != 0) {
                w.place.write(&mut header, 0);
            }
        }
        let sum = pseudo.sum(bytes.len()).add(&header[base..fixed]);
        sum.add(&bytes[fixed..])
    }
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Bits of the header that say whether other fields are there.
#[derive(Default)]
struct Has {
    ack: bool,
    ts: bool,
    scale: bool,
    unserved: bool,
}

impl Has {
    /// `None`: no word of the format says so, hence it is there.
    fn of(words: &[Resolved], bytes: &[u8]) -> Has {
        let said = |field: Field| {
            let word = words.iter().find(|w| w.field == field);
            word.is_none_or(|w| w.place.read(bytes) == 1)
        };
        Has {
            ack: said(Field::HasAck),
            ts: said(Field::HasTs),
            scale: said(Field::HasScale),
            unserved: said(Field::HasUnserved),
        }
    }
}

fn take(head: &mut Head, w: &Resolved, value: u32, has: &Has) {
    let set = |on: bool, v: u32| on.then_some(v);
    match w.field {
        Field::Own | Field::HopCount | Field::HopsLeft(_) | Field::Transmitter => {
            head.set(w.place.word, value);
        }
        Field::Type(types) => {
            head.set(w.place.word, value);
            let found = types.iter().find(|t| t.value == value);
            head.flags = found.map_or(head.flags, |t| head.flags.with(t.flags));
        }
        Field::Sport => head.sport = value as u16,
        Field::Dport => head.dport = value as u16,
        Field::ConnId => head.conn_id = value,
        Field::Seq => head.seq = Seq(value),
        Field::Ack => head.ack = has.ack.then_some(Seq(value)),
        Field::Window(shift) => head.window = value.checked_shl(u32::from(shift)).unwrap_or(0),
        Field::Ts => head.ts = set(has.ts, value),
        Field::TsEcho => head.ts_echo = value,
        Field::Flag(flag) if value == 1 => head.flags = head.flags.with(flag),
        Field::Mss => head.options.mss = value as u16,
        Field::Scale => head.options.scale = set(has.scale, value).map(|v| v.min(14) as u8),
        Field::SackOk => head.options.sack_ok = value == 1,
        Field::TsOk => head.options.ts_ok = value == 1,
        Field::Unserved => head.unserved = set(has.unserved, value).map(|v| v.min(255) as u8),
        _ => {}
    }
}

/// What stands at a word's place for this header.
fn give(head: &Head, w: &Resolved, format: &Format) -> u32 {
    let SynOptions {
        mss,
        scale,
        sack_ok,
        ts_ok,
    } = head.options;
    match w.field {
        Field::Own | Field::HopCount | Field::Transmitter => head.get(w.place.word),
        Field::HopsLeft(_) | Field::Type(_) if head.is_set(w.place.word) => head.get(w.place.word),
        Field::HopsLeft(from) => u32::from(from),
        Field::Type(types) => {
            let acks = head.ack.is_some();
            let found = types.iter().find(|t| t.fits(head.flags, acks));
            found.map_or(0, |t| t.value)
        }
        Field::Is(value, _) => value,
        Field::Sport => u32::from(head.sport),
        Field::Dport => u32::from(head.dport),
        Field::ConnId => head.conn_id,
        Field::Seq => head.seq.0,
        Field::Ack => head.ack.map_or(0, |a| a.0),
        Field::HasAck => u32::from(head.ack.is_some()),
        Field::Window(shift) => (head.window >> shift.min(31)).min(w.place.most()),
        Field::Ts => head.ts.unwrap_or(0),
        Field::HasTs => u32::from(head.ts.is_some()),
        Field::TsEcho => head.ts_echo,
        Field::Flag(flag) => u32::from(head.flags.has(flag)),
        Field::Mss => u32::from(mss),
        Field::Scale => u32::from(scale.unwrap_or(0)),
        Field::HasScale => u32::from(scale.is_some()),
        Field::SackOk => u32::from(sack_ok),
        Field::TsOk => u32::from(ts_ok),
        Field::Unserved => u32::from(head.unserved.unwrap_or(0)).min(w.place.most()),
        Field::HasUnserved => u32::from(head.unserved.is_some()),
        Field::Length(unit) => u32::from(format.header) / u32::from(unit.max(1)),
        Field::Ranges(_)
        | Field::Runs
        | Field::Payload
        | Field::Checksum
        | Field::Inner
        | Field::Other => 0,
    }
}

impl Wire for Codec {
    fn format(&self) -> &Format {
        &self.format
    }

    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str> {
        head.reset();
        let fixed = self.format.fixed();
        if bytes.len() < fixed {
            return Err("segment shorter than its header");
        }
        for w in &self.words {
            match w.field {
                Field::Is(value, why) if w.place.read(bytes) != value => return Err(why),
                Field::Length(_) if w.place.read(bytes) != give(head, w, &self.format) => {
                    return Err("header length out of range");
                }
                Field::Ranges(unit) if !w.place.read(bytes).is_multiple_of(unit.max(1).into()) => {
                    return Err("part of a range");
                }
                _ => {}
            }
        }
        let length = self.header(bytes);
        if length > bytes.len() {
            return Err("header length out of range");
        }
        if usize::from(self.format.base) == UDP_FORM {
            head.sport = u16::from_be_bytes([bytes[0], bytes[1]]);
            head.dport = u16::from_be_bytes([bytes[2], bytes[3]]);
        }
        let kind = self.mask(bytes, Some(bytes.len() > length));
        let has = Has::of(&self.words, bytes);
        for w in self.words.iter().filter(|w| w.on & kind != 0) {
            take(head, w, w.place.read(bytes), &has);
        }
        for block in bytes[fixed..length].chunks_exact(self.range) {
            let start = Seq(word32(block, 0));
            let end = match self.range {
                RUN => start.plus(u32::from(u16::from_be_bytes([block[4], block[5]]))),
                _ => Seq(word32(block, 4)),
            };
            if !head.push_range((start, end)) {
                return Err("more ranges than any format has");
            }
        }
        Ok(length)
    }

    fn emit(&self, head: &Head, out: &mut [u8]) -> usize {
        let fixed = self.format.fixed();
        out[..fixed].fill(0);
        if usize::from(self.format.base) == UDP_FORM {
            out[0..2].copy_from_slice(&head.sport.to_be_bytes());
            out[2..4].copy_from_slice(&head.dport.to_be_bytes());
        }
        let all = u32::MAX >> (32 - self.types.len().min(32));
        // What tells the type first, then what depends on it.
        for w in self.words.iter().filter(|w| w.on == all) {
            w.place.write(out, give(head, w, &self.format));
        }
        if self.varies {
            let kind = self.mask(out, None);
            for w in self
                .words
                .iter()
                .filter(|w| w.on != all && w.on & kind != 0)
            {
                w.place.write(out, give(head, w, &self.format));
            }
        }
        let Some((place, unit)) = self.ranges else {
            return fixed;
        };
        let room = out.len().saturating_sub(fixed) / self.range;
        let n = head.ranges().len().min(room).min(self.most);
        place.write(out, n as u32 * unit);
        let blocks = out[fixed..].chunks_exact_mut(self.range);
        for (range, block) in head.ranges()[..n].iter().zip(blocks) {
            self.put_range(*range, block);
        }
        fixed + n * self.range
    }

    fn patch(&self, head: &Head, bytes: &mut [u8]) {
        let kind = 1 << self.kind(bytes, Some(bytes.len() > self.header(bytes)));
        for w in self.words.iter().filter(|w| w.hops & kind != 0) {
            if head.is_set(w.place.word) {
                w.place.write(bytes, head.get(w.place.word));
            }
        }
    }

    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]) {
        if usize::from(self.format.base) == UDP_FORM {
            let length = bytes.len() as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
        }
        if let Some(place) = self.payload {
            place.write(bytes, self.payload_of(bytes));
        }
        let Some(at) = self.checksum else { return };
        bytes[at..at + 2].fill(0);
        let sum = self.sum(pseudo, bytes).finish();
        bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool {
        let long = bytes.len() >= self.format.fixed();
        let payload = |place: Place| place.read(bytes) == self.payload_of(bytes);
        long && self.payload.is_none_or(payload)
            && (self.checksum.is_none() || self.sum(pseudo, bytes).finish() == 0)
    }

    fn place(&self, word: &str) -> Option<Place> {
        self.format.place(word)
    }

    fn hop_count(&self) -> Option<Place> {
        self.hop_count
    }

    fn counted(&self, bytes: &[u8]) -> Option<u32> {
        let place = self.hop_count?;
        let kind = 1 << self.kind(bytes, Some(bytes.len() > self.header(bytes)));
        let counts = |f| matches!(f, Field::HopCount | Field::HopsLeft(_));
        let word = self.words.iter().find(|w| counts(w.field));
        word.filter(|w| w.hops & kind != 0)?;
        let value = place.read(bytes);
        match self.hops_left {
            Some(from) => from.checked_sub(value).filter(|_| value > 0),
            None => Some(value).filter(|n| *n < place.most()),
        }
    }

    fn count_says(&self, nodes: u32) -> u32 {
        self.hops_left
            .map_or(nodes, |from| from.saturating_sub(nodes))
    }

    fn transmitter(&self) -> Option<Place> {
        self.transmitter
    }

    fn identity(&self) -> &[(Place, u32)] {
        &self.identity
    }

    fn class(&self, bytes: &[u8]) -> Class {
        let payload = bytes.len() > self.header(bytes);
        self.types[self.kind(bytes, Some(payload))].class
    }

    fn opens(&self, bytes: &[u8]) -> bool {
        let payload = bytes.len() > self.header(bytes);
        self.types[self.kind(bytes, Some(payload))].opens
    }

    fn refuse(&self, head: &Head, _len: u32, answer: &mut Head) -> bool {
        answer.reset();
        (answer.sport, answer.dport) = (head.dport, head.sport);
        answer.conn_id = head.conn_id;
        answer.flags = Flags::RST;
        answer.seq = head.ack.unwrap_or(Seq(0));
        answer.ack = Some(head.seq);
        !head.flags.has(Flags::RST)
    }

    fn overhead(&self) -> u32 {
        self.format.fixed() as u32
    }
}

/// A wire format that compositions may name.
#[derive(Debug)]
pub struct WireSpec {
    /// Its declaration.
    pub format: &'static Format,
    /// Makes its codec.
    pub make: fn() -> Arc<dyn Wire>,
}

impl Named for WireSpec {
    const KIND: &'static str = "wire format";
    fn name(&self) -> &'static str {
        self.format.name
    }
}
