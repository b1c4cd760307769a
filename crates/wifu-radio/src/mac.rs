//! Access to the channel, of all stations: packets from above into the driver's queue, what the
//! medium tells, frames received. The exchanges themselves are in [`crate::dcf`].

use crate::discipline::{PacketClass, Put};
use crate::driver::{Item, Times};
use crate::event::{Event, Frame};
use crate::link::Overheard;
use crate::medium::{Begun, Medium};
use crate::phy::{Mode, OVERHEAD, Phy};
use crate::plan::Plan;
use crate::queue::Wake;
use crate::run::Run;
use crate::signal::Signal;
use crate::station::{Answer, Phase, Spaces, Station};
use crate::trace::{FrameKind, NOBODY, Record, What};
use wifu_wire::{LinkFacts, Rng, Span, Time};

pub(crate) struct Mac {
    pub phy: Phy,
    pub spaces: Spaces,
    pub stations: Vec<Station>,
    /// To some of them undecoded frames are reservations.
    pub reserving: bool,
    /// Packets that came from above; they are numbered by it.
    frames: u32,
}

impl Mac {
    /// The stations of `plan` with nothing to send. Their streams of randomness are split from
    /// `rng`.
    pub fn new(plan: &Plan, rng: &Rng) -> Mac {
        let phy = plan.phy.clone();
        let station = |(i, node): (usize, &crate::plan::NodePlan)| {
            let own = rng.split("node").split_n(i as u64);
            Station::new(&node.radio, &phy, &own)
        };
        let stations: Vec<Station> = plan.nodes.iter().enumerate().map(station).collect();
        Mac {
            spaces: Spaces {
                ifs: [phy.difs, phy.eifs()],
                slot: phy.slot,
            },
            phy,
            reserving: stations.iter().any(|s| s.reserves),
            stations,
            frames: 0,
        }
    }

    /// See [`crate::Radio::send`].
    pub fn send(
        &mut self,
        node: u16,
        (frame, class): (Frame, PacketClass),
        medium: &mut Medium,
        run: &mut Run,
    ) -> Put {
        self.frames += 1;
        let item = Item {
            cookie: frame.cookie,
            to: frame.to.unwrap_or(NOBODY),
            bytes: frame.bytes,
            ect: class.ect,
            first: class.first,
            frame: self.frames,
            queued: run.now,
            enqueued: run.now,
        };
        let station = &mut self.stations[usize::from(node)];
        let put = station.driver.push(run.now, item, class.flow);
        let taken = put.taken();
        let c = &mut station.counters;
        c.queued += u64::from(taken);
        match put {
            Put::Taken => {}
            Put::Marked => c.marked += 1,
            Put::Early => c.early += 1,
            Put::Full => c.refused += 1,
        }
        if run.tracing {
            let what = if taken { What::Queued } else { What::Refused };
            run.record(Record {
                bytes: frame.bytes,
                value: station.driver.waiting(),
                ..run.entry(what, item.frame, node, item.to)
            });
        }
        if taken {
            let managed = station.driver.is_managed();
            self.next_job(usize::from(node), medium, run);
            if managed {
                self.acted(usize::from(node), run);
            }
        }
        put
    }

    /// A station's queueing discipline let packets go: what it did to them.
    #[inline]
    pub fn acted(&mut self, node: usize, run: &mut Run) {
        let acted = &self.stations[node].driver.acted;
        if !acted.marked.is_empty() || !acted.dropped.is_empty() {
            self.tell_acts(node, run);
        }
    }

    #[cold]
    fn tell_acts(&mut self, node: usize, run: &mut Run) {
        let station = &mut self.stations[node];
        let acted = &mut station.driver.acted;
        for cookie in acted.marked.drain(..) {
            station.counters.marked += 1;
            let node = node as u16;
            run.events.push_back(Event::Marked { node, cookie });
        }
        let mode = station.rate;
        for item in acted.dropped.drain(..) {
            station.counters.early += 1;
            run.events.push_back(untried(node as u16, item, mode));
        }
    }

    /// See [`crate::Radio::restart`].
    pub fn restart(&mut self, node: u16, run: &mut Run) {
        let station = &mut self.stations[usize::from(node)];
        let mode = station.rate;
        let (lost, was_full) = station.driver.forget();
        station.seen.clear();
        station.counters.failed += lost.len() as u64;
        for item in lost {
            run.events.push_back(untried(node, item, mode));
        }
        if was_full {
            run.events.push_back(Event::Room { node });
        }
    }

    /// See [`crate::Radio::link`].
    pub fn link(&self, node: u16, busy: f32) -> LinkFacts {
        let s = &self.stations[usize::from(node)];
        LinkFacts {
            delay: s.driver.delay_ns.map(|ns| Span(ns.round() as u64)),
            sample: s.driver.sample,
            first: Some(self.first_delay(s)),
            queued: Some(s.driver.waiting()),
            room: Some(s.driver.room()),
            last_done: s.driver.last_done,
            busy: Some(busy),
            rate: Some(s.rate.rate()),
        }
    }

    /// D0: one cycle of a 1500 B packet without contention (Behaviour 7.4).
    fn first_delay(&self, s: &Station) -> Span {
        let slots = self.phy.slot * (u64::from(self.phy.cw_min) / 2)
            + self.phy.slot * (u64::from(self.phy.cw_min) % 2) / 2;
        let data = self.phy.airtime(s.rate, 1500 + OVERHEAD);
        let answer = s.answer_time[usize::from(s.rate.0)];
        self.phy.difs + slots + data + self.phy.sifs + answer
    }

    /// The medium became busy at a station.
    #[inline]
    pub fn gets_busy(&mut self, node: usize, run: &mut Run) {
        self.stations[node].gets_busy(node, run.now, self.spaces.slot, &mut run.queue);
    }

    /// A frame that a station senses beside the one that it follows will end then.
    pub fn undecoded(&mut self, node: usize, end: Time) {
        let s = &mut self.stations[node];
        if s.reserves {
            s.reserve(end, &self.spaces);
        }
    }

    /// The medium became idle at a station.
    #[inline(always)]
    pub fn gets_idle(&mut self, node: usize, run: &mut Run) {
        self.stations[node].gets_idle(node, run.now, &self.spaces, &mut run.queue);
    }

    /// A station's transmission begins.
    #[inline]
    pub fn begun(&mut self, begun: Begun, run: &mut Run) {
        let s = &mut self.stations[begun.node];
        s.eifs = false;
        if begun.interrupted && core::mem::take(&mut s.late) {
            run.queue.set(begun.node, Wake::Timeout, run.now);
        }
        if begun.busy {
            self.gets_busy(begun.node, run);
        }
    }

    /// A station's receiver followed a frame to its end, and it is `right` or not; `at` is the
    /// station and the power that it reports, dBm.
    // Once per frame and receiver: a call costs more than it does for most.
    #[inline]
    pub fn received(
        &mut self,
        at: (u16, i8),
        number: u32,
        signal: &Signal,
        right: bool,
        medium: &mut Medium,
        run: &mut Run,
    ) -> Overheard {
        let node = usize::from(at.0);
        let s = &mut self.stations[node];
        s.eifs = !right;
        // The one that is the same for all frames first.
        if s.reserves && !right {
            s.reserve(run.now, &self.spaces);
        }
        let mut overheard = Overheard::No;
        if right && signal.to != at.0 && signal.to != NOBODY {
            overheard = not_mine(s, at, signal, run);
        } else if right {
            match signal.kind {
                FrameKind::Data => self.data(at, number, signal, medium, run),
                _ if signal.to == NOBODY => {}
                FrameKind::Rts => self.owe(node, (Answer::Cts, number), signal, medium, run),
                FrameKind::Cts => self.cleared(node, signal, run),
                FrameKind::Ack => self.acknowledged(node, medium, run),
            }
        }
        let s = &self.stations[node];
        if s.late && matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts) {
            self.failed(node, medium, run);
        }
        overheard
    }

    /// A data frame for this station, or for all.
    fn data(
        &mut self,
        (me, rssi_dbm): (u16, i8),
        number: u32,
        signal: &Signal,
        medium: &mut Medium,
        run: &mut Run,
    ) {
        let node = usize::from(me);
        let (from, cookie, mode) = (signal.from, signal.cookie, signal.mode);
        let broadcast = signal.to == NOBODY;
        if !broadcast {
            self.owe(node, (Answer::Ack, number), signal, medium, run);
            let s = &mut self.stations[node];
            if s.duplicate(from, signal.seq, signal.retry) {
                s.counters.duplicates += 1;
                if run.tracing {
                    run.record(run.entry(What::Duplicate, signal.frame, me, from));
                }
                return;
            }
        }
        self.stations[node].counters.received += 1;
        run.events.push_back(Event::Received {
            node: me,
            from,
            cookie,
            rssi_dbm,
            mode,
            broadcast,
            retry: signal.retry,
            seq: signal.seq,
        });
    }
}

/// A frame for another station was decoded: the medium is reserved, and data is overheard.
#[inline]
fn not_mine(
    s: &mut Station,
    (me, rssi_dbm): (u16, i8),
    signal: &Signal,
    run: &mut Run,
) -> Overheard {
    let until = run.now + signal.duration;
    s.nav = s.nav.max(until);
    if signal.kind != FrameKind::Data {
        return Overheard::No;
    }
    s.counters.overheard += 1;
    if s.overhear_loss > 0.0 && s.overhear_rng.unit() < s.overhear_loss {
        return Overheard::Missed;
    }
    if s.promiscuous {
        run.events.push_back(Event::Overheard {
            node: me,
            from: signal.from,
            to: signal.to,
            cookie: signal.cookie,
            rssi_dbm,
            mode: signal.mode,
            retry: signal.retry,
            seq: signal.seq,
        });
    }
    Overheard::Captured
}

/// The report of a packet that never reached the hardware.
fn untried(node: u16, item: Item, mode: Mode) -> Event {
    Event::Done {
        node,
        to: (item.to != NOBODY).then_some(item.to),
        cookie: item.cookie,
        delivered: false,
        tries: 0,
        mode,
        seq: 0,
        sample: Span::ZERO,
        times: Times::default(),
    }
}
