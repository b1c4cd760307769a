//! The way down: queueing discipline, the driver's ring, completion interrupts, and the delay that
//! a driver can measure (Behaviour 7).

use crate::discipline::{Managed, Put, Waits, join};
use crate::phy::Mode;
use crate::plan::RadioConfig;
use std::collections::VecDeque;
use wifu_wire::{Rng, Span, Time};

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub cookie: u32,
    /// [`crate::trace::NOBODY`]: all.
    pub to: u16,
    /// Length of the IP packet.
    pub bytes: u16,
    /// Its transport understands marks.
    pub ect: bool,
    /// It goes before those of which this is not said.
    pub first: bool,
    /// Number over the whole run.
    pub frame: u32,
    /// When the queue took it, when the ring did.
    pub queued: Time,
    pub enqueued: Time,
}

impl Waits for Item {
    fn since(&self) -> Time {
        self.queued
    }
    fn ect(&self) -> bool {
        self.ect
    }
    fn octets(&self) -> u16 {
        self.bytes
    }
    fn first(&self) -> bool {
        self.first
    }
}

/// Where the time of one packet went, from [`crate::Radio::send`] to the end of its last attempt.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Times {
    /// Behind other packets.
    pub queue: Span,
    /// Waiting for the medium before the first attempt.
    pub contention: Span,
    /// From the first attempt to the last.
    pub retries: Span,
    /// The last attempt and its acknowledgement.
    pub air: Span,
}

/// A packet that the hardware finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    pub item: Item,
    pub delivered: bool,
    pub tries: u8,
    /// Rate of the last attempt.
    pub mode: Mode,
    pub seq: u16,
    pub times: Times,
}

/// Weight of the past in the average of delay samples (ATP thesis 3.1).
const KEEP: f64 = 0.75;

/// What a discipline did as packets left its queue, to be taken by whoever let them.
#[derive(Default)]
pub(crate) struct Acted {
    /// Packets that are to be marked.
    pub marked: Vec<u32>,
    /// Packets that are lost.
    pub dropped: Vec<Item>,
}

pub(crate) struct Driver {
    qdisc: VecDeque<Item>,
    /// What is done before it is full.
    managed: Option<Box<Managed<Item>>>,
    /// What it did as packets left.
    pub acted: Acted,
    /// Packets that waited in its queue.
    pub waited: u64,
    /// The most packets in the ring beneath it.
    pub most: u32,
    ring: VecDeque<Item>,
    done: VecDeque<Finished>,
    /// Packets in the hardware: 0 or 1.
    taken: usize,
    limit: usize,
    size: usize,
    batch: u32,
    latency: (Span, Span),
    completed: u32,
    stopped: bool,
    /// An interrupt is on its way.
    pending: bool,
    rng: Rng,
    pub delay_ns: Option<f64>,
    pub sample: Option<Span>,
    pub last_done: Option<Time>,
}

impl Driver {
    pub fn new(config: &RadioConfig, managed: Option<Box<Managed<Item>>>, rng: Rng) -> Driver {
        let (limit, size) = (config.queue.max(1) as usize, config.ring.max(1) as usize);
        Driver {
            qdisc: VecDeque::with_capacity(limit.min(64)),
            managed,
            acted: Acted::default(),
            waited: 0,
            most: 0,
            ring: VecDeque::with_capacity(size.min(64)),
            done: VecDeque::with_capacity(size.min(64)),
            taken: 0,
            limit,
            size,
            batch: config.intr_batch.max(1),
            latency: config.intr_latency,
            completed: 0,
            stopped: false,
            pending: false,
            rng,
            delay_ns: None,
            sample: None,
            last_done: None,
        }
    }

    /// Packets that the queue takes now.
    pub fn room(&self) -> u32 {
        (self.limit - self.queued().min(self.limit)) as u32
    }

    /// Packets in the queueing discipline.
    fn queued(&self) -> usize {
        self.qdisc.len() + self.managed.as_ref().map_or(0, |m| m.keeps())
    }

    /// Whether it has a discipline, which may have acted.
    #[inline]
    pub fn is_managed(&self) -> bool {
        self.managed.is_some()
    }

    /// Packets not yet reported.
    pub fn waiting(&self) -> u32 {
        (self.queued() + self.occupied()) as u32
    }

    fn occupied(&self) -> usize {
        self.ring.len() + self.taken + self.done.len()
    }

    /// Take a packet of a flow, if there is room and the discipline lets it in.
    #[inline]
    pub fn push(&mut self, now: Time, item: Item, flow: u64) -> Put {
        if self.managed.is_some() {
            return self.push_managed(now, item, flow);
        }
        if self.room() == 0 {
            return Put::Full;
        }
        if self.qdisc.is_empty() && !self.stopped {
            self.enter_ring(now, item);
        } else {
            self.qdisc.push_back(item);
        }
        Put::Taken
    }

    #[cold]
    fn push_managed(&mut self, now: Time, item: Item, flow: u64) -> Put {
        let waiting = self.queued();
        let (direct, full) = (waiting == 0 && !self.stopped, waiting >= self.limit);
        let Some(managed) = &mut self.managed else {
            return Put::Full;
        };
        // Averages count what a full queue refuses, too.
        let signals = managed.arrives(now, waiting);
        if full {
            // The place of one whose flow has most.
            let evicted = match managed.as_mut() {
                Managed::FqCodel(fq) => fq.evict(),
                _ => None,
            };
            let Some(evicted) = evicted else {
                return Put::Full;
            };
            self.acted.dropped.push(evicted);
        }
        if signals && !item.ect {
            if direct {
                managed.emptied(now);
            }
            return Put::Early;
        }
        if direct {
            managed.emptied(now);
            self.enter_ring(now, item);
            self.most = self.most.max(self.occupied() as u32);
        } else {
            managed.queue(&mut self.qdisc, flow, item);
            self.waited += 1;
        }
        if signals { Put::Marked } else { Put::Taken }
    }

    fn move_down(&mut self, now: Time) {
        while !self.stopped {
            let Some(item) = self.pop(now) else {
                return;
            };
            self.enter_ring(now, item);
        }
    }

    /// The next packet that leaves the queueing discipline.
    fn pop(&mut self, now: Time) -> Option<Item> {
        let Some(managed) = &mut self.managed else {
            return self.qdisc.pop_front();
        };
        let dropped = &mut self.acted.dropped;
        let (item, marked) = managed.next(now, &mut self.qdisc, |item| dropped.push(item))?;
        if marked {
            self.acted.marked.push(item.cookie);
        }
        Some(item)
    }

    /// What has priority passes the ring, too, as by one of its own in hardware with several.
    fn enter_ring(&mut self, now: Time, mut item: Item) {
        item.enqueued = now;
        join(&mut self.ring, item);
        self.stopped = self.occupied() >= self.size;
    }

    /// Lose all packets but the one in the hardware, and what was measured: they are in the order
    /// in which they came. Says whether the queue was full and is not any more.
    pub fn forget(&mut self) -> (Vec<Item>, bool) {
        let full = self.room() == 0;
        let mut lost: Vec<Item> = self.ring.drain(..).chain(self.qdisc.drain(..)).collect();
        if let Some(managed) = self.managed.as_deref_mut() {
            if let Managed::FqCodel(fq) = managed {
                lost.extend(fq.drain());
            }
            lost.sort_by_key(|item| item.frame);
        }
        self.stopped = self.occupied() >= self.size;
        self.delay_ns = None;
        self.sample = None;
        (lost, full)
    }

    /// A packet waits for the hardware.
    pub fn ready(&self) -> bool {
        !self.ring.is_empty()
    }

    /// The hardware takes the next packet.
    pub fn take(&mut self) -> Option<Item> {
        let item = self.ring.pop_front()?;
        self.taken = 1;
        Some(item)
    }

    /// The hardware finished its packet. Returns how long until the interrupt that has to be
    /// raised now, if one has.
    pub fn finish(&mut self, finished: Finished) -> Option<Span> {
        self.taken = 0;
        self.done.push_back(finished);
        self.completed += 1;
        let raise = self.ring.is_empty() || self.completed >= self.batch;
        if !raise || self.pending {
            return None;
        }
        self.pending = true;
        let (low, high) = self.latency;
        Some(low + Span(self.rng.below(high.0.saturating_sub(low.0) + 1)))
    }

    /// The interrupt arrives: reports follow by [`Driver::report`].
    pub fn interrupt(&mut self, now: Time) {
        self.pending = false;
        self.completed = 0;
        if !self.done.is_empty() {
            self.last_done = Some(now);
        }
    }

    /// The next packet that this interrupt reports, and its sample.
    pub fn report(&mut self, now: Time) -> Option<(Finished, Span)> {
        let finished = self.done.pop_front()?;
        let sample = now - finished.item.enqueued;
        let ns = sample.0 as f64;
        self.delay_ns = Some(self.delay_ns.map_or(ns, |d| KEEP * d + (1.0 - KEEP) * ns));
        self.sample = Some(sample);
        Some((finished, sample))
    }

    /// Wake the queue if the ring is half empty. True if the queue was full and is not any more.
    pub fn refill(&mut self, now: Time) -> bool {
        if !self.stopped || self.occupied() > self.size / 2 {
            return false;
        }
        let full = self.room() == 0;
        self.stopped = false;
        self.move_down(now);
        full && self.room() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::Discipline;

    fn item(frame: u32, at: Time) -> Item {
        Item {
            cookie: frame,
            to: 1,
            bytes: 1500,
            ect: false,
            first: false,
            frame,
            queued: at,
            enqueued: at,
        }
    }

    fn driver(ring: u32, batch: u32) -> Driver {
        let config = RadioConfig {
            queue: 5,
            ring,
            intr_batch: batch,
            intr_latency: (Span::ZERO, Span::ZERO),
            ..RadioConfig::default()
        };
        Driver::new(&config, None, Rng::new(1))
    }

    #[test]
    fn what_has_priority_passes_queue_and_ring_but_not_the_hardware() {
        let config = RadioConfig {
            queue: 5,
            ring: 3,
            discipline: Some(Discipline::Priority),
            ..RadioConfig::default()
        };
        let managed = Managed::new(&Discipline::Priority, |_| Span::ZERO, Rng::new(2));
        let mut d = Driver::new(&config, Some(Box::new(managed)), Rng::new(1));
        let first = |n| Item {
            first: true,
            ..item(n, Time::ZERO)
        };
        d.push(Time::ZERO, item(1, Time::ZERO), 0);
        let mut order = vec![d.take().map(|i| i.frame)];
        // Two fit into the ring, behind what the hardware has; then the queue fills.
        for packet in [
            item(2, Time::ZERO),
            first(3),
            item(4, Time::ZERO),
            first(5),
            first(6),
        ] {
            assert_eq!(d.push(Time::ZERO, packet, 0), Put::Taken);
        }
        assert_eq!(d.waiting(), 6);
        while d.ready() || d.queued() > 0 {
            d.finish(finished(item(0, Time::ZERO)));
            d.interrupt(Time::ZERO);
            while d.report(Time::ZERO).is_some() {}
            d.refill(Time::ZERO);
            order.push(d.take().map(|i| i.frame));
        }
        let order: Vec<u32> = order.into_iter().flatten().collect();
        assert_eq!(
            order,
            [1, 3, 5, 6, 2, 4],
            "each kind in the order in which it came"
        );
    }

    fn finished(item: Item) -> Finished {
        Finished {
            item,
            delivered: true,
            tries: 1,
            mode: Mode(8),
            seq: 0,
            times: Times::default(),
        }
    }

    /// Frames of 1 ms each, all there from the start.
    fn saturated(batch: u32, frames: u32) -> Vec<u64> {
        let mut d = driver(200, batch);
        let mut samples = Vec::new();
        let mut at = Time::ZERO;
        for n in 0..2 {
            assert!(d.push(at, item(n, at), 0).taken());
        }
        for n in 2..frames {
            let taken = d.take().expect("a frame waits");
            at += Span(1_000_000);
            assert!(d.push(at, item(n, at), 0).taken());
            if d.finish(finished(taken)).is_some() {
                d.interrupt(at);
                while let Some((_, sample)) = d.report(at) {
                    samples.push(sample.0);
                }
            }
        }
        samples
    }

    #[test]
    fn coalesced_interrupts_inflate_samples_by_half_a_batch() {
        let mean = |s: &[u64]| s.iter().sum::<u64>() as f64 / s.len() as f64;
        let (one, four) = (saturated(1, 400), saturated(4, 400));
        let bias = (mean(&four) - mean(&one)) / 1e6;
        assert!((bias - 1.5).abs() < 0.05, "{bias} frame times"); // (batch - 1) / 2
        let first = four[four.len() - 4] as i64 - one[one.len() - 4] as i64;
        assert_eq!(first, 3_000_000); // batch - 1
    }

    #[test]
    fn a_full_ring_stops_the_queue_until_it_is_half_empty() {
        let mut d = driver(4, 1);
        for n in 0..9 {
            assert!(d.push(Time::ZERO, item(n, Time::ZERO), 0).taken(), "{n}");
        }
        assert_eq!(d.push(Time::ZERO, item(9, Time::ZERO), 0), Put::Full);
        assert_eq!((d.room(), d.waiting()), (0, 9));
        for n in 1..=2u64 {
            let at = Time(n);
            let taken = d.take().expect("a frame waits");
            assert_eq!(d.finish(finished(taken)), Some(Span::ZERO));
            d.interrupt(at);
            assert!(d.report(at).is_some() && d.report(at).is_none());
            assert_eq!(d.refill(at), n == 2, "woken at half");
        }
        assert_eq!((d.room(), d.waiting()), (2, 7));
    }

    #[test]
    fn what_is_forgotten_comes_out_once_and_makes_room() {
        let mut d = driver(4, 1);
        for n in 0..9 {
            assert!(d.push(Time::ZERO, item(n, Time::ZERO), 0).taken());
        }
        let taken = d.take().expect("a frame waits");
        d.delay_ns = Some(5.0);
        let (lost, was_full) = d.forget();
        let cookies: Vec<u32> = lost.iter().map(|i| i.cookie).collect();
        assert_eq!(cookies, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(was_full && d.delay_ns.is_none());
        assert_eq!((d.room(), d.waiting(), taken.cookie), (5, 1, 0));
        // The frame in the hardware is still reported, and the ring takes packets.
        assert!(d.push(Time(1), item(9, Time(1)), 0).taken());
        assert_eq!(d.finish(finished(taken)), Some(Span::ZERO));
        let next = d.take().expect("the new one");
        assert_eq!(next.cookie, 9);
    }

    #[test]
    fn the_average_keeps_three_quarters() {
        let mut d = driver(200, 1);
        for us in [700u64, 900, 1500, 700] {
            assert!(d.push(Time::ZERO, item(0, Time::ZERO), 0).taken());
            let taken = d.take().expect("a frame waits");
            let _ = d.finish(finished(taken));
            let at = Time(us * 1000);
            d.interrupt(at);
            assert!(d.report(at).is_some());
        }
        assert_eq!(d.delay_ns, Some(878_125.0)); // Behaviour 17
    }
}
