//! A packet at a hook: its octets, its words, and what came with it.

use crate::ip;
use crate::select::HopWord;
use crate::shim;
use wifu_wire::{Moment, Neighbour, Notes, Rate};

/// The octets of a packet, wherever they lie.
pub trait Octets {
    /// As they are, from the IP header on.
    fn get(&self) -> &[u8];
    /// To be changed in place.
    fn get_mut(&mut self) -> &mut [u8];
    /// To be replaced, with another length if need be.
    fn replace(&mut self, octets: &[u8]);
    /// Keep a copy of them as they are, under a ticket of its own; `None` if the substrate keeps
    /// no copies, or has no room for one.
    fn copy(&mut self) -> Option<u64> {
        None
    }
}

impl Octets for Vec<u8> {
    fn get(&self) -> &[u8] {
        self
    }
    fn get_mut(&mut self) -> &mut [u8] {
        self
    }
    fn replace(&mut self, octets: &[u8]) {
        self.clear();
        self.extend_from_slice(octets);
    }
}

/// A packet at a hook.
pub struct Packet<'a> {
    octets: &'a mut dyn Octets,
    changes: u32,
    /// The substrate's name for it; a held packet is released by it.
    pub ticket: u64,
    /// Who transmitted it; `None` if this node sends it or the substrate can't say.
    pub transmitter: Option<Neighbour>,
    /// Received power, dBm, if it came by radio.
    pub rssi_dbm: Option<i8>,
    /// Rate at which the frame came, if it came by radio and the substrate can say.
    pub rate: Option<Rate>,
    /// When the device received it, if it came over a link and the substrate can say; `cx.now` may
    /// be later.
    pub received: Option<Moment>,
    /// Annotations: what handlers, lanes and the parts of an end note for each other.
    pub notes: Notes,
    /// Whether the handler that is asked may keep another copy.
    pub(crate) may_copy: bool,
    /// The copy that it kept.
    pub(crate) copied: Option<u64>,
}

impl<'a> Packet<'a> {
    /// A packet from its IP header on.
    pub fn new(octets: &'a mut dyn Octets, ticket: u64) -> Packet<'a> {
        Packet {
            octets,
            changes: 0,
            ticket,
            transmitter: None,
            rssi_dbm: None,
            rate: None,
            received: None,
            notes: Notes::EMPTY,
            may_copy: false,
            copied: None,
        }
    }

    /// Its octets, from the IP header on.
    pub fn octets(&self) -> &[u8] {
        self.octets.get()
    }

    /// Its octets to be changed in place. Lengths and header checksum are repaired afterwards.
    pub fn octets_mut(&mut self) -> &mut [u8] {
        self.changes += 1;
        self.octets.get_mut()
    }

    /// Replace all its octets.
    pub fn replace(&mut self, octets: &[u8]) {
        self.changes += 1;
        self.octets.replace(octets);
    }

    /// The value of a header word; 0 where the packet is too short for it.
    pub fn get(&self, word: HopWord) -> u32 {
        let octets = self.octets.get();
        header(octets, word.below).map_or(0, |at| word.place.read(&octets[at..]))
    }

    /// Write a header word. That it is one which nodes on the way may write on this packet is the
    /// handler's to know: checksums are not made anew.
    pub fn set(&mut self, word: HopWord, value: u32) {
        if let Some(at) = header(self.octets.get(), word.below) {
            word.place.write(&mut self.octets_mut()[at..], value);
        }
    }

    /// Keep a copy of the packet as it is now, while it goes on itself. The copy is this handler's
    /// until it sends it away or drops it ([`crate::HopCx::send_kept`]). `None` if the handler
    /// holds as many as it may, keeps a copy of this one already, or the substrate has no room.
    pub fn copy(&mut self) -> Option<u64> {
        if !self.may_copy || self.copied.is_some() {
            return None;
        }
        self.copied = self.octets.copy();
        self.copied
    }

    /// Whether a handler changed it.
    pub fn changed(&self) -> bool {
        self.changes > 0
    }

    /// How often handlers took its octets to change them.
    pub(crate) fn changes(&self) -> u32 {
        self.changes
    }
}

/// Where the header begins in which a word is: behind the IP header, and behind the shim unless
/// the word is the shim's (`below`).
pub(crate) fn header(octets: &[u8], below: bool) -> Option<usize> {
    match shim::parse(octets) {
        Some((head, at)) if !below => Some(at + usize::from(head.length)),
        Some((_, at)) => Some(at),
        None if below => None,
        None => ip::payload(octets).map(|body| body.start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::ipv4::emit;
    use wifu_wire::{Ecn, IpInfo, Place, Word};

    #[test]
    fn a_word_is_found_behind_the_shim_and_in_it() {
        let info = IpInfo {
            src: [10, 0, 0, 1].into(),
            dst: [10, 0, 0, 2].into(),
            proto: 208,
            ttl: 60,
            ecn: Ecn::NotEct,
        };
        let mut plain = vec![0; 40];
        emit(&info, 20, &mut plain);
        let place = Place {
            word: Word(0),
            byte: 5,
            bit: 0,
            bits: 8,
            sum: None,
        };
        let [above, below] = [false, true].map(|below| HopWord { place, below });
        let mut packet = Packet::new(&mut plain, 0);
        packet.set(above, 7);
        assert_eq!((packet.get(above), packet.get(below)), (7, 0));
        let mut with = shim::insert(&plain, shim::DELAY, &[0; 8]).unwrap();
        let mut packet = Packet::new(&mut with, 0);
        packet.set(below, 9);
        assert_eq!((packet.get(above), packet.get(below)), (7, 9));
        assert_eq!((with[25], with[20 + 12 + 5]), (9, 7));
        assert_eq!(Packet::new(&mut vec![0x45; 9], 0).get(above), 0);
    }
}
