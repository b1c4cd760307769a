//! Two endpoints and a wire in virtual time that allocate nothing once they run and do little
//! else: what is counted is the engine's.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use wifu_engine::{Blueprint, ConnId, Endpoint, EndpointConfig};
use wifu_wire::{AnyIpInfo, Ecn, IpInfo, Span, Time};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MTU: usize = 1500;
const DELAY: Span = Span::MILLI;
/// More than any window of the named protocols holds.
const PLACES: usize = 8_192;

/// A segment under way.
#[derive(Clone)]
struct Place {
    due: Time,
    ip: AnyIpInfo,
    len: usize,
    bytes: [u8; MTU],
}

/// One direction of the wire: a ring of places.
struct Direction {
    ring: Vec<Place>,
    first: usize,
    count: usize,
}

impl Direction {
    fn new() -> Direction {
        let ip = IpInfo {
            src: CLIENT,
            dst: SERVER,
            proto: 0,
            ttl: 0,
            ecn: Ecn::NotEct,
        };
        let empty = Place {
            due: Time::NEVER,
            ip: ip.any(),
            len: 0,
            bytes: [0; MTU],
        };
        Direction {
            ring: vec![empty; PLACES],
            first: 0,
            count: 0,
        }
    }

    fn due(&self) -> Time {
        match self.count {
            0 => Time::NEVER,
            _ => self.ring[self.first].due,
        }
    }
}

/// A client that writes for ever, a server that reads.
pub struct Lean {
    ends: [Endpoint; 2],
    conns: [Option<ConnId>; 2],
    wire: [Direction; 2],
    now: Time,
    /// Lose every so-manieth data segment; 0: none.
    pub lose_every: u64,
    /// Data segments that the client sent, those retransmitted included.
    pub segments: u64,
    /// Octets that the server read.
    pub read: u64,
}

impl Lean {
    /// Connects over a perfect wire of 1 ms.
    ///
    /// # Panics
    /// If the endpoints refuse to listen or connect.
    pub fn new(blueprint: &Arc<Blueprint>) -> Lean {
        let end = |node| {
            Endpoint::new(EndpointConfig {
                node,
                mtu: MTU as u32,
                ..EndpointConfig::default()
            })
        };
        let mut ends = [end(1), end(2)];
        let now = Time(1_000_000);
        let server = SocketAddrV4::new(SERVER, 80);
        ends[1]
            .listen(blueprint, server, 1)
            .expect("the port is free");
        let client = SocketAddrV4::new(CLIENT, 0);
        let conn = ends[0].connect(now, blueprint, client, server);
        Lean {
            ends,
            conns: [Some(conn.expect("a port is free")), None],
            wire: [Direction::new(), Direction::new()],
            now,
            lose_every: 0,
            segments: 0,
            read: 0,
        }
    }

    /// Runs until the client has sent so many data segments in all.
    ///
    /// # Panics
    /// If nothing happens any more.
    pub fn run(&mut self, segments: u64) {
        while self.segments < segments {
            self.pump(0);
            self.pump(1);
            let timers = self.ends[0].poll_timeout().min(self.ends[1].poll_timeout());
            let next = self.wire[0].due().min(self.wire[1].due()).min(timers);
            assert!(next != Time::NEVER, "nothing happens any more");
            self.now = self.now.max(next);
            for side in 0..2 {
                self.deliver(side);
                self.ends[side].handle_timeout(self.now);
            }
        }
    }

    /// Hand the endpoint of `side` what has arrived.
    fn deliver(&mut self, side: usize) {
        let wire = &mut self.wire[1 - side];
        while wire.due() <= self.now {
            let place = &wire.ring[wire.first];
            self.ends[side].handle_packet(self.now, &place.ip, &place.bytes[..place.len]);
            wire.first = (wire.first + 1) % PLACES;
            wire.count -= 1;
        }
    }

    /// Let the application and the endpoint of `side` do what they can.
    fn pump(&mut self, side: usize) {
        const DATA: [u8; 16 * 1024] = [b'w'; 16 * 1024];
        let (now, end) = (self.now, &mut self.ends[side]);
        while let Some((id, _event)) = end.poll_event() {
            self.conns[side].get_or_insert(id);
        }
        if let Some(id) = self.conns[side] {
            let unread: usize = end.readable(id).iter().map(|part| part.len()).sum();
            if unread > 0 {
                self.read += unread as u64;
                end.consumed(now, id, unread);
            }
            while side == 0 && end.write(now, id, &DATA) > 0 {}
        }
        let wire = &mut self.wire[side];
        while wire.count < PLACES {
            let place = &mut wire.ring[(wire.first + wire.count) % PLACES];
            let Some(sent) = end.poll_transmit(now, &mut place.bytes) else {
                return;
            };
            let is_data = side == 0 && sent.len > 100;
            self.segments += u64::from(is_data);
            if is_data && self.lose_every > 0 && self.segments.is_multiple_of(self.lose_every) {
                continue;
            }
            (place.due, place.ip, place.len) = (now + DELAY, sent.ip, sent.len);
            wire.count += 1;
        }
    }
}
