//! The directions from one station to all others: their powers, which vary, and their accounts.

use crate::counters::LinkCounters;
use crate::fading::{Fading, STEP};
use crate::plan::Gain;
use crate::power::Power;
use wifu_wire::Time;

/// Received power below which a signal is left out of account, under the receiver's noise, dB.
const FLOOR_DB: f64 = 20.0;

/// One direction between two stations, as each transmission looks at it. A transmission looks at
/// all that lead from its station, at its beginning and at its end: so there is nothing else here.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub power: Power,
    pub to: u16,
    /// The power as a radio reports it.
    pub rssi_dbm: i8,
    /// Too weak to matter.
    pub silent: bool,
    /// Without anything beside it, the receiver locks on it.
    pub clear: bool,
}

/// From what a direction's power follows, and its account.
struct Path {
    /// What a lock takes: the receiver's noise times the ratio that it needs.
    lock: f64,
    mean_dbm: f64,
    /// Nothing passes, however strong it would be.
    cut: bool,
    sigma_db: f64,
    floor_dbm: f64,
    /// When the power has to be computed anew, and up to when fading was followed.
    next: Time,
    renewed: Time,
    fading: Option<Fading>,
    counters: LinkCounters,
    /// Number of the last frame of which an attempt was overheard.
    overheard: u32,
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

/// The directions from one station, in order of receivers.
pub(crate) struct Row {
    pub links: Vec<Link>,
    /// By link.
    paths: Vec<Path>,
    /// No power has to be computed anew before.
    next: Time,
}

/// No directions yet.
impl Default for Row {
    fn default() -> Row {
        Row {
            links: Vec::new(),
            paths: Vec::new(),
            next: Time::NEVER,
        }
    }
}

impl Row {
    /// Add the direction of a gain; its receiver has this `noise`, and locks on what is at least
    /// `lock` with nothing beside it. Returns its place.
    pub fn insert(&mut self, gain: &Gain, noise: Power, lock: f64) -> usize {
        let at = self.links.partition_point(|l| l.to < gain.to);
        let fading = (gain.sigma_db > 0.0).then(|| Fading::new(gain.sigma_db, gain.tau, &gain.rng));
        let link = Link {
            power: Power::ZERO,
            to: gain.to,
            rssi_dbm: i8::MIN,
            silent: true,
            clear: false,
        };
        let path = Path {
            lock,
            mean_dbm: gain.mean_dbm,
            cut: false,
            sigma_db: gain.sigma_db,
            floor_dbm: noise.dbm() - FLOOR_DB,
            next: Time::ZERO,
            renewed: Time::ZERO,
            fading,
            counters: LinkCounters::default(),
            overheard: 0,
        };
        self.links.insert(at, link);
        self.paths.insert(at, path);
        self.next = Time::ZERO;
        at
    }

    /// Change a mean power: it counts from the next transmission on. A link that was cut is not any
    /// more.
    pub fn set_mean(&mut self, at: usize, mean_dbm: f64) {
        self.paths[at].mean_dbm = mean_dbm;
        self.paths[at].cut = false;
        self.paths[at].next = Time::ZERO;
        self.next = Time::ZERO;
    }

    /// Nothing passes from the next transmission on.
    pub fn cut(&mut self, at: usize) {
        self.set_mean(at, f64::NEG_INFINITY);
        self.paths[at].cut = true;
    }

    /// Whether the link at a place, if there is one, is cut.
    pub fn is_cut(&self, at: usize) -> bool {
        self.paths.get(at).is_some_and(|path| path.cut)
    }

    /// The powers of the next transmission.
    #[inline]
    pub fn renew(&mut self, now: Time) {
        if self.next <= now {
            self.renew_due(now);
        }
    }

    #[cold]
    fn renew_due(&mut self, now: Time) {
        self.next = Time::NEVER;
        for (path, link) in self.paths.iter_mut().zip(&mut self.links) {
            if path.next <= now {
                path.renew(link, now);
            }
            self.next = self.next.min(path.next);
        }
    }

    /// Where the link to a station is, which may well be at `hint`; past the end if there is none.
    pub fn place(&self, to: u16, hint: usize) -> usize {
        match self.links.get(hint) {
            Some(link) if link.to == to => hint,
            _ => self.find(to).unwrap_or(usize::MAX),
        }
    }

    /// Where the link to a station is.
    pub fn find(&self, to: u16) -> Option<usize> {
        self.links.binary_search_by_key(&to, |l| l.to).ok()
    }

    /// The mean power that reaches a station; of a cut link that is none.
    pub fn mean(&self, to: u16) -> Option<Power> {
        let path = &self.paths[self.find(to)?];
        Some(Power::received(path.mean_dbm))
    }

    /// The account of a link, if there is one at this place.
    pub fn account(&mut self, at: usize) -> Option<&mut LinkCounters> {
        self.paths.get_mut(at).map(|path| &mut path.counters)
    }

    /// Receivers, mean powers in dBm and accounts.
    pub fn accounts(&self) -> impl Iterator<Item = (u16, f64, &LinkCounters)> {
        let links = self.links.iter().zip(&self.paths);
        links.map(|(link, path)| (link.to, path.mean_dbm, &path.counters))
    }

    /// Count what came of a frame for another station, by its number.
    #[inline]
    pub fn count(&mut self, at: usize, overheard: Overheard, frame: u32) {
        if overheard == Overheard::No {
            return;
        }
        let path = &mut self.paths[at];
        path.counters.overheard += 1;
        if overheard == Overheard::Captured && path.overheard != frame {
            path.overheard = frame;
            path.counters.overheard_frames += 1;
        }
    }
}

impl Path {
    /// Fading moved on, or the mean was changed.
    fn renew(&mut self, link: &mut Link, now: Time) {
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
        link.power = Power::received(self.mean_dbm + z);
        link.rssi_dbm = link.power.whole_dbm();
        link.clear = link.power.float() >= self.lock;
        link.silent = self.mean_dbm + 4.0 * self.sigma_db < self.floor_dbm;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_wire::{Rng, Span};

    fn gain(to: u16, mean_dbm: f64, sigma_db: f64) -> Gain {
        Gain {
            to,
            mean_dbm,
            sigma_db,
            tau: Span::SECOND,
            rng: Rng::new(u64::from(to)),
        }
    }

    /// Links in an order that is not theirs, to receivers with noise at -94 dBm.
    fn row(gains: &[Gain]) -> Row {
        let noise = Power::from_dbm(-94.0);
        let mut row = Row::default();
        for gain in gains {
            row.insert(gain, noise, noise.float());
        }
        row.renew(Time::ZERO);
        row
    }

    #[test]
    fn links_are_in_order_of_receivers_and_found_with_a_hint_and_without() {
        let mut row = row(&[
            gain(7, -80.0, 0.0),
            gain(2, -70.0, 0.0),
            gain(5, -60.0, 0.0),
        ]);
        let all: Vec<(u16, f64)> = row.accounts().map(|(to, dbm, _)| (to, dbm)).collect();
        assert_eq!(all, [(2, -70.0), (5, -60.0), (7, -80.0)]);
        for (to, place) in [(2, 0), (5, 1), (7, 2)] {
            let hints = [0, 1, 2, usize::MAX];
            assert!(hints.iter().all(|h| row.place(to, *h) == place));
        }
        assert_eq!(row.place(6, 1), usize::MAX);
        row.account(1).expect("there is one").acked = 9;
        let acked: Vec<u64> = row.accounts().map(|(.., c)| c.acked).collect();
        assert_eq!((acked, row.account(3).is_none()), (vec![0, 9, 0], true));
    }

    #[test]
    fn a_signal_is_silent_from_20_db_under_the_noise_on_and_clear_from_what_a_lock_takes() {
        let row = row(&[
            gain(0, -113.9, 0.0),
            gain(1, -114.1, 0.0),
            gain(2, -117.9, 1.0),
            gain(3, -93.9, 0.0),
        ]);
        let all: Vec<_> = row.links.iter().map(|l| (l.silent, l.clear)).collect();
        // Fading of 1 dB may raise the third by four.
        assert_eq!(
            all,
            [(false, false), (true, false), (false, false), (false, true)]
        );
    }

    #[test]
    fn power_moves_in_steps_if_it_fades_and_with_its_mean_at_the_next_transmission() {
        let mut row = row(&[gain(0, -60.0, 3.0), gain(1, -60.0, 0.0)]);
        let powers = |row: &Row| [row.links[0].power, row.links[1].power];
        let mut last = powers(&row);
        let mut moved = 0;
        for step in 1..=50u64 {
            row.renew(Time(step * STEP.0 - 1));
            assert_eq!(powers(&row), last, "within step {step}");
            row.renew(Time(step * STEP.0));
            let now = powers(&row);
            moved += u32::from(now[0] != last[0]);
            assert_eq!(now[1], last[1]);
            last = now;
        }
        assert_eq!(moved, 50);
        row.set_mean(1, -70.0);
        assert_eq!(powers(&row), last);
        row.renew(Time(50 * STEP.0));
        assert_eq!(row.links[1].power, Power::received(-70.0));
        assert_eq!((row.links[1].rssi_dbm, row.links[0].power), (-70, last[0]));
    }

    #[test]
    fn a_frame_that_is_overheard_twice_is_one_frame() {
        let mut row = row(&[gain(0, -60.0, 0.0)]);
        let heard = [
            (Overheard::Captured, 1),
            (Overheard::Captured, 1),
            (Overheard::Missed, 2),
            (Overheard::No, 3),
            (Overheard::Captured, 2),
        ];
        for (what, frame) in heard {
            row.count(0, what, frame);
        }
        let counters = row.account(0).expect("there is one");
        assert_eq!((counters.overheard, counters.overheard_frames), (4, 2));
    }
}
