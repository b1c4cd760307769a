//! A flow: its two ends, its application, and its account.

use super::course::Course;
use super::pattern::Pattern;
use crate::outcome::{FailedRequest, PacketOutcome, RequestOutcome};
use crate::scenario::FlowSpec;
use crate::traffic::{App, Talk};
use std::sync::Arc;
use wifu_engine::{Blueprint, Conn, ConnId, ConnInfo, Limit};
use wifu_wire::{Delays, Span, Time};

/// The port of flow number 0 at both ends.
pub(crate) const PORT: u16 = 10_000;

/// One end of a flow's present connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct End {
    pub(crate) conn: Option<ConnId>,
    /// It takes octets.
    pub(crate) open: bool,
    /// Octets that the application wants written by now.
    pub(crate) goal: u64,
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Nothing will be added to the goal: close when it is reached.
    pub(crate) last: bool,
    pub(crate) shut: bool,
}

/// Numbers of connections that are over; 0 of what their composition does not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) segments: u64,
    pub(crate) data_segments: u64,
    /// Payload octets sent by each end, each once.
    pub(crate) octets: [u64; 2],
    pub(crate) feedback: u64,
    /// Segments retransmitted, and retransmission timeouts, of the end whose octets do not count.
    pub(crate) asked: (u64, u64),
    /// What that end waited for these timeouts.
    pub(crate) asked_wait: Span,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
    /// Recoveries that did not wait for a timeout.
    pub(crate) fast_retransmits: u64,
    /// From the last segment before each timeout to the first after it, all together.
    pub(crate) timeout_wait: Span,
    pub(crate) round_trips: Delays,
    /// How long the end whose octets do not count held acknowledgements back.
    pub(crate) ack_delays: Delays,
    pub(crate) limits: [Span; Limit::COUNT],
    pub(crate) srtt: Option<Span>,
    pub(crate) min_rtt: Option<Span>,
    pub(crate) cwnd: u64,
    /// Segments that some node on the way forwarded without looking at them, or that tell of one.
    pub(crate) unserved: u64,
}

impl Totals {
    /// A connection of an end: of the one that sends what counts (`counted`), or of the other.
    pub(crate) fn add(&mut self, end: usize, counted: bool, info: &ConnInfo, conn: Option<&Conn>) {
        self.octets[end] += once(info);
        if counted {
            self.sender(info, conn);
        } else {
            self.receiver(info, conn);
        }
    }

    fn sender(&mut self, info: &ConnInfo, conn: Option<&Conn>) {
        self.unserved += info.counters.unserved;
        self.segments += info.counters.segments_out;
        self.data_segments += info.counters.data_out;
        self.retransmissions += u64::from(info.retransmits);
        self.timeouts += u64::from(info.timeouts.unwrap_or(0));
        self.fast_retransmits += info.counters.fast_retransmits;
        self.timeout_wait = self.timeout_wait + info.timeout_wait.unwrap_or(Span::ZERO);
        if let Some(conn) = conn {
            self.round_trips.merge(conn.round_trips());
        }
        for (sum, span) in self.limits.iter_mut().zip(info.limits) {
            *sum = *sum + span;
        }
        if info.min_rtt > Span::ZERO {
            self.srtt = Some(info.srtt);
            let before = self.min_rtt.unwrap_or(info.min_rtt);
            self.min_rtt = Some(before.min(info.min_rtt));
        }
        self.cwnd = u64::from(info.cwnd.unwrap_or(0));
    }

    fn receiver(&mut self, info: &ConnInfo, conn: Option<&Conn>) {
        self.unserved += info.counters.unserved;
        self.feedback += info.counters.segments_out;
        if let Some(conn) = conn {
            self.ack_delays.merge(conn.ack_delays());
        }
        self.asked.0 += u64::from(info.retransmits);
        self.asked.1 += u64::from(info.timeouts.unwrap_or(0));
        self.asked_wait = self.asked_wait + info.timeout_wait.unwrap_or(Span::ZERO);
    }
}

/// Payload octets that a connection sent, repetitions excluded.
pub(crate) fn once(info: &ConnInfo) -> u64 {
    let c = info.counters;
    c.octets_out.saturating_sub(c.octets_again)
}

/// What happened to a flow and when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Octets that had been written when the time was over.
    pub(crate) written: u64,
    pub(crate) hops: u32,
    pub(crate) start: Option<Time>,
    pub(crate) connected: Option<Time>,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    pub(crate) known: Option<Time>,
    pub(crate) finished: bool,
    pub(crate) bytes: u64,
    /// The sender's port of the last connection.
    pub(crate) port: Option<u16>,
    pub(crate) corrupt: u64,
    /// When its application fell silent, and the octets written and not delivered by then.
    pub(crate) held: Option<(Time, u64)>,
    pub(crate) connections: u32,
    pub(crate) fault: Option<String>,
    /// When a connection failed, the last of them.
    pub(crate) failed: Option<Time>,
    pub(crate) packets: PacketOutcome,
    pub(crate) batches: Vec<u64>,
    /// Octets at the end of the last batch.
    pub(crate) batched: u64,
    pub(crate) requests: Vec<RequestOutcome>,
    pub(crate) requests_failed: Vec<FailedRequest>,
    pub(crate) totals: Totals,
    pub(crate) routeless: Routeless,
    /// The sum of the times at which packets were lost, nanoseconds.
    pub(crate) lost_ns: u128,
    /// When octets were delivered.
    pub(crate) course: Course,
}

impl Account {
    /// So many octets were delivered.
    pub(crate) fn deliver(&mut self, now: Time, octets: u64) {
        self.bytes += octets;
        self.course.add(now, octets);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }
}

/// For how long there was no route.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Routeless {
    since: Option<Time>,
    longest: Span,
}

impl Routeless {
    /// Routes were laid, and one is there or none.
    pub(crate) fn is(&mut self, now: Time, there: bool) {
        self.longest = self.longest(now);
        self.since = (!there).then(|| self.since.unwrap_or(now));
    }

    /// The longest time so far.
    pub(crate) fn longest(&self, now: Time) -> Span {
        let last = self.since.map_or(Span::ZERO, |since| now - since);
        self.longest.max(last)
    }
}

/// Datagrams without any protocol.
#[derive(Clone, Debug)]
pub(crate) struct Udp {
    /// Octets of the application in each.
    pub(crate) payload: u64,
    /// Between two; `None`: the queue is never to run empty.
    pub(crate) gap: Option<Span>,
    pub(crate) talk: Option<Talk>,
    pub(crate) left: Option<u64>,
    pub(crate) next: u64,
    /// In the sender's own queue, at full load.
    pub(crate) queued: u32,
    /// Octets of the application sent.
    pub(crate) offered: u64,
    pub(crate) jitter: Jitter,
    /// How long datagrams were on their way, from the sender's queue on.
    pub(crate) transits: Delays,
}

/// Interarrival jitter (RFC 3550 6.4.1), in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    transit: Option<Span>,
    mean: f64,
}

impl Jitter {
    /// A datagram was on its way for so long.
    pub(crate) fn add(&mut self, transit: Span) {
        if let Some(before) = self.transit.replace(transit) {
            self.mean += (transit.0.abs_diff(before.0) as f64 - self.mean) / 16.0;
        }
    }

    /// In seconds, once there are two datagrams to compare.
    pub(crate) fn seconds(self, datagrams: u64) -> Option<f64> {
        (datagrams > 1).then_some(self.mean / 1e9)
    }
}

/// One flow.
pub(crate) struct Flow {
    pub(crate) spec: FlowSpec,
    pub(crate) src: u16,
    pub(crate) dst: u16,
    /// Both ends are made from it; none for datagrams.
    pub(crate) blueprint: Option<Arc<Blueprint>>,
    pub(crate) udp: Option<Udp>,
    pub(crate) app: App,
    pub(crate) ends: [End; 2],
    /// The pattern that each side writes.
    pub(crate) patterns: [Pattern; 2],
    /// When the application's next step is due; other steps in the queue are outdated.
    pub(crate) step: Time,
    pub(crate) stop_at: Time,
    pub(crate) stopped: bool,
    /// It counts for "all finite flows are done".
    pub(crate) finite: bool,
    pub(crate) done: bool,
    pub(crate) mss: u64,
    /// Octets delivered since the last full segment was counted.
    pub(crate) part: u64,
    /// The request or file under way: since when, how long.
    pub(crate) request: Option<(Time, u64)>,
    /// Octets of answers or files before the one under way, of the present connection.
    pub(crate) answered: u64,
    pub(crate) account: Account,
}

impl Flow {
    /// The node of its end: 0 the sender's, 1 the receiver's.
    pub(crate) fn node(&self, end: usize) -> u16 {
        if end == 0 { self.src } else { self.dst }
    }

    /// The port that its receiver listens on.
    pub(crate) fn port(index: u32) -> u16 {
        PORT + index as u16
    }

    /// The end whose octets are the flow's: of requests and answers, the answers count.
    pub(crate) fn counted_end(&self) -> usize {
        usize::from(matches!(self.app, App::Request(_)))
    }

    /// The hosts of both ends exchange its octets unaltered: `n` more of `octets` arrived.
    pub(crate) fn check(&mut self, end: usize, octets: &[u8], at: u64) {
        self.account.corrupt += self.patterns[1 - end].wrong(octets, at);
    }

    /// How much of it is done, as far as one can tell.
    pub(crate) fn share(&self, now: Time) -> f64 {
        match (self.done, self.spec.bytes) {
            (true, _) => 1.0,
            (false, Some(bytes)) => self.account.bytes as f64 / bytes.0.max(1) as f64,
            (false, None) => match (self.spec.time, self.account.start) {
                (Some(t), Some(start)) => (now - start).as_secs_f64() / t.0.as_secs_f64().max(1e-9),
                _ => match self.spec.count {
                    Some(count) => self.account.requests.len() as f64 / count.max(1) as f64,
                    None => 0.0,
                },
            },
        }
    }
}
