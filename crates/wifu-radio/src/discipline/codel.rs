//! Controlled delay (RFC 8289): signals once packets have waited longer than a target for an
//! interval, and then at times that come the closer the longer it lasts. With marks the packet
//! that signals goes on, as in Linux; section 5 has drops alone.

use wifu_wire::{Span, Time};

/// Parameters (RFC 8289 section 4.3 and 4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodelParams {
    /// The wait that is no congestion.
    pub target: Span,
    /// About the longest round-trip time.
    pub interval: Span,
}

impl Default for CodelParams {
    fn default() -> CodelParams {
        CodelParams {
            target: Span::MILLI * 5,
            interval: Span::MILLI * 100,
        }
    }
}

/// The packet at the head of a queue, out of it.
#[derive(Clone, Copy, Debug)]
pub struct Head<T> {
    /// The packet.
    pub item: T,
    /// When it came.
    pub since: Time,
    /// Its transport understands marks.
    pub ect: bool,
    /// Octets that wait behind it, or some that are more than a large packet's.
    pub behind: u32,
}

/// The state of one queue (RFC 8289 section 5.3).
#[derive(Clone, Debug)]
pub struct Codel {
    p: CodelParams,
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    dropping: bool,
}

/// MAXPACKET of RFC 8289: with so few octets behind, a packet signals nothing.
const LARGEST: u32 = 1500;

/// [`Head::behind`] of the packets that wait, by their lengths: no more are added up than it takes.
pub fn behind(lengths: impl Iterator<Item = u16>) -> u32 {
    let mut sum = 0;
    for octets in lengths {
        sum += u32::from(octets);
        if sum > LARGEST {
            break;
        }
    }
    sum
}

impl Codel {
    /// An empty queue.
    pub fn new(p: CodelParams) -> Codel {
        Codel {
            p,
            first_above: None,
            drop_next: Time::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Nothing waits, or a packet left without waiting.
    pub fn rest(&mut self) {
        (self.first_above, self.dropping) = (None, false);
    }

    //= rfc8289#section-5.5
    // control_law.
    fn law(&self, from: Time) -> Time {
        from + Span::from_secs_f64(self.p.interval.as_secs_f64() / f64::from(self.count).sqrt())
    }

    //= rfc8289#section-5.6
    // dodequeue: whether this packet may signal.
    fn above(&mut self, now: Time, since: Time, behind: u32) -> bool {
        if now - since < self.p.target || behind <= LARGEST {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.p.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// The queue gives the next packet, by `pop`; `drop` is told of those before it that signalled
    /// and understand no marks. Whether the one that is given is to be marked.
    //= rfc8289#section-5.5
    pub fn next<T>(
        &mut self,
        now: Time,
        mut pop: impl FnMut() -> Option<Head<T>>,
        mut drop: impl FnMut(T),
    ) -> Option<(T, bool)> {
        let Some(mut head) = pop() else {
            self.rest();
            return None;
        };
        let mut above = self.above(now, head.since, head.behind);
        if !self.dropping {
            if !above {
                return Some((head.item, false));
            }
            self.begin(now);
            if head.ect {
                return Some((head.item, true));
            }
            drop(head.item);
            let Some(next) = pop() else {
                self.rest();
                return None;
            };
            self.above(now, next.since, next.behind);
            return Some((next.item, false));
        }
        self.dropping = above;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if head.ect {
                self.drop_next = self.law(self.drop_next);
                return Some((head.item, true));
            }
            drop(head.item);
            let Some(next) = pop() else {
                self.rest();
                return None;
            };
            head = next;
            above = self.above(now, head.since, head.behind);
            self.dropping = above;
            if above {
                self.drop_next = self.law(self.drop_next);
            }
        }
        Some((head.item, false))
    }

    /// Packets have waited too long for an interval: the first one signals.
    fn begin(&mut self, now: Time) {
        self.dropping = true;
        // Not long ago it was at some rate of signals: about that is right again.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now - self.drop_next < self.p.interval * 16;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.law(now);
        self.last_count = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A queue in which every packet has waited 20 ms and many wait behind it, served once per
    /// millisecond; when packets signalled, milliseconds.
    fn signals(c: &mut Codel, ect: bool, ms: core::ops::Range<u64>) -> Vec<u64> {
        let mut at = Vec::new();
        for ms in ms {
            let now = Time(ms * 1_000_000);
            let head = Head {
                item: (),
                since: Time(now.0 - 20_000_000),
                ect,
                behind: 9000,
            };
            let mut dropped = 0;
            let next = c.next(now, || Some(head), |()| dropped += 1);
            let (_, marked) = next.expect("there is always one");
            assert!(!marked || ect && dropped == 0);
            at.extend((0..dropped + u32::from(marked)).map(|_| ms));
        }
        at
    }

    #[test]
    fn signals_come_after_an_interval_and_by_the_square_root() {
        for ect in [true, false] {
            let mut c = Codel::new(CodelParams::default());
            // 100 ms above; then after 100/sqrt(1), 100/sqrt(2), ...: 1100, 1200, 1270.7, 1328.4,
            // 1378.4, 1423.2, 1464.0.
            let at = signals(&mut c, ect, 1000..1470);
            assert_eq!(at, [1100, 1200, 1271, 1329, 1379, 1424, 1464], "{ect}");
            // One good packet ends it.
            c.rest();
            // 7 signals, of which the first began: 7 - 1 since then.
            let at = signals(&mut c, ect, 1500..1700);
            assert_eq!(at[0], 1600);
            assert_eq!(c.count, 6 + at.len() as u32 - 1);
            // 16 intervals later it begins anew.
            c.rest();
            let at = signals(&mut c, ect, 9000..9210);
            assert_eq!(at, [9100, 9200]);
        }
    }

    #[test]
    fn short_waits_and_the_last_packets_signal_nothing() {
        for (waited, behind) in [(4_999_999, 9000), (20_000_000, 1500)] {
            let mut c = Codel::new(CodelParams::default());
            for ms in 100..900 {
                let now = Time(ms * 1_000_000);
                let head = Head {
                    item: (),
                    since: Time(now.0 - waited),
                    ect: true,
                    behind,
                };
                let next = c.next(now, || Some(head), |()| panic!("it may be marked"));
                assert_eq!(next, Some(((), false)));
            }
        }
    }

    #[test]
    fn small_packets_are_added_up_until_they_are_more_than_a_large_one() {
        let of = |octets: u16, n| behind(core::iter::repeat_n(octets, n));
        assert_eq!((of(500, 3), of(40, 37)), (1500, 1480));
        assert!(of(500, 4) > LARGEST && of(40, 100) > LARGEST && of(1501, 1) > LARGEST);
        let mut looked = 0;
        behind(core::iter::repeat_with(|| 750).inspect(|_| looked += 1));
        assert_eq!(looked, 3);
    }

    /// Section 5.5: the time of the next drop moves if that is to come.
    #[test]
    fn a_drop_that_ends_the_congestion_sets_no_time_for_another() {
        let mut c = Codel::new(CodelParams::default());
        signals(&mut c, false, 1000..1101);
        let next = c.drop_next;
        assert_eq!(next, Time(1_200_000_000));
        let mut queue: VecDeque<u64> = [1180, 1199].into();
        let pop = || {
            let since = Time(queue.pop_front()? * 1_000_000);
            Some(Head {
                item: (),
                since,
                ect: false,
                behind: 9000,
            })
        };
        let mut dropped = 0;
        let given = c.next(Time(1_200_000_000), pop, |()| dropped += 1);
        assert_eq!((given, dropped, c.count), (Some(((), false)), 1, 2));
        assert_eq!((c.dropping, c.drop_next), (false, next));
    }

    #[test]
    fn what_is_dropped_makes_room_for_the_next() {
        let mut c = Codel::new(CodelParams::default());
        signals(&mut c, false, 1000..1100);
        let mut queue: VecDeque<u32> = [7, 8].into();
        let mut dropped = Vec::new();
        let mut pop = || {
            let item = queue.pop_front()?;
            Some(Head {
                item,
                since: Time::ZERO,
                ect: false,
                behind: 9000,
            })
        };
        let next = c.next(Time(1_100_000_000), &mut pop, |n| dropped.push(n));
        assert_eq!((next, dropped), (Some((8, false)), vec![7]));
        assert_eq!(c.next(Time(1_101_000_000), pop, |_| {}), None);
    }
}
