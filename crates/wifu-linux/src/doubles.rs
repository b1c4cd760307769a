//! Numbers for protocols that two carriers have.
//!
//! Inside the daemon the protocol number of a packet says by which carrier it goes, as 6 does for a
//! TUN device. Where `raw` and `udp` carry the same protocol, its packets on `udp` have a number
//! that nobody uses, its *double*: connections, listening sockets, faults and queues then tell the
//! two apart as they tell protocols apart. A double is on no wire and in no capture, and checksums
//! are over the number proper.

use std::sync::Arc;
use wifu_engine::Blueprint;
use wifu_wire::ipv4::{self, HEADER, IpInfo};
use wifu_wire::{Class, Format, Head, Place, Pseudo, Wire};

/// The doubles of a daemon's protocols.
#[derive(Clone, Debug)]
pub struct Doubles {
    /// By number, and by double; 0: there is none.
    double: Box<[u8; 256]>,
    number: Box<[u8; 256]>,
}

impl Doubles {
    /// For each of `numbers` another one that is `free`. `None` if there are too few.
    pub fn new(numbers: &[u8], free: impl Fn(u8) -> bool) -> Option<Doubles> {
        let mut doubles = Doubles {
            double: Box::new([0; 256]),
            number: Box::new([0; 256]),
        };
        let free = |n: &u8| free(*n) && !numbers.contains(n);
        let mut free = (1..=254).rev().filter(free);
        for number in numbers {
            let double = free.next()?;
            doubles.double[usize::from(*number)] = double;
            doubles.number[usize::from(double)] = *number;
        }
        Some(doubles)
    }

    /// The double of a number, if it has one.
    pub fn double(&self, number: u8) -> Option<u8> {
        Some(self.double[usize::from(number)]).filter(|d| *d != 0)
    }

    /// The number proper of a double, if it is one.
    pub fn proper(&self, double: u8) -> Option<u8> {
        Some(self.number[usize::from(double)]).filter(|n| *n != 0)
    }

    /// A packet under its number proper, if it has a double.
    pub(crate) fn shown(&self, packet: &[u8]) -> Option<Vec<u8>> {
        if wifu_wire::ip::is_v6(packet) {
            return None;
        }
        let info = ipv4::facts(packet);
        let proto = self.proper(info.proto)?;
        let mut shown = packet.to_vec();
        ipv4::emit(&IpInfo { proto, ..info }, packet.len() - HEADER, &mut shown);
        Some(shown)
    }

    /// A protocol as the second carrier has it, whose packets are so much longer on the wire.
    /// `None` if it has no double.
    pub(crate) fn blueprint(&self, ends: &Blueprint, longer: u32) -> Option<Blueprint> {
        let wire = Proper {
            inner: Arc::clone(&ends.wire),
            number: ends.number,
        };
        let mut second = ends.clone();
        second.number = self.double(ends.number)?;
        second.wire = Arc::new(wire);
        second.below += longer;
        Some(second)
    }
}

/// A format whose checksums are over another number than the endpoint has.
#[derive(Debug)]
struct Proper {
    inner: Arc<dyn Wire>,
    number: u8,
}

impl Proper {
    fn pseudo(&self, pseudo: &Pseudo) -> Pseudo {
        pseudo.under(self.number)
    }
}

impl Wire for Proper {
    fn format(&self) -> &Format {
        self.inner.format()
    }

    fn parse(&self, bytes: &[u8], head: &mut Head) -> Result<usize, &'static str> {
        self.inner.parse(bytes, head)
    }

    fn emit(&self, head: &Head, out: &mut [u8]) -> usize {
        self.inner.emit(head, out)
    }

    fn patch(&self, head: &Head, bytes: &mut [u8]) {
        self.inner.patch(head, bytes);
    }

    fn seal(&self, pseudo: &Pseudo, bytes: &mut [u8]) {
        self.inner.seal(&self.pseudo(pseudo), bytes);
    }

    fn verify(&self, pseudo: &Pseudo, bytes: &[u8]) -> bool {
        self.inner.verify(&self.pseudo(pseudo), bytes)
    }

    fn place(&self, word: &str) -> Option<Place> {
        self.inner.place(word)
    }

    fn hop_count(&self) -> Option<Place> {
        self.inner.hop_count()
    }

    fn counted(&self, bytes: &[u8]) -> Option<u32> {
        self.inner.counted(bytes)
    }

    fn count_says(&self, nodes: u32) -> u32 {
        self.inner.count_says(nodes)
    }

    fn transmitter(&self) -> Option<Place> {
        self.inner.transmitter()
    }

    fn identity(&self) -> &[(Place, u32)] {
        self.inner.identity()
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wifu_wire::Ecn;

    const PACKET: IpInfo = IpInfo {
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        proto: 214,
        ttl: 61,
        ecn: Ecn::NotEct,
    };

    #[test]
    fn a_double_is_a_number_that_nobody_has() {
        let doubles = Doubles::new(&[207, 214, 254], |n| ![252, 253].contains(&n)).expect("enough");
        let mut found = Vec::new();
        for number in [207, 214, 254] {
            let double = doubles.double(number).expect("a double");
            assert_eq!(doubles.proper(double), Some(number));
            assert_eq!(doubles.proper(number), None);
            assert!(![207, 214, 252, 253, 254].contains(&double));
            found.push(double);
        }
        found.dedup();
        assert_eq!(found.len(), 3);
        assert_eq!(doubles.double(6), None);
        let many: Vec<u8> = (100..=254).collect();
        assert!(Doubles::new(&many, |_| true).is_none());
    }

    #[test]
    fn a_capture_shows_the_number_proper_under_a_sound_header() {
        let doubles = Doubles::new(&[214], |_| true).expect("enough");
        let double = doubles.double(214).expect("a double");
        let mut packet = vec![7; HEADER + 9];
        let info = IpInfo {
            proto: double,
            ..PACKET
        };
        ipv4::emit(&info, 9, &mut packet);
        let shown = doubles.shown(&packet).expect("it is a double's");
        assert_eq!(ipv4::parse(&shown), Ok((PACKET, &[7; 9][..])));
        assert_eq!(doubles.shown(&shown), None);
    }

    #[test]
    fn checksums_are_over_the_number_proper() {
        let registry = wifu_parts::registry();
        let ends = wifu_parts::library()
            .resolve("tcp-sack", &registry)
            .expect("it is in the library");
        let doubles = Doubles::new(&[ends.number], |_| true).expect("enough");
        let second = doubles.blueprint(&ends, 12).expect("it has a double");
        assert_eq!((second.below, second.id), (ends.below + 12, ends.id));
        let mut segment = vec![0; 200];
        let n = second.wire.emit(&Head::default(), &mut segment);
        let pseudo = |proto| Pseudo::new(PACKET.src, PACKET.dst, proto);
        second.wire.seal(&pseudo(second.number), &mut segment[..n]);
        assert!(ends.wire.verify(&pseudo(ends.number), &segment[..n]));
        assert!(second.wire.verify(&pseudo(second.number), &segment[..n]));
        assert!(!ends.wire.verify(&pseudo(second.number), &segment[..n]));
    }
}
