//! What a node asks its substrate for: packets, routes, TTL and devices are the substrate's.

use core::net::Ipv4Addr;
use wifu_core::NextHop;
use wifu_engine::{ConnId, Endpoint, RouteFacts, Ticket};
use wifu_wire::{FrameFacts, IpInfo, LinkFacts, Neighbour, Notes, Time};

/// Why a packet is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The queue that it was to enter is full.
    Queue,
    /// The next hop did not get it.
    Link,
    /// It was sent, and did not arrive.
    Wire,
    /// There is no route, or its TTL is used up.
    Route,
    /// A handler or a lane dropped it, or a lane let it go: what it has twice, what the destination
    /// has, what waited when it was closed.
    Hop,
    /// The host that it was for had too many to work off.
    Host,
    /// The deadline that was noted on it had passed.
    Late,
    /// The lane that it was to enter took no more.
    Lane,
}

/// Whither a packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toward {
    /// Along the route to this destination.
    Destination(Ipv4Addr),
    /// To this neighbour, to which there need be no route.
    Beside(Neighbour),
}

/// Where a packet that came over a link is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// For this node.
    Here,
    /// For another one.
    Onward,
    /// For another one, but it was sent to all who hear: nobody relays it.
    Heard,
}

/// What became of a packet that goes on to another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relayed {
    /// It leaves now.
    Now,
    /// It leaves when the substrate is done with it ([`crate::Node::relayed`]).
    Later,
    /// Its TTL is used up.
    Expired,
}

/// How a packet came, as its substrate knows it: looked at only where somebody asks.
pub trait Frame: Copy {
    /// In the words of handlers, lanes and ends. It is `now`: where links hand over at once, it was
    /// received now.
    fn facts(self, now: Time) -> FrameFacts;
}

impl Frame for FrameFacts {
    fn facts(self, _: Time) -> FrameFacts {
        self
    }
}

/// A substrate as one node sees it. Packets have tickets, which are theirs until they are lost,
/// freed, delivered or sent.
pub trait Ways {
    /// Since the beginning.
    fn now(&self) -> Time;

    /// This node's address, by which headers name it.
    fn me(&self) -> Ipv4Addr;

    /// The address of a neighbour; `None` where nobody can say.
    fn address(&self, neighbour: Neighbour) -> Option<Ipv4Addr>;

    /// A handler writes a line for people to read.
    fn log(&mut self, line: String);

    /// What is known of the way to a destination; `None` without a route.
    fn route(&self, to: Ipv4Addr) -> Option<RouteFacts>;

    /// The next hop to a destination; `None` without a route, or where nobody can say.
    fn next_hop(&self, to: Ipv4Addr) -> Option<NextHop> {
        let route = self.route(to)?;
        Some(NextHop {
            neighbour: route.next_hop?,
            last: route.last_hop,
            hops: route.hops,
        })
    }

    /// What the link layer reports of the way to a destination; of the node's first device where
    /// none is named.
    fn link(&self, to: Option<Ipv4Addr>) -> LinkFacts;

    /// Packets that the device takes now on the way to a destination; 0 without a route.
    fn room(&mut self, to: Ipv4Addr) -> u32;

    /// When a full device on the way to a destination takes a packet again; [`Time::NEVER`] if the
    /// substrate says so by itself.
    fn room_at(&mut self, to: Ipv4Addr) -> Time;

    /// As [`Ways::room`], of a neighbour's way, too. Whose routes lead to each neighbour need not
    /// tell more.
    fn room_toward(&mut self, way: Toward) -> u32 {
        match way {
            Toward::Destination(to) => self.room(to),
            Toward::Beside(next) => self.address(next).map_or(0, |to| self.room(to)),
        }
    }

    /// As [`Ways::room_at`], of a neighbour's way, too.
    fn room_toward_at(&mut self, way: Toward) -> Time {
        match way {
            Toward::Destination(to) => self.room_at(to),
            Toward::Beside(next) => self
                .address(next)
                .map_or(Time::NEVER, |to| self.room_at(to)),
        }
    }

    /// Tell the end what the ways of its connections take now. Gives when a full one takes a packet
    /// again; [`Time::NEVER`] if none is full, or the substrate says so by itself.
    fn tell_room(&mut self, endpoint: &mut Endpoint) -> Time;

    /// Take the next packet that the end sends, if there is one, with what its parts noted on it
    /// ([`wifu_engine::Conn::aside`]).
    fn emit(&mut self, endpoint: &mut Endpoint) -> Option<(Ticket, Notes)>;

    /// The same of what stands between the ends of connections: its packets are in the name of one
    /// of them. Gives which connection it is of, too, where that is known.
    fn emit_between(&mut self, endpoint: &mut Endpoint) -> Option<(Ticket, Notes, Option<ConnId>)> {
        let (ticket, notes) = self.emit(endpoint)?;
        Some((ticket, notes, None))
    }

    /// A packet's addresses, protocol and TTL as they are here.
    fn ip(&self, packet: Ticket) -> IpInfo;

    /// A packet from its IP header on. Its TTL may still be that of an earlier hop, and its
    /// checksum with it: [`Ways::ip`] has the right one.
    fn octets(&self, packet: Ticket) -> &[u8];

    /// Replace a packet by its successor, a whole IP packet of another length if need be. False,
    /// and nothing changed, if it is longer than devices take.
    fn rewrite(&mut self, packet: Ticket, octets: &[u8]) -> bool;

    /// Change a packet, from its IP header on, whose length stays. Who shares its content with it
    /// sees no change.
    fn patch(&mut self, packet: Ticket, change: &mut dyn FnMut(&mut [u8]));

    /// This node's own end, or one of its applications, sent the packet.
    fn is_own(&self, packet: Ticket) -> bool;

    /// A further packet of the same content for somebody to keep: it is on no way.
    fn copy(&mut self, packet: Ticket) -> Ticket;

    /// A further packet of the same content that goes on; who has the first one keeps it.
    fn twin(&mut self, packet: Ticket) -> Ticket;

    /// What was kept goes on its way itself.
    fn go(&mut self, packet: Ticket);

    /// A packet that this node makes, from its IP header on; `None` if it is none, or longer than
    /// devices take.
    fn made(&mut self, octets: &[u8]) -> Option<Ticket>;

    /// Nobody needs a packet any more. It is lost unless it is a copy.
    fn free(&mut self, packet: Ticket);

    /// A packet is lost.
    fn lose(&mut self, packet: Ticket, why: Lost);

    /// Where a packet is bound that came over a link.
    fn bound(&self, packet: Ticket) -> Bound;

    /// A packet goes on to another node: its TTL is lowered.
    fn relay(&mut self, packet: Ticket) -> Relayed;

    /// A packet leaves: its TTL is lowered if it came over a link and has not been relayed yet.
    /// False if that uses it up.
    fn ready(&mut self, packet: Ticket) -> bool;

    /// Hand a packet to the device on the way to its destination.
    ///
    /// # Errors
    /// Why it is lost; its holder has it still.
    fn send(&mut self, packet: Ticket) -> Result<(), Lost>;

    /// Hand a packet to the device of a neighbour, for this one or for all who hear.
    ///
    /// # Errors
    /// Why it is lost; its holder has it still.
    fn send_to(&mut self, packet: Ticket, to: Option<Neighbour>) -> Result<(), Lost>;

    /// A packet that is handed to a device next carries feedback, or has priority: it goes before
    /// those without that wait for the device, where the device's queue knows of such a thing.
    fn hasten(&mut self, packet: Ticket);

    /// Whether a packet for this node is for its end, not for an application of the substrate.
    fn is_for_end(&self, packet: Ticket) -> bool;

    /// A packet is where it was to go: one of the substrate's applications takes it if it is for
    /// them, and with it the ticket. False if it is for this node's end, which reads it now.
    fn deliver(&mut self, packet: Ticket) -> bool;

    /// This node's end, or its lane, has read a packet that was for it, or its splitter one that
    /// was for another.
    fn delivered(&mut self, packet: Ticket, by: Reader);
}

/// Who read a packet that was for this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// Whatever ends connections there.
    End,
    /// A lane, to which it was sent by the one before ([`wifu_wire::Class::Hop`]).
    Lane,
    /// Whatever splits connections there: it was for another node.
    Between,
}
