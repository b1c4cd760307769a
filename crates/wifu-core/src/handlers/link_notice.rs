//! Tells a connection's sender that a packet of it was lost for good at this node (Behaviour 8.6).
//!
//! The notice goes to the sender with the addresses of the packet turned round, as if the other end
//! had sent it: so it finds the connection, and every node on the way back knows a route.

use crate::handler::{Descriptor, Handler, HopCx, Setup, TxStatus};
use crate::hook::{Hook, Hooks, Verdict};
use crate::packet::{Packet, header};
use core::net::Ipv4Addr;
use core::num::NonZeroU16;
use std::collections::VecDeque;
use std::sync::Arc;
use wifu_engine::Fact;
use wifu_engine::descriptor::ParamSpec;
use wifu_wire::ipv4::{self, HEADER, TTL};
use wifu_wire::{Class, Ecn, Flags, Head, IpInfo, LinkTo, Place, Seq, Span, Time, Wire, atp};

const EVERY: ParamSpec = ParamSpec::span(
    "notice_every",
    Span(100_000_000),
    Span(1_000_000),
    Span(60_000_000_000),
    "A connection is sent one notice in this time: a link that is gone costs many packets at once.",
);

/// See the module.
pub static LINK_NOTICE: Descriptor = Descriptor {
    name: "link-notice",
    doc: "Sends the sender of an ATP connection a notice (LINK_DOWN) when data of it are lost at this \
          node: it has no route for them, or the driver reports that the last attempt failed. \
          Compositions of ATP bring it with elfn=on (Behaviour 8.6).",
    cites: &["ATP thesis 2.3"],
    hooks: Hooks::of(&[Hook::Postrouting]),
    format: Some(&atp::FORMAT),
    parses: Some(&atp::FORMAT),
    params: &[EVERY],
    counts: &["no_route", "failed", "spared"],
    needs: crate::Verbs::SEND,
    prefers: &[Fact::NextHop, Fact::Status],
    build: |s| Ok(Box::new(LinkNotice::new(s))),
    ..Descriptor::EMPTY
};

/// By their places in the descriptor.
const NO_ROUTE: usize = 0;
const FAILED: usize = 1;
const SPARED: usize = 2;

/// Data that are remembered until the driver reports them; the oldest go. Queue and ring of a radio
/// hold as many.
const GONE: usize = 1_024;

/// Connections of which it is remembered when they were told last; the one told longest ago goes.
const TOLD: usize = 64;

/// A connection, by what its data say.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Whose {
    from: Ipv4Addr,
    to: Ipv4Addr,
    ports: (u16, u16),
    proto: u8,
    conn_id: u32,
}

/// Data that left.
#[derive(Clone, Copy)]
struct Gone {
    ticket: u64,
    /// Unknown while the next hop is looked for.
    device: Option<NonZeroU16>,
    whose: Whose,
    seq: Seq,
}

struct LinkNotice {
    wire: Arc<dyn Wire>,
    link_down: Place,
    every: Span,
    head: Head,
    /// In the order in which they left.
    gone: VecDeque<Gone>,
    told: VecDeque<(Whose, Time)>,
}

impl LinkNotice {
    fn new(s: &Setup<'_>) -> LinkNotice {
        let wire = (atp::WIRE.make)();
        LinkNotice {
            link_down: wire.place("link_down").expect("a word of ATP"),
            wire,
            every: s.params.span(EVERY.name),
            head: Head::default(),
            gone: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    /// Whose data these are, and their number; `None` if they are none. A lost question is asked
    /// again, and of feedback it is not the connection's sender that would have to know.
    fn data(&mut self, octets: &[u8]) -> Option<(Whose, Seq)> {
        let at = header(octets, false)?;
        let segment = &octets[at..];
        if self.wire.class(segment) != Class::Data {
            return None;
        }
        let header = self.wire.parse(segment, &mut self.head).ok()?;
        let head = &self.head;
        if segment.len() == header && !head.flags.has(Flags::FIN) {
            return None;
        }
        let (from, to) = crate::ip::addresses(octets);
        let whose = Whose {
            from,
            to,
            ports: (head.sport, head.dport),
            proto: octets[9],
            conn_id: head.conn_id,
        };
        Some((whose, head.seq))
    }

    /// These were lost here.
    //= spec#8.6
    // "control bit 0x0100 LINK_DOWN, no body, sequence = the packet's, conn id copied"
    fn tell(&mut self, whose: Whose, seq: Seq, why: usize, cx: &mut HopCx<'_>) {
        let before = self.told.iter().position(|t| t.0 == whose);
        if let Some(at) = before {
            if cx.now - self.told[at].1 < self.every {
                return cx.count(SPARED);
            }
            self.told.remove(at);
        } else if self.told.len() == TOLD {
            self.told.pop_front();
        }
        self.told.push_back((whose, cx.now));
        cx.count(why);
        let head = &mut self.head;
        head.reset();
        (head.sport, head.dport) = (whose.ports.1, whose.ports.0);
        (head.conn_id, head.seq) = (whose.conn_id, seq);
        head.set(self.link_down.word, 1);
        let ip = IpInfo {
            src: whose.to,
            dst: whose.from,
            proto: whose.proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        let mut notice = [0; HEADER + 8 + 40];
        let n = self.wire.emit(head, &mut notice[HEADER..]);
        self.wire.seal(&ip.pseudo(), &mut notice[HEADER..][..n]);
        ipv4::emit(&ip, n, &mut notice);
        cx.send(&notice[..HEADER + n], LinkTo::Route);
    }
}

impl Handler for LinkNotice {
    fn on_packet(&mut self, _: Hook, packet: &mut Packet<'_>, cx: &mut HopCx<'_>) -> Verdict {
        let Some((whose, seq)) = self.data(packet.octets()) else {
            return Verdict::Accept;
        };
        let ticket = packet.ticket;
        let next = cx.site.next_hop(whose.to);
        if next.is_none() && !cx.site.has_route(whose.to) {
            self.tell(whose, seq, NO_ROUTE, cx);
            return Verdict::Accept;
        }
        // Who had this ticket before went another way.
        self.gone.retain(|g| g.ticket != ticket);
        if self.gone.len() == GONE {
            self.gone.pop_front();
        }
        let device = next.map(|n| n.neighbour.device);
        self.gone.push_back(Gone {
            ticket,
            device,
            whose,
            seq,
        });
        Verdict::Accept
    }

    fn on_tx_status(&mut self, status: &TxStatus, cx: &mut HopCx<'_>) {
        let Some(at) = self.gone.iter().position(|g| g.ticket == status.ticket) else {
            return;
        };
        let done = self.gone[at];
        // A device takes data in the order in which they come: of those before nobody will report.
        let mut i = 0;
        self.gone.retain(|g| {
            i += 1;
            i > at + 1 || g.device != done.device
        });
        if !status.delivered {
            self.tell(done.whose, done.seq, FAILED, cx);
        }
    }
}
