//! How topology control messages of OLSR spread (RFC 3626 3.4, 8.3, 9): who relays for whom, who
//! has seen which message, and what the messages look like.

use super::address::{address, node_of};
use crate::routing::{Link, Via};
use crate::scenario::Flood;
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};
use wifu_wire::Span;

/// A worse link is no neighbour's for a routing daemon: one HELLO in four comes through both ways.
const USABLE_ETX: f64 = 4.0;
/// Offsets in an OLSR packet with one message (RFC 3626 3.3).
const KIND: usize = 4;
const VALID: usize = 5;
const SIZE: usize = 6;
const ORIGIN: usize = 8;
const TTL: usize = 12;
const HOPS: usize = 13;
const SEQUENCE: usize = 14;
const BODY: usize = 16;

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Control = 2,
}

/// Relays, and who has seen what.
#[derive(Debug, Default)]
pub(crate) struct Flooding {
    how: Flood,
    /// Neighbours of each node, sorted.
    near: Vec<Vec<u16>>,
    /// Of each node, the neighbours that relay its messages, sorted.
    relays: Vec<Vec<u16>>,
    /// By node and originator: the number of the last message seen.
    seen: BTreeMap<(u16, u16), u16>,
    /// Messages that each node originated.
    sent: Vec<u16>,
}

impl Flooding {
    /// Nobody has seen anything.
    pub(crate) fn new(how: Flood, nodes: usize) -> Flooding {
        Flooding {
            how,
            sent: vec![0; nodes],
            ..Flooding::default()
        }
    }

    /// These links are up in both directions: who is near whom, and who relays for whom.
    pub(crate) fn relink(&mut self, links: &[Link]) {
        let mut near = vec![BTreeSet::new(); self.sent.len()];
        for link in links {
            if link.via == Via::Radio(link.to) && link.cost <= USABLE_ETX {
                near[usize::from(link.from)].insert(link.to);
            }
        }
        self.relays = match self.how {
            Flood::Mpr => (0..near.len()).map(|n| relays(n as u16, &near)).collect(),
            Flood::All | Flood::Off => Vec::new(),
        };
        self.near = near.into_iter().map(|n| n.into_iter().collect()).collect();
    }

    /// Neighbours for which `node` relays.
    fn selectors(&self, node: u16) -> impl Iterator<Item = u16> {
        let near = self.near[usize::from(node)].iter().copied();
        near.filter(move |n| self.relays(*n, node))
    }

    /// Whether `node` relays what it hears of `from`.
    fn relays(&self, from: u16, node: u16) -> bool {
        match self.how {
            Flood::Mpr => self.relays[usize::from(from)].binary_search(&node).is_ok(),
            Flood::All => true,
            Flood::Off => false,
        }
    }

    fn neighbours(&self, a: u16, b: u16) -> bool {
        self.near[usize::from(a)].binary_search(&b).is_ok()
    }

    /// Whether a node originates topology control messages: with relays, those that are some
    /// (RFC 3626 9.3).
    pub(crate) fn originates(&self, node: u16) -> bool {
        self.how != Flood::Mpr || self.selectors(node).next().is_some()
    }

    /// Write a message that `node` originates, valid for three intervals; everything beyond it
    /// is zero.
    pub(crate) fn message(&mut self, kind: Kind, node: u16, interval: Span, out: &mut [u8]) {
        out.fill(0);
        let number = &mut self.sent[usize::from(node)];
        *number = number.wrapping_add(1);
        let number = *number;
        let (ttl, lists) = match kind {
            // Link code 10: symmetric, a relay; 6: symmetric, a neighbour.
            Kind::Hello => {
                let own = &self.near[usize::from(node)];
                let (mpr, other): (Vec<u16>, Vec<u16>) =
                    own.iter().partition(|n| self.relays(node, **n));
                (1, vec![(Some(10), mpr), (Some(6), other)])
            }
            Kind::Control => (255, vec![(None, self.selectors(node).collect())]),
        };
        out[KIND] = kind as u8;
        out[VALID] = time(interval * 3);
        out[ORIGIN..TTL].copy_from_slice(&address(node).octets());
        out[TTL] = ttl;
        out[SEQUENCE..BODY].copy_from_slice(&number.to_be_bytes());
        // HELLO: reserved, interval, willingness 3. TC: number of the neighbour set, reserved.
        match kind {
            Kind::Hello => out[BODY + 2..BODY + 4].copy_from_slice(&[time(interval), 3]),
            Kind::Control => out[BODY..BODY + 2].copy_from_slice(&number.to_be_bytes()),
        }
        let mut end = BODY + 4;
        for (code, nodes) in lists {
            let head = if code.is_some() { 4 } else { 0 };
            let fit = (out.len() - end).saturating_sub(head) / 4;
            let nodes = &nodes[..nodes.len().min(fit)];
            if nodes.is_empty() {
                continue;
            }
            if let Some(code) = code {
                out[end] = code;
                let size = (head + 4 * nodes.len()) as u16;
                out[end + 2..end + 4].copy_from_slice(&size.to_be_bytes());
            }
            end += head;
            for n in nodes {
                out[end..end + 4].copy_from_slice(&address(*n).octets());
                end += 4;
            }
        }
        let size = |from: usize| ((end - from) as u16).to_be_bytes();
        out[..2].copy_from_slice(&size(0));
        out[2..4].copy_from_slice(&number.to_be_bytes());
        out[SIZE..ORIGIN].copy_from_slice(&size(KIND));
    }

    /// A node heard a message that `from` transmitted. Whether it is to send it on, which `message`
    /// is made ready for: the first copy of a neighbour decides (RFC 3626 3.4.1).
    pub(crate) fn heard(&mut self, node: u16, from: u16, message: &mut [u8]) -> bool {
        if message[KIND] != Kind::Control as u8 {
            return false;
        }
        let origin = node_of(Ipv4Addr::new(
            message[ORIGIN],
            message[ORIGIN + 1],
            message[ORIGIN + 2],
            message[ORIGIN + 3],
        ));
        let number = u16::from_be_bytes([message[SEQUENCE], message[SEQUENCE + 1]]);
        if origin == node || !self.neighbours(node, from) {
            return false;
        }
        let last = self.seen.get(&(node, origin));
        if last.is_some_and(|last| (number.wrapping_sub(*last) as i16) <= 0) {
            return false;
        }
        self.seen.insert((node, origin), number);
        if message[TTL] <= 1 || !self.relays(from, node) {
            return false;
        }
        message[TTL] -= 1;
        message[HOPS] += 1;
        true
    }
}

/// The neighbours through which a node reaches all that are two hops away (RFC 3626 8.3.1): first
/// those without whom somebody is not reached, then always the one that reaches most of the rest,
/// of equal ones that with more neighbours, then that with the lower number.
fn relays(node: u16, near: &[BTreeSet<u16>]) -> Vec<u16> {
    let own = &near[usize::from(node)];
    let beyond = |n: u16| {
        let all = near[usize::from(n)].iter().copied();
        all.filter(|far| *far != node && !own.contains(far))
    };
    let mut ways: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for &n in own {
        for far in beyond(n) {
            ways.entry(far).or_default().push(n);
        }
    }
    let only = ways.values().filter(|w| w.len() == 1).map(|w| w[0]);
    let mut chosen: BTreeSet<u16> = only.collect();
    ways.retain(|_, w| !w.iter().any(|n| chosen.contains(n)));
    while !ways.is_empty() {
        let reach = |n: u16| beyond(n).filter(|far| ways.contains_key(far)).count();
        let best = own.iter().copied().max_by_key(|&n| {
            let lower = core::cmp::Reverse(n);
            (reach(n), near[usize::from(n)].len(), lower)
        });
        let Some(best) = best else { break };
        chosen.insert(best);
        ways.retain(|_, w| !w.contains(&best));
    }
    chosen.into_iter().collect()
}

/// A time as OLSR writes it (RFC 3626 18.3): (1 + a / 16) 2^b / 16 s, not less than `span`.
fn time(span: Span) -> u8 {
    for b in 0..16u32 {
        let unit = 1_000_000_000u128 << b;
        // In units of 2^b / 256 s.
        let steps = (u128::from(span.0) * 256).div_ceil(unit);
        if steps <= 31 {
            return ((steps.saturating_sub(16) << 4) | u128::from(b)) as u8;
        }
    }
    0xFF
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(pairs: &[(u16, u16)]) -> Vec<Link> {
        let link = |from: u16, to: u16| Link {
            from,
            to,
            via: Via::Radio(to),
            cost: 1.0,
        };
        let all = pairs.iter();
        all.flat_map(|(a, b)| [link(*a, *b), link(*b, *a)])
            .collect()
    }

    fn flooding(how: Flood, nodes: usize, pairs: &[(u16, u16)]) -> Flooding {
        let mut flooding = Flooding::new(how, nodes);
        flooding.relink(&both(pairs));
        flooding
    }

    /// 0 has neighbours 1, 2, 3; 4 is behind 1 and 2, 5 behind 2, 6 behind 3 alone; 1 knows 3.
    const MESH: [(u16, u16); 8] = [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 4),
        (2, 4),
        (2, 5),
        (3, 6),
        (1, 3),
    ];

    #[test]
    fn relays_reach_everybody_two_hops_away_and_are_few() {
        let mesh = flooding(Flood::Mpr, 7, &MESH);
        assert_eq!(mesh.relays[0], [2, 3]);
        assert_eq!(
            mesh.relays[4],
            [1, 2],
            "3 is behind 1, 5 behind 2, and 0 behind both"
        );
        assert_eq!(mesh.relays[6], [3]);
        assert!(mesh.originates(2) && !mesh.originates(5) && !mesh.originates(6));
        let mut bad = both(&MESH);
        bad.iter_mut().for_each(|l| l.cost = 4.1);
        let mut none = Flooding::new(Flood::Mpr, 7);
        none.relink(&bad);
        assert!((0..7).all(|n| !none.originates(n)));
    }

    #[test]
    fn a_message_is_relayed_once_by_relays_only() {
        let mut out = [0; 92];
        for (how, third, first) in [
            (Flood::Mpr, true, false),
            (Flood::All, true, true),
            (Flood::Off, false, false),
        ] {
            let mut mesh = flooding(how, 7, &MESH);
            mesh.message(Kind::Control, 0, Span::SECOND * 5, &mut out);
            let mut copy = out;
            assert_eq!(mesh.heard(3, 0, &mut copy), third, "{how:?}");
            if third {
                assert_eq!((copy[TTL], copy[HOPS]), (254, 1));
            }
            assert!(
                !mesh.heard(3, 1, &mut copy.clone()),
                "a copy is not flooded twice"
            );
            assert_eq!(mesh.heard(1, 0, &mut out.clone()), first, "{how:?}");
            assert!(!mesh.heard(0, 3, &mut copy), "its own");
            assert!(!mesh.heard(6, 0, &mut copy), "heard from afar");
            mesh.message(Kind::Control, 0, Span::SECOND * 5, &mut out);
            assert_eq!(mesh.heard(3, 0, &mut out.clone()), third, "the next one");
            mesh.message(Kind::Hello, 0, Span::SECOND * 2, &mut out);
            assert!(!mesh.heard(3, 0, &mut out.clone()), "a HELLO goes one hop");
        }
    }

    #[test]
    fn times_are_rounded_up_to_what_eight_bits_can_say() {
        // RFC 3626 18.3: HELLO's 6 s and TC's 15 s.
        assert_eq!(time(Span::SECOND * 6), 0x86);
        assert_eq!(time(Span::SECOND * 15), 0xe7);
        assert_eq!(time(Span::MILLI), 0, "62.5 ms are the least");
        let told =
            |code: u8| (1.0 + f64::from(code >> 4) / 16.0) * 2f64.powi(i32::from(code & 15)) / 16.0;
        for ms in [63, 100, 999, 2_000, 7_777, 120_000, 3_000_000] {
            let (asked, told) = (ms as f64 / 1e3, told(time(Span::MILLI * ms)));
            assert!(told >= asked && told <= asked * 1.07, "{asked} {told}");
        }
    }
}
