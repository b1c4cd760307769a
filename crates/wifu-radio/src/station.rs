//! What one station knows of its access to the channel: its exchange, its back-off, its driver.

use crate::counters::Counters;
use crate::discipline::Managed;
use crate::driver::{Driver, Item};
use crate::minstrel::Minstrel;
use crate::phy::{ACK, CTS, Mode, OVERHEAD, Phy};
use crate::plan::{RadioConfig, RateControl};
use crate::queue::{Queue, Wake};
use wifu_wire::{Rng, Span, Time};

/// A station senses the medium at the beginning of a slot (CCA takes 4 of 9 us, or 15 of 20) and
/// has decided when the rest of the slot begins: what starts within these last 5 us before its
/// own transmission, it does not notice (IEEE 802.11-2012, 9.3.7: slot = CCA + turnaround + MAC
/// processing + propagation).
const BLIND: Span = Span(5_000);

/// What the count of slots goes by.
#[derive(Clone, Copy)]
pub(crate) struct Spaces {
    /// DIFS, and EIFS.
    pub ifs: [Span; 2],
    pub slot: Span,
}

/// Where a station is in its exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing to send.
    Idle,
    /// Waits for the medium.
    Contend,
    /// Its RTS or data is on the air.
    Sending,
    /// RTS sent.
    AwaitCts,
    /// CTS came, data follows after SIFS.
    Cleared,
    /// Data sent.
    AwaitAck,
}

/// What leaves after SIFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Ack,
    Cts,
    Data,
}

/// An answer that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response {
    pub answer: Answer,
    pub to: u16,
    /// Rate of the frame that is answered.
    pub mode: Mode,
    /// What the Duration field of that frame leaves after it.
    pub left: Span,
    /// Number of the frame that is answered.
    pub frame: u32,
}

/// The frame in the hardware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub item: Item,
    pub seq: u16,
    pub mode: Mode,
    /// Attempts that failed: of the RTS or a short frame, of data after an RTS.
    pub short: u8,
    pub long: u8,
    pub rts: bool,
    /// Transmissions of the data frame.
    pub sent: u8,
    /// When the hardware took it, when the first and the last attempt began.
    pub taken: Time,
    pub first: Time,
    pub last: Time,
}

impl Job {
    /// Attempts so far, this one included.
    pub fn tries(&self) -> u8 {
        self.short.saturating_add(self.long).saturating_add(1)
    }
}

/// In order of use: whenever the medium turns busy or idle, the first line of the cache is looked
/// at in all stations that hear it.
#[repr(C, align(64))]
pub(crate) struct Station {
    /// The medium is busy, as its radio said last.
    pub busy: bool,
    pub eifs: bool,
    pub phase: Phase,
    /// A back-off is pending: `slots`, counted from `count_from` while the medium is idle.
    pub backoff: bool,
    /// See [`crate::plan::RadioConfig::legacy_backoff`].
    pub legacy: bool,
    /// See [`crate::plan::RadioConfig::reserve_undecoded`].
    pub reserves: bool,
    /// The deadline passed while a frame was being received.
    pub late: bool,
    pub promiscuous: bool,
    /// Carrier sense is idle since then, NAV included: it may lie ahead.
    pub idle_since: Time,
    pub nav: Time,
    pub count_from: Time,
    pub slots: u32,
    pub cw: u16,
    pub seq: u16,
    pub deadline: Time,
    pub overhear_loss: f64,
    // End of the first line of the cache.
    pub job: Option<Job>,
    pub answer: Option<Response>,
    /// Last sequence number received from each neighbour.
    pub seen: Vec<(u16, u16)>,
    /// What the medium counts is nothing here.
    pub counters: Counters,
    pub driver: Driver,
    pub backoff_rng: Rng,
    pub overhear_rng: Rng,
    pub minstrel: Option<Minstrel>,

    pub attempts: u8,
    pub attempts_long: u8,
    pub rts_threshold: u32,
    pub rate: Mode,
    pub broadcast: Mode,
    /// Mode of ACK and CTS by mode of the frame that they answer.
    pub control: [Mode; 12],
    /// How long such an answer takes.
    pub answer_time: [Span; 12],
    pub cw_min: u16,
    pub cw_max: u16,
}

impl Station {
    /// Silent, on a channel of this timing; `rng` is its own.
    pub fn new(r: &RadioConfig, phy: &Phy, rng: &Rng) -> Station {
        let mut control = [phy.base(); 12];
        for &mode in phy.modes() {
            control[usize::from(mode.0)] = phy.control(mode, &r.control_rates);
        }
        let managed = r.discipline.as_ref().map(|d| {
            let slot = |octets| phy.airtime(r.rate, octets + OVERHEAD);
            Box::new(Managed::new(d, slot, rng.split("discipline")))
        });
        Station {
            overhear_loss: r.overhear_loss,
            promiscuous: r.promiscuous,
            reserves: r.reserve_undecoded,
            attempts: r.attempts.max(1),
            attempts_long: r.attempts_long.max(1),
            rts_threshold: r.rts_threshold,
            rate: r.rate,
            broadcast: r.broadcast_rate,
            control,
            answer_time: control.map(|mode| phy.airtime(mode, ACK)),
            cw_min: phy.cw_min,
            cw_max: phy.cw_max,
            minstrel: (r.rate_control == RateControl::Minstrel)
                .then(|| Minstrel::new(r.rate, rng.split("minstrel"))),
            busy: false,
            idle_since: Time::ZERO,
            nav: Time::ZERO,
            eifs: false,
            phase: Phase::Idle,
            backoff: false,
            legacy: r.legacy_backoff,
            slots: 0,
            count_from: Time::ZERO,
            deadline: Time::NEVER,
            late: false,
            answer: None,
            cw: phy.cw_min,
            job: None,
            seq: 0,
            seen: Vec::new(),
            driver: Driver::new(r, managed, rng.split("driver")),
            backoff_rng: rng.split("backoff"),
            overhear_rng: rng.split("overhear"),
            counters: Counters::default(),
        }
    }

    /// Whether a copy of this frame came before; remembers it.
    pub fn duplicate(&mut self, from: u16, seq: u16, retry: bool) -> bool {
        match self.seen.iter_mut().find(|s| s.0 == from) {
            Some(last) => {
                let same = last.1 == seq && retry;
                last.1 = seq;
                same
            }
            None => {
                self.seen.push((from, seq));
                false
            }
        }
    }

    /// A frame that could not be decoded ends at `end`: the medium is reserved for EIFS after it.
    pub fn reserve(&mut self, end: Time, spaces: &Spaces) {
        self.nav = self.nav.max(end + spaces.ifs[1]);
        self.eifs = false;
    }

    /// Whether slots matter to it. One question, for no predictor knows the answers to two.
    #[inline]
    fn counts(&self) -> bool {
        self.backoff | (self.phase == Phase::Contend)
    }

    /// The medium became busy: slots that passed are counted off, and the slot in which it became
    /// busy too, as EDCA and Bianchi's model have it (legacy DCF doesn't count it). An access that
    /// the station has decided on goes ahead.
    #[inline]
    pub fn gets_busy(&mut self, node: usize, now: Time, slot: Span, queue: &mut Queue) {
        self.busy = true;
        if !self.counts() {
            return;
        }
        let access_at = queue.when(node, Wake::Access);
        if access_at <= now + BLIND {
            return;
        }
        if self.backoff && now >= self.count_from {
            let passed = (now - self.count_from).0 / slot.0 + u64::from(!self.legacy);
            self.slots -= passed.min(u64::from(self.slots)) as u32;
            if self.slots == 0 && self.job.is_none() {
                self.backoff = false;
            }
        }
        if access_at != Time::NEVER {
            queue.cancel(node, Wake::Access);
        }
    }

    /// The medium became idle: the count goes on after the interframe space.
    #[inline]
    pub fn gets_idle(&mut self, node: usize, now: Time, spaces: &Spaces, queue: &mut Queue) {
        self.busy = false;
        self.idle_since = now.max(self.nav);
        self.count_on(node, now, spaces, queue);
    }

    /// Slots count from now on, or as soon as the interframe space is over.
    #[inline(always)]
    pub fn count_on(&mut self, node: usize, now: Time, spaces: &Spaces, queue: &mut Queue) {
        if self.busy | !self.counts() {
            return;
        }
        self.count_from = (self.idle_since + spaces.ifs[usize::from(self.eifs)]).max(now);
        if self.phase == Phase::Contend {
            let at = self.count_from + spaces.slot * u64::from(self.slots);
            queue.set(node, Wake::Access, at);
        }
    }
}

// An answer takes equally long, whichever it is.
const _: () = assert!(ACK == CTS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::Standard;

    const SLOT: u64 = 9_000;

    /// A station with a packet that waits `slots` slots after DIFS (34 us) from time 0 on.
    fn contends(legacy_backoff: bool, slots: u32) -> (Station, Spaces, Queue) {
        let phy = Phy::new(Standard::A, false);
        let config = RadioConfig {
            legacy_backoff,
            ..RadioConfig::default()
        };
        let rng = Rng::new(1);
        let mut s = Station::new(&config, &phy, &rng);
        (s.phase, s.backoff, s.slots) = (Phase::Contend, true, slots);
        let spaces = Spaces {
            ifs: [phy.difs, phy.eifs()],
            slot: phy.slot,
        };
        let mut queue = Queue::new(1, &rng);
        s.count_on(0, Time::ZERO, &spaces, &mut queue);
        assert_eq!(
            queue.when(0, Wake::Access),
            Time(34_000 + u64::from(slots) * SLOT)
        );
        (s, spaces, queue)
    }

    #[test]
    fn the_slot_in_which_the_medium_becomes_busy_counts_unless_the_back_off_is_the_old_one() {
        for (legacy, left) in [(false, 4), (true, 5)] {
            let (mut s, spaces, mut queue) = contends(legacy, 8);
            s.gets_busy(0, Time(34_000 + 3 * SLOT + 4_000), spaces.slot, &mut queue);
            assert_eq!((s.slots, queue.when(0, Wake::Access)), (left, Time::NEVER));
            // What was received was not right: EIFS.
            s.eifs = true;
            s.gets_idle(0, Time(1_000_000), &spaces, &mut queue);
            let at = Time(1_000_000) + spaces.ifs[1] + spaces.slot * u64::from(left);
            assert_eq!(queue.when(0, Wake::Access), at);
        }
    }

    #[test]
    fn an_access_that_is_decided_goes_ahead_and_a_reservation_holds_it_back() {
        let (mut s, spaces, mut queue) = contends(false, 2);
        let at = queue.when(0, Wake::Access);
        s.gets_busy(0, Time(at.0 - BLIND.0), spaces.slot, &mut queue);
        assert_eq!(queue.when(0, Wake::Access), at);
        s.gets_busy(0, Time(at.0 - BLIND.0 - 1), spaces.slot, &mut queue);
        assert_eq!(queue.when(0, Wake::Access), Time::NEVER);
        s.nav = Time(2_000_000);
        s.gets_idle(0, Time(1_000_000), &spaces, &mut queue);
        assert!(queue.when(0, Wake::Access) >= s.nav + spaces.ifs[0]);
    }
}
