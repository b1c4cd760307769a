//! What a packet costs at one hop: at its best, with nothing of its flow near, and now.

use wifu_engine::kit::Ewma;

/// Samples of each of the two halves of the window in which the shortest time is looked for.
const HALF: u32 = 32;

/// A packet counts for so many shortest times at the most: one that waited through an outage says
/// no more than one that waited long.
const MOST: f64 = 8.0;

/// What a failed attempt costs beside its time on the air, in shortest times: with the longer
/// back-off behind it one and a half (802.11b at 11 Mb/s: 2.0 ms by 1.4 ms).
const AGAIN: f64 = 1.5;

/// The shortest of the latest samples, 32 to 64 of them.
#[derive(Clone, Copy, Debug)]
struct Shortest {
    before: f64,
    now: f64,
    count: u32,
}

impl Shortest {
    const NONE: Shortest = Shortest {
        before: f64::INFINITY,
        now: f64::INFINITY,
        count: 0,
    };

    fn add(&mut self, sample: f64) {
        self.now = self.now.min(sample);
        self.count += 1;
        if self.count == HALF {
            (self.before, self.now, self.count) = (self.now, f64::INFINITY, 0);
        }
    }

    fn value(&self) -> Option<f64> {
        let least = self.before.min(self.now);
        least.is_finite().then_some(least)
    }
}

/// A packet that passed a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passed {
    /// From where it could be sent until it was, s.
    pub took: f64,
    /// Times it was on the air.
    pub attempts: f64,
    /// Nothing of its flow was near.
    pub alone: bool,
}

/// The estimator. What it keeps is in shortest times, so that another rate of the link, which
/// changes these within 64 packets, leaves the rest as it is.
#[derive(Clone, Debug)]
pub struct Hop {
    shortest: Shortest,
    /// Of packets alone.
    time: Ewma,
    attempts: Ewma,
    /// How much of the time beyond that of packets alone counts; of the attempts the rest does.
    wait: f64,
    /// Of all others, for those who watch.
    beyond: Ewma,
}

impl Hop {
    /// Averages of packets alone keep `weight` of what was.
    pub fn new(weight: f64, wait: f64) -> Hop {
        Hop {
            shortest: Shortest::NONE,
            time: Ewma::new(weight),
            attempts: Ewma::new(weight),
            wait,
            beyond: Ewma::new(weight),
        }
    }

    /// Another neighbour is the next hop.
    pub fn forget(&mut self) {
        self.shortest = Shortest::NONE;
        self.time.clear();
        self.attempts.clear();
        self.beyond.clear();
    }

    /// A packet passed; of one that was not alone, what it cost beyond one that is, in shortest
    /// times: below zero where it fared better.
    pub fn add(&mut self, passed: Passed) -> Option<f64> {
        self.shortest.add(passed.took);
        let time = (passed.took / self.shortest.value()?).min(MOST);
        if passed.alone {
            self.time.add(time);
            self.attempts.add(passed.attempts);
            return None;
        }
        let waited = time - self.time.value()?;
        let failed = AGAIN * (passed.attempts - self.attempts.value()?);
        let beyond = self.wait * waited + (1.0 - self.wait) * failed;
        self.beyond.add(beyond);
        Some(beyond)
    }

    /// The shortest time, s.
    pub fn shortest(&self) -> Option<f64> {
        self.shortest.value()
    }

    /// The time of a packet alone, s: noise and the traffic of others are in it.
    pub fn alone(&self) -> Option<f64> {
        Some(self.shortest.value()? * self.time.value()?.max(1.0))
    }

    /// What packets that are not alone cost beyond it, averaged.
    pub fn beyond(&self) -> Option<f64> {
        self.beyond.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(ms: f64, attempts: f64, alone: bool) -> Passed {
        Passed {
            took: ms / 1e3,
            attempts,
            alone,
        }
    }

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    /// By hand: alone 2 and 3 ms of shortest 2 are 1 and 1.5 times, averaged by halves 1.25, and
    /// 1.5 attempts of 1 and 2. One of 6 ms and 3 attempts waited 3 - 1.25 = 1.75 times longer and
    /// failed 1.5 times more often, 2.25 shortest times: 0.25 * 1.75 + 0.75 * 2.25 = 2.125.
    #[test]
    fn the_cost_of_not_being_alone_by_hand() {
        let mut h = Hop::new(0.5, 0.25);
        assert_eq!(h.add(passed(2.0, 1.0, true)), None);
        assert_eq!(h.add(passed(3.0, 2.0, true)), None);
        assert!(near(h.alone(), 2.5e-3), "{:?}", h.alone());
        assert!(near(h.add(passed(6.0, 3.0, false)), 2.125));
        assert!(near(h.beyond(), 2.125));
        // As good as alone: nothing beyond.
        assert!(near(h.add(passed(2.5, 1.5, false)), 0.0));
        assert!(near(h.beyond(), 1.0625));
        // An outage of a second counts 8 shortest times.
        assert!(near(h.add(passed(1e3, 1.5, false)), 0.25 * 6.75));
    }

    #[test]
    fn nothing_is_said_before_a_packet_was_alone_and_after_the_neighbour_changed() {
        let mut h = Hop::new(0.5, 0.25);
        assert_eq!(h.add(passed(2.0, 1.0, false)), None);
        h.add(passed(2.0, 1.0, true));
        assert!(h.add(passed(2.0, 1.0, false)).is_some());
        h.forget();
        assert_eq!((h.shortest(), h.alone(), h.beyond()), (None, None, None));
    }

    #[test]
    fn another_rate_of_the_link_is_learned_within_64_packets() {
        let mut h = Hop::new(0.5, 0.25);
        h.add(passed(2.0, 1.0, true));
        for _ in 0..64 {
            h.add(passed(8.0, 1.0, false));
        }
        assert!(near(h.shortest(), 8e-3));
        // What a packet alone takes in shortest times is as it was.
        assert!(near(h.alone(), 8e-3));
        assert!(near(h.add(passed(8.0, 1.0, false)), 0.0));
        h.add(passed(1.0, 1.0, false));
        assert!(near(h.shortest(), 1e-3), "a quicker one counts at once");
    }
}
