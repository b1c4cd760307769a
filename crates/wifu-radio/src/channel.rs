//! The channel: who hears what, which frame a receiver follows, and whether it survives.

use crate::error::ErrorTable;
use crate::phy::Mode;
use crate::power::Power;
use crate::queue::Wake;
use crate::radio::{Event, OnAir, Radio};
use crate::station::{Heard, Lock, Phase, Signal, Station};
use crate::trace::{FrameKind, NOBODY, Record, What, Why};
use wifu_wire::{Span, Time};

/// Logarithms of probabilities: above, a frame survives surely; below, it surely does not.
const SURE: f64 = -1e-9;
const HOPELESS: f64 = -30.0;

impl Radio {
    /// A station begins to transmit.
    pub(crate) fn transmit(&mut self, node: usize, mut signal: Signal) {
        let now = self.now;
        let mode = signal.mode;
        let length = self.phy.airtime(mode, signal.bytes);
        signal.from = node as u16;
        signal.start = now;
        signal.preamble_end = now + self.phy.preamble(mode);
        signal.plcp_end = now + self.phy.plcp(mode);
        signal.end = now + length;
        self.note(node as u64, u64::from(signal.to) << 8 | signal.kind as u64);
        self.watch(&signal);
        let (to, end) = (signal.to, signal.end);
        let number = match self.free.pop() {
            Some(n) => n,
            None => {
                self.signals.push(Signal::nobody());
                (self.signals.len() - 1) as u32
            }
        };
        self.signals[number as usize] = signal;
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

    fn watch(&mut self, s: &Signal) {
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
        let mut row = core::mem::take(&mut self.links[node]);
        let mut reached = false;
        for link in &mut row {
            if link.next <= self.now {
                link.renew(self.now);
            }
            if link.silent {
                continue;
            }
            reached |= link.to == to;
            self.arrive(usize::from(link.to), number, link.power, link.to == to);
        }
        self.links[node] = row;
        if !reached && to != NOBODY {
            self.signals[number as usize].miss = Why::Weak;
        }
    }

    /// A signal reaches a receiver.
    #[inline]
    fn arrive(&mut self, node: usize, number: u32, power: Power, mine: bool) {
        let now = self.now;
        let signals = &mut self.signals;
        let s = &mut self.stations[node];
        s.total += power;
        let audible = power >= s.cs;
        if audible {
            s.heard.push(Heard {
                signal: number,
                power,
            });
        }
        // Why it is not followed, if it is not.
        let (mut why, mut other) = (Why::Weak, NOBODY);
        if let Some(own) = s.sending {
            if audible {
                (why, other) = (Why::Transmitting, signals[own as usize].from);
            }
        } else if let Some(lock) = &mut s.lock {
            let old = lock.signal;
            let followed = &signals[old as usize];
            let (new, now_followed) = (power.0 as f64, lock.power.0 as f64);
            let taken = audible
                && (new >= s.mim_ratio * now_followed
                    || new >= s.capture_ratio * now_followed && now < followed.preamble_end)
                && new >= s.lock_ratio * (s.noise + s.total - power).0 as f64;
            if taken {
                follow(s, signals, number, power, now);
                let by = signals[number as usize].from;
                self.missed(node, old, Why::Captured, by);
                return;
            }
            weigh(
                lock,
                followed,
                &self.tables[usize::from(s.table)],
                &self.header,
                now,
            );
            lock.interference = s.noise + s.total - lock.power;
            if power > lock.worst_power {
                (lock.worst, lock.worst_power) = (signals[number as usize].from, power);
            }
            if audible {
                (why, other) = (Why::Locked, followed.from);
            }
        } else if audible && power.0 as f64 >= s.lock_ratio * (s.noise + s.total - power).0 as f64 {
            follow(s, signals, number, power, now);
            why = Why::None;
        } else if mine && audible {
            other = drowner(s, signals, number, power);
        }
        if mine {
            let signal = &mut signals[number as usize];
            (signal.miss, signal.miss_other) = (why, other);
        }
        let busy = s.sensing();
        if busy != s.busy {
            self.sensed(node, busy);
        }
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
            if !link.silent {
                let to = usize::from(link.to);
                let before = self.stations[to].counters.overheard;
                self.leave(to, number, &signal, link.power);
                let s = &mut self.stations[to];
                link.counters.overheard += s.counters.overheard - before;
                if core::mem::take(&mut s.captured) && link.overheard != signal.frame {
                    link.overheard = signal.frame;
                    link.counters.overheard_frames += 1;
                }
            }
        }
        self.links[node] = row;
        self.free.push(number);
        let missed = self.signals[number as usize].clone();
        self.count_loss(&missed);
        self.stations[node].sending = None;
        self.catch_up(node);
        self.sent(node, &missed);
        self.medium(node);
    }

    /// A signal ends at a receiver.
    #[inline]
    fn leave(&mut self, node: usize, number: u32, signal: &Signal, power: Power) {
        let now = self.now;
        let s = &mut self.stations[node];
        s.total -= power;
        if power >= s.cs
            && let Some(at) = s.heard.iter().position(|h| h.signal == number)
        {
            s.heard.swap_remove(at);
        }
        if let Some(lock) = &mut s.lock {
            let followed = &self.signals[lock.signal as usize];
            weigh(
                lock,
                followed,
                &self.tables[usize::from(s.table)],
                &self.header,
                now,
            );
            if lock.signal == number {
                if let Some(lock) = s.lock.take() {
                    self.received(node, number, signal, &lock);
                }
                self.catch_up(node);
            } else {
                lock.interference = s.noise + s.total - lock.power;
            }
        } else if !s.heard.is_empty() {
            self.catch_up(node);
        }
        self.medium(node);
    }

    /// An idle receiver follows the strongest signal whose preamble still lasts.
    fn catch_up(&mut self, node: usize) {
        let now = self.now;
        let s = &mut self.stations[node];
        if s.heard.is_empty() || s.lock.is_some() || s.sending.is_some() {
            return;
        }
        let signals = &self.signals;
        let fresh = |h: &&Heard| signals[h.signal as usize].preamble_end > now;
        let Some(best) = s
            .heard
            .iter()
            .filter(fresh)
            .max_by_key(|h| h.power)
            .copied()
        else {
            return;
        };
        let rest = s.noise + s.total - best.power;
        if best.power >= s.cs && best.power.0 as f64 >= s.lock_ratio * rest.0 as f64 {
            follow(s, &self.signals, best.signal, best.power, now);
            let signal = &mut self.signals[best.signal as usize];
            if usize::from(signal.to) == node {
                signal.miss = Why::None;
            }
        }
    }

    /// The followed frame is complete: was it right?
    fn received(&mut self, node: usize, number: u32, signal: &Signal, lock: &Lock) {
        let s = &mut self.stations[node];
        let right = lock.power >= s.decode
            && match lock.ln_ok {
                ln if ln > SURE => true,
                ln if ln < HOPELESS => false,
                ln => s.error_rng.unit() < libm::exp(ln),
            };
        s.eifs = !right;
        if right {
            self.decoded(node, number, signal, lock.power);
        } else {
            let (why, other) = if lock.worst == NOBODY {
                (Why::Noise, NOBODY)
            } else {
                (Why::Collision, lock.worst)
            };
            self.missed(node, number, why, other);
        }
        let s = &self.stations[node];
        if s.late && matches!(s.phase, Phase::AwaitAck | Phase::AwaitCts) {
            self.failed(node);
        }
    }

    /// Whether a data frame reached the one for whom it is.
    fn count_loss(&mut self, signal: &Signal) {
        if signal.kind != FrameKind::Data || signal.to == NOBODY {
            return;
        }
        self.note(u64::from(signal.to), signal.miss as u64);
        let lost = signal.miss != Why::None;
        if let Some(at) = self.link_at(usize::from(signal.from), signal.to) {
            let counters = &mut self.links[usize::from(signal.from)][at].counters;
            counters.attempts += 1;
            counters.decoded += u64::from(!lost);
        }
        if !lost {
            return;
        }
        self.stations[usize::from(signal.to)].counters.lost[signal.miss as usize] += 1;
        if self.tracing {
            self.record(Record {
                why: signal.miss,
                other: signal.miss_other,
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                flags: u8::from(signal.retry),
                ..self.entry(What::Lost, signal.frame, signal.to, signal.from)
            });
        }
    }

    /// A frame was decoded.
    fn decoded(&mut self, node: usize, number: u32, signal: &Signal, power: Power) {
        let me = node as u16;
        let mine = signal.to == me;
        if mine {
            self.signals[number as usize].miss = Why::None;
        }
        if self.tracing && (mine || signal.to == NOBODY) {
            self.record(Record {
                mode: signal.mode.0,
                bytes: signal.bytes as u16,
                signal: (power.dbm() * 100.0) as i16,
                kind: signal.kind,
                flags: u8::from(signal.retry),
                ..self.entry(What::Received, signal.frame, me, signal.from)
            });
        }
        if !mine && signal.to != NOBODY {
            let s = &mut self.stations[node];
            let until = self.now + signal.duration;
            s.nav = s.nav.max(until);
        }
        match signal.kind {
            FrameKind::Data => self.data(node, number, signal, power),
            FrameKind::Rts if mine => self.asked(node, number, signal),
            FrameKind::Cts if mine => self.cleared(node, signal),
            FrameKind::Ack if mine => self.acknowledged(node),
            FrameKind::Rts | FrameKind::Cts | FrameKind::Ack => {}
        }
    }

    fn data(&mut self, node: usize, number: u32, signal: &Signal, power: Power) {
        let me = node as u16;
        let rssi_dbm = || power.whole_dbm();
        let (from, cookie, mode) = (signal.from, signal.cookie, signal.mode);
        let s = &mut self.stations[node];
        if signal.to == NOBODY {
            s.counters.received += 1;
            self.events.push_back(Event::Received {
                node: me,
                from,
                cookie,
                rssi_dbm: rssi_dbm(),
                mode,
                broadcast: true,
            });
        } else if signal.to == me {
            self.answer_data(node, number, signal);
            let s = &mut self.stations[node];
            if s.duplicate(from, signal.seq, signal.retry) {
                s.counters.duplicates += 1;
                if self.tracing {
                    self.record(self.entry(What::Duplicate, signal.frame, me, from));
                }
                return;
            }
            s.counters.received += 1;
            self.events.push_back(Event::Received {
                node: me,
                from,
                cookie,
                rssi_dbm: rssi_dbm(),
                mode,
                broadcast: false,
            });
        } else {
            self.overheard(node, signal, rssi_dbm);
        }
    }

    fn overheard(&mut self, node: usize, signal: &Signal, rssi_dbm: impl Fn() -> i8) {
        let s = &mut self.stations[node];
        s.counters.overheard += 1;
        if s.overhear_loss > 0.0 && s.overhear_rng.unit() < s.overhear_loss {
            return;
        }
        s.captured = true;
        if !s.promiscuous {
            return;
        }
        self.events.push_back(Event::Overheard {
            node: node as u16,
            from: signal.from,
            to: signal.to,
            cookie: signal.cookie,
            rssi_dbm: rssi_dbm(),
            mode: signal.mode,
            retry: signal.retry,
        });
    }

    /// Carrier sense after something changed: freeze or resume the back-off.
    #[inline(always)]
    pub(crate) fn medium(&mut self, node: usize) {
        let s = &self.stations[node];
        let busy = s.sensing();
        if busy != s.busy {
            self.sensed(node, busy);
        }
    }

    #[inline(never)]
    fn sensed(&mut self, node: usize, busy: bool) {
        let now = self.now;
        let s = &mut self.stations[node];
        s.busy = busy;
        if busy {
            s.busy_since = now;
            self.freeze(node);
        } else {
            settle_busy(s, now);
            self.resume(node);
        }
    }
}

fn settle_busy(s: &mut Station, now: Time) {
    s.counters.busy = s.counters.busy + (now - s.busy_since);
    s.driver.meter.note(now, s.counters.busy);
}

/// Whose signal keeps an idle receiver from following one that it would follow in silence; nobody's
/// if that one is too weak by itself, or only what is not audible adds up beside it.
#[inline(never)]
fn drowner(s: &Station, signals: &[Signal], signal: u32, power: Power) -> u16 {
    if (power.0 as f64) < s.lock_ratio * s.noise.0 as f64 {
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

/// Account for the part of the followed frame that ends now.
#[inline]
fn weigh(lock: &mut Lock, signal: &Signal, table: &ErrorTable, headers: &[Mode; 12], now: Time) {
    let since = core::mem::replace(&mut lock.since, now);
    if since >= now || lock.ln_ok < HOPELESS {
        return;
    }
    let sinr = lock.power.over(lock.interference);
    if sinr < table.sure(signal.mode) {
        survive(lock, signal, table, headers, (since, now), sinr);
    }
}

/// The chance that the part of a frame between two times survives at this SINR.
fn survive(
    lock: &mut Lock,
    signal: &Signal,
    table: &ErrorTable,
    headers: &[Mode; 12],
    (since, now): (Time, Time),
    sinr: f64,
) {
    if now > signal.plcp_end {
        let (from, whole) = (since.max(signal.plcp_end), signal.end - signal.plcp_end);
        let bits = f64::from(signal.bytes * 8) * share(now - from, whole);
        lock.ln_ok += table.ln_bit(signal.mode, sinr) * bits;
    }
    let header = headers[usize::from(signal.mode.0)];
    if since < signal.plcp_end && sinr < table.sure(header) {
        // The header follows the preamble: 24 bits in 4 us, or 48 bits.
        let from = since.max(signal.preamble_end);
        let part = now.min(signal.plcp_end) - from; // none before the preamble's end
        let bits = if header.is_ofdm() { 24.0 } else { 48.0 };
        let whole = signal.plcp_end - signal.preamble_end;
        lock.ln_ok += table.ln_bit(header, sinr) * bits * share(part, whole);
    }
}

/// A part of a whole as a number from 0 to 1.
fn share(part: Span, whole: Span) -> f64 {
    if part == whole {
        1.0
    } else {
        part.0 as f64 / whole.0 as f64
    }
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
