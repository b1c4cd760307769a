//! The medium: what is on the air, who hears it at what power, which frame a receiver follows, and
//! whether it survives.
//!
//! It knows nothing of channel access. A MAC hands it frames ([`Medium::put`]), and whoever drives
//! both carries to the MACs what comes of them: carrier sense turning busy or idle
//! ([`Medium::begin`], [`Medium::arrive`], [`Left::idle`]) and the end of a reception
//! ([`Left::followed`]).

use crate::counters::LinkCounters;
use crate::error::ErrorTable;
use crate::fate::weigh;
use crate::link::{Link, link_to, place_of};
use crate::phy::{Mode, Phy};
use crate::plan::{Gain, Plan, Variation};
use crate::power::Power;
use crate::run::Run;
use crate::signal::Signal;
use crate::trace::{FrameKind, NOBODY, Record, What, Why};
use crate::transceiver::{Heard, Transceiver};
use wifu_wire::{Rng, Time};

/// What a transmission that begins does to its own station.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    pub node: usize,
    /// When it ends.
    pub end: Time,
    /// It followed a frame, which is lost.
    pub interrupted: bool,
    /// Carrier sense turns busy.
    pub busy: bool,
}

/// What a signal that ends does to a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// The receiver followed it to its end.
    pub followed: bool,
    /// ... and decoded it.
    pub right: bool,
    /// Carrier sense turns idle.
    pub idle: bool,
}

pub(crate) struct Medium {
    phy: Phy,
    /// Mode of the PLCP header by mode of the frame.
    header: [Mode; 12],
    tables: Vec<ErrorTable>,
    transceivers: Vec<Transceiver>,
    /// By transmitter, in order of receivers.
    links: Vec<Vec<Link>>,
    variation: Variation,
    /// Transmissions by number; the numbers of those that are over.
    signals: Vec<Signal>,
    free: Vec<u32>,
    /// Handed over, not begun.
    put: Option<u32>,
}

impl Medium {
    /// The transceivers of `plan` in silence. Their streams of randomness are split from `rng`.
    pub fn new(plan: &Plan, rng: &Rng) -> Medium {
        let mut models = Vec::new();
        let mut transceivers = Vec::with_capacity(plan.nodes.len());
        for (i, node) in plan.nodes.iter().enumerate() {
            let known = models.iter().position(|m| *m == node.radio.error);
            let table = known.unwrap_or_else(|| {
                models.push(node.radio.error);
                models.len() - 1
            });
            let own = rng.split("node").split_n(i as u64);
            transceivers.push(Transceiver::new(&node.radio, table as u8, &own));
        }
        let tables = models
            .iter()
            .map(|m| ErrorTable::for_modes(m, plan.phy.modes()));
        let mut medium = Medium {
            header: Mode::ALL.map(|m| plan.phy.header(m)),
            phy: plan.phy.clone(),
            tables: tables.collect(),
            transceivers,
            links: Vec::new(),
            variation: plan.variation.clone(),
            signals: Vec::with_capacity(64),
            free: Vec::new(),
            put: None,
        };
        for row in &plan.gains {
            let row = row.iter().map(|g| medium.new_link(g));
            let row = row.collect();
            medium.links.push(row);
        }
        medium
    }

    fn new_link(&self, gain: &Gain) -> Link {
        let receiver = &self.transceivers[usize::from(gain.to)];
        Link::new(gain, receiver.noise, receiver.least())
    }

    /// See [`crate::Radio::set_gain`].
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

    /// See [`crate::Radio::links`].
    pub fn links(&self, node: u16) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        self.links[usize::from(node)].iter().map(|l| {
            let noise = self.transceivers[usize::from(l.to)].noise.dbm();
            (l.to, l.mean_dbm - noise, &l.counters)
        })
    }

    /// See [`crate::Radio::power_dbm`].
    pub fn power_dbm(&self, from: u16, to: u16) -> Option<f64> {
        let row = &self.links[usize::from(from)];
        let at = row.binary_search_by_key(&to, |l| l.to).ok()?;
        Some(row[at].power.dbm())
    }

    /// What a station senses and counts.
    pub fn at(&self, node: usize) -> &Transceiver {
        &self.transceivers[node]
    }

    /// The account of the link from one node to another to which it sends.
    pub fn account(&mut self, node: usize, to: u16) -> Option<&mut LinkCounters> {
        let hint = self.transceivers[node].target;
        link_to(&mut self.links[node], to, hint).map(|link| &mut link.counters)
    }

    /// A station is to transmit this at once.
    // Inline, so that the frame is written where it stays.
    #[inline(always)]
    pub fn put(&mut self, node: usize, signal: Signal) {
        let number = match self.free.pop() {
            Some(n) => n,
            None => {
                self.signals.push(Signal::nobody());
                (self.signals.len() - 1) as u32
            }
        };
        let place = &mut self.signals[number as usize];
        *place = signal;
        place.from = node as u16;
        debug_assert!(self.put.is_none(), "one station at a time begins");
        self.put = Some(number);
    }

    /// What was put and has to begin now.
    #[inline]
    pub fn take_put(&mut self) -> Option<u32> {
        self.put.take()
    }

    /// The receiver of a frame will answer it.
    pub fn will_answer(&mut self, number: u32) {
        self.signals[number as usize].answered = true;
    }

    /// A transmission begins, as far as its own station is concerned.
    #[inline]
    pub fn begin(&mut self, number: u32, run: &mut Run) -> Begun {
        let now = run.now;
        let signal = &mut self.signals[number as usize];
        let (mode, node) = (signal.mode, usize::from(signal.from));
        let length = self.phy.airtime(mode, signal.bytes);
        signal.start = now;
        signal.preamble_end = now + self.phy.preamble(mode);
        signal.plcp_end = now + self.phy.plcp(mode);
        signal.end = now + length;
        let end = signal.end;
        run.note(node as u64, u64::from(signal.to) << 8 | signal.kind as u64);
        if run.watching || run.tracing {
            run.show(signal);
        }
        let t = &mut self.transceivers[node];
        t.airtime = t.airtime + length;
        t.sending = Some(number);
        let lock = t.lock.take();
        let busy = t.turns_busy(now);
        if let Some(lock) = lock {
            self.missed(node, lock.signal, Why::Transmitting, node as u16, run);
        }
        Begun {
            node,
            end,
            interrupted: lock.is_some(),
            busy,
        }
    }

    /// The links by which a transmission that begins is heard, to be given to [`Medium::arrive`]
    /// one by one and then back; and which of them leads to the one for whom it is.
    #[inline]
    pub fn open(&mut self, number: u32) -> (Vec<Link>, usize) {
        let Signal { from, to, .. } = self.signals[number as usize];
        let from = usize::from(from);
        let row = core::mem::take(&mut self.links[from]);
        let target = place_of(&row, to, self.transceivers[from].target);
        (row, target)
    }

    /// See [`Medium::open`].
    #[inline]
    pub fn close(&mut self, number: u32, row: Vec<Link>, target: usize) {
        let signal = &mut self.signals[number as usize];
        let reached = row.get(target).is_some_and(|link| !link.silent);
        if !reached && signal.to != NOBODY {
            signal.miss = Why::Weak;
        }
        let from = usize::from(signal.from);
        self.links[from] = row;
        self.transceivers[from].target = target;
    }

    /// A signal reaches a receiver; it is `mine` if it is for that one. Says whether carrier sense
    /// turns busy.
    #[inline]
    pub fn arrive(&mut self, link: &Link, number: u32, mine: bool, run: &mut Run) -> bool {
        let (node, power, now) = (usize::from(link.to), link.power, run.now);
        let t = &mut self.transceivers[node];
        let silence = t.total == Power::ZERO;
        t.total += power;
        let detected = t.detects(power);
        if detected {
            t.heard.push(Heard {
                signal: number,
                power,
            });
        }
        if t.lock.is_some() {
            self.arrive_beside(node, number, power, mine, run);
            // It follows, so the medium was and is busy.
            return false;
        }
        // Why it is not followed, if it is not.
        let (mut why, mut other) = (Why::Weak, NOBODY);
        if t.sending.is_some() {
            if detected {
                (why, other) = (Why::Transmitting, link.to);
            }
        } else if detected && (silence && link.clear || !silence && t.stands_out(power)) {
            t.follow(&self.signals, number, power, now);
            why = Why::None;
        } else if mine && detected {
            other = t.drowner(&self.signals, number, power);
        }
        if mine {
            let signal = &mut self.signals[number as usize];
            (signal.miss, signal.miss_other) = (why, other);
        }
        t.turns_busy(now)
    }

    /// A signal reaches a receiver that follows another one.
    #[inline(never)]
    fn arrive_beside(&mut self, node: usize, number: u32, power: Power, mine: bool, run: &mut Run) {
        let now = run.now;
        let signals = &mut self.signals;
        let t = &mut self.transceivers[node];
        let Some(lock) = &t.lock else { return };
        let old = lock.signal;
        let followed = &signals[old as usize];
        if t.switches(power, lock.power, now < followed.preamble_end) {
            t.follow(signals, number, power, now);
            let by = signals[number as usize].from;
            self.missed(node, old, Why::Captured, by, run);
            return;
        }
        let detected = t.detects(power);
        let interference = t.noise + t.total - lock.power;
        let Some(lock) = &mut t.lock else { return };
        let table = &self.tables[usize::from(t.table)];
        weigh(lock, followed, table, &self.header, now);
        lock.interference = interference;
        if power > lock.worst_power {
            (lock.worst, lock.worst_power) = (signals[number as usize].from, power);
        }
        let followed = followed.from;
        if mine {
            let signal = &mut signals[number as usize];
            (signal.miss, signal.miss_other) = match detected {
                true => (Why::Locked, followed),
                false => (Why::Weak, NOBODY),
            };
        }
    }

    /// Remember why the one for whom a signal is does not listen to it.
    fn missed(&mut self, node: usize, number: u32, why: Why, other: u16, run: &mut Run) {
        let signal = &mut self.signals[number as usize];
        if usize::from(signal.to) == node {
            (signal.miss, signal.miss_other) = (why, other);
        }
        if why == Why::Captured && run.tracing {
            run.record(Record {
                other,
                mode: signal.mode.0,
                kind: signal.kind,
                ..run.entry(What::Captured, signal.frame, node as u16, signal.from)
            });
        }
    }

    /// A station's transmission ends: what it was, and the links by which it was heard, to be given
    /// to [`Medium::leave`] one by one and then to [`Medium::finish`].
    #[inline]
    pub fn end(&mut self, node: usize) -> Option<(u32, Signal, Vec<Link>)> {
        let number = self.transceivers[node].sending?;
        let signal = self.signals[number as usize].clone();
        Some((number, signal, core::mem::take(&mut self.links[node])))
    }

    /// A signal ends at a receiver.
    #[inline]
    pub fn leave(&mut self, link: &Link, number: u32, signal: &Signal, run: &mut Run) -> Left {
        let (node, now) = (usize::from(link.to), run.now);
        let t = &mut self.transceivers[node];
        t.fades(number, link.power);
        let mut left = Left {
            followed: false,
            right: false,
            idle: false,
        };
        if let Some(lock) = &mut t.lock {
            let table = &self.tables[usize::from(t.table)];
            if lock.signal != number {
                let followed = &self.signals[lock.signal as usize];
                weigh(lock, followed, table, &self.header, now);
                lock.interference = t.noise + t.total - lock.power;
                return left;
            }
            let lock = *lock;
            let (right, worst) = t.ends(lock, signal, (table, &self.header), now);
            (left.followed, left.right) = (true, right);
            if right {
                self.decoded(link, number, signal, run);
            } else {
                let why = match worst {
                    NOBODY => Why::Noise,
                    _ => Why::Collision,
                };
                self.missed(node, number, why, worst, run);
            }
        }
        self.catch_up(node, now);
        left.idle = self.transceivers[node].turns_idle(now);
        left
    }

    /// A frame was decoded.
    #[inline]
    fn decoded(&mut self, link: &Link, number: u32, signal: &Signal, run: &mut Run) {
        let mine = signal.to == link.to;
        if mine {
            self.signals[number as usize].miss = Why::None;
        }
        if run.tracing && (mine || signal.to == NOBODY) {
            run.record(Record {
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                signal: (link.power.dbm() * 100.0) as i16,
                kind: signal.kind,
                flags: u8::from(signal.retry),
                ..run.entry(What::Received, signal.frame, link.to, signal.from)
            });
        }
    }

    /// A transmission has left all receivers. Says whether it will be answered, and whether carrier
    /// sense turns idle at its own station.
    #[inline]
    pub fn finish(
        &mut self,
        number: u32,
        signal: &Signal,
        mut row: Vec<Link>,
        run: &mut Run,
    ) -> (bool, bool) {
        let node = usize::from(signal.from);
        self.free.push(number);
        self.transceivers[node].sending = None;
        self.count_loss(number, signal, &mut row, run);
        self.links[node] = row;
        self.catch_up(node, run.now);
        let idle = self.transceivers[node].turns_idle(run.now);
        (self.signals[number as usize].answered, idle)
    }

    /// An idle receiver follows the strongest signal whose preamble still lasts.
    #[inline]
    fn catch_up(&mut self, node: usize, now: Time) {
        let t = &self.transceivers[node];
        if !t.heard.is_empty() && t.lock.is_none() && t.sending.is_none() {
            self.look_around(node, now);
        }
    }

    #[inline(never)]
    fn look_around(&mut self, node: usize, now: Time) {
        let t = &mut self.transceivers[node];
        let signals = &self.signals;
        let fresh = |h: &&Heard| signals[h.signal as usize].preamble_end > now;
        let best = t.heard.iter().filter(fresh).max_by_key(|h| h.power);
        let Some(&best) = best else { return };
        if t.stands_out(best.power) {
            t.follow(&self.signals, best.signal, best.power, now);
            let signal = &mut self.signals[best.signal as usize];
            if usize::from(signal.to) == node {
                signal.miss = Why::None;
            }
        }
    }

    /// Whether a data frame reached the one for whom it is.
    fn count_loss(&mut self, number: u32, signal: &Signal, row: &mut [Link], run: &mut Run) {
        if signal.kind != FrameKind::Data || signal.to == NOBODY {
            return;
        }
        let fate = &self.signals[number as usize];
        let (miss, other) = (fate.miss, fate.miss_other);
        run.note(u64::from(signal.to), miss as u64);
        let lost = miss != Why::None;
        let hint = self.transceivers[usize::from(signal.from)].target;
        if let Some(link) = link_to(row, signal.to, hint) {
            link.counters.attempts += 1;
            link.counters.decoded += u64::from(!lost);
        }
        if !lost {
            return;
        }
        self.transceivers[usize::from(signal.to)].lost[miss as usize] += 1;
        if run.tracing {
            run.record(Record {
                why: miss,
                other,
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                flags: u8::from(signal.retry),
                ..run.entry(What::Lost, signal.frame, signal.to, signal.from)
            });
        }
    }
}
