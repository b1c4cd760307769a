//! One direction between two stations: its power, which varies, and its account.

use crate::counters::LinkCounters;
use crate::fading::{Fading, STEP};
use crate::plan::Gain;
use crate::power::Power;
use wifu_wire::Time;

/// Received power below which a signal is left out of account, under the receiver's noise, dB.
const FLOOR_DB: f64 = 20.0;

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

/// What came of a data frame at a station that it is not for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overheard {
    /// Not decoded, or it is no such frame.
    No,
    /// Decoded, but the capture path lost it.
    Missed,
    /// Decoded and captured.
    Captured,
}

impl Link {
    /// To a receiver with this `noise`, which locks on what is at least `lock` with nothing beside.
    pub fn new(gain: &Gain, noise: Power, lock: f64) -> Link {
        let fading = (gain.sigma_db > 0.0).then(|| Fading::new(gain.sigma_db, gain.tau, &gain.rng));
        let mut link = Link {
            to: gain.to,
            power: Power::ZERO,
            rssi_dbm: i8::MIN,
            silent: false,
            clear: false,
            lock,
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

    /// Count what came of a frame for another station, by its number.
    pub fn count(&mut self, overheard: Overheard, frame: u32) {
        if overheard == Overheard::No {
            return;
        }
        self.counters.overheard += 1;
        if overheard == Overheard::Captured && self.overheard != frame {
            self.overheard = frame;
            self.counters.overheard_frames += 1;
        }
    }

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
        self.power = Power::received(self.mean_dbm + z);
        self.rssi_dbm = self.power.whole_dbm();
        self.clear = self.power.float() >= self.lock;
        self.silent = self.mean_dbm + 4.0 * self.sigma_db < self.floor_dbm;
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
