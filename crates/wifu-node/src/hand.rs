//! Where packets meet the lanes of a node, and what they hand down.

use crate::custody::{Origin, Took};
use crate::lanes::Lanes;
use crate::node::{Going, Node};
use crate::split::Split;
use crate::walk::goes_on;
use crate::ways::{Lost, Ways};
use core::num::NonZeroU32;
use wifu_core::{TxStatus, ip};
use wifu_engine::{Status, Ticket};
use wifu_wire::{Class, FrameFacts, Notes, Seq, Span};

impl Node {
    /// Lanes see a packet; false if it goes no further.
    #[inline(never)]
    pub(crate) fn seen_by_lanes(
        &mut self,
        ways: &mut impl Ways,
        packet: Ticket,
        facts: &mut FrameFacts,
        origin: Origin,
    ) -> bool {
        let Some(lanes) = self.lanes.as_deref_mut() else {
            return true;
        };
        let seen = lanes.see(packet, facts, origin, ways);
        let on = goes_on(ways, packet, seen);
        if origin != Origin::Own {
            self.hand_down(ways);
        }
        on
    }

    /// A packet is about to leave: whether a lane took it, or it is lost.
    #[inline(never)]
    pub(crate) fn taken_by_lane(
        &mut self,
        ways: &mut impl Ways,
        packet: Ticket,
        notes: &Notes,
    ) -> bool {
        let lanes = self.lanes.as_deref_mut();
        match lanes.map_or(Took::Not, |l| l.take(packet, notes, ways)) {
            Took::Not => return false,
            Took::Taken => {}
            Took::Dropped => ways.lose(packet, Lost::Lane),
        }
        self.hand_down(ways);
        true
    }

    /// Lanes hand down what they may; the end learns of their room. True if anything left.
    #[inline(never)]
    pub(crate) fn hand_down(&mut self, ways: &mut impl Ways) -> bool {
        if self.going.is_some() || self.lanes.is_none() {
            // In the middle of it: what it is about goes first.
            return false;
        }
        let mut any = false;
        while let Some(down) = self.lanes.as_deref_mut().and_then(|l| l.poll(ways)) {
            let going = Going {
                down,
                refused: false,
            };
            self.going = Some(going);
            self.leave(ways, down.ticket, down.to, down.notes);
            any |= self.going.take().is_some_and(|g| !g.refused);
        }
        if let Some(lanes) = self.lanes.as_deref_mut() {
            while let Some(ticket) = lanes.poll_freed() {
                ways.free(ticket);
            }
        }
        self.tell_lane_rooms();
        any
    }

    /// The end learns how much the lanes of its connections take.
    pub(crate) fn tell_lane_rooms(&mut self) {
        while let Some((key, room)) = self.lanes.as_deref_mut().and_then(Lanes::poll_room) {
            if let Some(end) = self.end.as_deref_mut() {
                self.stirred |= end.set_lane_room(&key.tuple(), key.conn_id, room);
            }
        }
    }

    /// No device takes a packet: it is its lane's again if one has just handed it down, else lost.
    /// So is what a part of a lane made: nobody keeps that, and what it says is soon out of date.
    #[inline(never)]
    pub(crate) fn refused(&mut self, ways: &mut impl Ways, packet: Ticket, why: Lost) {
        let going = self.going.as_mut();
        let going = going.filter(|g| g.down.ticket == packet && why != Lost::Wire);
        match (going, self.lanes.as_deref_mut()) {
            (Some(going), Some(lanes)) if going.down.is_made() => {
                lanes.unsent(&going.down);
                ways.lose(packet, why);
            }
            (Some(going), Some(lanes)) => {
                going.refused = true;
                lanes.put_back(ways.now(), going.down);
            }
            _ => ways.lose(packet, why),
        }
    }

    /// A packet is lost because its deadline has passed, of which its lane learns.
    #[inline(never)]
    pub(crate) fn expired(&mut self, ways: &mut impl Ways, packet: Ticket) {
        if let Some(lanes) = self.lanes.as_deref_mut() {
            let going = self.going.as_ref().filter(|g| g.down.ticket == packet);
            if let Some(going) = going {
                lanes.late(ways.now(), &going.down);
            }
            lanes.expired(packet, ways);
            // What it has to say now waits until what is being handed down is through.
            self.stirred = true;
        }
        ways.lose(packet, Lost::Late);
    }

    /// The radio overheard a packet: lanes and ends that listen learn of it.
    #[inline(never)]
    pub(crate) fn tell_overheard(
        &mut self,
        ways: &mut impl Ways,
        packet: Ticket,
        facts: &FrameFacts,
    ) {
        if let Some(lanes) = self.lanes.as_deref_mut() {
            lanes.overheard(packet, facts, ways);
        }
        let (now, ip, octets) = (ways.now(), ways.ip(packet), ways.octets(packet));
        if let Some(at) = ip::header(octets) {
            let split = self.split.as_deref_mut().map(Split::end_mut);
            for end in self.end.as_deref_mut().into_iter().chain(split) {
                end.handle_overheard(now, &ip, &octets[at..], facts);
                self.stirred = true;
            }
        }
        self.hand_down(ways);
    }

    /// The driver reported a packet: lanes and ends that ask for it learn of it.
    #[inline(never)]
    pub(crate) fn tell_status(&mut self, ways: &mut impl Ways, packet: Ticket, status: &TxStatus) {
        let status = Status {
            number: Seq(0),
            class: Class::Data,
            delivered: status.delivered,
            attempts: status.attempts,
            airtime_ns: status.airtime.and_then(nanoseconds),
            delay: Some(status.delay),
        };
        if let Some(lanes) = self.lanes.as_deref_mut() {
            lanes.status(packet, &status, ways);
            // What they have to say now waits until the substrate is done with the report.
            self.stirred = true;
        }
        let (now, ip, octets) = (ways.now(), ways.ip(packet), ways.octets(packet));
        if let Some(at) = ip::header(octets) {
            let split = self.split.as_deref_mut().map(Split::end_mut);
            for end in self.end.as_deref_mut().into_iter().chain(split) {
                end.handle_status(now, &ip, &octets[at..], &status);
                self.stirred = true;
            }
        }
    }

    /// Routes may have changed: lanes learn of theirs. The end is told by the substrate, which
    /// knows its peers ([`wifu_engine::Endpoint::set_route`]).
    pub fn reroute(&mut self, ways: &mut impl Ways) {
        if let Some(lanes) = self.lanes.as_deref_mut() {
            Lanes::reroute(lanes, ways);
            self.stirred = true;
        }
    }
}

/// A time on the air; none takes as long as four seconds.
fn nanoseconds(air: Span) -> Option<NonZeroU32> {
    u32::try_from(air.0).ok().and_then(NonZeroU32::new)
}
