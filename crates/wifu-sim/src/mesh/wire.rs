//! Wired links: point to point, full duplex, a rate, a delay, a queue.

use std::collections::VecDeque;
use wifu_radio::discipline::{Discipline, Managed, PacketClass, Waits};
use wifu_wire::{LinkFacts, Rate, Rng, Span, Time};

/// What became of a packet at a wire's entrance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// It will arrive, or be lost on its way. `first`: nothing else is on its way, so that its
    /// arrival has to be scheduled.
    Flies { arrives: Time, first: bool },
    /// It waits until the wire is free ([`Wire::leave`]).
    Waits,
    /// The queue is full.
    Full,
    /// The queue's discipline dropped it.
    Early,
}

/// A packet that is over a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flown {
    arrives: Time,
    pub(crate) id: u32,
    /// It does not arrive. That is counted when it would have, so that what still waits when a run
    /// ends is no loss.
    pub(crate) lost: bool,
    /// How long it waited for those before it.
    pub(crate) waits: Span,
    /// How long it took itself.
    pub(crate) takes: Span,
    /// How long it was on its way, with the wire's variation and the wait for those that it must
    /// not overtake.
    pub(crate) propagates: Span,
}

/// A packet that waits for a wire to be free.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    since: Time,
    id: u32,
    len: u16,
    ect: bool,
    first: bool,
}

impl Waits for Waiting {
    fn since(&self) -> Time {
        self.since
    }
    fn ect(&self) -> bool {
        self.ect
    }
    fn octets(&self) -> u16 {
        self.len
    }
    fn first(&self) -> bool {
        self.first
    }
}

/// A node that overhears a wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ear {
    pub(crate) node: u16,
    /// Its device by which it knows who transmits.
    pub(crate) device: u16,
}

/// Weight of the past in the average of the delay (Behaviour 7.1), as of radios.
const KEEP: f64 = 0.75;

/// One direction of a wired link. As packets are served in order at a constant rate, each one's
/// departure is known when it enters; as they arrive in order, one scheduled arrival is enough.
pub(crate) struct Wire {
    pub(crate) from: u16,
    pub(crate) to: u16,
    /// Bits per second; 0: no limit.
    rate: u64,
    delay: Span,
    limit: usize,
    overhead: u64,
    /// Probability of loss in parts of 2^32.
    loss: u32,
    variation: Span,
    rng: Rng,
    /// What its queue does before it is full.
    pub(crate) managed: Option<Box<Managed<Waiting>>>,
    /// With a discipline that looks at packets as they leave: those that wait, since when.
    waiting: VecDeque<Waiting>,
    /// Those of them that had to give way to others: they are lost when the wire is free.
    evicted: Vec<u32>,
    /// When the wire is free is awaited.
    turn: bool,
    /// Nothing that enters arrives.
    pub(crate) cut: bool,
    /// When each packet that has not left yet will have left, in order.
    leaving: VecDeque<Time>,
    /// Packets that wait or are on their way, in the order of their arrivals.
    flying: VecDeque<Flown>,
    /// When it was or will be free.
    free: Time,
    last: Time,
    /// The average of queueing plus transmission of what entered, nanoseconds, and its last sample.
    average: Option<f64>,
    /// Handlers where it begins may ask for them.
    pub(crate) watched: bool,
    /// Who overhears what arrives.
    pub(crate) ears: Box<[Ear]>,
    sample: Option<Span>,
    pub(crate) packets: u64,
    pub(crate) octets: u64,
    pub(crate) full: u64,
    pub(crate) early: u64,
    pub(crate) marked: u64,
    pub(crate) lost: u64,
}

impl Wire {
    /// An idle wire as the plan describes it, from `from` to `to`.
    pub(crate) fn new(plan: &wifu_radio::plan::WirePlan, from: u16, to: u16, rng: Rng) -> Wire {
        Wire {
            from,
            to,
            rate: plan.rate.0,
            delay: plan.delay,
            limit: plan.queue as usize,
            overhead: u64::from(plan.overhead),
            loss: (plan.loss * 4_294_967_296.0).min(4_294_967_295.0) as u32,
            variation: plan.variation,
            rng,
            managed: None,
            waiting: VecDeque::new(),
            evicted: Vec::new(),
            turn: false,
            cut: false,
            leaving: VecDeque::new(),
            flying: VecDeque::new(),
            free: Time::ZERO,
            last: Time::ZERO,
            average: None,
            watched: false,
            ears: Box::default(),
            sample: None,
            packets: 0,
            octets: 0,
            full: 0,
            early: 0,
            marked: 0,
            lost: 0,
        }
    }

    /// Its rate; `None`: no limit.
    pub(crate) fn rate(&self) -> Option<Rate> {
        (self.rate > 0).then_some(Rate(self.rate))
    }

    /// What handlers learn of it. A wire knows when it will be done with a packet as soon as it has
    /// it: its delay is that of the last packet that entered.
    pub(crate) fn facts(&self, now: Time) -> LinkFacts {
        let leaving = self.leaving.iter().filter(|left| **left > now).count();
        let line = self.line();
        let queued = leaving.max(usize::from(line > 0)) + line;
        LinkFacts {
            delay: self.average.map(|ns| Span(ns.round() as u64)),
            sample: self.sample,
            first: Some(self.time_for(1_500)),
            queued: Some(queued as u32),
            room: Some((self.limit + 1).saturating_sub(queued) as u32),
            last_done: None,
            busy: None,
            rate: self.rate(),
        }
    }

    /// Time that a packet of so many octets takes on the wire.
    fn time_for(&self, len: u16) -> Span {
        if self.rate == 0 {
            return Span::ZERO;
        }
        let octets = u64::from(len) + self.overhead;
        Span((octets * 8_000_000_000).div_ceil(self.rate))
    }

    /// Packets that wait behind the one being sent, at most the limit.
    pub(crate) fn room(&mut self, now: Time) -> u32 {
        while self.leaving.front().is_some_and(|left| *left <= now) {
            self.leaving.pop_front();
        }
        (self.limit + 1).saturating_sub(self.waiting()) as u32
    }

    /// Packets that have not left yet, as of the last look at the room.
    pub(crate) fn waiting(&self) -> usize {
        let line = self.line();
        self.leaving.len().max(usize::from(line > 0)) + line
    }

    /// Packets that wait until the wire is free.
    fn line(&self) -> usize {
        self.waiting.len() + self.managed.as_ref().map_or(0, |m| m.keeps())
    }

    /// When the packet being sent will have left; [`Time::NEVER`] if there is none.
    pub(crate) fn next_left(&self) -> Time {
        let free = match self.line() {
            0 => Time::NEVER,
            _ => self.free,
        };
        self.leaving.front().copied().unwrap_or(free)
    }

    /// A packet of `len` octets enters.
    pub(crate) fn enter(&mut self, now: Time, id: u32, len: u16) -> Entered {
        if self.room(now) == 0 {
            self.full += 1;
            return Entered::Full;
        }
        let begins = self.leaving.back().copied().unwrap_or(now);
        self.carry((now, begins), id, len)
    }

    /// A packet that came at some time is sent from some time on.
    #[inline(always)]
    fn carry(&mut self, (now, begins): (Time, Time), id: u32, len: u16) -> Entered {
        let takes = self.time_for(len);
        let left = begins + takes;
        if self.watched {
            let delay = left - now;
            let ns = delay.0 as f64;
            self.average = Some(self.average.map_or(ns, |d| KEEP * d + (1.0 - KEEP) * ns));
            self.sample = Some(delay);
        }
        if left > now {
            self.leaving.push_back(left);
        }
        let lost = self.loss > 0 && self.rng.chance(self.loss) || self.cut;
        let mut arrives = left + self.delay;
        if self.variation > Span::ZERO && !lost {
            arrives += Span(self.rng.below(self.variation.0 + 1));
        }
        let arrives = arrives.max(self.last);
        self.last = arrives;
        self.flying.push_back(Flown {
            arrives,
            id,
            lost,
            waits: begins - now,
            takes,
            propagates: arrives - left,
        });
        let first = self.flying.len() == 1;
        Entered::Flies { arrives, first }
    }

    /// What its queue does before it is full, from now on.
    pub(crate) fn manage(&mut self, discipline: &Discipline, rng: Rng) {
        let slot = |octets: u32| self.time_for(octets.min(u32::from(u16::MAX)) as u16);
        self.managed = Some(Box::new(Managed::new(discipline, slot, rng)));
    }

    /// A packet of `len` octets and this class comes to a wire whose queue has a discipline.
    /// Whether it is to be marked.
    pub(crate) fn enter_managed(
        &mut self,
        now: Time,
        (id, len): (u32, u16),
        PacketClass { ect, flow, first }: PacketClass,
    ) -> (Entered, bool) {
        let full = self.room(now) == 0;
        let inside = self.waiting();
        let free = self.free;
        let Some(managed) = &mut self.managed else {
            return (self.enter(now, id, len), false);
        };
        if inside == 0 {
            managed.emptied(free);
        }
        // Averages count what a full queue refuses, too.
        let signals = managed.arrives(now, inside.saturating_sub(1));
        if full {
            // The place of one whose flow has most.
            let evicted = match managed.as_mut() {
                Managed::FqCodel(fq) => fq.evict(),
                _ => None,
            };
            let Some(evicted) = evicted else {
                self.full += 1;
                return (Entered::Full, false);
            };
            self.early += 1;
            self.evicted.push(evicted.id);
        }
        if signals && !ect {
            self.early += 1;
            return (Entered::Early, false);
        }
        self.marked += u64::from(signals);
        if inside > 0 && managed.chooses() {
            let waits = Waiting {
                since: now,
                id,
                len,
                ect,
                first,
            };
            managed.queue(&mut self.waiting, flow, waits);
            return (Entered::Waits, false);
        }
        let entered = self.enter(now, id, len);
        self.free = self.leaving.back().copied().unwrap_or(now);
        (entered, signals)
    }

    /// When the wire is free, if somebody waits for that and nobody was told yet.
    pub(crate) fn take_turn(&mut self) -> Option<Time> {
        let waits = self.line() > 0;
        let awaited = core::mem::replace(&mut self.turn, waits);
        (waits && !awaited).then_some(self.free)
    }

    /// The wire is free: the next one that waits is sent, and whether it is to be marked. `drop` is
    /// told of those that the discipline drops.
    pub(crate) fn leave(
        &mut self,
        now: Time,
        mut drop: impl FnMut(u32),
    ) -> Option<(u32, Entered, bool)> {
        self.turn = false;
        for id in self.evicted.drain(..) {
            drop(id);
        }
        let Some(managed) = &mut self.managed else {
            return None;
        };
        let early = &mut self.early;
        let drop = |item: Waiting| {
            *early += 1;
            drop(item.id);
        };
        let (item, marked) = managed.next(now, &mut self.waiting, drop)?;
        self.marked += u64::from(marked);
        let entered = self.carry((item.since, now), item.id, item.len);
        self.free = now + self.time_for(item.len);
        Some((item.id, entered, marked))
    }

    /// The packet at the head arrives, or is lost; gives it and when the next one does.
    #[inline]
    pub(crate) fn arrive(&mut self, len: impl Fn(u32) -> u16) -> Option<(Flown, Option<Time>)> {
        let flown = self.flying.pop_front()?;
        match flown.lost {
            true => self.lost += 1,
            false => {
                self.packets += 1;
                self.octets += u64::from(len(flown.id));
            }
        }
        Some((flown, self.flying.front().map(|next| next.arrives)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_radio::plan::WirePlan;
    use wifu_wire::Rate;

    fn wire(loss: f64, variation: Span) -> Wire {
        let plan = WirePlan {
            a: 0,
            b: 1,
            rate: Rate(10_000_000),
            delay: Span::MILLI,
            queue: 2,
            overhead: 38,
            loss,
            variation,
            overheard_by: Vec::new(),
        };
        Wire::new(&plan, 0, 1, Rng::new(4))
    }

    #[test]
    fn a_frame_costs_its_overhead_and_waits_for_those_before_it() {
        let mut w = wire(0.0, Span::ZERO);
        // (1500 + 38) * 8 bits at 10 Mb/s.
        let air = Span(1_230_400);
        assert_eq!(w.time_for(1500), air);
        let arrives = |k: u64| Time::ZERO + air * k + Span::MILLI;
        let flies = |k: u64| Entered::Flies {
            arrives: arrives(k),
            first: k == 1,
        };
        assert_eq!(w.enter(Time::ZERO, 5, 1500), flies(1));
        assert_eq!(w.enter(Time::ZERO, 6, 1500), flies(2));
        assert_eq!(w.enter(Time::ZERO, 7, 1500), flies(3));
        assert_eq!(w.enter(Time::ZERO, 8, 1500), Entered::Full);
        assert_eq!(w.next_left(), Time::ZERO + air);
        for (k, next) in [(1, Some(arrives(2))), (2, Some(arrives(3))), (3, None)] {
            let flown = Flown {
                arrives: arrives(k),
                id: 4 + k as u32,
                lost: false,
                waits: air * (k - 1),
                takes: air,
                propagates: Span::MILLI,
            };
            assert_eq!(w.arrive(|_| 1500), Some((flown, next)));
        }
        assert_eq!(w.room(Time::ZERO + air), 1);
    }

    #[test]
    fn what_has_priority_goes_before_what_waits() {
        let mut w = wire(0.0, Span::ZERO);
        w.limit = 9;
        w.manage(&Discipline::Priority, Rng::new(1));
        let class = |first| PacketClass {
            first,
            ..PacketClass::default()
        };
        for (id, first) in [(1, false), (2, false), (3, true), (4, false), (5, true)] {
            let (entered, marked) = w.enter_managed(Time::ZERO, (id, 1500), class(first));
            let flies = matches!(entered, Entered::Flies { .. });
            assert!(flies == (id == 1) && !marked, "{id}: {entered:?}");
        }
        let mut order = Vec::new();
        while let Some((id, ..)) = w.leave(w.free, |_| panic!("nothing is dropped")) {
            order.push(id);
        }
        assert_eq!(order, [3, 5, 2, 4]);
    }

    #[test]
    fn a_spoilt_wire_loses_its_share_and_keeps_the_order() {
        let (mut w, mut now, mut last) = (wire(0.25, Span::MILLI * 10), Time::ZERO, Time::ZERO);
        let mut delays = Vec::new();
        for id in 0..10_000 {
            now += Span::MILLI * 2;
            w.enter(now, id, 1500);
            let (flown, _) = w.arrive(|_| 1500).expect("it flies");
            assert!(flown.arrives >= last);
            last = flown.arrives;
            if !flown.lost {
                delays.push((flown.arrives - now).0);
            }
        }
        assert!((2300..2700).contains(&w.lost), "{}", w.lost);
        let spread = delays.iter().max().unwrap() - delays.iter().min().unwrap();
        assert!(spread > 9_000_000, "{spread}");
    }
}
