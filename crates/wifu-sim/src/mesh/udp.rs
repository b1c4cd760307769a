//! Datagrams at a rate or at full load, and the sink that counts them.

use super::Simulation;
use super::app::Talk;
use super::flow::{Flow, Jitter, Udp};
use super::host::address;
use super::pool::Packet;
use crate::scenario::{AppKind, FlowSpec};
use wifu_wire::ipv4::{self, HEADER, TTL};
use wifu_wire::{IpInfo, Rng, Span};

/// Octets of a UDP header.
const UDP_HEADER: usize = 8;
/// Octets of the number that a datagram begins with.
const NUMBER: usize = 8;
/// UDP's protocol number.
pub(crate) const UDP: u8 = 17;
/// At full load so many packets of a flow are in its node's queue: enough that coalesced reports
/// of the driver never let it run empty.
const LOAD: u32 = 32;

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
        }
    }

    /// Nothing more will be sent.
    fn ended(&self, flow: &Flow) -> bool {
        flow.stopped || self.left == Some(0)
    }
}

impl Simulation {
    /// A datagram is due, or the source starts at full load.
    pub(crate) fn send_due(&mut self, number: u32) {
        let now = self.now;
        let Some(udp) = &mut self.flows[number as usize].udp else {
            return;
        };
        if udp.left == Some(0) {
            return;
        }
        let next = match (&mut udp.talk, udp.gap) {
            (Some(talk), _) => Some(talk.next(now)),
            (None, Some(gap)) => Some(now + gap),
            (None, None) => None,
        };
        match next {
            Some(at) => {
                self.send_datagram(number);
                self.step_at(number, at);
            }
            None => self.load(number),
        }
    }

    /// Full load: fill the queue up to the mark.
    fn load(&mut self, number: u32) {
        loop {
            let flow = &self.flows[number as usize];
            let (src, dst) = (flow.src, flow.dst);
            let Some(udp) = &flow.udp else { return };
            let idle = flow.account.start.is_none() || udp.ended(flow) || udp.gap.is_some();
            if idle || udp.queued >= LOAD {
                return;
            }
            match self.table.via(src, dst) {
                crate::routing::Via::Radio(_) if self.air.room(src) > 0 => {}
                crate::routing::Via::Wire(wire) => {
                    let wire = &mut self.wires[wire as usize];
                    // What waits in front of a wire is not reported: ask again when one has left.
                    if wire.room(self.now) == 0 || wire.waiting() >= LOAD as usize {
                        let at = wire.next_left();
                        return self.step_at(number, at);
                    }
                }
                _ => return,
            }
            let by_radio = matches!(self.table.via(src, dst), crate::routing::Via::Radio(_));
            if let (true, Some(udp)) = (by_radio, &mut self.flows[number as usize].udp) {
                udp.queued += 1;
            }
            self.send_datagram(number);
        }
    }

    /// A packet of a flow left its source's queue: at full load another takes its place.
    pub(crate) fn left_queue(&mut self, number: u32, reverse: bool) {
        let flow = &mut self.flows[number as usize];
        if let (Some(udp), false) = (&mut flow.udp, reverse) {
            if udp.gap.is_some() {
                return;
            }
            udp.queued = udp.queued.saturating_sub(1);
            self.load(number);
        }
    }

    /// The node's queue has room again.
    pub(crate) fn refill(&mut self, node: u16) {
        for number in 0..self.flows.len() {
            if self.flows[number].udp.is_some() && self.flows[number].src == node {
                self.load(number as u32);
            }
        }
    }

    fn send_datagram(&mut self, number: u32) {
        let buffer = self.pool.buffer();
        let flow = &mut self.flows[number as usize];
        let (src, dst) = (flow.src, flow.dst);
        let Some(udp) = &mut flow.udp else { return };
        let payload = udp.left.map_or(udp.payload, |left| left.min(udp.payload)) as usize;
        udp.offered += payload as u64;
        let place = udp.next * udp.payload;
        udp.left = udp.left.map(|left| left.saturating_sub(udp.payload));
        let out = self.pool.octets_mut(buffer);
        let ip = IpInfo {
            src: address(src),
            dst: address(dst),
            proto: UDP,
            ttl: TTL,
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
        flow.patterns[0].fill(rest, place);
        udp.next += 1;
        let offered = udp.offered;
        let len = (HEADER + total) as u16;
        let mut packet = Packet::new(buffer, len, src, dst, UDP);
        (packet.flow, packet.born) = (number, self.now);
        let code = u64::from(number) << 32 | udp.next & 0xFFFF_FFFF;
        self.hash.mix(self.now, code);
        if self.rec.all {
            self.rec.offered(number as usize, self.now, offered);
        }
        let id = self.pool.insert(packet);
        self.originate(id);
    }

    /// A datagram is where it was to go.
    pub(crate) fn sink(&mut self, id: u32) {
        let packet = self.pool[id];
        let number = packet.flow;
        let body = &self.pool.octets(id)[HEADER + UDP_HEADER..];
        let flow = &mut self.flows[number as usize];
        let Some(udp) = &mut flow.udp else { return };
        let (head, rest) = body.split_at(body.len().min(NUMBER));
        let mut sequence = [0; NUMBER];
        sequence[NUMBER - head.len()..].copy_from_slice(head);
        let place = u64::from_be_bytes(sequence).wrapping_mul(udp.payload);
        flow.account.corrupt += flow.patterns[0].wrong(rest, place);
        udp.jitter.add(self.now - packet.born);
        flow.account.bytes += body.len() as u64;
        flow.account.first.get_or_insert(self.now);
        flow.account.last = Some(self.now);
        let bytes = flow.account.bytes;
        self.pool.release(id);
        self.rec.delivered(number as usize, self.now, bytes);
        self.count_packets(1);
        self.datagram_over(number);
    }

    /// A datagram is delivered or lost: the flow is done when no more are on their way.
    pub(crate) fn datagram_over(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let Some(udp) = &flow.udp else { return };
        if flow.done || !udp.ended(flow) {
            return;
        }
        let p = flow.account.packets;
        if p.sent == p.delivered + p.queue + p.link + p.wire + p.route + p.hop {
            flow.account.finished = p.sent == p.delivered;
            flow.account.known = Some(self.now);
            self.flow_done(number);
        }
    }
}
