//! FlowQueue-CoDel (RFC 8290): a queue for each flow, served in turns by octets, each with its own
//! controlled delay; flows that have just begun, or send less than their turn, go first.

use super::Waits;
use super::codel::{Codel, CodelParams, Head};
use std::collections::VecDeque;
use wifu_wire::{Rng, Time};

/// Parameters (RFC 8290 section 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FqParams {
    /// Of each queue.
    pub codel: CodelParams,
    /// Octets that a queue may send in its turn.
    pub quantum: u32,
    /// Queues; flows share one by chance.
    pub flows: u32,
}

impl Default for FqParams {
    fn default() -> FqParams {
        FqParams {
            codel: CodelParams::default(),
            quantum: 1514,
            flows: 1024,
        }
    }
}

/// The packets of the flows that have one number.
#[derive(Clone, Debug)]
struct Queue<T> {
    packets: VecDeque<T>,
    octets: u64,
    /// What it may send yet in its turn.
    credits: i64,
    codel: Codel,
    /// It is in one of the lists.
    active: bool,
}

/// All packets that wait.
#[derive(Clone, Debug)]
pub struct FqCodel<T> {
    quantum: i64,
    queues: Vec<Queue<T>>,
    /// Queues that became active since they had their turn, and the others that are.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    waiting: usize,
    /// Which flows share a queue differs from run to run.
    perturbation: u64,
}

impl<T: Waits> FqCodel<T> {
    /// Nothing waits.
    pub fn new(p: FqParams, mut rng: Rng) -> FqCodel<T> {
        let queue = Queue {
            packets: VecDeque::new(),
            octets: 0,
            credits: 0,
            codel: Codel::new(p.codel),
            active: false,
        };
        FqCodel {
            quantum: i64::from(p.quantum.max(1)),
            queues: vec![queue; p.flows.max(1) as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            waiting: 0,
            perturbation: rng.next_u64() | 1,
        }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// A packet of a flow waits from now on.
    //= rfc8290#section-4.1
    pub fn push(&mut self, flow: u64, packet: T) {
        let mixed = flow.wrapping_mul(self.perturbation);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let number = (((mixed >> 32) * self.queues.len() as u64) >> 32) as u32;
        let queue = &mut self.queues[number as usize];
        queue.octets += u64::from(packet.octets());
        queue.packets.push_back(packet);
        self.waiting += 1;
        if !queue.active {
            queue.active = true;
            queue.credits = self.quantum;
            self.new.push_back(number);
        }
    }

    /// There is no room: the first packet of the queue with the most octets is lost, which is the
    /// one that is given.
    //= rfc8290#section-4.1.3
    pub fn evict(&mut self) -> Option<T> {
        let most = self.queues.iter_mut().rev().max_by_key(|q| q.octets)?;
        let packet = most.packets.pop_front()?;
        most.octets -= u64::from(packet.octets());
        self.waiting -= 1;
        Some(packet)
    }

    /// The next packet, and whether it is to be marked; `drop` is told of those that controlled
    /// delay drops before it.
    //= rfc8290#section-4.2
    pub fn next(&mut self, now: Time, mut drop: impl FnMut(T)) -> Option<(T, bool)> {
        loop {
            let fresh = !self.new.is_empty();
            let list = if fresh { &mut self.new } else { &mut self.old };
            let &number = list.front()?;
            let queue = &mut self.queues[number as usize];
            if queue.credits <= 0 {
                queue.credits += self.quantum;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let Queue {
                packets,
                octets,
                codel,
                ..
            } = queue;
            let waiting = &mut self.waiting;
            let pop = || {
                let item = packets.pop_front()?;
                *octets -= u64::from(item.octets());
                *waiting -= 1;
                Some(Head {
                    item,
                    since: item.since(),
                    ect: item.ect(),
                    behind: u32::try_from(*octets).unwrap_or(u32::MAX),
                })
            };
            if let Some((packet, marked)) = codel.next(now, pop, &mut drop) {
                queue.credits -= i64::from(packet.octets());
                return Some((packet, marked));
            }
            // It is empty: a new one waits its turn among the old, so that it does not starve them
            // by packets that come one by one.
            list.pop_front();
            if fresh && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                queue.active = false;
            }
        }
    }

    /// All packets are lost: they are given, those of one queue in order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.new.clear();
        self.old.clear();
        self.waiting = 0;
        self.queues.iter_mut().flat_map(|q| {
            q.octets = 0;
            q.active = false;
            q.codel.rest();
            q.packets.drain(..)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Packet {
        flow: u64,
        number: u32,
        octets: u16,
        since: Time,
        ect: bool,
    }

    impl Waits for Packet {
        fn since(&self) -> Time {
            self.since
        }
        fn ect(&self) -> bool {
            self.ect
        }
        fn octets(&self) -> u16 {
            self.octets
        }
        fn first(&self) -> bool {
            false
        }
    }

    fn packet(flow: u64, number: u32, octets: u16) -> Packet {
        Packet {
            flow,
            number,
            octets,
            since: Time::ZERO,
            ect: false,
        }
    }

    fn fq() -> FqCodel<Packet> {
        FqCodel::new(FqParams::default(), Rng::new(1))
    }

    /// Flows and numbers of what leaves at once.
    fn order(fq: &mut FqCodel<Packet>) -> Vec<(u64, u32)> {
        let all = std::iter::from_fn(|| fq.next(Time::ZERO, |_| panic!("nothing waited")));
        all.map(|(p, _)| (p.flow, p.number)).collect()
    }

    #[test]
    fn flows_take_turns_by_octets() {
        let mut fq = fq();
        for number in 0..4 {
            fq.push(1, packet(1, number, 1514));
            fq.push(2, packet(2, number, 757));
        }
        // Two packets of 757 octets are one turn. Both had one as new ones.
        let expected = [
            (1, 0),
            (2, 0),
            (2, 1),
            (1, 1),
            (2, 2),
            (2, 3),
            (1, 2),
            (1, 3),
        ];
        assert_eq!(order(&mut fq), expected);
        assert!(fq.is_empty());
    }

    //= rfc8290#section-4.2
    #[test]
    fn a_flow_that_just_began_goes_first_and_only_once() {
        let mut fq = fq();
        for number in 0..20 {
            fq.push(1, packet(1, number, 1500));
        }
        let next = |fq: &mut FqCodel<Packet>| fq.next(Time::ZERO, |_| {}).map(|n| n.0.flow);
        // Its turn as a new one is over after two of 1500 octets of 1514.
        assert_eq!([(); 2].map(|()| next(&mut fq)), [Some(1); 2]);
        fq.push(2, packet(2, 0, 100));
        assert_eq!(next(&mut fq), Some(2));
        // It is empty, and stays among the old ones for a turn: what comes meanwhile is not new.
        assert_eq!(next(&mut fq), Some(1));
        fq.push(2, packet(2, 1, 100));
        assert_eq!(next(&mut fq), Some(2));
    }

    #[test]
    fn who_has_most_waiting_loses_his_first() {
        let mut fq = fq();
        fq.push(1, packet(1, 0, 1500));
        for number in 0..3 {
            fq.push(2, packet(2, number, 600));
        }
        assert_eq!(fq.evict().map(|p| (p.flow, p.number)), Some((2, 0)));
        assert_eq!(fq.evict().map(|p| (p.flow, p.number)), Some((1, 0)));
        assert_eq!((fq.len(), order(&mut fq)), (2, vec![(2, 1), (2, 2)]));
        assert!(fq.evict().is_none());
    }

    #[test]
    fn each_flow_has_its_own_controlled_delay() {
        let mut fq = fq();
        let mut dropped = Vec::new();
        let mut left = [0; 2];
        for ms in 0..400u64 {
            let now = Time(ms * 1_000_000);
            let at = |flow, octets| Packet {
                since: now,
                ..packet(flow, ms as u32, octets)
            };
            // Two packets per millisecond come and one leaves; the small ones never wait.
            fq.push(1, at(1, 1500));
            fq.push(1, at(1, 1500));
            fq.push(2, at(2, 50));
            for _ in 0..2 {
                if let Some((p, marked)) = fq.next(now, |p| dropped.push(p.flow)) {
                    assert!(!marked);
                    left[p.flow as usize - 1] += 1;
                }
            }
        }
        assert!(
            dropped.len() > 3 && dropped.iter().all(|f| *f == 1),
            "{dropped:?}"
        );
        assert_eq!(left[1], 400);
    }

    #[test]
    fn what_is_drained_is_all_that_waited_and_it_starts_anew() {
        let mut fq = fq();
        for flow in 0..50 {
            fq.push(flow, packet(flow, 0, 100));
        }
        assert_eq!((fq.drain().count(), fq.len()), (50, 0));
        fq.push(3, packet(3, 9, 100));
        assert_eq!(order(&mut fq), [(3, 9)]);
    }

    #[test]
    fn flows_spread_over_the_queues_and_differently_by_seed() {
        let spread = |seed| {
            let mut fq = FqCodel::new(FqParams::default(), Rng::new(seed));
            for flow in 0..200 {
                fq.push(flow, packet(flow, 0, 100));
            }
            let used = fq.queues.iter().enumerate().filter(|(_, q)| q.active);
            used.map(|(i, _)| i).collect::<Vec<_>>()
        };
        // 200 in 1024: 182 of them are expected to be different.
        assert!(
            (165..=200).contains(&spread(1).len()),
            "{}",
            spread(1).len()
        );
        assert_ne!(spread(1), spread(2));
    }
}
