//! What one station knows: its receiver, its access to the channel, its driver.

use crate::counters::Counters;
use crate::driver::{Driver, Item};
use crate::fate::Memory;
use crate::minstrel::Minstrel;
use crate::phy::Mode;
use crate::plan::{NodePlan, RateControl};
use crate::power::{Power, linear};
use crate::trace::NOBODY;
use wifu_wire::{Rng, Span, Time};

/// A signal that reaches a station now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub signal: u32,
    pub power: Power,
}

/// The frame that a receiver follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub signal: u32,
    pub power: Power,
    /// All else on the air, and noise.
    pub interference: Power,
    /// Since when the interference is that.
    pub since: Time,
    /// Logarithm of the probability that everything up to `since` is right.
    pub ln_ok: f64,
    /// The strongest interferer so far.
    pub worst: u16,
    pub worst_power: Power,
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

pub(crate) struct Station {
    pub cs: Power,
    pub noise: Power,
    pub decode: Power,
    pub lock_ratio: f64,
    pub capture_ratio: f64,
    pub mim_ratio: f64,
    pub overhear_loss: f64,
    pub promiscuous: bool,
    pub attempts: u8,
    pub attempts_long: u8,
    pub rts_threshold: u32,
    pub rate: Mode,
    pub broadcast: Mode,
    /// Mode of ACK and CTS by mode of the frame that they answer.
    pub control: [Mode; 12],
    /// Which error table.
    pub table: u8,
    pub cw_min: u16,
    pub cw_max: u16,
    pub minstrel: Option<Minstrel>,

    pub heard: Vec<Heard>,
    pub memory: Memory,
    pub total: Power,
    pub lock: Option<Lock>,
    pub sending: Option<u32>,
    /// Which of its links leads to the one to whom it sent last; a hint.
    pub target: usize,
    pub busy: bool,
    /// Carrier sense is idle since then, NAV included: it may lie ahead.
    pub idle_since: Time,
    pub busy_since: Time,
    pub nav: Time,
    pub eifs: bool,

    pub phase: Phase,
    /// A back-off is pending: `slots`, counted from `count_from` while the medium is idle.
    pub backoff: bool,
    /// See [`crate::plan::RadioConfig::legacy_backoff`].
    pub legacy: bool,
    pub slots: u32,
    pub count_from: Time,
    pub deadline: Time,
    /// The deadline passed while a frame was being received.
    pub late: bool,
    pub answer: Option<Response>,
    pub cw: u16,
    pub job: Option<Job>,
    pub seq: u16,
    /// Last sequence number received from each neighbour.
    pub seen: Vec<(u16, u16)>,

    pub driver: Driver,
    pub backoff_rng: Rng,
    pub error_rng: Rng,
    pub overhear_rng: Rng,
    pub counters: Counters,
}

impl Station {
    pub fn new(plan: &NodePlan, cw: (u16, u16), control: [Mode; 12], table: u8, rng: &Rng) -> Self {
        let r = &plan.radio;
        Station {
            cs: Power::from_dbm(r.cs_dbm),
            noise: Power::from_dbm(r.noise_dbm),
            decode: Power::from_dbm(r.decode_dbm),
            lock_ratio: linear(r.lock_db),
            capture_ratio: linear(r.capture_db),
            mim_ratio: r.mim_db.map_or(f64::INFINITY, linear),
            overhear_loss: r.overhear_loss,
            promiscuous: r.promiscuous,
            attempts: r.attempts.max(1),
            attempts_long: r.attempts_long.max(1),
            rts_threshold: r.rts_threshold,
            rate: r.rate,
            broadcast: r.broadcast_rate,
            control,
            table,
            cw_min: cw.0,
            cw_max: cw.1,
            minstrel: (r.rate_control == RateControl::Minstrel)
                .then(|| Minstrel::new(r.rate, rng.split("minstrel"))),
            heard: Vec::with_capacity(16),
            memory: Memory::new(),
            total: Power::ZERO,
            lock: None,
            sending: None,
            target: usize::MAX,
            busy: false,
            idle_since: Time::ZERO,
            busy_since: Time::ZERO,
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
            cw: cw.0,
            job: None,
            seq: 0,
            seen: Vec::new(),
            driver: Driver::new(r, rng.split("driver")),
            backoff_rng: rng.split("backoff"),
            error_rng: rng.split("per"),
            overhear_rng: rng.split("overhear"),
            counters: Counters::default(),
        }
    }

    /// Carrier sense: transmitting, receiving, or enough power on the air.
    #[inline]
    pub fn sensing(&self) -> bool {
        self.sending.is_some() || self.lock.is_some() || self.total >= self.cs
    }

    /// Whether a signal of this power among those on the air can be locked on.
    #[inline]
    pub fn stands_out(&self, power: Power) -> bool {
        power.float() >= self.lock_ratio * (self.noise + self.total - power).float()
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

    /// The strongest signal beside `signal`: its number in the list of what is heard.
    pub fn strongest_but(&self, signal: u32) -> Option<Heard> {
        let others = self.heard.iter().filter(|h| h.signal != signal);
        others.copied().max_by_key(|h| h.power)
    }
}

/// A transmission on the air.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pub from: u16,
    /// [`NOBODY`]: all.
    pub to: u16,
    pub kind: crate::trace::FrameKind,
    pub mode: Mode,
    pub retry: bool,
    pub seq: u16,
    /// Length of the MPDU.
    pub bytes: u32,
    pub cookie: u32,
    pub frame: u32,
    pub start: Time,
    pub preamble_end: Time,
    pub plcp_end: Time,
    pub end: Time,
    /// The Duration field: for how long the medium is taken after the end.
    pub duration: Span,
    /// Why `to` is not listening to it.
    pub miss: crate::trace::Why,
    pub miss_other: u16,
    /// `to` will answer.
    pub answered: bool,
}

impl Signal {
    pub fn nobody() -> Signal {
        Signal {
            from: NOBODY,
            to: NOBODY,
            kind: crate::trace::FrameKind::Data,
            mode: Mode(0),
            retry: false,
            seq: 0,
            bytes: 0,
            cookie: 0,
            frame: 0,
            start: Time::ZERO,
            preamble_end: Time::ZERO,
            plcp_end: Time::ZERO,
            end: Time::ZERO,
            duration: Span::ZERO,
            miss: crate::trace::Why::None,
            miss_other: NOBODY,
            answered: false,
        }
    }
}
