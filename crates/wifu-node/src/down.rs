//! What lanes hand down: packets in their custody, copies of them, and packets that their parts
//! make.

use crate::Ways;
use crate::custody::{FlowKey, Held};
use crate::lanes::{Lane, Lanes};
use core::net::Ipv4Addr;
use wifu_core::{ip, shim};
use wifu_engine::{Aside, Ticket};
use wifu_wire::ipv4::{self, HEADER, TTL};
use wifu_wire::{Class, Ecn, Head, IpInfo, LinkTo, Notes, Seq, Span, Time, Wire};

/// A packet that a lane hands down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Down {
    /// Which; its words are written already.
    pub ticket: Ticket,
    /// To whom it leaves.
    pub to: LinkTo,
    /// What handlers are to know of it.
    pub notes: Notes,
    lane: u32,
    /// The lane's number since the beginning: its place may be another's by now.
    opened: u64,
    number: Seq,
    bytes: u32,
    custody: Custody,
}

/// A device that had room and yet refused a packet of a lane gets none of it for so long.
const RETRY: Span = Span(10_000_000);

impl Down {
    /// Whether a part of a lane made it.
    pub(crate) fn is_made(&self) -> bool {
        self.custody == Custody::Made
    }
}

/// Whose a packet is that is handed down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Custody {
    /// It was the lane's, and is nobody's now.
    Left,
    /// It is a copy of this packet, which the lane keeps.
    Copy(Ticket),
    /// A part of the lane made it.
    Made,
}

impl Lanes {
    /// A packet that a part of a lane made could not leave, and is lost.
    pub(crate) fn unsent(&mut self, down: &Down) {
        self.counters.unsent += 1;
        if let Some(lane) = self.sender(down) {
            lane.turn.refund(down.bytes);
        }
    }

    /// The lane that handed a packet down, if it is still there.
    fn sender(&mut self, down: &Down) -> Option<&mut Lane> {
        let lane = self.slots[down.lane as usize].as_mut();
        lane.filter(|l| l.turn.opened == down.opened)
    }

    /// A packet that was handed down could not leave: it is the lane's again. Nothing of this lane
    /// is handed down for 10 ms: what had room and takes nothing would be asked for ever.
    pub fn put_back(&mut self, now: Time, down: Down) {
        self.counters.returned += 1;
        let (stamp, whole) = (self.stamp, down.custody == Custody::Left);
        let whole = whole.then_some(down.ticket);
        let Some(lane) = self.sender(&down) else {
            // Its lane was closed meanwhile, and would have dropped it then.
            self.counters.idled += u64::from(whole.is_some());
            self.freed.push(down.ticket);
            return;
        };
        if whole.is_some() {
            lane.held.push(Held::new(down.ticket, down.notes));
            lane.turn.back(stamp);
        }
        lane.turn.refund(down.bytes);
        lane.turn.refused = Some(now + RETRY);
        lane.conn.put_back(now, whole, down.number);
        if whole.is_none() {
            self.freed.push(down.ticket);
        }
        self.touch(down.lane);
    }

    /// What was handed down is too late. Who keeps it and hands it down again at once would be
    /// asked for ever: nothing of such a lane is handed down for 10 ms.
    pub(crate) fn late(&mut self, now: Time, down: &Down) {
        let (Custody::Copy(kept), Some(lane)) = (down.custody, self.sender(down)) else {
            return;
        };
        let held = lane.held.iter_mut().find(|h| h.ticket == kept);
        if held.is_some_and(|h| h.late.replace(now) == Some(now)) {
            lane.turn.refused = Some(now + RETRY);
        }
    }

    /// Data are lost because the deadline that was noted on them had passed: their lane is told,
    /// however long handlers held them meanwhile.
    pub(crate) fn expired(&mut self, ticket: Ticket, ways: &dyn Ways) {
        let Some((i, Class::Data)) = self.whose(ticket, ways) else {
            return;
        };
        if let Some(lane) = self.slots[i as usize].as_mut() {
            lane.conn.handle_expired(ways.now(), self.head.seq);
            self.touch(i);
        }
    }

    /// A packet goes on from this node, which counts itself on it, unless others of its composition
    /// do. What comes back to its lane later has been counted, and is not again.
    pub(crate) fn count(&mut self, ticket: Ticket, at: usize, key: FlowKey, ways: &mut dyn Ways) {
        let served = &self.served[usize::from(key.served)];
        let counted = |count| Some((count, served.wire.counted(&ways.octets(ticket)[at..])?));
        if let Some((count, nodes)) = served.counts().and_then(counted) {
            let says = served.wire.count_says(nodes + 1);
            self.head.set(count.word, says);
            ways.patch(ticket, &mut |packet| {
                count.write(&mut packet[at..], says);
            });
        }
    }

    /// A packet in the custody of a lane leaves, or a copy of it.
    pub(crate) fn down(&mut self, i: u32, ticket: Ticket, keep: bool, ways: &mut dyn Ways) -> Down {
        let sent = if keep { ways.twin(ticket) } else { ticket };
        if !keep {
            ways.go(ticket);
        }
        let lane = self.slots[i as usize].as_mut();
        let lane = lane.expect("it was polled just now");
        let at = lane.held.iter().position(|h| h.ticket == ticket);
        let mut noted = at.map_or(Notes::EMPTY, |at| lane.held[at].notes);
        if let Some(at) = at.filter(|_| !keep) {
            lane.held.remove(at);
        }
        let aside = lane.conn.aside();
        noted.add(&aside.notes);
        let down = Down {
            ticket: sent,
            to: aside.to,
            notes: noted,
            lane: i,
            opened: lane.turn.opened,
            number: lane.conn.last_sent().map_or(Seq(0), |s| s.seq),
            bytes: ways.octets(sent).len() as u32,
            custody: match keep {
                true => Custody::Copy(ticket),
                false => Custody::Left,
            },
        };
        lane.turn
            .left(ways.octets(sent).len(), lane.conn.board().app.queued);
        let (me, head) = (ways.me(), &mut self.head);
        let wire = &self.served[usize::from(lane.key.served)].wire;
        sign(&**wire, head, me);
        ways.patch(sent, &mut |packet| {
            if let Some(at) = transport(packet) {
                wire.patch(head, &mut packet[at..]);
            }
        });
        self.counters.sent += 1;
        self.counters.kept += u64::from(keep);
        self.touch(i);
        down
    }

    /// A packet that a part of a lane made, whose segment has so many bytes; `None` if it goes
    /// nowhere: data come from the lane's store only.
    pub(crate) fn made(&mut self, i: u32, len: usize, ways: &mut dyn Ways) -> Option<Down> {
        let lane = self.slots[i as usize].as_mut()?;
        let sent = lane.conn.last_sent()?;
        if sent.kind.is_data() {
            self.counters.refused += 1;
            return None;
        }
        let ip = IpInfo {
            src: *lane.key.source.ip(),
            dst: *lane.key.target.ip(),
            proto: lane.key.proto,
            ttl: TTL,
            ecn: Ecn::NotEct,
        };
        let packet = &mut self.scratch[..HEADER + len];
        let wire = &self.served[usize::from(lane.key.served)].wire;
        sign(&**wire, &mut self.head, ways.me());
        if let Some(count) = lane.conn.blueprint().counts {
            self.head.set(count.word, wire.count_says(1));
        }
        wire.patch(&self.head, &mut packet[HEADER..]);
        ipv4::emit(&ip, len, packet);
        let Some(ticket) = ways.made(packet) else {
            self.counters.unsent += 1;
            return None;
        };
        let Aside { to, notes } = *lane.conn.aside();
        lane.turn.left(packet.len(), lane.conn.board().app.queued);
        let down = Down {
            ticket,
            to,
            notes,
            lane: i,
            opened: lane.turn.opened,
            number: sent.seq,
            bytes: (HEADER + len) as u32,
            custody: Custody::Made,
        };
        self.counters.made += 1;
        self.touch(i);
        Some(down)
    }
}

/// Where the transport header begins, behind a shim if there is one.
pub(crate) fn transport(packet: &[u8]) -> Option<usize> {
    match shim::parse(packet) {
        Some((head, at)) => {
            let at = at + usize::from(head.length);
            (at < packet.len()).then_some(at)
        }
        None => ip::payload(packet).map(|r| r.start),
    }
}

/// Who transmits this copy of a packet, if its format has a word for that and somebody wrote it.
pub(crate) fn named(wire: &dyn Wire, head: &Head) -> Option<Ipv4Addr> {
    let word = wire.transmitter()?.word;
    // Zero: what met no lane, acknowledgements say, carries no name.
    let named = Some(head.get(word)).filter(|bits| *bits != 0);
    named.map(Ipv4Addr::from_bits)
}

/// Name this node as who transmits a packet, if its format has a word for that.
fn sign(wire: &dyn Wire, head: &mut Head, me: Ipv4Addr) {
    if let Some(place) = wire.transmitter() {
        head.set(place.word, me.to_bits());
    }
}
