//! What one side measured, as it tells the other; the outcome puts the two sides' together.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wifu_linux::bsd::TcpInfo;
use wifu_sim::outcome::Percentiles;
use wifu_wire::Delays;

/// What one side measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// One entry per stream, by index.
    pub streams: Vec<Totals>,
    /// This process's processor time in percent of one processor: user, system.
    pub cpu_percent: (f64, f64),
    /// The same of the daemon that does this process's protocol; none of the kernel's TCP, or if it
    /// is not known.
    #[serde(default)]
    pub daemon_percent: Option<f64>,
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
    /// Bytes before these, while seconds were omitted (`-O`); `None` of one that does not tell.
    #[serde(default)]
    pub omitted: Option<u64>,
    /// Seconds from the start to the end, or in tests of fixed size to the last byte.
    pub seconds: f64,
    /// Completion of the first and the last write or read, seconds since the start.
    pub times: Option<(f64, f64)>,
    /// When bytes arrived: seconds since the start, bytes by then; if that was asked for.
    #[serde(default)]
    pub arrivals: Option<Vec<(f64, u64)>>,
    /// Bytes that arrived and are not what was sent, where arrivals are recorded.
    #[serde(default)]
    pub corrupt: Option<u64>,
    /// Round-trip times and windows over the test; at the sender.
    pub tcp: Option<Extremes>,
    /// Segments that this side's stack retransmitted for an application, of which there is no
    /// `tcp`; none if it does not tell.
    #[serde(default)]
    pub retransmits: Option<u64>,
    /// What the sender's stack counted over the test.
    #[serde(default)]
    pub stack: Option<Stack>,
    /// Segments that the receiver's stack sent over the test.
    #[serde(default)]
    pub feedback_segments: Option<u64>,
    /// Time that connecting took, seconds.
    pub connect_s: Option<f64>,
    /// What this side's host's monotonic clock showed at the start, seconds.
    #[serde(default)]
    pub monotonic_s: Option<f64>,
}

/// What a sender's stack counts that iperf3 does not report.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Stack {
    /// Retransmission timeouts; absent where the stack does not count them (Linux before 6.7), or
    /// its protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u32>,
    /// Smallest round-trip time that a segment had, microseconds; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_rtt: Option<u32>,
    /// Segments sent.
    #[serde(default)]
    pub segments: u64,
    /// Segments sent that had data.
    #[serde(default)]
    pub data_segments: u64,
    /// Payload bytes sent, each once; absent where the stack does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// What only WiFu's stacks tell.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// What WiFu's stacks count beside what TCP_INFO has room for, by the simulator's names.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq)]
pub struct Counted {
    /// Recoveries that did not wait for a timeout; absent where the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_retransmits: Option<u64>,
    /// Seconds from the last segment before each timeout to the first after it, all together;
    /// absent where the protocol has no timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Seconds that each limit was binding, by name.
    pub limited_s: BTreeMap<String, f64>,
    /// Round-trip times, as `CLASS:COUNT` ([`Delays::to_text`]).
    pub rtt_classes: String,
    /// What TCP_INFO has 0 of because the protocol has none: `snd_cwnd`, `snd_wnd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Round-trip times are from when packets left first, with what these waited to be repaired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rtt_with_repairs: bool,
}

impl Stack {
    /// Of no connection at all.
    pub fn none() -> Stack {
        Stack {
            timeouts: Some(0),
            sent_bytes: Some(0),
            ..Stack::default()
        }
    }

    /// Percentiles of its round-trip times, as far as it tells.
    pub fn percentiles(&self) -> Option<Percentiles> {
        Percentiles::of(&self.counted.as_ref()?.round_trips())
    }

    /// Whether its protocol has something that TCP_INFO has a number of, by its name there.
    pub fn has(&self, name: &str) -> bool {
        let counted = self.counted.as_ref();
        !counted.is_some_and(|c| c.lacks.iter().any(|lacks| lacks == name))
    }

    /// What a connection has counted so far.
    pub fn new(info: &TcpInfo, counted: Option<Counted>) -> Stack {
        let known = (1..u32::MAX).contains(&info.min_rtt_us);
        let once = |sent: u64| sent.saturating_sub(info.bytes_retrans);
        // TCP_INFO has 0 of what a protocol does not have.
        let timed = counted.as_ref().is_none_or(|c| c.timeout_s.is_some());
        Stack {
            timeouts: info.timeouts.filter(|_| timed),
            smallest_rtt: known.then_some(info.min_rtt_us),
            segments: info.segs_out.into(),
            data_segments: info.data_segs_out.into(),
            sent_bytes: info.bytes_sent.map(once),
            counted,
        }
    }

    /// The same since a connection had counted `base`. A smallest one of old stays.
    pub fn since(self, base: &Stack) -> Stack {
        let timeouts = self.timeouts.zip(base.timeouts);
        let bytes = self.sent_bytes.zip(base.sent_bytes);
        let counted = self.counted.map(|now| match &base.counted {
            Some(then) => now.since(then),
            None => now,
        });
        Stack {
            timeouts: timeouts.map(|(now, then)| now.saturating_sub(then)),
            segments: self.segments.saturating_sub(base.segments),
            data_segments: self.data_segments.saturating_sub(base.data_segments),
            sent_bytes: bytes.map(|(now, then)| now.saturating_sub(then)),
            counted,
            ..self
        }
    }

    /// Of two connections, one behind the other.
    pub fn and(self, next: Stack) -> Stack {
        let timeouts = self.timeouts.zip(next.timeouts);
        let times = [self.smallest_rtt, next.smallest_rtt];
        let bytes = self.sent_bytes.zip(next.sent_bytes);
        Stack {
            timeouts: timeouts.map(|(one, other)| one + other),
            smallest_rtt: times.into_iter().flatten().min(),
            segments: self.segments + next.segments,
            data_segments: self.data_segments + next.data_segments,
            sent_bytes: bytes.map(|(one, other)| one + other),
            counted: match (self.counted, next.counted) {
                (Some(one), Some(other)) => Some(one.and(&other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// Bytes of the text of round-trip times in reports.
const CLASSES: usize = 8_192;

impl Counted {
    /// What a connection tells; none of a kernel's.
    pub fn of(text: &str) -> Option<Counted> {
        let told: serde_json::Value = serde_json::from_str(text).ok()?;
        let limits = told["limited_s"].as_object()?.iter();
        let seconds = |(name, s): (&String, &serde_json::Value)| Some((name.clone(), s.as_f64()?));
        let lacks = told["lacks"].as_array().map_or(&[][..], Vec::as_slice);
        Some(Counted {
            fast_retransmits: told["fast_retransmits"].as_u64(),
            timeout_s: told["timeout_s"].as_f64(),
            limited_s: limits.filter_map(seconds).collect(),
            rtt_classes: told["rtt"].as_str()?.to_owned(),
            lacks: lacks
                .iter()
                .filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect(),
            rtt_with_repairs: told["rtt_with_repairs"] == true,
        })
    }

    /// All round-trip times.
    pub fn round_trips(&self) -> Delays {
        Delays::from_text(&self.rtt_classes).unwrap_or_default()
    }

    fn since(self, base: &Counted) -> Counted {
        let rest = self.round_trips().since(&base.round_trips());
        let mut limited_s = self.limited_s;
        for (name, s) in &mut limited_s {
            *s = (*s - base.limited_s.get(name).unwrap_or(&0.0)).max(0.0);
        }
        let fast = self.fast_retransmits.zip(base.fast_retransmits);
        let waited = self.timeout_s.zip(base.timeout_s);
        Counted {
            fast_retransmits: fast.map(|(now, then)| now.saturating_sub(then)),
            timeout_s: waited.map(|(now, then)| (now - then).max(0.0)),
            limited_s,
            rtt_classes: rest.to_text(CLASSES),
            ..self
        }
    }

    fn and(self, other: &Counted) -> Counted {
        let mut all = self.round_trips();
        all.merge(&other.round_trips());
        let mut limited_s = self.limited_s;
        for (name, s) in &other.limited_s {
            *limited_s.entry(name.clone()).or_default() += s;
        }
        let fast = self.fast_retransmits.zip(other.fast_retransmits);
        let waited = self.timeout_s.zip(other.timeout_s);
        Counted {
            fast_retransmits: fast.map(|(one, two)| one + two),
            timeout_s: waited.map(|(one, two)| one + two),
            limited_s,
            rtt_classes: all.to_text(CLASSES),
            ..self
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
    /// Largest congestion window, bytes; absent if the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_snd_cwnd: Option<u64>,
    /// Largest window of the peer, bytes; absent if the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_snd_wnd: Option<u64>,
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
    use wifu_wire::Span;

    fn counted(fast: u64, us: &[u64]) -> Counted {
        let mut delays = Delays::default();
        us.iter().for_each(|us| delays.add(Span(us * 1_000)));
        Counted {
            fast_retransmits: Some(fast),
            timeout_s: Some(0.5 * fast as f64),
            limited_s: BTreeMap::from([("window".to_owned(), fast as f64)]),
            rtt_classes: delays.to_text(CLASSES),
            ..Counted::default()
        }
    }

    #[test]
    fn what_a_protocol_has_not_is_no_zero() {
        let text = r#"{"lacks":["snd_cwnd"],"rtt_with_repairs":true,"limited_s":{},"rtt":""}"#;
        let stack = Stack::new(&TcpInfo::default(), Counted::of(text));
        let later = stack.clone().since(&stack).and(stack);
        assert!(!later.has("snd_cwnd") && later.has("snd_wnd"));
        assert!(later.counted.unwrap().rtt_with_repairs);
        assert!(Stack::default().has("snd_cwnd"));
    }

    #[test]
    fn what_stacks_count_is_added_and_taken_away() {
        let stack = |n: u64, us: &[u64]| Stack {
            timeouts: Some(n as u32),
            smallest_rtt: Some(10),
            segments: 10 * n,
            data_segments: 5 * n,
            sent_bytes: Some(100 * n),
            counted: Some(counted(n, us)),
        };
        let (one, two) = (stack(1, &[5, 7]), stack(2, &[9, 9, 9]));
        let both = one.clone().and(two.clone());
        assert_eq!(
            both,
            Stack {
                smallest_rtt: Some(10),
                ..stack(3, &[5, 7, 9, 9, 9])
            }
        );
        assert_eq!(both.clone().since(&one), two);
        assert_eq!(both.percentiles().unwrap().samples, 5);
        // Across the control connection, and beside a kernel that tells less.
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), both);
        let kernel = Stack {
            counted: None,
            ..stack(1, &[])
        };
        let text = serde_json::to_string(&kernel).unwrap();
        assert_eq!(serde_json::from_str::<Stack>(&text).unwrap(), kernel);
        assert!(kernel.percentiles().is_none() && !text.contains("rtt_classes"));
    }

    #[test]
    fn what_a_daemon_tells_is_read_and_nonsense_is_not() {
        let text =
            r#"{"fast_retransmits":3,"timeout_s":0.25,"limited_s":{"window":1.5},"rtt":"5:2"}"#;
        let told = Counted::of(text).unwrap();
        assert_eq!(
            (told.fast_retransmits, told.timeout_s),
            (Some(3), Some(0.25))
        );
        assert_eq!(
            (told.limited_s["window"], told.round_trips().total()),
            (1.5, 2)
        );
        // What TCP_INFO has as 0 is absent where the protocol has no timeouts.
        let text = r#"{"fast_retransmits":3,"timeout_s":null,"limited_s":{},"rtt":""}"#;
        let untimed = Counted::of(text).unwrap();
        assert_eq!(
            (untimed.fast_retransmits, untimed.timeout_s),
            (Some(3), None)
        );
        let info = TcpInfo {
            timeouts: Some(0),
            ..TcpInfo::default()
        };
        let timeouts = |told| Stack::new(&info, told).timeouts;
        assert_eq!((timeouts(Some(told)), timeouts(None)), (Some(0), Some(0)));
        let stack = Stack::new(&info, Some(untimed));
        assert_eq!(stack.timeouts, None);
        let twice = stack.clone().and(stack.clone()).since(&stack);
        let text = serde_json::to_string(&twice).unwrap();
        assert!(
            !text.contains("timeout") && text.contains("fast_retransmits"),
            "{text}"
        );
        assert_eq!(Counted::of("{}"), None);
        assert_eq!(Counted::of("tcp-newreno"), None);
    }

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
