//! What the lane runner reads of packets: their headers, whose flow they are of, whether they are
//! as they were sent.

use crate::custody::FlowKey;
use crate::down::transport;
use crate::{Lanes, Ways};
use core::net::SocketAddrV4;
use wifu_engine::Ticket;
use wifu_wire::Class;

impl Lanes {
    /// Whether a packet that came is as it was sent, by its checksum; counts those that are not.
    pub(crate) fn sound(
        &mut self,
        ticket: Ticket,
        at: usize,
        key: FlowKey,
        ways: &dyn Ways,
    ) -> bool {
        let wire = &self.served[usize::from(key.served)].wire;
        let pseudo = ways.ip(ticket).pseudo();
        let sound = wire.verify(&pseudo, &ways.octets(ticket)[at..]);
        self.counters.damaged += u64::from(!sound);
        sound
    }

    /// Where the transport header of a packet is, its flow, and the header's length; `self.head` is
    /// the packet's. `None` if it is of no composition that has lanes here.
    pub(crate) fn parse(
        &mut self,
        ticket: Ticket,
        ways: &dyn Ways,
    ) -> Option<(usize, FlowKey, usize)> {
        let packet = ways.octets(ticket);
        let at = transport(packet)?;
        let served = self.served.iter().position(|s| s.select.fits(packet))?;
        let wire = &self.served[served].wire;
        let header = wire.parse(&packet[at..], &mut self.head).ok()?;
        let ip = ways.ip(ticket);
        self.head.ttl = ip.ttl;
        let key = FlowKey {
            served: served as u16,
            proto: ip.proto,
            conn_id: self.head.conn_id,
            source: SocketAddrV4::new(ip.src, self.head.sport),
            target: SocketAddrV4::new(ip.dst, self.head.dport),
        };
        Some((at, key, header))
    }

    /// Whether a packet that comes over a link goes no further than the lanes here, whatever its
    /// addresses say ([`Class::Hop`]): what nodes say to each other about a flow bears the flow's.
    pub fn ends_here(&mut self, packet: &[u8]) -> bool {
        let served = self.served.iter().find(|s| s.select.fits(packet));
        let (Some(served), Some(at)) = (served, transport(packet)) else {
            return false;
        };
        let (wire, segment) = (&served.wire, &packet[at..]);
        wire.parse(segment, &mut self.head).is_ok() && wire.class(segment) == Class::Hop
    }
}
