//! Packets on their way through the mock network.

use super::{Happening, Mock};
use crate::fault::{Lost, Sentence};
use crate::packet::{Packet, Side, wrap};
use crate::queue::Class;
use crate::record::Event;
use crate::rules::Numbers;
use std::sync::Arc;
use wifu_engine::store::StoreKind;
use wifu_engine::{Conn, Datagram};
use wifu_wire::pcapng::Direction;
use wifu_wire::{Flags, Span, Time, ipv4};

/// A packet held back is let go after this time even if nothing overtakes it.
const HELD: Span = Span(50_000_000);

impl Mock {
    pub(super) fn depart(&mut self, side: Side, datagram: &Datagram, segment: &[u8]) {
        let i = side.index();
        let mut packet = Packet {
            from: side,
            flow: None,
            number: self.hosts[i].sent,
            numbers: Numbers::default(),
            flags: Flags(0),
            data: 0,
            index: None,
            again: false,
            reason: "",
            octets: wrap(
                &datagram.ip.v4().expect("both hosts have IPv4 addresses"),
                segment,
            ),
            judged: false,
            corrupt: false,
        };
        self.hosts[i].sent += 1;
        self.describe(&mut packet, datagram, segment);
        if let Some(capture) = &mut self.capture {
            let at = Time((self.now - self.start).0);
            capture.packet(at, side, Direction::Out, &packet.octets, packet.reason);
        }
        if let (Some(flow), true) = (packet.flow, packet.data > 0) {
            self.look(flow, side);
            let lane = &mut self.lanes[flow];
            lane.segments[i] += 1;
            lane.again[i] += u64::from(packet.again);
            let what = (self.now, Event::Send);
            (self.trace).packet(what, &self.lanes, &packet, packet.reason);
        }
        let at = if side == Side::A { 0 } else { self.path.len() };
        self.forward(packet, at);
    }

    /// Find out what a departing packet is.
    fn describe(&mut self, packet: &mut Packet, datagram: &Datagram, segment: &[u8]) {
        let i = packet.from.index();
        let endpoint = &self.hosts[i].endpoint;
        let conn = datagram.conn.and_then(|id| endpoint.conn(id));
        let fallback = self.lanes.first().map(|l| &l.flow.blueprints[i].wire);
        let Some(wire) = conn.map(Conn::wire).or(fallback).map(Arc::clone) else {
            return;
        };
        if let Some(sent) = conn.and_then(Conn::last_sent) {
            packet.reason = sent.reason.name();
        }
        let Ok(header) = wire.parse(segment, &mut self.head) else {
            return;
        };
        let head = &self.head;
        packet.flags = head.flags;
        packet.data = (segment.len() - header) as u32;
        let mut ports = [head.sport, head.dport];
        if packet.from == Side::B {
            ports.reverse();
        }
        let Some(flow) = self.by_ports.get(&ports).copied() else {
            return;
        };
        packet.flow = Some(flow);
        let lane = &mut self.lanes[flow];
        if head.flags.has(Flags::SYN) {
            lane.iss[i] = Some(head.seq);
        }
        if let Some(iss) = lane.iss[i] {
            packet.numbers.seq = head.seq.since(iss).wrapping_add(1);
        }
        if let (Some(ack), Some(iss)) = (head.ack, lane.iss[1 - i]) {
            packet.numbers.ack = ack.since(iss).wrapping_add(1);
        }
        if packet.data == 0 {
            return;
        }
        // Numbers count octets, or packets.
        let counted = lane.flow.blueprints[i].store_kind() == StoreKind::Octets;
        let (space, each) = match counted {
            true => {
                let mss = conn.map_or(lane.seen[i].mss, |c| c.board().conn.mss);
                (packet.data, mss.max(1))
            }
            false => (1, 1),
        };
        let first = lane.iss[i].unwrap_or(head.seq).plus(1);
        packet.index = Some(u64::from(head.seq.since(first)) / u64::from(each));
        let (end, high) = (head.seq.plus(space), lane.high[i]);
        packet.again = high.is_some_and(|h| head.seq.before(h));
        if high.is_none_or(|h| end.after(h)) {
            lane.high[i] = Some(end);
            packet.numbers.new_data = packet.index;
        }
    }

    /// A packet stands at node `at` and takes the next link.
    pub(super) fn forward(&mut self, mut packet: Packet, at: usize) {
        let (last, i) = (self.path.len() - 1, packet.from.index());
        // The path may have become shorter meanwhile.
        let (link, next) = match packet.from {
            Side::A => (at.min(last), at.min(last) + 1),
            Side::B => (at.clamp(1, last + 1) - 1, at.clamp(1, last + 1) - 1),
        };
        if link == last && !packet.judged {
            packet.judged = true;
            match self.faults.judge(self.now, &mut packet) {
                Sentence::Lost(why) => {
                    return self.trace.lose(self.now, &self.lanes, &packet, why);
                }
                Sentence::Goes { delay, twice } => {
                    let again = twice.then(|| packet.clone());
                    for packet in core::iter::once(packet).chain(again) {
                        if delay == Span::ZERO {
                            self.forward(packet, at);
                            continue;
                        }
                        let event = Happening::Forward { packet, at };
                        let source = 1 << 32 | i as u64;
                        self.queue
                            .push(self.now + delay, Class::Packet, source, event);
                    }
                    return;
                }
            }
        }
        match self.path[link][i].enter(self.now, packet.octets.len()) {
            Some(t) => {
                let source = (link * 2 + i) as u64;
                let event = Happening::Arrive { packet, at: next };
                self.queue.push(t, Class::Packet, source, event);
            }
            None => (self.trace).lose(self.now, &self.lanes, &packet, Lost::Queue),
        }
    }

    pub(super) fn arrive(&mut self, mut packet: Packet, at: usize) {
        let (from, end) = (packet.from, self.path.len());
        let there = match from {
            Side::A => at >= end,
            Side::B => at == 0,
        };
        if !there {
            if packet.route() {
                self.forward(packet, at);
            } else {
                (self.trace).lose(self.now, &self.lanes, &packet, Lost::Hops);
            }
            return;
        }
        let by = self.faults.overtaken_by(from);
        if by > 0 {
            let (side, number) = (from, packet.number);
            self.held[from.index()].push((packet, by));
            let event = Happening::Release { side, number };
            let source = 1 << 33 | from.index() as u64;
            self.queue
                .push(self.now + HELD, Class::Packet, source, event);
            return;
        }
        self.pass(packet);
    }

    /// Deliver a packet, then the held ones that enough later packets have overtaken by now.
    pub(super) fn pass(&mut self, packet: Packet) {
        let (from, number) = (packet.from.index(), packet.number);
        self.deliver(packet);
        for (held, by) in &mut self.held[from] {
            *by = by.saturating_sub(u32::from(held.number < number));
        }
        while let Some(at) = self.held[from].iter().position(|(_, by)| *by == 0) {
            let (packet, _) = self.held[from].remove(at);
            self.pass(packet);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let to = packet.from.other();
        let note = if packet.corrupt { "corrupt" } else { "" };
        if let Some(capture) = &mut self.capture {
            let at = Time((self.now - self.start).0);
            capture.packet(at, to, Direction::In, &packet.octets, note);
        }
        if packet.corrupt {
            (self.trace).lose(self.now, &self.lanes, &packet, Lost::Corrupt);
        } else if packet.data > 0 {
            let what = (self.now, Event::Arrival);
            self.trace.packet(what, &self.lanes, &packet, "");
        }
        if let Ok((ip, segment)) = ipv4::parse(&packet.octets) {
            let endpoint = &mut self.hosts[to.index()].endpoint;
            endpoint.handle_packet(self.now, &ip, segment);
        }
        if let (Some(flow), false) = (packet.flow, packet.corrupt) {
            self.look(flow, to);
            let lane = &mut self.lanes[flow];
            self.trace.acked(self.now, lane, &packet, (flow, to));
        }
        self.pump(to);
    }
}
