//! What a mesh simulation found: numbers per flow, node, link and hop, and series on request.
//!
//! The outcome of a scenario is a pure function of it: no wall-clock time is in it, and its JSON is
//! the same to the octet on every run.

mod asked;
mod packets;

pub use asked::Asked;
pub use packets::PacketOutcome;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wifu_node::{HostCounters, LaneCounters, SplitCounters};
use wifu_wire::Delays;

/// The version of this description; the first number changes when a name's meaning does.
pub const SCHEMA: &str = "1.2";

/// (seconds, value) in order of time.
pub type Series = Vec<(f64, f64)>;

/// What a run found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`SCHEMA`].
    pub schema: String,
    /// The scenario's seed.
    pub seed: u64,
    /// The scenario's replicate.
    pub run: u64,
    /// Simulated time at the end, seconds.
    pub sim_seconds: f64,
    /// Which reading of its testbed's numbers it ran in, if the set has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<String>,
    /// Why it ended: `done`, `packets`, `time`, `idle`, `stopped`.
    pub end: String,
    /// Hash over everything that happened, 16 hexadecimal digits.
    pub trace_hash: String,
    /// How many things happened.
    pub events: u64,
    /// What was asked for and did nothing, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Per flow, in the scenario's order.
    pub flows: Vec<FlowOutcome>,
    /// When each batch ended, seconds.
    pub batches_end_s: Vec<f64>,
    /// Per node, in the topology's order.
    pub nodes: Vec<NodeOutcome>,
    /// Per directed radio link that carried or could carry frames.
    pub links: Vec<LinkOutcome>,
    /// Per direction of a wired link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wires: Vec<WireOutcome>,
    /// Per flow and hop: where the time went.
    pub hops: Vec<HopOutcome>,
    /// How often a direction of a link was taken out of the tables because HELLOs were lost, where
    /// the scenario's routing daemon does so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawals: Option<u64>,
    /// Series by name: `flow.1.delivered`, `flow.1.cwnd`, `node.n2.queue`. Not in the JSON.
    #[serde(skip)]
    pub series: BTreeMap<String, Series>,
}

/// One flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Number in the scenario, from 1.
    pub id: u32,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Composition with parameters, or `udp`.
    pub protocol: String,
    /// Application.
    pub app: String,
    /// Hops of the route when the flow began; 0 if there was none.
    pub hops: u32,
    /// When it called connect (udp: began to send), seconds.
    pub start_s: f64,
    /// When its first connection opened.
    pub connected_s: Option<f64>,
    /// When the first octet was delivered.
    pub first_byte_s: Option<f64>,
    /// When the last octet so far was delivered.
    pub last_byte_s: Option<f64>,
    /// When the sender knew that all was delivered; none where nodes split its connection
    /// (`split_at`), as the first of them tells it before, and nobody does of the other end.
    pub known_s: Option<f64>,
    /// The longest time for which routing had no way to `to`, seconds.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub routeless_s: f64,
    /// Everything the application had to send was delivered.
    pub finished: bool,
    /// End of the time that `goodput_bps` is about, seconds.
    #[serde(default)]
    pub until_s: f64,
    /// Octets delivered to the application, in order, each once.
    pub bytes: u64,
    /// Octets of the application handed to the network, each once: repetitions are not in it, what
    /// was lost is. Of requests and answers, the answers.
    #[serde(default)]
    pub sent_bytes: u64,
    /// `bytes` * 8 / (`until_s` - `start_s`); the end is `last_byte_s` for finished flows, else
    /// when its application fell silent if all that it wrote arrived, or the end of the run.
    pub goodput_bps: f64,
    /// What its buffers held when its time was over, if anything: that still arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlasted: Option<Outlasted>,
    /// Delivered octets that were not what was sent; anything but 0 is a defect.
    pub corrupt: u64,
    /// Segments that came to an end although some node on the way does not serve the composition,
    /// or that told an end of such a node: what its handlers should have done there did not happen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unserved: u64,
    /// The relays of its routes, there and back, that do not serve it, if `unserved` is not 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unserved_at: Vec<String>,
    /// The nodes on its way that split its connections, in order. All that is told of its sender is
    /// of the half with the one next to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split_at: Vec<String>,
    /// Connections it opened.
    pub connections: u32,
    /// Segments that the sender sent (udp: packets). Who sends the octets that count is the sender
    /// here and in all that follows: of requests and answers, who answers.
    pub segments: u64,
    /// Data segments among them.
    pub data_segments: u64,
    /// Segments that the receiver sent: who asks, of requests and answers.
    pub feedback_segments: u64,
    /// What `from` sent to ask, where `to` is the sender because it answers; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// Segments retransmitted.
    pub retransmissions: u64,
    /// Retransmission timeouts; absent if no part of the composition has a retransmission timer,
    /// and of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Seconds from the last segment sent before each of them to the timeout, all together, and of
    /// the wait that was under way at the end, if another went before it; absent where they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Recoveries that did not wait for a timeout; absent if no part takes losses from what
    /// arrives, and of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_retransmits: Option<u64>,
    /// Smoothed round-trip time at the end.
    pub srtt_s: Option<f64>,
    /// Smallest round-trip time.
    pub min_rtt_s: Option<f64>,
    /// Round-trip times as its sender timed them, each sample once: of all connections together.
    /// None before the first, and of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Percentiles>,
    /// How long the receiver held its acknowledgements back, each from the first data that it tells
    /// of (RFC 9293 3.8.6.3): that is in the round trip of who timed it by that data. None before
    /// the first, and of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_delay: Option<Percentiles>,
    /// These times and the two before are from when a packet left first to the word that it had
    /// arrived: what it waited to be repaired is in them.
    #[serde(default, skip_serializing_if = "is_not")]
    pub rtt_with_repairs: bool,
    /// udp: how long datagrams that arrived were on their way, the sender's queue included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Percentiles>,
    /// Congestion window at the end, octets; absent if no part has one, and of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<u64>,
    /// Seconds that each limit was binding, by name. Where nodes split its connection, `drain` is
    /// until the first of them had acknowledged all, and `peer` is of that one's window.
    pub limited_s: BTreeMap<String, f64>,
    /// The fault that ended a connection; of several the last.
    pub fault: Option<String>,
    /// When that was, seconds since the run began; absent if none failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault_s: Option<f64>,
    /// Packets of the flow, both directions: entered, delivered, lost at which place.
    pub packets: PacketOutcome,
    /// udp: interarrival jitter at the end (RFC 3550 6.4.1), from the time that each datagram was
    /// on its way, the sender's queue included; none before two have arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
    /// The receiver's port.
    #[serde(default)]
    pub port: u16,
    /// The sender's port, of the last connection; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_port: Option<u16>,
    /// udp: octets of the application in each datagram; the last may have fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagram: Option<u64>,
    /// When its packets were lost, on the mean, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
    /// Octets that were delivered in the second half of its time, that of `goodput_bps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_bytes: Option<u64>,
    /// Octets per batch of `stop.batch`.
    pub batches: Vec<u64>,
    /// Requests and files, in order.
    pub requests: Vec<RequestOutcome>,
    /// When the request or file was asked for that was under way at the end, seconds; none if none
    /// was, or it is none of those that `requests` lists.
    #[serde(default)]
    pub under_way_s: Option<f64>,
    /// Files whose connection failed, in order: nobody asks for them again, and `requests` has none
    /// of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests_failed: Vec<FailedRequest>,
}

/// Octets that outlast the time of a flow (`time`, `stop_at`) in its buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outlasted {
    /// When the time was over, seconds.
    pub stop_s: f64,
    /// Octets that the application had written and that were not delivered by then.
    pub bytes: u64,
    /// From then until the last octet that was delivered, seconds.
    pub seconds: f64,
    /// Octets among them that were never delivered.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub never: u64,
}

/// Percentiles of delays, seconds; within a sixteenth of the truth ([`Delays`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of the delays are below.
    pub p50_s: f64,
    /// 95 % are below.
    pub p95_s: f64,
    /// 99 % are below.
    pub p99_s: f64,
    /// How many delays there were.
    pub samples: u64,
}

impl Percentiles {
    /// Of these; none if there are none.
    pub fn of(delays: &Delays) -> Option<Percentiles> {
        Some(Percentiles {
            p50_s: delays.quantile(0.50)?,
            p95_s: delays.quantile(0.95)?,
            p99_s: delays.quantile(0.99)?,
            samples: delays.total(),
        })
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn is_not(told: &bool) -> bool {
    !told
}

fn is_no_time(s: &f64) -> bool {
    *s == 0.0
}

/// One request, or one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestOutcome {
    /// When it was asked for, seconds.
    pub start_s: f64,
    /// Its length.
    pub bytes: u64,
    /// Until its last octet was delivered.
    pub delay_s: f64,
}

/// One file whose connection failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailedRequest {
    /// When it was asked for, seconds.
    pub start_s: f64,
    /// Its length.
    pub bytes: u64,
    /// Until its connection failed.
    pub failed_s: f64,
}

/// Frames that were not received, by reason, as their receiver knows it: whom it is too far from to
/// notice is noise to it, and has a name in `wifu.why`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostOutcome {
    /// Another frame was on the air.
    pub collision: u64,
    /// Noise alone, or too weak for the receiver to notice by itself.
    pub noise: u64,
    /// The receiver was busy: transmitting, or locked on another frame.
    pub busy: u64,
    /// A source that is no 802.11 (`[[topology.interferer]]`) was on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub interference: u64,
    /// An event of the scenario had cut the link.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut: u64,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeOutcome {
    /// As the topology calls it.
    pub name: String,
    /// Metres; at the end of the run.
    pub position: Option<[f64; 3]>,
    /// It has no radio: what is told of one is 0.
    #[serde(default, skip_serializing_if = "is_not")]
    pub wired_only: bool,
    /// Data frames that the MAC was done with.
    pub frames: u64,
    /// Times a data frame was put on the air.
    pub attempts: u64,
    /// Attempts at `frames`, an RTS that got no answer included.
    #[serde(default)]
    pub tries: u64,
    /// Those of them beyond a frame's first.
    pub retries: u64,
    /// Frames given up.
    pub failed: u64,
    /// Data frames received for this node, duplicates excluded.
    pub received: u64,
    /// Data frames received again.
    pub duplicates: u64,
    /// Packets refused by a full queue of its radio or of its wires.
    pub queue_drops: u64,
    /// Frames for this node that were not received.
    pub lost: LostOutcome,
    /// Time it transmitted, seconds.
    pub airtime_s: f64,
    /// Time it sensed the medium busy, own transmissions included, seconds.
    pub busy_s: f64,
    /// Delay from the driver's ring to the report of completion (Behaviour 7.1), microseconds: its
    /// smoothed average, which protocols are told, as it stood at the end; no mean of the run.
    pub delay_us: Option<f64>,
    /// Packets forwarded.
    pub forwarded: u64,
    /// Packets dropped when they were to be handed to a link: the deadline that was noted on them
    /// had passed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Packets handed to a link that carry feedback or have priority, by what was noted on them:
    /// they go before others where `host.prio_feedback` is on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: u64,
    /// Packets that its endpoint dropped, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped: BTreeMap<String, u64>,
    /// Handlers at this node, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<HandlerOutcome>,
    /// Its lanes, if hop protocols run there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<LaneCounters>,
    /// What it did with connections that it splits, if it is to (`[[split]]`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitCounters>,
    /// What packets of its endpoint took its host, if that takes time (`host.profile`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostCounters>,
    /// What the discipline of its queues did, if they have one (`host.queue`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueOutcome>,
}

/// What became of packets at queues that have a discipline: of its radio, and of all wires that
/// begin at the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueOutcome {
    /// Marked: congestion experienced.
    pub marked: u64,
    /// Dropped by the discipline, as their transport understands no marks.
    pub dropped: u64,
    /// Refused by a full queue.
    pub full: u64,
}

/// Packets in a driver's ring from which on somebody might expect a discipline above to act.
const MANY: u32 = 10;

/// That disciplines of radios had nothing to judge, as the rings beneath held all that waited: name
/// of a node, packets that waited in front of its ring, the most in it at a time.
pub(crate) fn idle_disciplines<'a>(
    kind: &str,
    ring: u32,
    nodes: impl Iterator<Item = (&'a str, u64, u32)>,
) -> Option<String> {
    let idle = nodes.filter(|(_, waited, most)| *waited == 0 && *most >= MANY);
    let names: Vec<&str> = idle.map(|(name, ..)| name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "host.queue: {kind} of the radios at {} marked and dropped nothing: no packet waited in \
             front of the driver's ring, which holds {ring} and held all that waited; \
             radio.ring = 2 keeps it short",
            names.join(", ")
        )
    })
}

/// A handler's account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandlerOutcome {
    /// What it is, as `[[handler]]` and `chain` name it.
    pub name: String,
    /// Packets that it was asked about.
    pub packets: u64,
    /// Of these, those that it changed.
    pub changed: u64,
    /// Of these, those that it dropped.
    pub dropped: u64,
    /// Of these, those that it held.
    pub held: u64,
    /// Wanted to hold, but held as many as it may.
    pub overflows: u64,
    /// Copies that it kept.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept: u64,
    /// Packets and copies that it sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent: u64,
    /// What else it counts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

/// One direction of a radio link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Transmitter.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// Mean signal to noise ratio, dB.
    pub snr_db: f64,
    /// Transmissions of data frames from `from` to `to`, retries included.
    pub attempts: u64,
    /// Attempts at the packets that the MAC was done with, an RTS that got no answer included: of
    /// these, `acked` were acknowledged.
    #[serde(default)]
    pub tries: u64,
    /// Packets of `frames` that were acknowledged.
    pub acked: u64,
    /// Packets that the MAC was done with: acknowledged or given up.
    pub frames: u64,
    /// Frames given up.
    pub failed: u64,
    /// Frames for others that `to` heard of `from`.
    pub overheard: u64,
    /// Packets for others of which the receiver heard at least one attempt (Behaviour 13).
    #[serde(default)]
    pub overheard_frames: u64,
}

/// One direction of a wired link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WireOutcome {
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Packets that arrived.
    pub packets: u64,
    /// Octets of IP packets that arrived.
    pub bytes: u64,
    /// Packets refused by the full queue.
    pub queue_drops: u64,
    /// Packets lost on the way.
    pub lost: u64,
}

/// One hop of one direction of a flow: where the time of its packets went, as sums in seconds over
/// the packets that crossed it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HopOutcome {
    /// Number of the flow, from 1.
    pub flow: u32,
    /// Towards the sender: acknowledgements.
    pub reverse: bool,
    /// Number of the hop from where the packets enter, from 1.
    pub hop: u32,
    /// Transmitting node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Packets that crossed it.
    pub packets: u64,
    /// Packets that were lost on it after they had left the queue in front of it: given up by the
    /// MAC, or lost on the wire.
    pub lost: u64,
    /// Packets that never left that queue: refused as it was full, or dropped by its discipline.
    #[serde(default)]
    pub queue_drops: u64,
    /// Of `queue_drops`, those that the discipline dropped (`host.queue`), those that it evicted
    /// from a full queue included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub early_drops: u64,
    /// Packets that the transmitting node's lanes dropped in front of that queue: the flow's lane
    /// was full, no further one could be opened, or it was closed with what it held.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lane_drops: u64,
    /// At the transmitting node before they were handed to the link: in its lanes, in handlers that
    /// held them, while its host worked them off, in `host.fwd_cost`. Of what a lane or a handler
    /// sends again, since it first came. What the last node takes is on no hop.
    #[serde(default)]
    pub node_s: f64,
    /// Waiting behind other packets of the node.
    pub queue_s: f64,
    /// Waiting for the medium: inter-frame spaces, back-off, others' frames.
    pub contention_s: f64,
    /// On the air, the attempt that succeeded.
    pub air_s: f64,
    /// Attempts that failed, until the last one began to contend.
    pub retry_s: f64,
    /// Propagation on a wire, its variation included.
    pub propagation_s: f64,
}

impl Outcome {
    /// As JSON; the same octets for the same scenario.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }

    /// Bytes of all flows over the time from the first one's start to the last one's end, in bits
    /// per second. Not the sum of their rates, which grows where some end early or were never on at
    /// the same time.
    pub fn goodput_bps(&self) -> f64 {
        let start = self.flows.iter().map(|f| f.start_s).reduce(f64::min);
        let end = self.flows.iter().map(|f| f.until_s).reduce(f64::max);
        let seconds = end.unwrap_or(0.0) - start.unwrap_or(0.0);
        let bytes: u64 = self.flows.iter().map(|f| f.bytes).sum();
        if seconds > 0.0 {
            bytes as f64 * 8.0 / seconds
        } else {
            0.0
        }
    }

    /// Whether there was a time at which all flows were on.
    pub fn overlap(&self) -> bool {
        let latest = self.flows.iter().map(|f| f.start_s).reduce(f64::max);
        let first = self.flows.iter().map(|f| f.until_s).reduce(f64::min);
        latest.unwrap_or(0.0) < first.unwrap_or(f64::INFINITY)
    }

    /// Jain's fairness index of the flows' goodputs; none if nothing was delivered at all.
    pub fn jain(&self) -> Option<f64> {
        let sum: f64 = self.flows.iter().map(|f| f.goodput_bps).sum();
        let squares: f64 = self
            .flows
            .iter()
            .map(|f| f.goodput_bps * f.goodput_bps)
            .sum();
        (squares > 0.0).then(|| sum * sum / (self.flows.len() as f64 * squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_json_and_series_stay_out_of_it() {
        let mut outcome = Outcome {
            schema: SCHEMA.to_string(),
            flows: vec![FlowOutcome::default()],
            ..Outcome::default()
        };
        outcome
            .series
            .insert("flow.1.cwnd".to_string(), vec![(0.0, 1.0)]);
        let json = outcome.to_json();
        assert!(json.get("series").is_none());
        let back: Outcome = serde_json::from_value(json).unwrap();
        outcome.series.clear();
        assert_eq!(back, outcome);
    }

    #[test]
    fn jain_of_known_shares() {
        let of = |shares: &[f64]| {
            let flow = |g: &f64| FlowOutcome {
                goodput_bps: *g,
                ..FlowOutcome::default()
            };
            let flows = shares.iter().map(flow).collect();
            Outcome {
                flows,
                ..Outcome::default()
            }
            .jain()
        };
        assert_eq!(of(&[5.0, 5.0]), Some(1.0));
        assert_eq!(of(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((of(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-12);
        // Nobody got anything: that is not fair, but 0 by 0.
        assert_eq!(of(&[0.0, 0.0]), None);
    }
}
