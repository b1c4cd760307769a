//! Snoop: a relay before a lossy link keeps copies of TCP's segments, sends lost ones again itself
//! and holds the duplicate acknowledgements back that would make the sender slow down
//! (H. Balakrishnan, S. Seshan, E. Amir, R. Katz, "Improving TCP/IP performance over wireless
//! networks", MobiCom 1995).
//!
//! Data: what is new is kept and goes on; what the sender itself sends again is marked, for its
//! duplicate acknowledgements must reach it. Acknowledgements: a new one frees copies and times the
//! link; the first duplicate for a segment that is kept makes a copy go again at once; it and those
//! that must follow, one per segment behind the lost one, are held back. A segment that stays
//! unacknowledged for twice the link's round-trip time goes again, too. Differences: an old
//! acknowledgement goes on instead of being dropped, since it may open the window. Where the
//! sender sends again what is acknowledged, the authors answer it in the receiver's place; here it
//! goes on, and the receiver's answer is not held back. Of timestamps they knew nothing: where the
//! sender fills a hole itself, the copies behind it that have older ones are worthless, for the
//! receiver refuses them (PAWS, RFC 7323 section 5), and what becomes of them is the sender's
//! affair.

use crate::handler::{Descriptor, Handler, HopCx, Verbs};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::Packet;
use crate::{ip, shim};
use core::net::{Ipv4Addr, SocketAddrV4};
use std::collections::{BTreeMap, VecDeque};
use wifu_engine::descriptor::ParamSpec;
use wifu_engine::kit::Ewma;
use wifu_wire::tcp::Tcp;
use wifu_wire::{Flags, Head, LinkTo, Seq, Span, Time, Wire};

const AGAIN: ParamSpec = ParamSpec::int(
    "again",
    5,
    1,
    100,
    "How often a segment is retransmitted here; after that it is the sender's affair.",
);
const PATIENCE: ParamSpec = ParamSpec::span(
    "patience",
    Span(20_000_000),
    Span(100_000),
    Span(10_000_000_000),
    "The shortest time before an unacknowledged segment goes again.",
);

/// See the module.
pub static SNOOP: Descriptor = Descriptor {
    name: "snoop",
    doc: "At the relay before a lossy link: keeps TCP's segments, sends lost ones again itself and \
          holds back duplicate acknowledgements (Balakrishnan et al., MobiCom 1995). For TCP unless \
          `protocol` says otherwise.",
    cites: &["Balakrishnan, Seshan, Amir, Katz: MobiCom 1995"],
    hooks: Hooks::of(&[Hook::Forward]),
    protocol: Some(6),
    parses: Some(&wifu_wire::tcp::FORMAT),
    params: &[AGAIN, PATIENCE],
    counts: &["resent", "timeouts", "dup_acks_held", "by_sender"],
    needs: Verbs::COPY.with(Verbs::SEND),
    holds: 512,
    build: |s| {
        Ok(Box::new(Snoop {
            again: s.params.int(AGAIN.name) as u32,
            patience: s.params.span(PATIENCE.name),
            flows: BTreeMap::new(),
            head: Head::default(),
        }))
    },
    ..Descriptor::EMPTY
};

/// Flows that are followed; the one silent for longest makes room.
const FLOWS: usize = 64;
/// Whoever is silent for so long has no use for copies: the sender's own timer, of 1 s at least
/// (RFC 6298 2.4), has expired.
const SILENT: Span = Span(2_000_000_000);
const RESENT: usize = 0;
const TIMEOUTS: usize = 1;
const DUP_ACKS_HELD: usize = 2;
const BY_SENDER: usize = 3;

/// From where data comes, and to where it goes.
type Key = (SocketAddrV4, SocketAddrV4);

struct Kept {
    seq: Seq,
    end: Seq,
    ticket: u64,
    /// When it last left.
    sent: Time,
    /// How often it went again from here.
    again: u32,
    /// Its timestamp, if it has one.
    ts: Option<u32>,
    /// The sender sent it again, or must: its acknowledgements say nothing of this link.
    by_sender: bool,
}

#[derive(Default)]
struct Flow {
    /// In the order of their numbers.
    kept: VecDeque<Kept>,
    acked: Option<Seq>,
    window: u32,
    /// Duplicate acknowledgements still to be held back.
    expected: u32,
    /// The sender sent what is acknowledged: it has not heard of it.
    unheard: bool,
    /// Of the link beyond, seconds.
    rtt: Option<Ewma>,
    heard: Time,
}

struct Snoop {
    again: u32,
    patience: Span,
    flows: BTreeMap<Key, Flow>,
    head: Head,
}

impl Snoop {
    /// Read a packet's TCP header; its ends and its payload's length.
    fn read(&mut self, octets: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4, u32)> {
        if shim::parse(octets).is_some() {
            return None;
        }
        let body = ip::payload(octets)?;
        let (src, dst): (Ipv4Addr, Ipv4Addr) = ip::addresses(octets);
        let segment = &octets[body];
        let header = Tcp.parse(segment, &mut self.head).ok()?;
        let (sport, dport) = (self.head.sport, self.head.dport);
        let payload = (segment.len() - header) as u32;
        Some((
            SocketAddrV4::new(src, sport),
            SocketAddrV4::new(dst, dport),
            payload,
        ))
    }

    /// The flow of these ends, with room for it.
    fn flow(&mut self, key: Key, cx: &mut HopCx<'_>) -> &mut Flow {
        if !self.flows.contains_key(&key) && self.flows.len() >= FLOWS {
            let oldest = self.flows.iter().min_by_key(|(_, f)| f.heard);
            if let Some(oldest) = oldest.map(|(k, _)| *k) {
                self.forget(oldest, cx);
            }
        }
        let flow = self.flows.entry(key).or_default();
        flow.heard = cx.now;
        flow
    }

    fn forget(&mut self, key: Key, cx: &mut HopCx<'_>) {
        for k in self.flows.remove(&key).into_iter().flat_map(|f| f.kept) {
            cx.drop_kept(k.ticket);
        }
    }

    fn on_data(&mut self, key: Key, payload: u32, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) {
        let seq = self.head.seq;
        let (end, ts) = (seq.plus(payload), self.head.ts);
        let flow = self.flow(key, cx);
        if flow.acked.is_some_and(|a| end.upto(a)) {
            flow.unheard = true;
            return;
        }
        let at = flow.kept.partition_point(|k| k.seq.before(seq));
        for k in flow.kept.range_mut(at..) {
            k.by_sender |= k.ts.zip(ts).is_some_and(|(k, ts)| Seq(k).before(Seq(ts)));
        }
        if let Some(k) = flow.kept.get_mut(at).filter(|k| k.seq == seq) {
            (k.by_sender, k.sent) = (true, cx.now);
            return cx.count(BY_SENDER);
        }
        // What comes behind something later is the sender's repair of a loss before this relay.
        let by_sender = at < flow.kept.len();
        let Some(ticket) = packet.copy() else {
            return self.make_room(key, cx);
        };
        let kept = Kept {
            seq,
            end,
            ticket,
            sent: cx.now,
            again: 0,
            ts,
            by_sender,
        };
        flow.kept.insert(at, kept);
        // A flow's time is that of its first.
        if at == 0 {
            self.rearm(cx);
        }
    }

    /// No copy could be kept: those of the flow that is silent for longest go, so that the next
    /// segments have room.
    fn make_room(&mut self, key: Key, cx: &mut HopCx<'_>) {
        let others = self
            .flows
            .iter()
            .filter(|(k, f)| **k != key && !f.kept.is_empty());
        let silent = others.min_by_key(|(_, f)| f.heard);
        let gone = silent.filter(|(_, f)| f.heard + SILENT < cx.now);
        if let Some(gone) = gone.map(|(k, _)| *k) {
            self.forget(gone, cx);
            self.rearm(cx);
        }
    }

    fn on_ack(&mut self, key: Key, bare: bool, cx: &mut HopCx<'_>) -> Verdict {
        let (Some(ack), window) = (self.head.ack, self.head.window) else {
            return Verdict::Accept;
        };
        // A receiver whose buffer grows changes its window all the time: with SACK it is the blocks
        // that make a duplicate (RFC 6675 section 2).
        let sacks = self.head.ranges().iter().any(|(from, _)| from.after(ack));
        let again = self.again;
        let Some(flow) = self.flows.get_mut(&key) else {
            return Verdict::Accept;
        };
        flow.heard = cx.now;
        if flow.acked.is_none_or(|a| ack.after(a)) {
            flow.free(ack, cx);
            (flow.acked, flow.window) = (Some(ack), window);
            (flow.expected, flow.unheard) = (0, false);
            self.rearm(cx);
            return Verdict::Accept;
        }
        if flow.acked != Some(ack) || !bare || (window != flow.window && !sacks) {
            return Verdict::Accept;
        }
        if core::mem::take(&mut flow.unheard) {
            return Verdict::Accept;
        }
        if flow.expected > 0 {
            flow.expected -= 1;
            cx.count(DUP_ACKS_HELD);
            return Verdict::Drop("duplicate ACK held back");
        }
        let behind = flow.kept.len().saturating_sub(1) as u32;
        let lost = flow.kept.front_mut().filter(|k| k.seq == ack);
        let Some(k) = lost.filter(|k| !k.by_sender && k.again < again) else {
            return Verdict::Accept;
        };
        (k.sent, k.again) = (cx.now, k.again + 1);
        cx.send_kept(k.ticket, true, LinkTo::Route);
        cx.count(RESENT);
        cx.count(DUP_ACKS_HELD);
        flow.expected = behind.saturating_sub(1);
        self.rearm(cx);
        Verdict::Drop("duplicate ACK held back")
    }

    /// Be called when the first segment has waited too long.
    fn rearm(&self, cx: &mut HopCx<'_>) {
        let due = self
            .flows
            .values()
            .filter_map(|f| f.due(self.patience, self.again));
        match due.min() {
            Some(at) => cx.arm(0, at.max(cx.now + Span(1))),
            None => cx.disarm(0),
        }
    }
}

impl Flow {
    /// Everything below `ack` reached the other end.
    fn free(&mut self, ack: Seq, cx: &mut HopCx<'_>) {
        while let Some(k) = self.kept.front().filter(|k| k.end.upto(ack)) {
            if k.end == ack && k.again == 0 && !k.by_sender {
                let rtt = self.rtt.get_or_insert_with(|| Ewma::new(0.875));
                rtt.add((cx.now - k.sent).as_secs_f64());
            }
            cx.drop_kept(k.ticket);
            self.kept.pop_front();
        }
    }

    /// When its first segment goes again, unless that is the sender's affair.
    fn due(&self, patience: Span, again: u32) -> Option<Time> {
        let first = self
            .kept
            .front()
            .filter(|k| !k.by_sender && k.again < again)?;
        let rtt = self
            .rtt
            .as_ref()
            .and_then(Ewma::value)
            .map(Span::from_secs_f64);
        let wait = rtt.map_or(patience, |rtt| (rtt * 2).max(patience));
        Some(first.sent + wait * (1u64 << first.again.min(6)))
    }
}

impl Handler for Snoop {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let Some((from, to, payload)) = self.read(packet.octets()) else {
            return Verdict::Accept;
        };
        let flags = self.head.flags;
        if flags.has(Flags::SYN.with(Flags::RST)) {
            self.forget((from, to), cx);
            self.forget((to, from), cx);
            return Verdict::Accept;
        }
        let bare = payload == 0 && !flags.has(Flags::FIN);
        let verdict = self.on_ack((to, from), bare, cx);
        if payload > 0 {
            self.on_data((from, to), payload, packet, cx);
        }
        verdict
    }

    fn on_timer(&mut self, _: u8, cx: &mut HopCx<'_>) {
        let (patience, again) = (self.patience, self.again);
        for ((_, to), flow) in &mut self.flows {
            if flow.due(patience, again).is_none_or(|at| at > cx.now) {
                continue;
            }
            // A full device would drop it, and what waits there may be the first copy.
            let full = cx.site.link_to(*to.ip()).room == Some(0);
            if let Some(k) = flow.kept.front_mut() {
                k.sent = cx.now;
                if full {
                    continue;
                }
                k.again += 1;
                cx.send_kept(k.ticket, true, LinkTo::Route);
                cx.count(TIMEOUTS);
            }
        }
        self.rearm(cx);
    }
}
