//! The medium: what is on the air, who hears it at what power, which frame a receiver follows, and
//! whether it survives.
//!
//! It knows nothing of channel access. A MAC hands it frames ([`Medium::put`]), and whoever drives
//! both carries to the MACs what comes of them: carrier sense turning busy or idle
//! ([`Medium::begin`], [`Medium::arrive`], [`Left::idle`]) and the end of a reception
//! ([`Left::followed`]).

use crate::contention::Contention;
use crate::counters::LinkCounters;
use crate::error::ErrorTable;
use crate::fate::weigh;
use crate::link::{Link, Overheard, Row};
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

/// A signal with less than this share of the noise adds less than 1 dB to it: what is lost beside
/// it is lost to noise.
const FAINT: f64 = 0.25;
/// With less it does not reach a receiver at all.
const UNHEARD: f64 = 0.01;

pub(crate) struct Medium {
    phy: Phy,
    /// Mode of the PLCP header by mode of the frame.
    header: [Mode; 12],
    tables: Vec<ErrorTable>,
    transceivers: Vec<Transceiver>,
    /// By transmitter.
    rows: Vec<Row>,
    variation: Variation,
    /// Transmissions by number; the numbers of those that are over.
    signals: Vec<Signal>,
    free: Vec<u32>,
    /// Handed over, not begun.
    put: Option<u32>,
    /// Of who contended when, while frames are recorded.
    contention: Contention,
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
            rows: Vec::new(),
            variation: plan.variation.clone(),
            signals: Vec::with_capacity(64),
            free: Vec::new(),
            put: None,
            contention: Contention::default(),
        };
        for (from, gains) in plan.gains.iter().enumerate() {
            medium.rows.push(Row::default());
            for gain in gains {
                medium.insert(from, gain);
            }
            medium.rows[from].renew(Time::ZERO);
        }
        medium
    }

    /// Add a direction; its place in the row.
    fn insert(&mut self, from: usize, gain: &Gain) -> usize {
        let receiver = &self.transceivers[usize::from(gain.to)];
        self.rows[from].insert(gain, receiver.noise, receiver.least())
    }

    /// See [`crate::Radio::set_gain`].
    pub fn set_gain(&mut self, from: u16, to: u16, mean_dbm: f64) {
        let at = self.direction(from, to, mean_dbm);
        self.rows[usize::from(from)].set_mean(at, mean_dbm);
    }

    /// See [`crate::Radio::cut`].
    pub fn cut(&mut self, from: u16, to: u16) {
        let at = self.direction(from, to, f64::NEG_INFINITY);
        self.rows[usize::from(from)].cut(at);
    }

    /// The place of a direction in its row; a new one has this mean power.
    fn direction(&mut self, from: u16, to: u16, mean_dbm: f64) -> usize {
        let row = usize::from(from);
        self.rows[row].find(to).unwrap_or_else(|| {
            let gain = self.variation.gain(from, to, mean_dbm);
            self.insert(row, &gain)
        })
    }

    /// See [`crate::Radio::links`].
    pub fn links(&self, node: u16) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        let accounts = self.rows[usize::from(node)].accounts();
        accounts.map(|(to, mean_dbm, counters)| {
            let noise = self.transceivers[usize::from(to)].noise.dbm();
            (to, mean_dbm - noise, counters)
        })
    }

    /// See [`crate::Radio::power_dbm`].
    pub fn power_dbm(&self, from: u16, to: u16) -> Option<f64> {
        let row = &self.rows[usize::from(from)];
        Some(row.links[row.find(to)?].power.dbm())
    }

    /// What a station senses and counts.
    pub fn at(&self, node: usize) -> &Transceiver {
        &self.transceivers[node]
    }

    /// The account of the link from one node to another to which it sends.
    #[inline]
    pub fn account(&mut self, node: usize, to: u16) -> Option<&mut LinkCounters> {
        let hint = self.transceivers[node].target;
        let row = &mut self.rows[node];
        row.account(row.place(to, hint))
    }

    /// Count what came of a frame, by its number, at a station that it is not for.
    #[inline]
    pub fn count(&mut self, node: usize, at: usize, overheard: Overheard, frame: u32) {
        self.rows[node].count(at, overheard, frame);
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
            if run.tracing {
                self.contention.begin(signal);
            }
        }
        let t = &mut self.transceivers[node];
        t.airtime = t.airtime + length;
        t.sending = Some(number);
        let lock = t.lock.take();
        let busy = t.turns_busy(now);
        if let Some(lock) = lock {
            let signal = &mut self.signals[lock.signal as usize];
            missed(signal, node as u16, Why::Transmitting, node as u16, run);
        }
        Begun {
            node,
            end,
            interrupted: lock.is_some(),
            busy,
        }
    }

    /// The links by which a transmission that begins now is heard, to be given to
    /// [`Medium::arrive`] one by one and then back; and which of them leads to the one for whom it
    /// is.
    #[inline]
    pub fn open(&mut self, number: u32, now: Time) -> (Vec<Link>, usize) {
        let Signal { from, to, .. } = self.signals[number as usize];
        let from = usize::from(from);
        let row = &mut self.rows[from];
        row.renew(now);
        let target = row.place(to, self.transceivers[from].target);
        (core::mem::take(&mut row.links), target)
    }

    /// See [`Medium::open`].
    #[inline]
    pub fn close(&mut self, number: u32, links: Vec<Link>, target: usize) {
        let signal = &mut self.signals[number as usize];
        let from = usize::from(signal.from);
        let reached = links.get(target).is_some_and(|link| !link.silent);
        if !reached && signal.to != NOBODY {
            signal.miss = match self.rows[from].is_cut(target) {
                true => Why::Cut,
                false => Why::Weak,
            };
        }
        self.rows[from].links = links;
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
            (why, other) = t.drowner(&self.signals, number, power);
        }
        if mine {
            let signal = &mut self.signals[number as usize];
            (signal.miss, signal.miss_other) = (why, other);
        }
        t.turns_busy(now)
    }

    /// The receiver of a signal, if it detects this one and follows another.
    pub fn beside(&self, link: &Link, number: u32) -> Option<usize> {
        let node = usize::from(link.to);
        let t = &self.transceivers[node];
        let follows = t.lock.is_some_and(|lock| lock.signal != number);
        (follows && t.detects(link.power)).then_some(node)
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
            missed(
                &mut signals[old as usize],
                node as u16,
                Why::Captured,
                by,
                run,
            );
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
            lock.jammed = false;
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

    /// What is no 802.11 and reaches a receiver with this power is on from now on, or off. Says
    /// whether carrier sense turns.
    pub fn interfere(&mut self, node: usize, power: Power, on: bool, now: Time) -> bool {
        let t = &mut self.transceivers[node];
        t.jams(power, on);
        if let Some(lock) = &mut t.lock {
            let followed = &self.signals[lock.signal as usize];
            let table = &self.tables[usize::from(t.table)];
            weigh(lock, followed, table, &self.header, now);
            lock.interference = t.noise + t.total - lock.power;
            lock.jammed_by(t.jam);
            return false;
        }
        if on {
            return t.turns_busy(now);
        }
        catch_up(t, node, &mut self.signals, now);
        t.turns_idle(now)
    }

    /// A station's transmission by its number, and the links by which it was heard, to be given to
    /// [`Medium::leave`] one by one and then to [`Medium::finish`].
    #[inline(always)]
    pub fn end(&mut self, number: u32) -> (Signal, Vec<Link>) {
        let signal = self.signals[number as usize].clone();
        let row = &mut self.rows[usize::from(signal.from)];
        (signal, core::mem::take(&mut row.links))
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
            let jammed = lock.jammed;
            let (right, worst) = t.ends(signal, (table, &self.header), now);
            (left.followed, left.right) = (true, right);
            let signal = &mut self.signals[number as usize];
            match (right, worst) {
                (true, _) => decoded(signal, link, run),
                (false, _) if jammed => missed(signal, link.to, Why::Interference, NOBODY, run),
                (false, NOBODY) => missed(signal, link.to, Why::Noise, NOBODY, run),
                (false, worst) => missed(signal, link.to, Why::Collision, worst, run),
            }
        }
        catch_up(t, node, &mut self.signals, now);
        left.idle = t.turns_idle(now);
        left
    }

    /// A transmission has left all receivers. Says whether it will be answered, and whether carrier
    /// sense turns idle at its own station.
    #[inline]
    pub fn finish(
        &mut self,
        number: u32,
        signal: &Signal,
        links: Vec<Link>,
        run: &mut Run,
    ) -> (bool, bool) {
        let node = usize::from(signal.from);
        self.free.push(number);
        self.rows[node].links = links;
        self.transceivers[node].sending = None;
        self.count_loss(number, signal, run);
        let t = &mut self.transceivers[node];
        catch_up(t, node, &mut self.signals, run.now);
        let idle = t.turns_idle(run.now);
        (self.signals[number as usize].answered, idle)
    }

    /// Whether a data frame reached the one for whom it is.
    #[inline(always)]
    fn count_loss(&mut self, number: u32, signal: &Signal, run: &mut Run) {
        if signal.kind != FrameKind::Data || signal.to == NOBODY {
            // Nobody counts it; who looks at frames wants to know of it all the same.
            if run.tracing {
                self.tell_loss(number, signal, run);
            }
            return;
        }
        let Signal {
            miss, miss_other, ..
        } = self.signals[number as usize];
        run.note(u64::from(signal.to), miss.hashed());
        let lost = miss != Why::None;
        if let Some(counters) = self.account(usize::from(signal.from), signal.to) {
            counters.attempts += 1;
            counters.decoded += u64::from(!lost);
        }
        if !lost {
            return;
        }
        // What drowned beside somebody was not lost to noise.
        let why = match miss {
            Why::Weak if miss_other != NOBODY => Why::Collision,
            why => why,
        };
        self.transceivers[usize::from(signal.to)].lost[why as usize] += 1;
        if run.tracing {
            self.tell_loss(number, signal, run);
        }
    }

    /// A record of a frame that did not reach the one for whom it is.
    #[cold]
    fn tell_loss(&mut self, number: u32, signal: &Signal, run: &mut Run) {
        let fate = &self.signals[number as usize];
        if signal.to == NOBODY || fate.miss == Why::None {
            return;
        }
        let (why, other) = self.blamed(signal, (fate.miss, fate.miss_other));
        let third = ![NOBODY, signal.to].contains(&other);
        let unsensed = third && !self.senses(signal.from, other);
        // Answers leave without carrier sense.
        let contended = matches!(signal.kind, FrameKind::Data | FrameKind::Rts);
        let began = |m: &Medium| m.contention.together(signal, other, m.phy.slot);
        let unheard = contended && other != NOBODY && !unsensed && !began(self);
        run.record(Record {
            why,
            other,
            mode: signal.mode.0,
            bytes: signal.bytes as u16,
            kind: signal.kind,
            flags: u8::from(signal.retry)
                | (u8::from(unsensed) * Record::UNSENSED)
                | (u8::from(unheard) * Record::UNHEARD),
            ..run.entry(What::Lost, signal.frame, signal.to, signal.from)
        });
    }

    /// Why a frame was lost and to whom, with those whom its receiver cannot have told from noise:
    /// too weak for it to notice, they spoil what is hardly stronger all the same.
    fn blamed(&self, signal: &Signal, told: (Why, u16)) -> (Why, u16) {
        let row = &self.rows[usize::from(signal.from)];
        let Some(link) = row.find(signal.to).map(|at| &row.links[at]) else {
            return told;
        };
        let t = &self.transceivers[usize::from(signal.to)];
        let noise = t.noise.float();
        let mean = |from: u16| Some((self.rows[usize::from(from)].mean(signal.to)?.float(), from));
        // Whichever of them began first.
        let faint = |from: u16| mean(from).is_some_and(|(power, _)| power < noise * FAINT);
        let told = match told {
            (Why::Collision, other) if other != NOBODY && faint(other) => (Why::Noise, NOBODY),
            told => told,
        };
        let (why, until, least) = match told {
            (Why::Noise, NOBODY) => (Why::Collision, signal.end, noise * FAINT),
            // By itself the receiver would have followed it.
            (Why::Weak, NOBODY) if link.clear && t.detects(link.power) => {
                (Why::Weak, signal.preamble_end, noise * UNHEARD)
            }
            _ => return told,
        };
        let beside = self.contention.beside(signal, until).filter_map(mean);
        let strongest = beside.max_by(|(one, _), (two, _)| one.total_cmp(two));
        match strongest {
            Some((power, from)) if power >= least => (why, from),
            _ => told,
        }
    }

    /// Whether a station senses another's transmissions, by the mean power as it is now.
    fn senses(&self, at: u16, other: u16) -> bool {
        let power = self.rows[usize::from(other)].mean(at);
        power.is_some_and(|power| self.transceivers[usize::from(at)].senses(power))
    }
}

/// Remember why the one for whom a signal is does not listen to it.
fn missed(signal: &mut Signal, node: u16, why: Why, other: u16, run: &mut Run) {
    if signal.to == node {
        (signal.miss, signal.miss_other) = (why, other);
    }
    if why == Why::Captured && run.tracing {
        run.record(Record {
            other,
            mode: signal.mode.0,
            kind: signal.kind,
            ..run.entry(What::Captured, signal.frame, node, signal.from)
        });
    }
}

/// A frame was decoded.
#[inline]
fn decoded(signal: &Signal, link: &Link, run: &mut Run) {
    let mine = signal.to == link.to;
    debug_assert!(!mine || signal.miss == Why::None, "it was followed");
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

/// An idle receiver follows the strongest signal whose preamble still lasts.
#[inline]
fn catch_up(t: &mut Transceiver, node: usize, signals: &mut [Signal], now: Time) {
    if !t.heard.is_empty() && (t.lock.is_none() & t.sending.is_none()) {
        look_around(t, node, signals, now);
    }
}

#[inline(never)]
fn look_around(t: &mut Transceiver, node: usize, signals: &mut [Signal], now: Time) {
    let fresh = |h: &&Heard| signals[h.signal as usize].preamble_end > now;
    let best = t.heard.iter().filter(fresh).max_by_key(|h| h.power);
    let Some(&best) = best else { return };
    if t.stands_out(best.power) {
        t.follow(signals, best.signal, best.power, now);
        let signal = &mut signals[best.signal as usize];
        if usize::from(signal.to) == node {
            signal.miss = Why::None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::Standard;
    use crate::plan::RadioConfig;

    /// Stations 0 and 2 send to station 1, which hears them at these SNRs, dB.
    fn medium(first: f64, second: f64) -> (Medium, Run) {
        let nan = f64::NAN;
        let snr = [
            vec![nan, first, nan],
            vec![first, nan, second],
            vec![nan, second, nan],
        ];
        built(&RadioConfig::default(), &snr)
    }

    /// Stations that hear each other at these SNRs, dB.
    fn built(radio: &RadioConfig, snr: &[Vec<f64>]) -> (Medium, Run) {
        let phy = Phy::new(Standard::A, false);
        let plan = Plan::from_snr(phy, radio, snr);
        let rng = Rng::new(1);
        (Medium::new(&plan, &rng), Run::new(snr.len(), &rng))
    }

    /// A frame to station 1 begins: its number, its end, whether carrier sense turns busy there.
    fn begin(m: &mut Medium, run: &mut Run, node: usize) -> (u32, Time, bool) {
        let mode = m.phy.base();
        begin_at(m, run, node, mode)
    }

    /// The same at this rate.
    fn begin_at(m: &mut Medium, run: &mut Run, node: usize, mode: Mode) -> (u32, Time, bool) {
        begin_frame(m, run, node, Signal::new(FrameKind::Data, 1, mode, 100))
    }

    /// The same of any frame.
    fn begin_frame(
        m: &mut Medium,
        run: &mut Run,
        node: usize,
        signal: Signal,
    ) -> (u32, Time, bool) {
        let to = signal.to;
        m.put(node, signal);
        let number = m.take_put().expect("it was put");
        let begun = m.begin(number, run);
        assert!(begun.busy && m.at(node).sensing(), "who sends senses");
        let (links, target) = m.open(number, run.now);
        let busy = links
            .iter()
            .filter(|l| m.arrive(l, number, l.to == to, run))
            .count();
        m.close(number, links, target);
        (number, begun.end, busy == 1)
    }

    fn end(m: &mut Medium, run: &mut Run, number: u32) -> Left {
        let (signal, links) = m.end(number);
        let left = m.leave(&links[0], number, &signal, run);
        let (answered, idle) = m.finish(number, &signal, links, run);
        assert!(!answered && idle);
        left
    }

    #[test]
    fn a_frame_makes_the_medium_busy_until_its_end_and_is_received() {
        let (mut m, mut run) = medium(20.0, 20.0);
        let (number, at, busy) = begin(&mut m, &mut run, 0);
        assert!(busy && m.at(1).lock.is_some());
        run.now = at;
        let left = end(&mut m, &mut run, number);
        assert!(left.followed && left.right && left.idle);
        assert_eq!(m.at(1).busy_for(at), at - Time::ZERO);
        assert_eq!(
            m.links(0).next().map(|l| (l.2.attempts, l.2.decoded)),
            Some((1, 1))
        );
    }

    #[test]
    fn what_is_not_sensed_is_neither_followed_nor_reported() {
        let (mut m, mut run) = medium(3.0, 20.0); // carrier sense is at 4 dB
        run.tracing = true;
        let (number, at, busy) = begin(&mut m, &mut run, 0);
        assert!(!busy && m.at(1).lock.is_none() && !m.at(1).sensing());
        assert!(m.at(1).heard.is_empty(), "nor is anything blamed on it");
        run.now = at;
        let left = end(&mut m, &mut run, number);
        assert!(!left.followed && !left.right && !left.idle);
        assert_eq!(m.at(1).lost[Why::Weak as usize], 1);
        assert_eq!(losses(&run), [(0, Why::Weak, NOBODY)]);
    }

    #[test]
    fn of_two_frames_the_stronger_takes_the_receiver_and_the_medium_stays_busy() {
        let (mut m, mut run) = medium(20.0, 32.0);
        let (weak, first_end, _) = begin(&mut m, &mut run, 0);
        run.now = Time(30_000); // the preamble is over: 12 dB are enough at any time
        let (strong, second_end, busy) = begin(&mut m, &mut run, 2);
        assert!(!busy, "it was busy");
        assert_eq!(m.at(1).lock.map(|l| l.signal), Some(strong));
        run.now = first_end;
        let left = end(&mut m, &mut run, weak);
        assert!(!left.followed && !left.idle);
        run.now = second_end;
        let left = end(&mut m, &mut run, strong);
        assert!(left.followed && left.right && left.idle);
        let lost = m.at(1).lost;
        assert_eq!(
            (lost[Why::Captured as usize], lost.iter().sum::<u64>()),
            (1, 1)
        );
        assert!(run.trace.is_empty(), "nobody asked for records");
    }

    /// What was recorded of this kind: where, whose, and the record.
    fn of(run: &Run, what: What) -> Vec<Record> {
        run.trace
            .iter()
            .filter(|r| r.what == what)
            .copied()
            .collect()
    }

    #[test]
    fn records_say_who_took_the_receiver_and_what_was_received_instead() {
        let (mut m, mut run) = medium(20.0, 32.0);
        run.tracing = true;
        let (weak, first_end, _) = begin(&mut m, &mut run, 0);
        run.now = Time(30_000);
        let (strong, second_end, _) = begin(&mut m, &mut run, 2);
        let [captured] = of(&run, What::Captured)[..] else {
            panic!("one frame was let go of");
        };
        let mode = m.phy.base().0;
        assert_eq!((captured.node, captured.peer, captured.other), (1, 0, 2));
        assert_eq!((captured.time, captured.mode), (Time(30_000), mode));
        assert_eq!(captured.kind, FrameKind::Data);
        run.now = first_end;
        end(&mut m, &mut run, weak);
        let [lost] = of(&run, What::Lost)[..] else {
            panic!("it is lost once");
        };
        assert_eq!((lost.node, lost.peer, lost.other), (1, 0, 2));
        assert_eq!((lost.why, lost.time), (Why::Captured, first_end));
        let unsensed = Record::UNSENSED;
        assert_eq!((lost.mode, lost.bytes, lost.flags), (mode, 100, unsensed));
        run.now = second_end;
        end(&mut m, &mut run, strong);
        let [received] = of(&run, What::Received)[..] else {
            panic!("the other one is received");
        };
        assert_eq!((received.node, received.peer), (1, 2));
        assert_eq!((received.mode, received.bytes), (mode, 100));
        let noise = m.at(1).noise.dbm();
        assert!((f64::from(received.signal) / 100.0 - noise - 32.0).abs() < 0.02);
        assert_eq!(of(&run, What::Lost).len(), 1);
    }

    #[test]
    fn records_name_the_station_to_which_the_receiver_listened_or_that_spoiled_it() {
        // The second is too weak to be received, and strong enough to spoil the first.
        let (mut m, mut run) = medium(8.0, 7.0);
        run.tracing = true;
        let (first, first_end, _) = begin(&mut m, &mut run, 0);
        run.now = Time(30_000);
        let (second, second_end, _) = begin(&mut m, &mut run, 2);
        run.now = first_end;
        assert!(!end(&mut m, &mut run, first).right);
        run.now = second_end;
        end(&mut m, &mut run, second);
        assert_eq!(losses(&run), [(0, Why::Collision, 2), (2, Why::Locked, 0)]);
        assert!(of(&run, What::Captured).is_empty() && of(&run, What::Received).is_empty());
    }

    #[test]
    fn records_say_whether_the_sender_sensed_the_other_when_it_happened() {
        let senses = RadioConfig::default().senses_dbm();
        type Change = fn(&mut Medium, f64);
        let changes: [(Change, bool); 4] = [
            (|_, _| {}, true),
            (|m, dbm| m.set_gain(2, 0, dbm), false),
            (|m, dbm| m.set_gain(2, 0, dbm - 0.1), true),
            (|m, _| m.cut(2, 0), true),
        ];
        for (change, unsensed) in changes {
            let (mut m, mut run) = medium(8.0, 7.0);
            run.tracing = true;
            let (first, first_end, _) = begin(&mut m, &mut run, 0);
            run.now = Time(30_000);
            begin(&mut m, &mut run, 2);
            // Where they are by now is what counts.
            change(&mut m, senses);
            run.now = first_end;
            end(&mut m, &mut run, first);
            let [lost] = of(&run, What::Lost)[..] else {
                panic!("it is lost once");
            };
            assert_eq!((lost.peer, lost.other, lost.unsensed()), (0, 2, unsensed));
        }
    }

    /// Peer, reason and third station of what was lost.
    fn losses(run: &Run) -> Vec<(u16, Why, u16)> {
        let lost = of(run, What::Lost);
        lost.iter().map(|r| (r.peer, r.why, r.other)).collect()
    }

    #[test]
    fn noise_and_what_is_no_802_11_are_blamed_and_no_station() {
        // 8 dB are too few for the highest rate; for the lowest, with something beside it.
        for jam in [false, true] {
            let (mut m, mut run) = medium(8.0, 20.0);
            run.tracing = true;
            let modes = m.phy.modes();
            let mode = if jam { modes[0] } else { modes[7] };
            let (number, over, _) = begin_at(&mut m, &mut run, 0, mode);
            if jam {
                let power = m.at(1).noise.dbm() + 15.0;
                m.interfere(1, Power::from_dbm(power), true, Time(20_000));
            }
            run.now = over;
            let left = end(&mut m, &mut run, number);
            assert!(left.followed && !left.right);
            let why = if jam { Why::Interference } else { Why::Noise };
            assert_eq!(losses(&run), [(0, why, NOBODY)]);
            assert_eq!(m.at(1).lost[why as usize], 1);
            let received = m.links(0).next().map(|l| (l.2.attempts, l.2.decoded));
            assert_eq!(received, Some((1, 0)));
        }
    }

    /// Station 1 follows a frame of station 0 at 20 dB. At 20 us and at 30 us something begins
    /// beside it at these SNRs, of a station or no 802.11: who is blamed.
    fn blamed(first: (Option<usize>, f64), second: (Option<usize>, f64)) -> (Why, u16) {
        let nan = f64::NAN;
        let db = |n| {
            let all = [first, second].into_iter();
            let mut mine = all.filter(|(who, _)| *who == Some(n)).map(|(_, db)| db);
            mine.next().unwrap_or(nan)
        };
        let snr = [
            vec![nan, 20.0, nan, nan],
            vec![20.0, nan, nan, nan],
            vec![nan, db(2), nan, nan],
            vec![nan, db(3), nan, nan],
        ];
        let (mut m, mut run) = built(&RadioConfig::default(), &snr);
        run.tracing = true;
        let (number, over, _) = begin(&mut m, &mut run, 0);
        for (at, (who, db)) in [(Time(20_000), first), (Time(30_000), second)] {
            run.now = at;
            match who {
                Some(node) => {
                    begin(&mut m, &mut run, node);
                }
                None => {
                    let power = Power::from_dbm(m.at(1).noise.dbm() + db);
                    m.interfere(1, power, true, at);
                }
            }
        }
        run.now = over;
        assert!(!end(&mut m, &mut run, number).right);
        let [(0, why, other)] = losses(&run)[..] else {
            panic!("the frame of station 0 is lost");
        };
        (why, other)
    }

    #[test]
    fn of_several_interferers_the_strongest_is_blamed_whatever_it_is() {
        let hit = |by| (Why::Collision, by);
        assert_eq!(blamed((Some(2), 19.0), (Some(3), 18.0)), hit(2));
        assert_eq!(blamed((Some(2), 18.0), (Some(3), 19.0)), hit(3));
        assert_eq!(
            blamed((Some(2), 19.0), (Some(3), 19.0)),
            hit(2),
            "the first"
        );
        assert_eq!(blamed((Some(2), 19.0), (None, 18.0)), hit(2));
        assert_eq!(blamed((None, 18.0), (Some(3), 19.0)), hit(3));
        let jammed = (Why::Interference, NOBODY);
        assert_eq!(blamed((Some(2), 18.0), (None, 19.0)), jammed);
        assert_eq!(blamed((None, 19.0), (Some(3), 18.0)), jammed);
    }

    #[test]
    fn records_of_what_was_let_go_say_what_kind_of_frame_it_was() {
        let (mut m, mut run) = medium(20.0, 32.0);
        run.tracing = true;
        let rts = Signal::new(FrameKind::Rts, 1, m.phy.base(), 20);
        begin_frame(&mut m, &mut run, 0, rts);
        run.now = Time(20_000);
        begin(&mut m, &mut run, 2);
        let captured = of(&run, What::Captured);
        assert_eq!((captured.len(), captured[0].kind), (1, FrameKind::Rts));
    }

    #[test]
    fn lost_control_frames_say_to_whom_and_change_no_hash() {
        use FrameKind::{Ack, Cts, Rts};
        for kind in [Rts, Cts, Ack] {
            let mut hashes = Vec::new();
            for tracing in [false, true] {
                // The second station is too weak to be received, and strong enough to spoil it.
                let (mut m, mut run) = medium(8.0, 7.0);
                run.tracing = tracing;
                let frame = Signal::new(kind, 1, m.phy.base(), 40);
                let (first, first_end, _) = begin_frame(&mut m, &mut run, 0, frame);
                run.now = Time(30_000);
                let (second, second_end, _) = begin(&mut m, &mut run, 2);
                run.now = first_end;
                assert!(!end(&mut m, &mut run, first).right);
                run.now = second_end;
                end(&mut m, &mut run, second);
                let lost = of(&run, What::Lost);
                let told: Vec<_> = lost
                    .iter()
                    .map(|r| (r.kind, r.peer, r.why, r.other))
                    .collect();
                let all = [
                    (kind, 0, Why::Collision, 2),
                    (FrameKind::Data, 2, Why::Locked, 0),
                ];
                assert_eq!(told, all[..if tracing { 2 } else { 0 }]);
                if tracing {
                    assert_eq!((lost[0].node, lost[0].bytes), (1, 40));
                    assert_eq!(lost[0].time, first_end, "when it was over");
                }
                assert_eq!(
                    m.at(1).lost.iter().sum::<u64>(),
                    1,
                    "the data alone is counted"
                );
                hashes.push(run.hash);
            }
            assert_eq!(hashes[0], hashes[1]);
        }
    }

    #[test]
    fn a_control_frame_that_arrives_is_not_lost() {
        let (mut m, mut run) = medium(20.0, 20.0);
        run.tracing = true;
        let rts = Signal::new(FrameKind::Rts, 1, m.phy.base(), 20);
        let (number, over, _) = begin_frame(&mut m, &mut run, 0, rts);
        run.now = over;
        assert!(end(&mut m, &mut run, number).right);
        assert_eq!(
            (of(&run, What::Lost).len(), of(&run, What::Received).len()),
            (0, 1)
        );
    }

    #[test]
    fn transmissions_are_shown_to_who_watches_and_recorded_for_who_traces() {
        for (watching, tracing) in [(false, false), (true, false), (false, true), (true, true)] {
            let (mut m, mut run) = medium(20.0, 20.0);
            (run.watching, run.tracing) = (watching, tracing);
            begin(&mut m, &mut run, 0);
            let shown = (run.aired.len(), of(&run, What::Sent).len());
            assert_eq!(shown, (usize::from(watching), usize::from(tracing)));
        }
    }

    #[test]
    fn what_is_not_detected_is_weak_whatever_the_receiver_does() {
        // It follows another frame, or transmits itself.
        for sends in [false, true] {
            let (mut m, mut run) = medium(20.0, 3.0);
            run.tracing = true;
            if sends {
                let own = Signal::new(FrameKind::Data, 0, m.phy.base(), 400);
                begin_frame(&mut m, &mut run, 1, own);
            } else {
                begin(&mut m, &mut run, 0);
            }
            run.now = Time(30_000);
            let (number, over, _) = begin(&mut m, &mut run, 2);
            run.now = over;
            end(&mut m, &mut run, number);
            assert_eq!(losses(&run), [(2, Why::Weak, NOBODY)], "{sends}");
        }
    }

    #[test]
    fn what_is_not_detected_is_not_drowned_by_anything() {
        let mut radio = RadioConfig::default();
        radio.detect_dbm = Some(radio.noise_dbm + 12.0);
        let nan = f64::NAN;
        let (mut m, mut run) = built(&radio, &[vec![nan, 8.0], vec![8.0, nan]]);
        run.tracing = true;
        m.interfere(1, Power::from_dbm(radio.noise_dbm + 9.0), true, run.now);
        let (number, over, _) = begin(&mut m, &mut run, 0);
        run.now = over;
        end(&mut m, &mut run, number);
        assert_eq!(losses(&run), [(0, Why::Weak, NOBODY)]);
    }

    #[test]
    fn a_frame_whose_preamble_outlasts_the_receivers_own_transmission_is_received() {
        // Station 2 does not hear station 1.
        let nan = f64::NAN;
        let snr = [
            vec![nan, nan, nan],
            vec![20.0, nan, nan],
            vec![nan, 20.0, nan],
        ];
        let (mut m, mut run) = built(&RadioConfig::default(), &snr);
        let own = Signal::new(FrameKind::Data, 0, m.phy.base(), 100);
        let (sent, over, _) = begin_frame(&mut m, &mut run, 1, own);
        run.now = Time(over.0 - 10_000);
        let (number, last, _) = begin(&mut m, &mut run, 2);
        assert!(m.at(1).lock.is_none());
        run.now = over;
        let (signal, links) = m.end(sent);
        m.leave(&links[0], sent, &signal, &mut run);
        m.finish(sent, &signal, links, &mut run);
        assert_eq!(m.at(1).lock.map(|l| l.signal), Some(number));
        run.now = last;
        assert!(end(&mut m, &mut run, number).right);
        let account = m.links(2).next().map(|l| (l.2.attempts, l.2.decoded));
        assert_eq!((account, m.at(1).lost), (Some((1, 1)), [0; Why::ALL.len()]));
    }

    #[test]
    fn what_others_miss_of_a_frame_is_no_loss_of_its_receiver() {
        // Station 2 follows a frame of 3, station 4 hears too little of 0: both after 1, in order.
        let nan = f64::NAN;
        let mut snr = vec![vec![nan; 5]; 5];
        (snr[0][1], snr[0][2], snr[0][4], snr[3][2]) = (20.0, 20.0, 3.0, 20.0);
        let (mut m, mut run) = built(&RadioConfig::default(), &snr);
        run.tracing = true;
        let other = Signal::new(FrameKind::Data, 2, m.phy.base(), 400);
        begin_frame(&mut m, &mut run, 3, other);
        run.now = Time(30_000);
        let (number, over, _) = begin(&mut m, &mut run, 0);
        run.now = over;
        assert!(end(&mut m, &mut run, number).right);
        assert_eq!(losses(&run), []);
        // Received by the one for whom it is, and so it is recorded.
        let received = of(&run, What::Received);
        assert_eq!((received.len(), received[0].node), (1, 1));
    }

    #[test]
    fn who_transmits_itself_loses_what_comes_and_what_it_followed() {
        let (mut m, mut run) = medium(20.0, 20.0);
        run.tracing = true;
        let (first, first_end, _) = begin(&mut m, &mut run, 0);
        run.now = Time(30_000);
        // Station 1 sends to station 2, and station 2 to station 1 meanwhile.
        let mode = m.phy.base();
        m.put(1, Signal::new(FrameKind::Data, 2, mode, 400));
        let own = m.take_put().expect("it was put");
        assert!(m.begin(own, &mut run).interrupted);
        let (links, target) = m.open(own, run.now);
        m.close(own, links, target);
        let (third, third_end, _) = begin(&mut m, &mut run, 2);
        run.now = first_end;
        assert!(!end(&mut m, &mut run, first).followed);
        run.now = third_end;
        assert!(!end(&mut m, &mut run, third).followed);
        assert_eq!(
            losses(&run),
            [(0, Why::Transmitting, 1), (2, Why::Transmitting, 1)]
        );
        assert_eq!(m.at(1).lost[Why::Transmitting as usize], 2);
    }

    #[test]
    fn a_repetition_is_recorded_as_one_and_control_frames_are_not_counted() {
        for (kind, lost) in [
            (FrameKind::Data, 1),
            (FrameKind::Ack, 0),
            (FrameKind::Rts, 0),
        ] {
            let (mut m, mut run) = medium(3.0, 20.0);
            run.tracing = true;
            let mode = m.phy.base();
            let mut signal = Signal::new(kind, 1, mode, 100);
            signal.retry = true;
            m.put(0, signal);
            let number = m.take_put().expect("it was put");
            let over = m.begin(number, &mut run).end;
            let (links, target) = m.open(number, run.now);
            m.arrive(&links[0], number, true, &mut run);
            m.close(number, links, target);
            run.now = over;
            end(&mut m, &mut run, number);
            let records = of(&run, What::Lost);
            let told: Vec<_> = records.iter().map(|r| (r.flags, r.kind, r.why)).collect();
            assert_eq!(
                told,
                [(1, kind, Why::Weak)],
                "lost and told, counted or not"
            );
            assert_eq!(m.at(1).lost.iter().sum::<u64>(), lost as u64, "{kind:?}");
            let attempts = m.links(0).next().map(|l| l.2.attempts);
            assert_eq!(attempts, Some(lost as u64), "{kind:?}");
        }
    }
}
