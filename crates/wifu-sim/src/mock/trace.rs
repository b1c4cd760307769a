//! What the mock network writes down.

use super::Lane;
use crate::fault::Lost;
use crate::packet::{Packet, Side};
use crate::record::{Event, Row};
use std::collections::BTreeMap;
use wifu_wire::{Flags, Seq, Time};

/// Packets lost, and the rows if they are kept.
pub(super) struct Trace {
    start: Time,
    pub(super) rows: Option<Vec<Row>>,
    pub(super) lost: BTreeMap<Lost, u64>,
}

impl Trace {
    /// Nothing yet. Times in rows count from `start`.
    pub(super) fn new(start: Time, rows: bool) -> Trace {
        Trace {
            start,
            rows: rows.then(Vec::new),
            lost: BTreeMap::new(),
        }
    }

    /// A packet is lost.
    pub(super) fn lose(&mut self, now: Time, lanes: &[Lane], packet: &Packet, why: Lost) {
        *self.lost.entry(why).or_default() += 1;
        self.packet((now, Event::Drop), lanes, packet, why.name());
    }

    /// A row about a packet's data; about the data it acknowledges if it has none.
    pub(super) fn packet(
        &mut self,
        (now, event): (Time, Event),
        lanes: &[Lane],
        packet: &Packet,
        reason: &'static str,
    ) {
        let (Some(rows), Some(flow)) = (&mut self.rows, packet.flow) else {
            return;
        };
        let lane = &lanes[flow];
        let bare = packet.data == 0 && lane.high[packet.from.index()].is_none();
        let side = if bare {
            packet.from.other()
        } else {
            packet.from
        };
        let index = match packet.index {
            None if bare && lane.high[side.index()].is_some() => {
                Some(lane.asked(side, packet.numbers.ack))
            }
            index => index,
        };
        let seen = &lane.seen[side.index()];
        rows.push(Row {
            at: Time((now - self.start).0),
            event,
            flow,
            side,
            index,
            len: packet.data,
            cwnd: seen.cwnd,
            ssthresh: seen.ssthresh,
            again: packet.again,
            reason,
        });
    }

    /// An acknowledgement arrived at `to`: bare, or with data and for more than before.
    pub(super) fn acked(
        &mut self,
        now: Time,
        lane: &mut Lane,
        packet: &Packet,
        (flow, to): (usize, Side),
    ) {
        let i = to.index();
        let acks = packet.numbers.ack != 0 && !packet.flags.has(Flags::SYN);
        if !acks || lane.high[i].is_none() {
            return;
        }
        let ack = Seq(packet.numbers.ack);
        let further = lane.acked[i].is_none_or(|a| ack.after(a));
        if further {
            lane.acked[i] = Some(ack);
        }
        if packet.data > 0 && !further {
            return;
        }
        let index = Some(lane.asked(to, packet.numbers.ack));
        self.of_sender((now, Event::Ack), lane, (flow, to), index);
    }

    /// A sender's retransmission timer expired.
    pub(super) fn timed_out(&mut self, now: Time, lane: &Lane, (flow, side): (usize, Side)) {
        let seen = lane.seen[side.index()];
        let number = lane.iss[side.index()].map(|iss| seen.una.since(iss).wrapping_add(1));
        let index = match (number, lane.high[side.index()]) {
            (Some(number), Some(_)) => Some(lane.asked(side, number)),
            _ => None,
        };
        self.of_sender((now, Event::Timeout), lane, (flow, side), index);
    }

    fn of_sender(
        &mut self,
        (now, event): (Time, Event),
        lane: &Lane,
        (flow, side): (usize, Side),
        index: Option<u64>,
    ) {
        let seen = lane.seen[side.index()];
        if let Some(rows) = &mut self.rows {
            rows.push(Row {
                at: Time((now - self.start).0),
                event,
                flow,
                side,
                index,
                len: 0,
                cwnd: seen.cwnd,
                ssthresh: seen.ssthresh,
                again: false,
                reason: "",
            });
        }
    }
}

impl Lane {
    /// The data segment of `side` that an acknowledgement (as in rule files) asks for. One that
    /// covers all that was sent asks for the segment after it, also if that one was short.
    fn asked(&self, side: Side, ack: u32) -> u64 {
        let i = side.index();
        let mss = u64::from(self.seen[i].mss.max(1));
        let sent = match (self.high[i], self.iss[i]) {
            (Some(high), Some(iss)) => u64::from(high.since(iss.plus(1))),
            _ => 0,
        };
        let upto = u64::from(ack.wrapping_sub(2));
        if upto >= sent {
            sent.div_ceil(mss)
        } else {
            upto / mss
        }
    }
}
