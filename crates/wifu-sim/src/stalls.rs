//! What attempts failed by while senders waited for retransmission timeouts.
//!
//! Who starves makes few attempts, and where one burst of them failed by something else, counting
//! attempts tells nothing of what made it wait. Here each wait counts by its length.

use std::collections::{BTreeMap, VecDeque};

use crate::causes::Cause;
use crate::mesh::Wait;
use wifu_wire::{Span, Time};

/// Failed attempts are kept for so long, as a timeout is at most 600 s (`rto_max`), and so many.
const LONGEST: Span = Span(601_000_000_000);
const MOST: usize = 1 << 22;

/// What a flow's links failed by while its sender waited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stalled {
    /// Seconds of waits, shared among what attempts failed by in each, by [`Cause`].
    pub by_cause: [f64; Cause::COUNT],
    /// Seconds of waits in which no attempt failed.
    pub none: f64,
}

impl Stalled {
    /// Seconds of all its waits.
    pub fn all(&self) -> f64 {
        self.by_cause.iter().sum::<f64>() + self.none
    }
}

/// Failed attempts of late, and what is told of waits, by the number of the flow.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    recent: VecDeque<(Time, (u16, u16), Cause)>,
    flows: BTreeMap<u32, Stalled>,
}

impl Stalls {
    /// An attempt on a link failed; they come in order of time.
    pub(crate) fn failed(&mut self, at: Time, link: (u16, u16), cause: Option<Cause>) {
        let Some(cause) = cause else {
            return;
        };
        self.recent.push_back((at, link, cause));
        let old = |f: &(Time, (u16, u16), Cause)| at - f.0 > LONGEST;
        while self.recent.len() > MOST || self.recent.front().is_some_and(old) {
            self.recent.pop_front();
        }
    }

    /// A sender waited, of which all failed attempts are known.
    pub fn waited(&mut self, wait: &Wait) {
        let begin = self.recent.partition_point(|f| f.0 < wait.from);
        let meanwhile = self.recent.range(begin..);
        let mut counts = [0u32; Cause::COUNT];
        for (_, link, cause) in meanwhile.take_while(|f| f.0 <= wait.until) {
            counts[*cause as usize] += u32::from(wait.links.contains(link));
        }
        let of = self.flows.entry(wait.flow).or_default();
        let seconds = (wait.until - wait.from).as_secs_f64();
        match counts.iter().sum::<u32>() {
            0 => of.none += seconds,
            all => {
                for (sum, n) in of.by_cause.iter_mut().zip(counts) {
                    *sum += seconds * f64::from(n) / f64::from(all);
                }
            }
        }
    }

    /// What is known of a flow, by its number from 1.
    pub fn of(&self, flow: u32) -> Option<&Stalled> {
        self.flows.get(&flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_by_its_length_whatever_failed_between() {
        let mut stalls = Stalls::default();
        let at = |ms: u64| Time::ZERO + Span::MILLI * ms;
        let wait = |from, until| Wait {
            flow: 1,
            from: at(from),
            until: at(until),
            links: vec![(0, 1), (1, 0)],
        };
        // A wait of 4 s with two failures, one of them on the way back; others' do not count.
        stalls.failed(at(10), (0, 1), Some(Cause::Hidden));
        stalls.failed(at(20), (1, 0), Some(Cause::AckLost));
        stalls.failed(at(30), (2, 1), Some(Cause::Cut));
        stalls.waited(&wait(5, 4_005));
        // A burst in which nobody waits.
        for ms in 4_010..4_500 {
            stalls.failed(at(ms), (0, 1), Some(Cause::Noise));
        }
        stalls.failed(at(5_000), (0, 1), Some(Cause::Hidden));
        stalls.waited(&wait(5_000, 6_000));
        stalls.waited(&wait(7_000, 7_500));
        let of = stalls.of(1).unwrap();
        let mut expected = Stalled {
            none: 0.5,
            ..Stalled::default()
        };
        expected.by_cause[Cause::Hidden as usize] = 3.0;
        expected.by_cause[Cause::AckLost as usize] = 2.0;
        assert_eq!(*of, expected);
        assert_eq!(of.all(), 5.5);
        assert_eq!(stalls.of(2), None);
    }

    #[test]
    fn what_failed_long_ago_is_forgotten() {
        let mut stalls = Stalls::default();
        for s in 0..1_000 {
            let at = Time::ZERO + Span::SECOND * s;
            stalls.failed(at, (0, 1), Some(Cause::Noise));
        }
        assert_eq!(stalls.recent.len(), 602);
    }
}
