//! What the model waits for, in order of (time, kind, shuffle, station).
//!
//! A station waits for at most one event of each kind, so there is no queue: a time per station and
//! kind, and bounds on the least of them. An event is made, moved or cancelled by one or two
//! stores; the search for the next one happens once for all that changed at an instant.

use wifu_wire::{Rng, Time};

/// What wakes the model. The order is the order at one instant: what ends is seen before what
/// begins, so that two stations whose back-off expires together collide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Wake {
    /// A station's transmission ends.
    End,
    /// A response is due after SIFS.
    Respond,
    /// CTS or ACK did not come.
    Timeout,
    /// A station's back-off expires.
    Access,
    /// The driver learns of completed frames.
    Interrupt,
}

const WAKES: [Wake; 5] = [
    Wake::End,
    Wake::Respond,
    Wake::Timeout,
    Wake::Access,
    Wake::Interrupt,
];

/// Stations of a group.
const WIDTH: usize = 16;

/// The events of one kind.
struct Kind {
    /// When it is due, by station; [`Time::NEVER`] if it is not awaited.
    due: Vec<Time>,
    /// By group of stations: nothing is due before.
    bounds: Vec<Time>,
    /// How many stations wait.
    waiting: u32,
    /// What was the first is not due any more.
    loose: bool,
    /// Not `loose`: whose the first is.
    station: u32,
    /// Others may be due at the same time.
    tied: bool,
}

impl Kind {
    fn new(stations: usize) -> Kind {
        Kind {
            due: vec![Time::NEVER; stations],
            bounds: vec![Time::NEVER; stations.div_ceil(WIDTH)],
            waiting: 0,
            loose: false,
            station: 0,
            tied: false,
        }
    }

    /// Nothing is due before `first`; it may be moved.
    #[inline]
    fn set(&mut self, first: &mut Time, station: usize, at: Time) {
        let old = core::mem::replace(&mut self.due[station], at);
        self.waiting += u32::from(old == Time::NEVER);
        let bound = &mut self.bounds[station / WIDTH];
        *bound = at.min(*bound);
        if at < *first {
            (*first, self.station) = (at, station as u32);
            (self.loose, self.tied) = (false, false);
        } else {
            self.loose |= old == *first;
            self.tied |= at == *first;
        }
    }

    #[inline]
    fn cancel(&mut self, first: &mut Time, station: usize) {
        let old = core::mem::replace(&mut self.due[station], Time::NEVER);
        if old == Time::NEVER {
            return;
        }
        self.waiting -= 1;
        if self.waiting == 0 {
            // Often: most kinds wait for one station at a time.
            *first = Time::NEVER;
            self.loose = false;
        } else {
            self.loose |= old == *first;
        }
    }

    /// When the first is due: makes the least bound exact until it stays the least.
    #[inline(always)]
    fn settle(&mut self) -> Time {
        self.loose = false;
        if self.bounds.len() == 1 {
            let (station, first, alone) = least(&self.due);
            (self.station, self.tied) = (station as u32, !alone);
            return first;
        }
        loop {
            let (group, bound, one) = least(&self.bounds);
            let begin = group * WIDTH;
            let end = self.due.len().min(begin + WIDTH);
            let (i, first, alone) = least(&self.due[begin..end]);
            self.bounds[group] = first;
            if first == bound {
                (self.station, self.tied) = ((begin + i) as u32, !(one && alone));
                return first;
            }
        }
    }
}

/// Index and value of the least, and whether it is the only one.
#[inline]
fn least(times: &[Time]) -> (usize, Time, bool) {
    let (mut index, mut best, mut alone) = (0, Time::NEVER, true);
    for (i, &at) in times.iter().enumerate() {
        if at < best {
            (index, best, alone) = (i, at, true);
        } else if at == best {
            alone = false;
        }
    }
    (index, best, alone)
}

/// The events. Ties between stations are broken by a seeded hash of time and source.
pub(crate) struct Queue {
    kinds: [Kind; 5],
    /// By kind: nothing is due before. Exact unless the kind is loose.
    firsts: [Time; 5],
    /// The kind that is next.
    next: usize,
    /// What the source of a station's [`Wake::End`] is: the number of its transmission.
    numbers: Vec<u32>,
    ties: u64,
}

impl Queue {
    /// Nobody waits for anything.
    pub fn new(stations: usize, rng: &Rng) -> Queue {
        Queue {
            kinds: WAKES.map(|_| Kind::new(stations)),
            firsts: [Time::NEVER; 5],
            next: 0,
            numbers: vec![0; stations],
            ties: rng.split("ties").next_u64() | 1,
        }
    }

    /// `wake` is due at `at` for this station, and not when it was due before.
    #[inline]
    pub fn set(&mut self, station: usize, wake: Wake, at: Time) {
        let first = &mut self.firsts[wake as usize];
        self.kinds[wake as usize].set(first, station, at);
    }

    /// The station's transmission, of this number, ends at `at`.
    #[inline]
    pub fn set_end(&mut self, station: usize, number: u32, at: Time) {
        self.numbers[station] = number;
        self.set(station, Wake::End, at);
    }

    /// `wake` is no longer awaited.
    #[inline]
    pub fn cancel(&mut self, station: usize, wake: Wake) {
        let first = &mut self.firsts[wake as usize];
        self.kinds[wake as usize].cancel(first, station);
    }

    /// When `wake` is due for this station; [`Time::NEVER`] if it is not awaited.
    #[inline]
    pub fn when(&self, station: usize, wake: Wake) -> Time {
        self.kinds[wake as usize].due[station]
    }

    /// When the next one is due, as of the last [`Queue::settle`].
    #[inline]
    pub fn next(&self) -> Time {
        self.firsts[self.next]
    }

    /// Find the next one. After changes, and before any of them is asked for.
    #[inline]
    pub fn settle(&mut self) {
        loop {
            let [end, respond, timeout, access, interrupt] = self.firsts;
            // Of those at the same time the earlier kind.
            let (mut next, mut first) = (0, end);
            for (i, at) in [(1, respond), (2, timeout), (3, access), (4, interrupt)] {
                (next, first) = if at < first { (i, at) } else { (next, first) };
            }
            self.next = next;
            if !self.kinds[next].loose {
                return;
            }
            self.firsts[next] = self.kinds[next].settle();
        }
    }

    /// The next one that is due at `now` or before, and its station.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<(Wake, usize)> {
        let first = self.next();
        if first > now || first == Time::NEVER {
            return None;
        }
        let kind = &self.kinds[self.next];
        let wake = WAKES[self.next];
        let station = match kind.tied {
            true => self.fairest(wake, first),
            false => kind.station as usize,
        };
        self.cancel(station, wake);
        Some((wake, station))
    }

    /// Whose event goes first of those of a kind that are due at the same time.
    #[inline(never)]
    fn fairest(&self, wake: Wake, at: Time) -> usize {
        let kind = &self.kinds[wake as usize];
        let mut best = None;
        for (group, stations) in kind.due.chunks(WIDTH).enumerate() {
            if kind.bounds[group] > at {
                continue;
            }
            for (i, due) in stations.iter().enumerate() {
                if *due == at {
                    let one = group * WIDTH + i;
                    best = match best {
                        Some(other) if self.before(wake, at, other, one) => best,
                        _ => Some(one),
                    };
                }
            }
        }
        best.unwrap_or(0)
    }

    /// Whether the first of two stations goes first with the same kind at the same time.
    fn before(&self, wake: Wake, at: Time, one: usize, other: usize) -> bool {
        (self.shuffle(wake, at, one), one) < (self.shuffle(wake, at, other), other)
    }

    fn shuffle(&self, wake: Wake, at: Time, station: usize) -> u64 {
        let number = match wake {
            Wake::End => self.numbers[station],
            _ => station as u32,
        };
        let source = u64::from(number) << 3 | wake as u64;
        let mixed = (at.0 ^ source.rotate_left(40)).wrapping_mul(self.ties);
        (mixed ^ mixed >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 35
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_before_beginnings_and_ties_depend_on_the_seed() {
        let order = |seed| {
            let mut q = Queue::new(10, &Rng::new(seed));
            for station in 0..8 {
                q.set(station, Wake::Access, Time(10));
            }
            q.set_end(9, 99, Time(10));
            q.set(7, Wake::Interrupt, Time(5));
            q.settle();
            assert_eq!((q.next(), q.pop(Time(4))), (Time(5), None));
            let all: Vec<_> = core::iter::from_fn(|| {
                let due = q.pop(Time(10));
                q.settle();
                due
            })
            .collect();
            assert_eq!(all[..2], [(Wake::Interrupt, 7), (Wake::End, 9)]);
            assert_eq!((all.len(), q.next()), (10, Time::NEVER));
            all[2..].iter().map(|d| d.1).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    /// Random changes; the oracle looks at everything that is awaited.
    #[test]
    fn the_next_is_the_least_of_all() {
        for stations in [1, 7, 16, 17, 100] {
            let mut rng = Rng::new(stations as u64);
            let mut q = Queue::new(stations, &Rng::new(1));
            let mut all = vec![[Time::NEVER; 5]; stations];
            let mut now = 0;
            for _ in 0..20_000 {
                let station = rng.below(stations as u64) as usize;
                let kind = rng.below(5) as usize;
                match rng.below(5) {
                    0 | 1 => {
                        let at = Time(now + rng.below(30));
                        q.set(station, WAKES[kind], at);
                        all[station][kind] = at;
                        assert_eq!(q.when(station, WAKES[kind]), at);
                    }
                    2 => {
                        q.cancel(station, WAKES[kind]);
                        all[station][kind] = Time::NEVER;
                    }
                    _ => {
                        let least = all.iter().flatten().min().copied();
                        let least = least.filter(|t| *t != Time::NEVER);
                        let due = (0..5).find_map(|k| {
                            let of = (0..stations).filter(|s| least == Some(all[*s][k]));
                            of.min_by_key(|s| (q.shuffle(WAKES[k], all[*s][k], *s), *s))
                                .map(|s| (WAKES[k], s))
                        });
                        q.settle();
                        assert_eq!(q.next(), least.unwrap_or(Time::NEVER));
                        assert_eq!(q.pop(Time(u64::MAX - 1)), due);
                        if let Some((wake, s)) = due {
                            now = all[s][wake as usize].0;
                            all[s][wake as usize] = Time::NEVER;
                        }
                    }
                }
            }
        }
    }
}
