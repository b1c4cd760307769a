//! Datagrams at a rate or at full load, and the sink that counts them.

use super::address::address;
use super::flow::{Flow, Jitter, Udp};
use super::pool::Packet;
use crate::scenario::{AppKind, FlowSpec};
use crate::traffic::Talk;
use wifu_wire::ipv4::{self, HEADER, TTL};
use wifu_wire::{Delays, Ecn, IpInfo, Rng, Span, Time};

/// Octets of a UDP header.
const UDP_HEADER: usize = 8;
/// Octets of the number that a datagram begins with.
const NUMBER: usize = 8;
pub(crate) use wifu_wire::numbers::UDP;
/// At full load so many packets of a flow are in its node's queue: enough that coalesced reports
/// of the driver never let it run empty.
pub(crate) const LOAD: u32 = 32;

impl Udp {
    /// The source of a flow; `mtu` is the length of its packets if the flow does not say.
    pub(crate) fn new(spec: &FlowSpec, mtu: u16, rng: &Rng) -> Udp {
        let size = usize::from(spec.size.unwrap_or(mtu).min(mtu));
        let payload = (size - HEADER - UDP_HEADER) as u64;
        let gap = spec.rate.map(|r| {
            let ns = (u128::from(payload) * 8_000_000_000).div_ceil(u128::from(r.0.0.max(1)));
            Span(u64::try_from(ns).unwrap_or(u64::MAX).max(1))
        });
        Udp {
            payload,
            gap,
            talk: (spec.app == AppKind::OnOff).then(|| Talk::new(spec, payload, rng)),
            left: spec.bytes.map(|b| b.0),
            next: 0,
            queued: 0,
            offered: 0,
            jitter: Jitter::default(),
            transits: Delays::default(),
        }
    }

    /// Nothing more will be sent.
    fn ended(&self, flow: &Flow) -> bool {
        flow.stopped || self.left == Some(0)
    }
}

impl Flow {
    /// A datagram is due, or the source starts at full load: when the next one is due, `None` at
    /// full load. Nothing if the flow sends no datagrams, or no more.
    pub(crate) fn datagram_due(&mut self, now: Time) -> Option<Option<Time>> {
        let udp = self.udp.as_mut().filter(|u| u.left != Some(0))?;
        Some(match (&mut udp.talk, udp.gap) {
            (Some(talk), _) => Some(talk.next(now)),
            (None, Some(gap)) => Some(now + gap),
            (None, None) => None,
        })
    }

    /// At full load, and it has not as many packets in its node's queue as it may.
    pub(crate) fn loads(&self) -> bool {
        self.udp.as_ref().is_some_and(|udp| {
            let idle = self.account.start.is_none() || udp.ended(self) || udp.gap.is_some();
            !idle && udp.queued < LOAD
        })
    }

    /// One of its packets enters its node's queue, which will report that it left.
    pub(crate) fn enters_queue(&mut self) {
        if let Some(udp) = &mut self.udp {
            udp.queued += 1;
        }
    }

    /// One of its packets left its node's queue. True at full load: another takes its place.
    #[inline]
    pub(crate) fn left_queue(&mut self) -> bool {
        let Some(udp) = self.udp.as_mut().filter(|u| u.gap.is_none()) else {
            return false;
        };
        udp.queued = udp.queued.saturating_sub(1);
        true
    }

    /// Write its next datagram, which is to leave in `buffer`, to `out`. `number` is the flow's.
    pub(crate) fn datagram(
        &mut self,
        now: Time,
        number: u32,
        buffer: u32,
        out: &mut [u8],
    ) -> Option<Packet> {
        let (src, dst) = (self.src, self.dst);
        let udp = self.udp.as_mut()?;
        let payload = udp.left.map_or(udp.payload, |left| left.min(udp.payload)) as usize;
        udp.offered += payload as u64;
        let place = udp.next * udp.payload;
        udp.left = udp.left.map(|left| left.saturating_sub(udp.payload));
        let ip = IpInfo {
            src: address(src),
            dst: address(dst),
            proto: UDP,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        let total = UDP_HEADER + payload;
        ipv4::emit(&ip, total, out);
        let body = &mut out[HEADER..HEADER + total];
        let port = Flow::port(number).to_be_bytes();
        body[..2].copy_from_slice(&port);
        body[2..4].copy_from_slice(&port);
        body[4..6].copy_from_slice(&(total as u16).to_be_bytes());
        // No checksum (RFC 768).
        body[6..8].copy_from_slice(&[0, 0]);
        // The last datagram may be too short for its number: then the number's last octets.
        let number_of = udp.next.to_be_bytes();
        let (head, rest) = body[UDP_HEADER..].split_at_mut(payload.min(NUMBER));
        head.copy_from_slice(&number_of[NUMBER - head.len()..]);
        self.patterns[0].fill(rest, place);
        udp.next += 1;
        let len = (HEADER + total) as u16;
        let mut packet = Packet::new(buffer, len, src, dst, UDP);
        (packet.flow, packet.born) = (number, now);
        Some(packet)
    }

    /// A datagram sent at `born` is where it was to go; `octets` are those of the packet.
    pub(crate) fn sink(&mut self, now: Time, born: Time, octets: &[u8]) {
        let Some(udp) = &mut self.udp else { return };
        let Some(body) = octets.get(HEADER + UDP_HEADER..) else {
            // A handler left less of it than its header.
            self.account.corrupt += udp.payload;
            return;
        };
        let (head, rest) = body.split_at(body.len().min(NUMBER));
        let mut sequence = [0; NUMBER];
        sequence[NUMBER - head.len()..].copy_from_slice(head);
        let place = u64::from_be_bytes(sequence).wrapping_mul(udp.payload);
        self.account.corrupt += self.patterns[0].wrong(rest, place);
        udp.jitter.add(now - born);
        udp.transits.add(now - born);
        self.account.deliver(now, body.len() as u64);
    }

    /// A datagram is delivered or lost. True if that ends the flow: no more are on their way.
    pub(crate) fn datagram_over(&mut self, now: Time) -> bool {
        let ended = self.udp.as_ref().is_some_and(|udp| udp.ended(self));
        if self.done || !ended {
            return false;
        }
        let p = self.account.packets;
        let over = p.sent == p.delivered + p.lost();
        if over {
            self.account.finished = p.sent == p.delivered;
            self.account.known = Some(now);
        }
        over
    }
}
