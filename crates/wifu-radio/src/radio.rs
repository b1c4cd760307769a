//! The model as a whole: what its owner calls, and what it answers. It drives medium and MAC and
//! carries what comes of the one to the other.

use crate::counters::{Counters, LinkCounters};
use crate::discipline::{PacketClass, Put};
use crate::event::{Event, Frame, OnAir};
use crate::mac::Mac;
use crate::medium::Medium;
use crate::plan::Plan;
use crate::queue::Wake;
use crate::run::Run;
use crate::source::Source;
use crate::trace::Record;
use wifu_wire::{LinkFacts, Rng, Time};

/// All radios of a channel.
///
/// The owner calls [`Radio::send`] and, at [`Radio::poll_timeout`], [`Radio::handle_timeout`];
/// after each of these it drains [`Radio::poll_event`]. Time must not go backwards. Propagation
/// takes no time.
pub struct Radio {
    medium: Medium,
    mac: Mac,
    run: Run,
    /// What is no 802.11; their wake-ups are those of stations after the last one.
    sources: Vec<Source>,
}

impl Radio {
    /// The stations of `plan`, silent. Streams of randomness are split from `rng` by purpose and
    /// node.
    pub fn new(plan: &Plan, rng: &Rng) -> Radio {
        let (stations, sources) = (plan.nodes.len(), Source::all(plan, rng));
        let mut run = Run::new(stations + sources.len(), rng);
        for (i, source) in sources.iter().enumerate() {
            run.queue.set(stations + i, Wake::Interrupt, source.start);
        }
        run.queue.settle();
        Radio {
            medium: Medium::new(plan, rng),
            mac: Mac::new(plan, rng),
            run,
            sources,
        }
    }

    /// Packets that the node's queue takes now.
    pub fn room(&self, node: u16) -> u32 {
        self.mac.stations[usize::from(node)].driver.room()
    }

    /// Packets that entered the node's queue and were not yet reported.
    pub fn waiting(&self, node: u16) -> u32 {
        self.mac.stations[usize::from(node)].driver.waiting()
    }

    /// Put a packet into the node's queue. False: the queue is full, the packet is the caller's.
    pub fn send(&mut self, now: Time, node: u16, frame: Frame) -> bool {
        self.put(now, node, frame, PacketClass::default()).taken()
    }

    /// The same for a packet of this class: what became of it at the node's queueing discipline.
    #[inline]
    pub fn put(&mut self, now: Time, node: u16, frame: Frame, class: PacketClass) -> Put {
        self.run.now = now;
        let (medium, run) = (&mut self.medium, &mut self.run);
        let put = self.mac.send(node, (frame, class), medium, run);
        if put.taken() {
            self.begin_put();
            self.run.queue.settle();
        }
        put
    }

    /// Nothing happens until `now`, which what is asked from here on refers to.
    #[inline]
    pub fn pass_to(&mut self, now: Time) {
        self.run.now = now;
    }

    /// When something happens next.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Time {
        self.run.queue.next()
    }

    /// Everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turns(now, Time::ZERO);
    }

    /// What is due next, and on until `limit` as long as there is neither an event nor a
    /// transmission to show: [`Radio::poll_timeout`] and [`Radio::handle_timeout`] in turns.
    /// Returns the time of the last turn, and how many there were.
    pub fn run_until(&mut self, limit: Time) -> (Time, u64) {
        let turns = self.turns(self.run.queue.next(), limit);
        (self.run.now, turns)
    }

    /// A turn at `now`, and more until `limit`; how many there were.
    fn turns(&mut self, now: Time, limit: Time) -> u64 {
        let mut turns = 0;
        self.run.now = now;
        loop {
            while let Some((wake, node)) = self.run.queue.pop(self.run.now) {
                let Radio {
                    medium, mac, run, ..
                } = self;
                match wake {
                    Wake::End => self.end(node),
                    Wake::Respond => mac.respond(node, medium, run),
                    Wake::Timeout => mac.timeout(node, medium, run),
                    Wake::Access => mac.granted(node, medium, run),
                    Wake::Interrupt if node >= mac.stations.len() => self.turn(node),
                    Wake::Interrupt => mac.interrupt(node, medium, run),
                }
                self.begin_put();
                self.run.queue.settle();
            }
            turns += 1;
            let quiet = self.run.events.is_empty() && self.run.aired.is_empty();
            let next = self.run.queue.next();
            if !quiet || next > limit || next == Time::NEVER {
                return turns;
            }
            self.run.now = next;
        }
    }

    /// What a MAC wants to transmit begins.
    #[inline]
    fn begin_put(&mut self) {
        if let Some(number) = self.medium.take_put() {
            self.begin(number);
        }
    }

    #[inline(never)]
    fn begin(&mut self, number: u32) {
        let Radio {
            medium, mac, run, ..
        } = self;
        let begun = medium.begin(number, run);
        mac.begun(begun, run);
        let (links, target) = medium.open(number, run.now);
        for (at, link) in links.iter().enumerate() {
            if !link.silent && medium.arrive(link, number, at == target, run) {
                mac.gets_busy(usize::from(link.to), run);
            }
        }
        if mac.reserving {
            let heard = links.iter().filter(|link| !link.silent);
            for to in heard.filter_map(|link| medium.beside(link, number)) {
                mac.undecoded(to, begun.end);
            }
        }
        medium.close(number, links, target);
        run.queue.set_end(begun.node, number, begun.end);
    }

    /// A source that is no 802.11 turns on or off; its number is that of a station after the last.
    #[cold]
    fn turn(&mut self, number: usize) {
        let Radio {
            medium,
            mac,
            run,
            sources,
        } = self;
        let source = &mut sources[number - mac.stations.len()];
        let next = source.turn(run.now);
        if next < Time::NEVER {
            run.queue.set(number, Wake::Interrupt, next);
        }
        for &(node, power) in &source.received {
            let node = usize::from(node);
            let turns = medium.interfere(node, power, source.on, run.now);
            match (turns, source.on) {
                (true, true) => mac.gets_busy(node, run),
                (true, false) => mac.gets_idle(node, run),
                (false, _) => {}
            }
        }
    }

    /// A transmission ends.
    fn end(&mut self, node: usize) {
        let Radio {
            medium, mac, run, ..
        } = self;
        let Some(number) = medium.at(node).sending else {
            return;
        };
        let (signal, links) = medium.end(number);
        for (at, link) in links.iter().enumerate() {
            if link.silent {
                continue;
            }
            let left = medium.leave(link, number, &signal, run);
            if left.followed {
                let who = (link.to, link.rssi_dbm);
                let overheard = mac.received(who, number, &signal, left.right, medium, run);
                medium.count(node, at, overheard, signal.frame);
            }
            if left.idle {
                mac.gets_idle(usize::from(link.to), run);
            }
        }
        let (answered, idle) = medium.finish(number, &signal, links, run);
        mac.sent(node, &signal, answered, medium, run);
        if idle {
            mac.gets_idle(node, run);
        }
    }

    /// What a node has to learn; drain after each call.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.run.events.pop_front()
    }

    /// Facts about a node's link layer.
    pub fn link(&self, node: u16) -> LinkFacts {
        let busy = self.medium.at(usize::from(node)).busy_share(self.run.now);
        self.mac.link(node, busy)
    }

    /// The account of a node.
    pub fn counters(&self, node: u16) -> Counters {
        let t = self.medium.at(usize::from(node));
        let station = &self.mac.stations[usize::from(node)];
        Counters {
            waited: station.driver.waited,
            ring: station.driver.most,
            lost: t.lost,
            airtime: t.airtime,
            busy: t.busy_for(self.run.now),
            ..station.counters
        }
    }

    /// The accounts of the links from a node: receiver, mean SNR in dB, counters.
    pub fn links(&self, node: u16) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        self.medium.links(node)
    }

    /// Change the mean received power of a direction: a node moved, or a link that was cut passes
    /// again. Frames on the air keep the power that they began with.
    pub fn set_gain(&mut self, from: u16, to: u16, mean_dbm: f64) {
        self.medium.set_gain(from, to, mean_dbm);
    }

    /// Let nothing pass in a direction until [`Radio::set_gain`]: what is sent over it is lost to
    /// [`Why::Cut`](crate::trace::Why::Cut). Frames on the air keep the power that they began with.
    pub fn cut(&mut self, from: u16, to: u16) {
        self.medium.cut(from, to);
    }

    /// A node's radio starts anew: packets in its queue and ring are lost (each is reported,
    /// undelivered and without an attempt), and so are its average delay and what it remembers of
    /// its neighbours' frames. A frame in the hardware goes on; drain the events afterwards.
    pub fn restart(&mut self, now: Time, node: u16) {
        self.run.now = now;
        self.mac.restart(node, &mut self.run);
    }

    /// Whether a node reports frames for others ([`Event::Overheard`]).
    pub fn set_promiscuous(&mut self, node: u16, on: bool) {
        self.mac.stations[usize::from(node)].promiscuous = on;
    }

    /// A number that depends on every transmission and its fate so far: equal runs, equal numbers.
    pub fn trace_hash(&self) -> u64 {
        self.run.hash
    }

    /// Keep records of what becomes of each frame from now on; see [`Radio::take_trace`].
    pub fn set_tracing(&mut self, on: bool) {
        self.run.tracing = on;
    }

    /// The records since the last call.
    pub fn take_trace(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.run.trace)
    }

    /// Keep every transmission from now on; see [`Radio::take_aired`].
    pub fn set_watching(&mut self, on: bool) {
        self.run.watching = on;
    }

    /// The transmissions that began since the last call.
    pub fn take_aired(&mut self) -> Vec<OnAir> {
        core::mem::take(&mut self.run.aired)
    }

    /// Mean received power of a transmission from one node at another now, fading included, dBm.
    pub fn power_dbm(&self, from: u16, to: u16) -> Option<f64> {
        self.medium.power_dbm(from, to)
    }
}
