//! The model as a whole: what its owner calls, and what it answers.

use crate::counters::{Counters, LinkCounters};
use crate::dcf::Spaces;
use crate::driver::{Item, Times};
use crate::error::ErrorTable;
use crate::fading::{Fading, STEP};
use crate::phy::{ACK, CTS, Mode, Phy};
use crate::plan::{Plan, Variation};
use crate::power::Power;
use crate::queue::{Queue, Wake};
use crate::station::{Signal, Station};
use crate::trace::{FrameKind, NOBODY, Record, What, Why};
use std::collections::VecDeque;
use wifu_wire::{Rate, Rng, Span, Time};

/// A packet for the radio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The neighbour; `None`: all that hear it.
    pub to: Option<u16>,
    /// Length of the IP packet, octets.
    pub bytes: u16,
    /// The owner's handle of it: in use until [`Event::Done`].
    pub cookie: u32,
}

/// What a node has to learn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Event {
    /// A packet arrived; copies were filtered out.
    Received {
        /// Where.
        node: u16,
        /// Who transmitted it.
        from: u16,
        /// The packet.
        cookie: u32,
        /// Received power, dBm.
        rssi_dbm: i8,
        /// Rate of the frame.
        mode: Mode,
        /// It was for all.
        broadcast: bool,
        /// It is a repetition.
        retry: bool,
        /// Its sequence number.
        seq: u16,
    },
    /// A promiscuous node decoded a data frame that is not for it.
    Overheard {
        /// Where.
        node: u16,
        /// Who transmitted it.
        from: u16,
        /// Whom it is for.
        to: u16,
        /// The packet.
        cookie: u32,
        /// Received power, dBm.
        rssi_dbm: i8,
        /// Rate of the frame.
        mode: Mode,
        /// It is a repetition.
        retry: bool,
        /// Its sequence number.
        seq: u16,
    },
    /// The driver reports that a packet is finished; the owner may reuse the cookie.
    Done {
        /// Where.
        node: u16,
        /// The neighbour, or `None` for all.
        to: Option<u16>,
        /// The packet.
        cookie: u32,
        /// It was acknowledged, or was for all.
        delivered: bool,
        /// Attempts.
        tries: u8,
        /// Rate of the last attempt.
        mode: Mode,
        /// Its sequence number.
        seq: u16,
        /// What the driver measured: from entering the ring to this report.
        sample: Span,
        /// Where its time went.
        times: Times,
    },
    /// The queue was full and takes packets again.
    Room {
        /// Where.
        node: u16,
    },
}

/// A transmission, for whoever draws or records the air.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnAir {
    /// When it began.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// Who transmits.
    pub from: u16,
    /// Whom it is for; `None`: all.
    pub to: Option<u16>,
    /// Kind of frame.
    pub kind: FrameKind,
    /// Rate.
    pub mode: Mode,
    /// It is a repetition.
    pub retry: bool,
    /// Sequence number (data only).
    pub seq: u16,
    /// Length of the MPDU, octets.
    pub bytes: u32,
    /// The Duration field.
    pub duration: Span,
    /// The packet (data only).
    pub cookie: u32,
}

/// Facts about a node's link layer, as a driver could export them (Behaviour 7).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkFacts {
    /// Average queueing plus transmission delay; `None` before the first sample.
    pub delay: Option<Span>,
    /// The last sample.
    pub sample: Span,
    /// What to assume before the first sample: D0 of Behaviour 7.4.
    pub first: Span,
    /// Packets not yet reported.
    pub queued: u32,
    /// Packets that the queue takes now.
    pub room: u32,
    /// When the driver last reported.
    pub last_done: Time,
    /// Share of the last tenth of a second during which the medium was busy.
    pub busy: f32,
    /// Rate of unicast data.
    pub rate: Rate,
}

/// One direction between two stations.
pub(crate) struct Link {
    pub to: u16,
    pub power: Power,
    /// The same as a radio reports it.
    pub rssi_dbm: i8,
    /// Too weak to matter.
    pub silent: bool,
    /// Without anything beside it, the receiver locks on it.
    pub clear: bool,
    /// What that takes: the receiver's noise times the ratio that it needs.
    pub lock: f64,
    pub mean_dbm: f64,
    pub sigma_db: f64,
    pub floor_dbm: f64,
    /// When the power has to be computed anew, and up to when fading was followed.
    pub next: Time,
    pub renewed: Time,
    pub fading: Option<Fading>,
    pub counters: LinkCounters,
    /// Number of the last frame of which an attempt was overheard.
    pub overheard: u32,
}

impl Link {
    /// The power of the next transmission: fading moved on, or the mean was changed.
    #[cold]
    pub fn renew(&mut self, now: Time) {
        let mut z = 0.0;
        if let Some(fading) = &mut self.fading {
            while self.renewed + STEP <= now {
                self.renewed += STEP;
                fading.step();
            }
            self.next = self.renewed + STEP;
            z = fading.value();
        } else {
            self.next = Time::NEVER;
        }
        self.power = Power::from_dbm(self.mean_dbm + z);
        self.rssi_dbm = self.power.whole_dbm();
        self.clear = self.power.float() >= self.lock;
        self.silent = self.mean_dbm + 4.0 * self.sigma_db < self.floor_dbm;
    }
}

/// Received power below which a signal is left out of account, under the receiver's noise, dB.
const FLOOR_DB: f64 = 20.0;

/// Durations that depend on the mode alone.
#[derive(Clone, Copy, Default)]
pub(crate) struct Timing {
    /// Of an ACK or CTS that answers a frame of this mode.
    pub ack: Span,
}

/// All radios of a channel.
///
/// The owner calls [`Radio::send`] and, at [`Radio::poll_timeout`], [`Radio::handle_timeout`];
/// after each of these it drains [`Radio::poll_event`]. Time must not go backwards. Propagation
/// takes no time.
pub struct Radio {
    pub(crate) now: Time,
    pub(crate) phy: Phy,
    pub(crate) spaces: Spaces,
    /// Mode of the PLCP header by mode of the frame.
    pub(crate) header: [Mode; 12],
    pub(crate) timing: Vec<[Timing; 12]>,
    pub(crate) stations: Vec<Station>,
    pub(crate) links: Vec<Vec<Link>>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) free: Vec<u32>,
    pub(crate) tables: Vec<ErrorTable>,
    pub(crate) queue: Queue,
    variation: Variation,
    pub(crate) events: VecDeque<Event>,
    pub(crate) frames: u32,
    pub(crate) hash: u64,
    pub(crate) tracing: bool,
    pub(crate) trace: Vec<Record>,
    pub(crate) watching: bool,
    pub(crate) aired: Vec<OnAir>,
}

impl Radio {
    /// The stations of `plan`, silent. Streams of randomness are split from `rng` by purpose and
    /// node.
    pub fn new(plan: &Plan, rng: &Rng) -> Radio {
        let phy = plan.phy.clone();
        let mut models = Vec::new();
        let mut stations = Vec::with_capacity(plan.nodes.len());
        let mut timing = Vec::with_capacity(plan.nodes.len());
        for (i, node) in plan.nodes.iter().enumerate() {
            let known = models.iter().position(|m| *m == node.radio.error);
            let table = known.unwrap_or_else(|| {
                models.push(node.radio.error);
                models.len() - 1
            });
            let mut control = [phy.base(); 12];
            let mut times = [Timing::default(); 12];
            for &mode in phy.modes() {
                let answer = phy.control(mode, &node.radio.control_rates);
                control[usize::from(mode.0)] = answer;
                times[usize::from(mode.0)] = Timing {
                    ack: phy.airtime(answer, ACK),
                };
            }
            let own = rng.split("node").split_n(i as u64);
            let cw = (phy.cw_min, phy.cw_max);
            stations.push(Station::new(node, cw, control, table as u8, &own));
            timing.push(times);
        }
        let mut radio = Radio {
            now: Time::ZERO,
            spaces: Spaces {
                ifs: [phy.difs, phy.eifs()],
                slot: phy.slot,
            },
            header: Mode::ALL.map(|m| phy.header(m)),
            phy,
            timing,
            stations,
            links: Vec::new(),
            signals: Vec::with_capacity(64),
            free: Vec::new(),
            tables: models
                .iter()
                .map(|m| ErrorTable::for_modes(m, plan.phy.modes()))
                .collect(),
            queue: Queue::new(plan.nodes.len(), rng),
            variation: plan.variation.clone(),
            events: VecDeque::with_capacity(256),
            frames: 0,
            hash: 0xCBF2_9CE4_8422_2325,
            tracing: false,
            trace: Vec::new(),
            watching: false,
            aired: Vec::new(),
        };
        for row in &plan.gains {
            let row = row.iter().map(|g| radio.new_link(g));
            let row = row.collect();
            radio.links.push(row);
        }
        radio
    }

    fn new_link(&self, gain: &crate::plan::Gain) -> Link {
        let fading = (gain.sigma_db > 0.0).then(|| Fading::new(gain.sigma_db, gain.tau, &gain.rng));
        let receiver = &self.stations[usize::from(gain.to)];
        let noise = receiver.noise;
        let mut link = Link {
            to: gain.to,
            power: Power::ZERO,
            rssi_dbm: i8::MIN,
            silent: false,
            clear: false,
            lock: receiver.lock_ratio * noise.float(),
            mean_dbm: gain.mean_dbm,
            sigma_db: gain.sigma_db,
            floor_dbm: noise.dbm() - FLOOR_DB,
            next: Time::NEVER,
            renewed: Time::ZERO,
            fading,
            counters: LinkCounters::default(),
            overheard: 0,
        };
        link.renew(Time::ZERO);
        link
    }

    /// Packets that the node's queue takes now.
    pub fn room(&self, node: u16) -> u32 {
        self.stations[usize::from(node)].driver.room()
    }

    /// Packets that entered the node's queue and were not yet reported.
    pub fn waiting(&self, node: u16) -> u32 {
        self.stations[usize::from(node)].driver.waiting()
    }

    /// Put a packet into the node's queue. False: the queue is full, the packet is the caller's.
    pub fn send(&mut self, now: Time, node: u16, frame: Frame) -> bool {
        self.now = now;
        self.frames += 1;
        let item = Item {
            cookie: frame.cookie,
            to: frame.to.unwrap_or(NOBODY),
            bytes: frame.bytes,
            frame: self.frames,
            queued: now,
            enqueued: now,
        };
        let station = &mut self.stations[usize::from(node)];
        let taken = station.driver.push(now, item);
        if taken {
            station.counters.queued += 1;
        } else {
            station.counters.refused += 1;
        }
        let waiting = station.driver.waiting();
        if self.tracing {
            let what = if taken { What::Queued } else { What::Refused };
            let bytes = frame.bytes;
            self.record(Record {
                bytes,
                value: waiting,
                ..self.entry(what, item.frame, node, item.to)
            });
        }
        if taken {
            self.next_job(usize::from(node));
            self.queue.settle();
        }
        taken
    }

    /// Nothing happens until `now`, which what is asked from here on refers to.
    #[inline]
    pub fn pass_to(&mut self, now: Time) {
        self.now = now;
    }

    /// When something happens next.
    #[must_use]
    #[inline]
    pub fn poll_timeout(&self) -> Time {
        self.queue.next()
    }

    /// Everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.turns(now, Time::ZERO);
    }

    /// What is due next, and on until `limit` as long as there is neither an event nor a
    /// transmission to show: [`Radio::poll_timeout`] and [`Radio::handle_timeout`] in turns.
    /// Returns the time of the last turn, and how many there were.
    pub fn run_until(&mut self, limit: Time) -> (Time, u64) {
        let turns = self.turns(self.queue.next(), limit);
        (self.now, turns)
    }

    /// A turn at `now`, and more until `limit`; how many there were.
    fn turns(&mut self, now: Time, limit: Time) -> u64 {
        let mut turns = 0;
        self.now = now;
        loop {
            while let Some((wake, node)) = self.queue.pop(self.now) {
                match wake {
                    Wake::End => self.end(node),
                    Wake::Respond => self.respond(node),
                    Wake::Timeout => self.timeout(node),
                    Wake::Access => self.granted(node),
                    Wake::Interrupt => self.interrupt(node),
                }
                self.queue.settle();
            }
            turns += 1;
            let quiet = self.events.is_empty() && self.aired.is_empty();
            let next = self.queue.next();
            if !quiet || next > limit || next == Time::NEVER {
                return turns;
            }
            self.now = next;
        }
    }

    /// What a node has to learn; drain after each call.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Facts about a node's link layer.
    pub fn link(&self, node: u16) -> LinkFacts {
        let (i, s) = (usize::from(node), &self.stations[usize::from(node)]);
        let busy = self.counters(node).busy;
        LinkFacts {
            delay: s.driver.delay_ns.map(|ns| Span(ns.round() as u64)),
            sample: s.driver.sample,
            first: self.first_delay(i),
            queued: s.driver.waiting(),
            room: s.driver.room(),
            last_done: s.driver.last_done,
            busy: s.driver.meter.share(self.now, busy),
            rate: s.rate.rate(),
        }
    }

    /// D0: one cycle of a 1500 B packet without contention (Behaviour 7.4).
    fn first_delay(&self, node: usize) -> Span {
        let mode = self.stations[node].rate;
        let slots = self.phy.slot * (u64::from(self.phy.cw_min) / 2)
            + self.phy.slot * (u64::from(self.phy.cw_min) % 2) / 2;
        let data = self.phy.airtime(mode, 1500 + crate::phy::OVERHEAD);
        self.phy.difs + slots + data + self.phy.sifs + self.timing[node][usize::from(mode.0)].ack
    }

    /// The account of a node.
    pub fn counters(&self, node: u16) -> Counters {
        let s = &self.stations[usize::from(node)];
        let mut c = s.counters;
        if s.busy {
            c.busy = c.busy + (self.now - s.busy_since);
        }
        c
    }

    /// The accounts of the links from a node: receiver, mean SNR in dB, counters.
    pub fn links(&self, node: u16) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        self.links[usize::from(node)].iter().map(|l| {
            let noise = self.stations[usize::from(l.to)].noise.dbm();
            (l.to, l.mean_dbm - noise, &l.counters)
        })
    }

    /// Change the mean received power of a direction (a node moved, a link was cut: minus
    /// infinity). Frames on the air keep the power that they began with.
    pub fn set_gain(&mut self, from: u16, to: u16, mean_dbm: f64) {
        let row = usize::from(from);
        let at = match self.links[row].binary_search_by_key(&to, |l| l.to) {
            Ok(at) => at,
            Err(at) => {
                let gain = self.variation.gain(from, to, mean_dbm);
                // Its power counts from the next transmission on, as for links that were there.
                let mut link = self.new_link(&gain);
                (link.power, link.silent) = (Power::ZERO, true);
                self.links[row].insert(at, link);
                at
            }
        };
        let link = &mut self.links[row][at];
        link.mean_dbm = mean_dbm;
        link.next = Time::ZERO;
    }

    /// A node's radio starts anew: packets in its queue and ring are lost (each is reported,
    /// undelivered and without an attempt), and so are its average delay and what it remembers of
    /// its neighbours' frames. A frame in the hardware goes on; drain the events afterwards.
    pub fn restart(&mut self, now: Time, node: u16) {
        self.now = now;
        let station = &mut self.stations[usize::from(node)];
        let mode = station.rate;
        let (lost, was_full) = station.driver.forget();
        station.seen.clear();
        station.counters.failed += lost.len() as u64;
        for item in lost {
            self.events.push_back(Event::Done {
                node,
                to: (item.to != NOBODY).then_some(item.to),
                cookie: item.cookie,
                delivered: false,
                tries: 0,
                mode,
                seq: 0,
                sample: Span::ZERO,
                times: Times::default(),
            });
        }
        if was_full {
            self.events.push_back(Event::Room { node });
        }
    }

    /// Whether a node reports frames for others ([`Event::Overheard`]).
    pub fn set_promiscuous(&mut self, node: u16, on: bool) {
        self.stations[usize::from(node)].promiscuous = on;
    }

    /// A number that depends on every transmission and its fate so far: equal runs, equal numbers.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Keep records of what becomes of each frame from now on; see [`Radio::take_trace`].
    pub fn set_tracing(&mut self, on: bool) {
        self.tracing = on;
    }

    /// The records since the last call.
    pub fn take_trace(&mut self) -> Vec<Record> {
        core::mem::take(&mut self.trace)
    }

    /// Keep every transmission from now on; see [`Radio::take_aired`].
    pub fn set_watching(&mut self, on: bool) {
        self.watching = on;
    }

    /// The transmissions that began since the last call.
    pub fn take_aired(&mut self) -> Vec<OnAir> {
        core::mem::take(&mut self.aired)
    }

    /// Mean received power of a transmission from one node at another now, fading included, dBm.
    pub fn power_dbm(&self, from: u16, to: u16) -> Option<f64> {
        let row = &self.links[usize::from(from)];
        let at = row.binary_search_by_key(&to, |l| l.to).ok()?;
        Some(row[at].power.dbm())
    }

    pub(crate) fn note(&mut self, a: u64, b: u64) {
        let x = self.now.0 ^ a.rotate_left(48) ^ b.rotate_left(24);
        self.hash = (self.hash ^ x).wrapping_mul(0x0000_0100_0000_01B3);
    }

    pub(crate) fn entry(&self, what: What, frame: u32, node: u16, peer: u16) -> Record {
        Record {
            time: self.now,
            frame,
            node,
            peer,
            what,
            mode: 0,
            tries: 0,
            why: Why::None,
            bytes: 0,
            signal: 0,
            other: NOBODY,
            kind: FrameKind::Data,
            flags: 0,
            value: 0,
        }
    }

    // Only who asked for a trace pays: what fills the record stays out of the way, too.
    #[cold]
    pub(crate) fn record(&mut self, record: Record) {
        self.trace.push(record);
    }

    /// Airtime of a control frame that answers `mode` at `node`.
    pub(crate) fn answer_time(&self, node: usize, mode: Mode) -> Span {
        self.timing[node][usize::from(mode.0)].ack
    }
}

/// The link to a station among those of another; it may well be the one at `hint`.
pub(crate) fn link_to(row: &mut [Link], to: u16, hint: usize) -> Option<&mut Link> {
    row.get_mut(place_of(row, to, hint))
}

/// Where in a row the link to a station is; past its end if there is none.
pub(crate) fn place_of(row: &[Link], to: u16, hint: usize) -> usize {
    match row.get(hint) {
        Some(link) if link.to == to => hint,
        _ => row
            .binary_search_by_key(&to, |l| l.to)
            .unwrap_or(usize::MAX),
    }
}

const _: () = assert!(ACK == CTS);
