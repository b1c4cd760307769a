//! What one side measured, as it tells the other; the outcome puts the two sides' together.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wifu_linux::bsd::TcpInfo;

/// What one side measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// One entry per stream, by index.
    pub streams: Vec<Totals>,
    /// This process's processor time in percent of one processor: user, system.
    pub cpu_percent: (f64, f64),
    /// The whole machine's busy time in percent of one processor.
    pub machine_percent: f64,
    /// The congestion control of the streams this side sends on or, lacking those, receives on.
    pub congestion: Option<String>,
    /// The server's report, if the client asked for it in this form.
    pub output_json: Option<serde_json::Value>,
    /// The server's lines, if the client asked for them in this form.
    pub output_text: Option<String>,
}

/// What one side counted on one stream.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Bytes handed to or taken from the socket.
    pub bytes: u64,
    /// Seconds from the start to the end, or in tests of fixed size to the last byte.
    pub seconds: f64,
    /// Completion of the first and the last write or read, seconds since the start.
    pub times: Option<(f64, f64)>,
    /// When bytes arrived: seconds since the start, bytes by then; if that was asked for.
    #[serde(default)]
    pub arrivals: Option<Vec<(f64, u64)>>,
    /// Round-trip times and windows over the test; at the sender.
    pub tcp: Option<Extremes>,
    /// What the sender's stack counted over the test.
    #[serde(default)]
    pub stack: Option<Stack>,
    /// Time that connecting took, seconds.
    pub connect_s: Option<f64>,
}

/// What a sender's stack counts that iperf3 does not report.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct Stack {
    /// Retransmission timeouts; absent where the stack does not count them (Linux before 6.7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u32>,
    /// Smallest round-trip time that a segment had, microseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_rtt: Option<u32>,
}

impl Stack {
    /// What a connection has counted so far.
    pub fn new(info: &TcpInfo) -> Stack {
        Stack {
            timeouts: info.timeouts,
            smallest_rtt: (1..u32::MAX)
                .contains(&info.min_rtt_us)
                .then_some(info.min_rtt_us),
        }
    }

    /// The same since a connection had counted `base`. A smallest one of old stays.
    pub fn since(self, base: Stack) -> Stack {
        let both = self.timeouts.zip(base.timeouts);
        Stack {
            timeouts: both.map(|(now, then)| now.saturating_sub(then)),
            ..self
        }
    }

    /// Of two connections, one behind the other.
    pub fn and(self, next: Stack) -> Stack {
        let both = self.timeouts.zip(next.timeouts);
        let times = [self.smallest_rtt, next.smallest_rtt];
        Stack {
            timeouts: both.map(|(one, other)| one + other),
            smallest_rtt: times.into_iter().flatten().min(),
        }
    }
}

/// Records when bytes arrived. Every point is exact: so many bytes had arrived by then. Of what
/// arrives within the gap the last counts.
#[derive(Debug)]
pub struct Recorder {
    gap: Duration,
    due: Duration,
    points: Vec<(f64, u64)>,
}

/// Points after which every second one goes, and half as many follow: memory has a bound.
const MOST_POINTS: usize = 1 << 20;

impl Recorder {
    /// Nothing has arrived. `gap` in seconds.
    pub fn new(gap: f64) -> Self {
        Self {
            gap: Duration::from_secs_f64(gap),
            due: Duration::ZERO,
            points: Vec::new(),
        }
    }

    /// `total` bytes had arrived `now`, since the start.
    pub fn add(&mut self, now: Duration, total: u64) {
        let point = (now.as_secs_f64(), total);
        match self.points.last_mut() {
            Some(last) if now < self.due => *last = point,
            _ => {
                self.points.push(point);
                self.due = now + self.gap;
            }
        }
        if self.points.len() >= MOST_POINTS {
            self.gap *= 2;
            let mut number = 0u32;
            self.points.retain(|_| {
                number += 1;
                number.is_multiple_of(2)
            });
        }
    }

    /// The points so far.
    pub fn points(&self) -> Vec<(f64, u64)> {
        self.points.clone()
    }
}

/// A sender's state over the whole test.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq)]
pub struct Extremes {
    /// Segments retransmitted in the whole test.
    pub retransmits: u64,
    /// Largest congestion window, bytes.
    pub max_snd_cwnd: u64,
    /// Largest window of the peer, bytes.
    pub max_snd_wnd: u64,
    /// Largest smoothed round-trip time at an interval's end, microseconds.
    pub max_rtt: u32,
    /// Smallest smoothed round-trip time at an interval's end, microseconds.
    pub min_rtt: u32,
    /// Mean of the smoothed round-trip times at the intervals' ends, microseconds.
    pub mean_rtt: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_exact_and_neither_too_dense_nor_too_many() {
        let mut few = Recorder::new(0.01);
        for (ms, total) in [(0, 10), (4, 20), (9, 30), (10, 40), (25, 50)] {
            few.add(Duration::from_millis(ms), total);
        }
        assert_eq!(few.points(), [(0.009, 30), (0.01, 40), (0.025, 50)]);
        let mut many = Recorder::new(0.001);
        for k in 0..3_000_000u64 {
            many.add(Duration::from_millis(k), k);
        }
        let points = many.points();
        assert!(points.len() < MOST_POINTS, "{}", points.len());
        assert!(
            points
                .iter()
                .all(|(t, n)| (t * 1e3 - *n as f64).abs() < 1e-6)
        );
        assert_eq!(points.last().unwrap().1, 2_999_999);
    }
}
