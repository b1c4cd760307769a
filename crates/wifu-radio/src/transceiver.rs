//! One station's antenna and receiver: what it senses, which frame it follows, what it decodes.
//!
//! Every threshold of the model is here: [`Transceiver::sensing`] is when the medium is busy,
//! [`Transceiver::detects`], [`Transceiver::stands_out`] and [`Transceiver::switches`] are which
//! frame is followed, [`Transceiver::ends`] is whether that one is right at its end.

use crate::busy::BusyMeter;
use crate::error::ErrorTable;
use crate::fate::{Lock, Memory, survives, weigh};
use crate::phy::Mode;
use crate::plan::RadioConfig;
use crate::power::{Power, linear};
use crate::signal::Signal;
use crate::trace::{NOBODY, Why};
use wifu_wire::{Rng, Span, Time};

/// A signal whose preamble a station can detect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub signal: u32,
    pub power: Power,
}

/// In order of use: a transmission looks at all stations that hear it, and of most of them it needs
/// the first two lines of the cache.
#[repr(C, align(64))]
pub(crate) struct Transceiver {
    /// All that is on the air here, but for what it sends itself.
    pub total: Power,
    /// From which power on a preamble is detected, and the medium is busy.
    detect: Power,
    energy: Power,
    pub sending: Option<u32>,
    /// The medium is busy, as its MAC was told last, since `busy_since`.
    busy: bool,
    /// Which error table.
    pub table: u8,
    busy_since: Time,
    pub heard: Vec<Heard>,
    pub noise: Power,
    pub lock: Option<Lock>,
    /// In all, but for the time since `busy_since`.
    busy_for: Span,

    lock_ratio: f64,
    capture_ratio: f64,
    mim_ratio: f64,
    decode: Power,
    error_rng: Rng,
    memory: Memory,
    /// Of `total`, what is no 802.11.
    pub jam: Power,
    /// Which of its links leads to the one to whom it sent last; a hint.
    pub target: usize,
    meter: BusyMeter,
    /// Time spent transmitting.
    pub airtime: Span,
    /// Data frames for this station that were lost, by [`crate::trace::Why`].
    pub lost: [u64; Why::ALL.len()],
}

impl Transceiver {
    /// In silence; `rng` is the station's own.
    pub fn new(r: &RadioConfig, table: u8, rng: &Rng) -> Transceiver {
        Transceiver {
            detect: Power::from_dbm(r.detects_dbm()),
            energy: Power::from_dbm(r.energy_dbm()),
            noise: Power::received(r.noise_dbm),
            decode: Power::from_dbm(r.decode_dbm),
            lock_ratio: linear(r.lock_db),
            capture_ratio: linear(r.capture_db),
            mim_ratio: r.mim_db.map_or(f64::INFINITY, linear),
            table,
            heard: Vec::with_capacity(16),
            memory: Memory::new(),
            total: Power::ZERO,
            jam: Power::ZERO,
            lock: None,
            sending: None,
            target: usize::MAX,
            busy: false,
            busy_since: Time::ZERO,
            busy_for: Span::ZERO,
            meter: BusyMeter::default(),
            airtime: Span::ZERO,
            lost: [0; Why::ALL.len()],
            error_rng: rng.split("per"),
        }
    }

    /// Carrier sense: transmitting, receiving, or enough power on the air.
    #[inline]
    pub fn sensing(&self) -> bool {
        self.sending.is_some() || self.lock.is_some() || self.total >= self.energy
    }

    /// Whether the preamble of a signal of this power can be detected; what is weaker is
    /// interference only.
    #[inline]
    pub fn detects(&self, power: Power) -> bool {
        power >= self.detect
    }

    /// Whether a signal of this power among those on the air can be locked on.
    #[inline]
    pub fn stands_out(&self, power: Power) -> bool {
        power.float() >= self.lock_ratio * (self.noise + self.total - power).float()
    }

    /// Whether a transmission of this power makes the medium busy, be it followed or not.
    pub fn senses(&self, power: Power) -> bool {
        power >= self.detect.min(self.energy)
    }

    /// The least power that stands out with nothing beside it.
    pub fn least(&self) -> f64 {
        self.lock_ratio * self.noise.float()
    }

    /// Whether a signal of this power takes the receiver from one that it follows with `followed`:
    /// a stronger one during the preamble of the first, a much stronger one at any time.
    #[inline]
    pub fn switches(&self, power: Power, followed: Power, preamble: bool) -> bool {
        let (new, old) = (power.float(), followed.float());
        self.detects(power)
            && (new >= self.mim_ratio * old || new >= self.capture_ratio * old && preamble)
            && new >= self.lock_ratio * (self.noise + self.total - power).float()
    }

    /// Follow a signal from now on.
    // Once per frame and receiver: a call would save more registers than most of these look at.
    #[inline(always)]
    pub fn follow(&mut self, signals: &[Signal], signal: u32, power: Power, now: Time) {
        let (worst, worst_power) = match self.heard.len() {
            0 | 1 => (NOBODY, Power::ZERO),
            _ => self.worst_beside(signals, signal),
        };
        self.lock = Some(Lock {
            signal,
            power,
            interference: self.noise + self.total - power,
            since: now,
            ln_ok: 0.0,
            worst,
            worst_power: worst_power.max(self.jam),
            jammed: self.jam > worst_power,
        });
    }

    /// Whose signal is the strongest beside this one, and its power.
    #[inline(never)]
    fn worst_beside(&self, signals: &[Signal], signal: u32) -> (u16, Power) {
        let strongest = self.strongest_but(signal);
        strongest.map_or((NOBODY, Power::ZERO), |h| {
            (signals[h.signal as usize].from, h.power)
        })
    }

    /// The frame that it followed ends: whether it is right, and the strongest interferer.
    #[inline(always)]
    pub fn ends(
        &mut self,
        signal: &Signal,
        (table, headers): (&ErrorTable, &[Mode; 12]),
        now: Time,
    ) -> (bool, u16) {
        let Some(lock) = &mut self.lock else {
            return (false, NOBODY);
        };
        let ln_ok = if lock.since == signal.start {
            self.memory.ln_ok(lock, signal, table, headers)
        } else {
            weigh(lock, signal, table, headers, now);
            lock.ln_ok
        };
        let (worst, decodable) = (lock.worst, lock.power >= self.decode);
        self.lock = None;
        let right = decodable && survives(ln_ok, &mut self.error_rng);
        (right, worst)
    }

    /// What is no 802.11 has so much more power here, or so much less.
    pub fn jams(&mut self, power: Power, more: bool) {
        for all in [&mut self.total, &mut self.jam] {
            if more {
                *all += power;
            } else {
                *all -= power;
            }
        }
    }

    /// A signal is on the air no longer.
    #[inline]
    pub fn fades(&mut self, signal: u32, power: Power) {
        self.total -= power;
        if self.detects(power) {
            match &self.heard[..] {
                [only] if only.signal == signal => self.heard.clear(),
                heard => {
                    if let Some(at) = heard.iter().position(|h| h.signal == signal) {
                        self.heard.swap_remove(at);
                    }
                }
            }
        }
    }

    /// The strongest signal beside `signal`.
    pub fn strongest_but(&self, signal: u32) -> Option<Heard> {
        let others = self.heard.iter().filter(|h| h.signal != signal);
        others.copied().max_by_key(|h| h.power)
    }

    /// Why an idle receiver does not follow a signal, and whose keeps it from doing so; nobody's if
    /// that one is too weak by itself, or only what is not detected adds up beside it.
    #[inline(never)]
    pub fn drowner(&self, signals: &[Signal], signal: u32, power: Power) -> (Why, u16) {
        if power.float() < self.least() {
            return (Why::Weak, NOBODY);
        }
        match self.strongest_but(signal) {
            Some(h) if h.power >= self.jam => (Why::Weak, signals[h.signal as usize].from),
            _ if self.jam > Power::ZERO => (Why::Interference, NOBODY),
            _ => (Why::Weak, NOBODY),
        }
    }

    /// Whether the medium just became busy: the MAC has to be told.
    #[inline]
    pub fn turns_busy(&mut self, now: Time) -> bool {
        let turns = !self.busy && self.sensing();
        if turns {
            self.busy = true;
            self.busy_since = now;
        }
        turns
    }

    /// Whether the medium just became idle: the MAC has to be told.
    #[inline]
    pub fn turns_idle(&mut self, now: Time) -> bool {
        let turns = self.busy && !self.sensing();
        if turns {
            self.busy = false;
            self.busy_for = self.busy_for + (now - self.busy_since);
            self.meter.note(now, self.busy_for);
        }
        turns
    }

    /// For how long the medium was busy until now, own transmissions included.
    pub fn busy_for(&self, now: Time) -> Span {
        match self.busy {
            true => self.busy_for + (now - self.busy_since),
            false => self.busy_for,
        }
    }

    /// Share of the last tenth of a second during which it was.
    pub fn busy_share(&self, now: Time) -> f32 {
        self.meter.share(now, self.busy_for(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise at -94 dBm, carrier sense at -80, a lock at 4 dB, capture at 5 dB in the preamble and
    /// at 10 at any time.
    fn transceiver() -> Transceiver {
        let config = RadioConfig {
            noise_dbm: -94.0,
            cs_dbm: -80.0,
            lock_db: 4.0,
            capture_db: 5.0,
            mim_db: Some(10.0),
            ..RadioConfig::default()
        };
        Transceiver::new(&config, 0, &Rng::new(1))
    }

    #[test]
    fn power_is_sensed_in_sum_and_detected_one_by_one() {
        let mut t = transceiver();
        let weak = Power::from_dbm(-82.0);
        t.total += weak;
        assert!(!t.detects(weak) && !t.turns_busy(Time(0)));
        t.total += weak; // -79 dBm together
        assert!(
            t.turns_busy(Time(10)) && !t.turns_busy(Time(20)),
            "told once"
        );
        t.fades(0, weak);
        assert!(t.turns_idle(Time(110)) && !t.turns_idle(Time(120)));
        assert_eq!(t.busy_for(Time(500)), Span(100));
    }

    #[test]
    fn how_busy_the_medium_is_counts_the_last_tenth_of_a_second_until_now() {
        let ms = |n: u64| Time(n * 1_000_000);
        let mut t = transceiver();
        let loud = Power::from_dbm(-70.0);
        t.total += loud;
        assert!(t.turns_busy(ms(100)));
        t.total -= loud;
        assert!(t.turns_idle(ms(150)));
        assert_eq!((t.busy_share(ms(200)), t.busy_share(ms(260))), (0.5, 0.0));
        t.total += loud;
        assert!(t.turns_busy(ms(300)));
        assert_eq!(t.busy_share(ms(350)), 0.5, "it still is");
    }

    #[test]
    fn a_stronger_frame_takes_over_in_the_preamble_a_much_stronger_one_at_any_time() {
        let mut t = transceiver();
        let followed = Power::from_dbm(-75.0);
        for (dbm, preamble, taken) in [
            (-70.5, true, false),
            (-69.5, true, true),
            (-69.5, false, false),
            (-64.5, false, true),
        ] {
            let new = Power::from_dbm(dbm);
            t.total = followed + new;
            assert_eq!(
                t.switches(new, followed, preamble),
                taken,
                "{dbm} dBm, {preamble}"
            );
        }
    }

    /// Signals of the stations 7, 8 and 9.
    fn signals() -> [Signal; 3] {
        [7, 8, 9].map(|from| Signal {
            from,
            ..Signal::nobody()
        })
    }

    /// It hears these signals, by number and dBm; and what is no 802.11, dBm.
    fn hears(heard: &[(u32, f64)], jam: Option<f64>) -> Transceiver {
        let mut t = transceiver();
        for &(signal, dbm) in heard {
            let power = Power::from_dbm(dbm);
            t.total += power;
            t.heard.push(Heard { signal, power });
        }
        if let Some(dbm) = jam {
            t.jams(Power::from_dbm(dbm), true);
        }
        t
    }

    #[test]
    fn what_drowns_a_frame_is_the_strongest_beside_it_unless_the_frame_is_too_weak() {
        // Signal 0 is not followed: why, and for whom.
        let drowner = |others: &[(u32, f64)], jam| {
            let heard = [&[(0, -75.0)], others].concat();
            hears(&heard, jam).drowner(&signals(), 0, Power::from_dbm(-75.0))
        };
        let interference = (Why::Interference, NOBODY);
        assert_eq!(drowner(&[(1, -74.0), (2, -72.0)], None), (Why::Weak, 9));
        assert_eq!(drowner(&[(1, -72.0), (2, -74.0)], None), (Why::Weak, 8));
        for (jam, expected) in [
            (-73.0, (Why::Weak, 8)),
            (-72.0, (Why::Weak, 8)),
            (-71.0, interference),
        ] {
            assert_eq!(drowner(&[(1, -72.0)], Some(jam)), expected, "{jam} dBm");
        }
        assert_eq!(drowner(&[], Some(-78.0)), interference);
        // What is not detected may add up to too much.
        assert_eq!(drowner(&[], None), (Why::Weak, NOBODY));
        // 3 dB over the noise are too few with nothing beside them.
        let t = hears(&[(1, -72.0)], Some(-71.0));
        let weak = t.drowner(&signals(), 0, Power::from_dbm(-91.0));
        assert_eq!(weak, (Why::Weak, NOBODY));
    }

    #[test]
    fn who_follows_a_frame_knows_from_the_start_what_is_strongest_beside_it() {
        let power = Power::from_dbm;
        let worst = |others: &[(u32, f64)], jam| {
            let heard = [&[(0, -60.0)], others].concat();
            let mut t = hears(&heard, jam);
            t.follow(&signals(), 0, power(-60.0), Time(5));
            let lock = t.lock.expect("it follows");
            assert_eq!(lock.interference, t.noise + t.total - power(-60.0));
            (lock.worst, lock.worst_power, lock.jammed)
        };
        assert_eq!(worst(&[], None), (NOBODY, Power::ZERO, false));
        let two = [(1, -75.0), (2, -70.0)];
        assert_eq!(worst(&two, None), (9, power(-70.0), false));
        for (jam, strongest, jammed) in [
            (-76.0, -75.0, false),
            (-75.0, -75.0, false),
            (-70.0, -70.0, true),
        ] {
            let found = worst(&two[..1], Some(jam));
            assert_eq!(found, (8, power(strongest), jammed), "{jam} dBm");
        }
        assert_eq!(worst(&[], Some(-70.0)), (NOBODY, power(-70.0), true));
    }

    #[test]
    fn what_is_over_is_neither_heard_nor_power_on_the_air() {
        let mut t = hears(&[(0, -70.0), (1, -71.0), (2, -72.0)], Some(-73.0));
        let weak = Power::from_dbm(-85.0);
        t.total += weak;
        let jam = Power::from_dbm(-73.0);
        assert_eq!(t.jam, jam);
        // Signal 5 was never detected: one of the others being left, that one stays.
        for (over, dbm, left) in [
            (1, -71.0, &[0, 2][..]),
            (0, -70.0, &[2]),
            (5, -85.0, &[2]),
            (2, -72.0, &[]),
        ] {
            t.fades(over, Power::from_dbm(dbm));
            let mut heard: Vec<u32> = t.heard.iter().map(|h| h.signal).collect();
            heard.sort_unstable();
            assert_eq!(heard, left);
        }
        assert_eq!(t.total, jam);
        t.jams(jam, false);
        assert_eq!((t.total, t.jam), (Power::ZERO, Power::ZERO));
    }
}
