//! What a network does wrong, at random or on order.

use crate::packet::{Packet, Side};
use crate::rules::{Fate, Rules};
use wifu_wire::{Rng, Span, Time, ipv4};

/// Random faults of one direction, in percent (0 to 100) of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impair {
    /// Lost.
    pub loss: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// One bit flipped.
    pub corrupt: f64,
    /// Held back until others have overtaken it.
    pub reorder: f64,
    /// By how many packets a held one is overtaken at most: 1 to this, at random.
    pub reorder_by: u32,
}

/// Decides over packets as closures do: tests drop, delay or rewrite whatever they like.
pub type Tamper = Box<dyn FnMut(Time, &mut Packet) -> Fate>;

/// Why a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// The router's queue was full.
    Queue,
    /// Its number was on the list.
    Index,
    /// By chance.
    Random,
    /// A rule said so.
    Rule,
    /// A bit flipped, and the receiver saw it by the checksum.
    Corrupt,
    /// Its hop count ran out.
    Hops,
}

impl Lost {
    /// The name in traces.
    pub fn name(self) -> &'static str {
        match self {
            Lost::Queue => "queue",
            Lost::Index => "index",
            Lost::Random => "random",
            Lost::Rule => "rule",
            Lost::Corrupt => "corrupt",
            Lost::Hops => "hops",
        }
    }
}

/// What becomes of a packet.
pub(crate) enum Sentence {
    Lost(Lost),
    Goes { delay: Span, twice: bool },
}

/// One random stream per direction and purpose, so that turning one fault on shifts no other's
/// choices.
struct Streams {
    loss: Rng,
    rules: Rng,
    duplicate: Rng,
    corrupt: Rng,
    place: Rng,
    reorder: Rng,
}

impl Streams {
    fn new(rng: &Rng) -> Streams {
        Streams {
            loss: rng.split("loss"),
            rules: rng.split("rules"),
            duplicate: rng.split("duplicate"),
            corrupt: rng.split("corrupt"),
            place: rng.split("place"),
            reorder: rng.split("reorder"),
        }
    }
}

fn percent(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.unit() * 100.0 < p
}

/// All faults of a network.
pub(crate) struct Faults {
    pub(crate) impair: [Impair; 2],
    pub(crate) rules: Rules,
    /// First transmissions to lose, per flow and sender.
    pub(crate) drops: Vec<(usize, Side, u64)>,
    pub(crate) tamper: Option<Tamper>,
    streams: [Streams; 2],
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Faults {
        let rng = Rng::new(seed).split("faults");
        Faults {
            impair: [Impair::default(); 2],
            rules: Rules::default(),
            drops: Vec::new(),
            tamper: None,
            streams: [0, 1].map(|n| Streams::new(&rng.split_n(n))),
        }
    }

    /// Decide over a packet, once.
    pub(crate) fn judge(&mut self, now: Time, packet: &mut Packet) -> Sentence {
        let mut fates = vec![match self.tamper.as_mut() {
            Some(tamper) => tamper(now, packet),
            None => Fate::Pass,
        }];
        let side = packet.from.index();
        let (impair, streams) = (self.impair[side], &mut self.streams[side]);
        if let (Some(flow), Some(index)) = (packet.flow, packet.numbers.new_data) {
            let listed = (flow, packet.from, index);
            if let Some(at) = self.drops.iter().position(|d| *d == listed) {
                self.drops.remove(at);
                return Sentence::Lost(Lost::Index);
            }
        }
        fates.push(self.rules.judge(&packet.numbers));
        if percent(&mut streams.rules, self.rules.percent()) {
            fates.push(Fate::Drop);
        }
        if fates.contains(&Fate::Drop) {
            return Sentence::Lost(Lost::Rule);
        }
        if percent(&mut streams.loss, impair.loss) {
            return Sentence::Lost(Lost::Random);
        }
        if percent(&mut streams.corrupt, impair.corrupt) {
            fates.push(Fate::Corrupt);
        }
        if percent(&mut streams.duplicate, impair.duplicate) {
            fates.push(Fate::Duplicate);
        }
        let (mut delay, mut twice) = (Span::ZERO, false);
        for fate in fates {
            match fate {
                Fate::Delay(span) => delay = delay + span,
                Fate::Duplicate => twice = true,
                Fate::Corrupt => flip(packet, &mut streams.place),
                Fate::Pass | Fate::Drop => {}
            }
        }
        Sentence::Goes { delay, twice }
    }

    /// By how many packets an arriving one is to be overtaken; 0 for none.
    pub(crate) fn overtaken_by(&mut self, from: Side) -> u32 {
        let side = from.index();
        let (impair, rng) = (self.impair[side], &mut self.streams[side].reorder);
        if percent(rng, impair.reorder) {
            1 + rng.below(u64::from(impair.reorder_by.max(1))) as u32
        } else {
            0
        }
    }
}

/// Flip one bit behind the IP header: one bit is what a ones' complement sum always sees.
fn flip(packet: &mut Packet, place: &mut Rng) {
    let bits = (packet.octets.len().saturating_sub(ipv4::HEADER) * 8) as u64;
    if bits > 0 {
        let bit = place.below(bits) as usize;
        packet.octets[ipv4::HEADER + bit / 8] ^= 0x80 >> (bit % 8);
        packet.corrupt = true;
    }
}
