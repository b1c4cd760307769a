//! The channel: who hears what, which frame a receiver follows, and whether it survives.

use crate::fate::{survives, weigh};
use crate::phy::Mode;
use crate::power::Power;
use crate::queue::Wake;
use crate::radio::{Event, Link, OnAir, Radio, link_to, place_of};
use crate::station::{Heard, Lock, Phase, Signal, Station};
use crate::trace::{FrameKind, NOBODY, Record, What, Why};
use wifu_wire::Time;

impl Radio {
    /// A station begins to transmit.
    // Inline, so that the frame is written where it stays.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, node: usize, signal: Signal) {
        let number = match self.free.pop() {
            Some(n) => n,
            None => {
                self.signals.push(Signal::nobody());
                (self.signals.len() - 1) as u32
            }
        };
        self.signals[number as usize] = signal;
        self.begin(node, number);
    }

    #[inline(never)]
    fn begin(&mut self, node: usize, number: u32) {
        let now = self.now;
        let signal = &mut self.signals[number as usize];
        let mode = signal.mode;
        let length = self.phy.airtime(mode, signal.bytes);
        signal.from = node as u16;
        signal.start = now;
        signal.preamble_end = now + self.phy.preamble(mode);
        signal.plcp_end = now + self.phy.plcp(mode);
        signal.end = now + length;
        let (to, end, kind) = (signal.to, signal.end, signal.kind);
        self.note(node as u64, u64::from(to) << 8 | kind as u64);
        if self.watching || self.tracing {
            self.watch(number);
        }
        let station = &mut self.stations[node];
        station.counters.airtime = station.counters.airtime + length;
        station.sending = Some(number);
        station.eifs = false;
        if let Some(lock) = station.lock.take() {
            if core::mem::take(&mut station.late) {
                self.queue.set(node, Wake::Timeout, now);
            }
            self.missed(node, lock.signal, Why::Transmitting, node as u16);
        }
        self.medium(node);
        self.reach_all(node, number, to);
        self.queue.set_end(node, number, end);
    }

    #[cold]
    fn watch(&mut self, number: u32) {
        let s = self.signals[number as usize].clone();
        if self.watching {
            self.aired.push(OnAir {
                start: s.start,
                end: s.end,
                from: s.from,
                to: (s.to != NOBODY).then_some(s.to),
                kind: s.kind,
                mode: s.mode,
                retry: s.retry,
                seq: s.seq,
                bytes: s.bytes,
                duration: s.duration,
                cookie: s.cookie,
            });
        }
        if self.tracing {
            let length = s.end - s.start;
            self.record(Record {
                mode: s.mode.0,
                bytes: s.bytes as u16,
                kind: s.kind,
                flags: u8::from(s.retry),
                value: length.0.min(u64::from(u32::MAX)) as u32,
                ..self.entry(What::Sent, s.frame, s.from, s.to)
            });
        }
    }

    /// The signal `number` of `node` arrives wherever it is heard.
    fn reach_all(&mut self, node: usize, number: u32, to: u16) {
        let now = self.now;
        let mut row = core::mem::take(&mut self.links[node]);
        let target = place_of(&row, to, self.stations[node].target);
        for (at, link) in row.iter_mut().enumerate() {
            if link.next <= now {
                link.renew(now);
            }
            if !link.silent {
                self.arrive(link, number, at == target);
            }
        }
        let reached = row.get(target).is_some_and(|link| !link.silent);
        self.links[node] = row;
        self.stations[node].target = target;
        if !reached && to != NOBODY {
            self.signals[number as usize].miss = Why::Weak;
        }
    }

    /// A signal reaches a receiver.
    #[inline]
    fn arrive(&mut self, link: &Link, number: u32, mine: bool) {
        let (node, power, now) = (usize::from(link.to), link.power, self.now);
        let s = &mut self.stations[node];
        let silence = s.total == Power::ZERO;
        s.total += power;
        let audible = power >= s.cs;
        if audible {
            s.heard.push(Heard {
                signal: number,
                power,
            });
        }
        if s.lock.is_some() {
            self.arrive_beside(node, number, power, mine);
            return;
        }
        // Why it is not followed, if it is not.
        let (mut why, mut other) = (Why::Weak, NOBODY);
        if s.sending.is_some() {
            if audible {
                (why, other) = (Why::Transmitting, link.to);
            }
        } else if audible && (silence && link.clear || !silence && s.stands_out(power)) {
            follow(s, &self.signals, number, power, now);
            why = Why::None;
        } else if mine && audible {
            other = drowner(s, &self.signals, number, power);
        }
        if mine {
            let signal = &mut self.signals[number as usize];
            (signal.miss, signal.miss_other) = (why, other);
        }
        if !s.busy && s.sensing() {
            s.gets_busy(node, now, self.spaces.slot, &mut self.queue);
        }
    }

    /// A signal reaches a receiver that follows another one.
    #[inline(never)]
    fn arrive_beside(&mut self, node: usize, number: u32, power: Power, mine: bool) {
        let now = self.now;
        let signals = &mut self.signals;
        let s = &mut self.stations[node];
        let Some(lock) = &mut s.lock else { return };
        let audible = power >= s.cs;
        let old = lock.signal;
        let followed = &signals[old as usize];
        let (new, now_followed) = (power.float(), lock.power.float());
        let taken = audible
            && (new >= s.mim_ratio * now_followed
                || new >= s.capture_ratio * now_followed && now < followed.preamble_end)
            && new >= s.lock_ratio * (s.noise + s.total - power).float();
        if taken {
            follow(s, signals, number, power, now);
            let by = signals[number as usize].from;
            self.missed(node, old, Why::Captured, by);
            return;
        }
        let table = &self.tables[usize::from(s.table)];
        weigh(lock, followed, table, &self.header, now);
        lock.interference = s.noise + s.total - lock.power;
        if power > lock.worst_power {
            (lock.worst, lock.worst_power) = (signals[number as usize].from, power);
        }
        let followed = followed.from;
        if mine {
            let signal = &mut signals[number as usize];
            (signal.miss, signal.miss_other) = match audible {
                true => (Why::Locked, followed),
                false => (Why::Weak, NOBODY),
            };
        }
        // It follows, so the medium was and is busy.
    }

    /// Remember why the one for whom a signal is does not listen to it.
    fn missed(&mut self, node: usize, number: u32, why: Why, other: u16) {
        let signal = &mut self.signals[number as usize];
        if usize::from(signal.to) == node {
            (signal.miss, signal.miss_other) = (why, other);
        }
        if why == Why::Captured && self.tracing {
            let signal = &self.signals[number as usize];
            self.record(Record {
                other,
                mode: signal.mode.0,
                kind: signal.kind,
                ..self.entry(What::Captured, signal.frame, node as u16, signal.from)
            });
        }
    }

    /// A transmission ends.
    pub(crate) fn end(&mut self, node: usize) {
        let Some(number) = self.stations[node].sending else {
            return;
        };
        let signal = self.signals[number as usize].clone();
        let mut row = core::mem::take(&mut self.links[node]);
        for link in &mut row {
            if link.silent {
                continue;
            }
            let overheard = self.leave(link, number, &signal);
            if overheard == Overheard::No {
                continue;
            }
            link.counters.overheard += 1;
            if overheard == Overheard::Captured && link.overheard != signal.frame {
                link.overheard = signal.frame;
                link.counters.overheard_frames += 1;
            }
        }
        self.free.push(number);
        self.stations[node].sending = None;
        self.count_loss(number, &signal, &mut row);
        self.links[node] = row;
        self.catch_up(node);
        let answered = self.signals[number as usize].answered;
        self.sent(node, signal.kind, signal.to, answered);
        self.medium(node);
    }

    /// A signal ends at a receiver.
    #[inline]
    fn leave(&mut self, link: &Link, number: u32, signal: &Signal) -> Overheard {
        let (node, power, now) = (usize::from(link.to), link.power, self.now);
        let mut s = &mut self.stations[node];
        s.total -= power;
        if power >= s.cs {
            match &s.heard[..] {
                [only] if only.signal == number => s.heard.clear(),
                heard => {
                    if let Some(at) = heard.iter().position(|h| h.signal == number) {
                        s.heard.swap_remove(at);
                    }
                }
            }
        }
        let mut overheard = Overheard::No;
        if let Some(lock) = &mut s.lock {
            let table = &self.tables[usize::from(s.table)];
            if lock.signal != number {
                let followed = &self.signals[lock.signal as usize];
                weigh(lock, followed, table, &self.header, now);
                lock.interference = s.noise + s.total - lock.power;
                return overheard;
            }
            let ln_ok = if lock.since == signal.start {
                s.memory.ln_ok(lock, signal, table, &self.header)
            } else {
                weigh(lock, signal, table, &self.header, now);
                lock.ln_ok
            };
            let worst = lock.worst;
            s.lock = None;
            let right = power >= s.decode && survives(ln_ok, &mut s.error_rng);
            s.eifs = !right;
            if right {
                overheard = self.decoded(link, number, signal);
            } else {
                let why = match worst {
                    NOBODY => Why::Noise,
                    _ => Why::Collision,
                };
                self.missed(node, number, why, worst);
            }
            s = &mut self.stations[node];
            if s.late && matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts) {
                self.failed(node);
                s = &mut self.stations[node];
            }
        }
        if !s.heard.is_empty() {
            self.catch_up(node);
            s = &mut self.stations[node];
        }
        if s.busy && !s.sensing() {
            s.gets_idle(node, now, &self.spaces, &mut self.queue);
        }
        overheard
    }

    /// An idle receiver follows the strongest signal whose preamble still lasts.
    #[inline]
    fn catch_up(&mut self, node: usize) {
        let s = &self.stations[node];
        if !s.heard.is_empty() && s.lock.is_none() && s.sending.is_none() {
            self.look_around(node);
        }
    }

    #[inline(never)]
    fn look_around(&mut self, node: usize) {
        let now = self.now;
        let s = &mut self.stations[node];
        let signals = &self.signals;
        let fresh = |h: &&Heard| signals[h.signal as usize].preamble_end > now;
        let best = s.heard.iter().filter(fresh).max_by_key(|h| h.power);
        let Some(&best) = best else { return };
        if best.power >= s.cs && s.stands_out(best.power) {
            follow(s, &self.signals, best.signal, best.power, now);
            let signal = &mut self.signals[best.signal as usize];
            if usize::from(signal.to) == node {
                signal.miss = Why::None;
            }
        }
    }

    /// Whether a data frame reached the one for whom it is.
    fn count_loss(&mut self, number: u32, signal: &Signal, row: &mut [Link]) {
        if signal.kind != FrameKind::Data || signal.to == NOBODY {
            return;
        }
        let fate = &self.signals[number as usize];
        let (miss, other) = (fate.miss, fate.miss_other);
        self.note(u64::from(signal.to), miss as u64);
        let lost = miss != Why::None;
        let hint = self.stations[usize::from(signal.from)].target;
        if let Some(link) = link_to(row, signal.to, hint) {
            link.counters.attempts += 1;
            link.counters.decoded += u64::from(!lost);
        }
        if !lost {
            return;
        }
        self.stations[usize::from(signal.to)].counters.lost[miss as usize] += 1;
        if self.tracing {
            self.record(Record {
                why: miss,
                other,
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                flags: u8::from(signal.retry),
                ..self.entry(What::Lost, signal.frame, signal.to, signal.from)
            });
        }
    }

    /// A frame was decoded.
    fn decoded(&mut self, link: &Link, number: u32, signal: &Signal) -> Overheard {
        let (node, me) = (usize::from(link.to), link.to);
        let mine = signal.to == me;
        if mine {
            self.signals[number as usize].miss = Why::None;
        }
        if self.tracing && (mine || signal.to == NOBODY) {
            self.record(Record {
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                signal: (link.power.dbm() * 100.0) as i16,
                kind: signal.kind,
                flags: u8::from(signal.retry),
                ..self.entry(What::Received, signal.frame, me, signal.from)
            });
        }
        if !mine && signal.to != NOBODY {
            return self.not_mine(link, signal);
        }
        match signal.kind {
            FrameKind::Data => self.data(link, number, signal),
            FrameKind::Rts if mine => self.asked(node, number, signal),
            FrameKind::Cts if mine => self.cleared(node, signal),
            FrameKind::Ack if mine => self.acknowledged(node),
            FrameKind::Rts | FrameKind::Cts | FrameKind::Ack => {}
        }
        Overheard::No
    }

    fn data(&mut self, link: &Link, number: u32, signal: &Signal) {
        let (node, me) = (usize::from(link.to), link.to);
        let (from, cookie, mode) = (signal.from, signal.cookie, signal.mode);
        let broadcast = signal.to == NOBODY;
        if !broadcast {
            self.answer_data(node, number, signal);
            if self.stations[node].duplicate(from, signal.seq, signal.retry) {
                self.stations[node].counters.duplicates += 1;
                if self.tracing {
                    self.record(self.entry(What::Duplicate, signal.frame, me, from));
                }
                return;
            }
        }
        self.stations[node].counters.received += 1;
        self.events.push_back(Event::Received {
            node: me,
            from,
            cookie,
            rssi_dbm: link.rssi_dbm,
            mode,
            broadcast,
            retry: signal.retry,
            seq: signal.seq,
        });
    }

    /// A frame for another station was decoded: the medium is reserved, and data is overheard.
    #[inline]
    fn not_mine(&mut self, link: &Link, signal: &Signal) -> Overheard {
        let until = self.now + signal.duration;
        let s = &mut self.stations[usize::from(link.to)];
        s.nav = s.nav.max(until);
        if signal.kind != FrameKind::Data {
            return Overheard::No;
        }
        s.counters.overheard += 1;
        if s.overhear_loss > 0.0 && s.overhear_rng.unit() < s.overhear_loss {
            return Overheard::Missed;
        }
        if s.promiscuous {
            self.events.push_back(Event::Overheard {
                node: link.to,
                from: signal.from,
                to: signal.to,
                cookie: signal.cookie,
                rssi_dbm: link.rssi_dbm,
                mode: signal.mode,
                retry: signal.retry,
                seq: signal.seq,
            });
        }
        Overheard::Captured
    }

    /// Carrier sense after something changed: freeze or resume the back-off.
    pub(crate) fn medium(&mut self, node: usize) {
        let now = self.now;
        let s = &mut self.stations[node];
        match (s.busy, s.sensing()) {
            (false, true) => s.gets_busy(node, now, self.spaces.slot, &mut self.queue),
            (true, false) => s.gets_idle(node, now, &self.spaces, &mut self.queue),
            _ => {}
        }
    }
}

/// What came of a data frame at a station that it is not for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overheard {
    /// Not decoded, or it is no such frame.
    No,
    /// Decoded, but the capture path lost it.
    Missed,
    /// Decoded and captured.
    Captured,
}

/// Whose signal keeps an idle receiver from following one that it would follow in silence; nobody's
/// if that one is too weak by itself, or only what is not audible adds up beside it.
#[inline(never)]
fn drowner(s: &Station, signals: &[Signal], signal: u32, power: Power) -> u16 {
    if power.float() < s.lock_ratio * s.noise.float() {
        return NOBODY;
    }
    let other = s.strongest_but(signal);
    other.map_or(NOBODY, |h| signals[h.signal as usize].from)
}

/// Follow a signal from now on.
fn follow(s: &mut Station, signals: &[Signal], signal: u32, power: Power, now: Time) {
    let (mut worst, mut worst_power) = (NOBODY, Power::ZERO);
    if s.heard.len() > 1
        && let Some(h) = s.strongest_but(signal)
    {
        (worst, worst_power) = (signals[h.signal as usize].from, h.power);
    }
    s.lock = Some(Lock {
        signal,
        power,
        interference: s.noise + s.total - power,
        since: now,
        ln_ok: 0.0,
        worst,
        worst_power,
    });
}

/// A frame that begins; [`Radio::transmit`] adds the times.
pub(crate) fn control_signal(kind: FrameKind, to: u16, mode: Mode, bytes: u32) -> Signal {
    Signal {
        kind,
        to,
        mode,
        bytes,
        ..Signal::nobody()
    }
}
