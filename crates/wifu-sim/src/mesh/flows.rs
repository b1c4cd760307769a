//! All flows and what is known of them: packets sent, delivered and lost, octets delivered, what is
//! recorded, and when the run is over.

use super::clock::Clock;
use super::ends::flow_of;
use super::events::{Class, What};
use super::flow::{Flow, once};
use super::forward::Forwarding;
use super::nodes::Nodes;
use super::pool::Packet;
use super::record::{Recorder, Whose};
use super::stop::{Progress, Stop};
use wifu_engine::{Conn, Endpoint};
use wifu_node::Lost;
use wifu_wire::Time;

/// All flows.
pub(crate) struct Flows {
    pub(crate) all: Vec<Flow>,
    pub(crate) stop: Stop,
    pub(crate) rec: Recorder,
    /// Flows whose senders have read something since anybody looked at them.
    pub(crate) to_look: Vec<u32>,
}

impl core::ops::Index<u32> for Flows {
    type Output = Flow;
    fn index(&self, number: u32) -> &Flow {
        &self.all[number as usize]
    }
}

impl core::ops::IndexMut<u32> for Flows {
    fn index_mut(&mut self, number: u32) -> &mut Flow {
        &mut self.all[number as usize]
    }
}

impl Flows {
    /// A packet of the flow is lost.
    pub(crate) fn lost(&mut self, now: Time, number: u32, why: Lost) {
        let account = &mut self[number].account;
        account.lost_ns += u128::from(now.0);
        let packets = &mut account.packets;
        match why {
            Lost::Queue | Lost::Lane => packets.queue += 1,
            Lost::Link => packets.link += 1,
            Lost::Wire => packets.wire += 1,
            Lost::Route => packets.route += 1,
            Lost::Hop => packets.hop += 1,
            Lost::Host => packets.host += 1,
            Lost::Late => packets.late += 1,
        }
        self.datagram_over(now, number);
    }

    /// A packet of the flow is where it was to go. True if it is a datagram, which no endpoint
    /// wants.
    #[inline]
    pub(crate) fn arrived(&mut self, number: u32) -> bool {
        let flow = &mut self[number];
        flow.account.packets.delivered += 1;
        flow.udp.is_some()
    }

    /// A datagram of the flow is where it was to go.
    pub(crate) fn sink(&mut self, now: Time, packet: &Packet, octets: &[u8]) {
        let number = packet.flow;
        let flow = &mut self[number];
        flow.sink(now, packet.born, octets);
        let bytes = flow.account.bytes;
        self.rec.delivered(number as usize, now, bytes);
        self.rec.transit(number as usize, now, now - packet.born);
        self.count_packets(now, 1);
        self.datagram_over(now, number);
    }

    /// Write the flow's next datagram, which is to leave in `buffer`, to `out`.
    pub(crate) fn datagram(
        &mut self,
        clock: &mut Clock,
        number: u32,
        buffer: u32,
        out: &mut [u8],
    ) -> Option<Packet> {
        let flow = &mut self[number];
        let packet = flow.datagram(clock.now, number, buffer, out)?;
        let (next, offered) = flow.udp.as_ref().map_or((0, 0), |u| (u.next, u.offered));
        clock.mix(u64::from(number) << 32 | next & 0xFFFF_FFFF);
        if self.rec.segments {
            self.rec.offered(number as usize, clock.now, offered);
        }
        Some(packet)
    }

    /// A datagram is delivered or lost, or the flow sends no more: it may be done.
    pub(crate) fn datagram_over(&mut self, now: Time, number: u32) {
        if self[number].datagram_over(now) {
            self.flow_done(number);
        }
    }

    /// A connection sent a segment, for the time-sequence graph. Gives its flow, and whether it is
    /// on the way back.
    #[inline]
    pub(crate) fn sent(&mut self, now: Time, endpoint: &Endpoint, conn: &Conn) -> (u32, bool) {
        let (number, end) = flow_of(conn);
        if self.rec.segments {
            self.draws(now, endpoint, conn, (number, end));
        }
        (number, end == 1)
    }

    /// For the time-sequence graph.
    #[inline(never)]
    fn draws(&mut self, now: Time, endpoint: &Endpoint, conn: &Conn, (number, end): (u32, usize)) {
        let of = &self.all[number as usize];
        if end == of.counted_end() {
            // A connection that closes still sends, when its numbers are in the totals already.
            let open = of.ends[end].conn.and_then(|id| endpoint.info(id));
            let octets = of.account.totals.octets[end] + open.map_or(0, |info| once(&info));
            self.rec.offered(number as usize, now, octets);
            self.rec.sent(number as usize, now, conn);
        }
    }

    /// Whether windows of a flow are recorded whose sender is at the other end, as it answers.
    #[inline]
    pub(crate) fn of_answers(&self, number: u32) -> bool {
        self.rec.windows && self.all[number as usize].counted_end() == 1
    }

    /// A flow's sender learned something: its window, and whether all has arrived.
    #[inline]
    pub(crate) fn look(&mut self, now: Time, nodes: &Nodes, number: u32) {
        let flow = &mut self.all[number as usize];
        let waits = flow.account.finished && flow.account.known.is_none();
        if !waits && !self.rec.windows {
            return;
        }
        let of = |end: usize| {
            let endpoint = nodes.endpoint_of(flow.node(end));
            flow.ends[end].conn.and_then(|id| endpoint.conn(id))
        };
        if let (true, Some(conn)) = (self.rec.windows, of(flow.counted_end())) {
            self.rec.window(number as usize, now, conn);
        }
        let conn = of(0);
        let all = |c: &Conn| c.board().tx.una.from(c.board().app.end);
        if waits && conn.is_none_or(all) {
            flow.account.known = Some(now);
            self.flow_done(number);
        }
    }

    /// Write down what is wanted of connections and queues, and again an interval later.
    pub(crate) fn sample(&mut self, clock: &mut Clock, nodes: &Nodes, net: &Forwarding) {
        let flows = &self.all;
        self.rec.values(clock.now, |number, whose| {
            let flow: &Flow = &flows[number];
            match whose {
                Whose::End(end) => {
                    let end = end ^ flow.counted_end();
                    nodes.endpoint_of(flow.node(end)).conn(flow.ends[end].conn?)
                }
                Whose::Lane(node) => nodes.lane_of(node, flow, number),
                Whose::Half(node, half) => nodes.half_of(node, half, flow, number),
            }
        });
        if self.rec.windows {
            self.look_at_all(clock.now, nodes);
        }
        self.rec.queues(clock.now, net);
        clock.push(clock.now + self.rec.interval, Class::World, What::Sample);
    }

    /// Timers change a window as well, and a lane may time round trips for its sender: in neither
    /// case it hears anything.
    fn look_at_all(&mut self, now: Time, nodes: &Nodes) {
        for (number, flow) in self.all.iter().enumerate() {
            let end = flow.counted_end();
            let conn = flow.ends[end]
                .conn
                .and_then(|id| nodes.endpoint_of(flow.node(end)).conn(id));
            if let Some(conn) = conn.filter(|c| self.rec.differs(number, c)) {
                self.rec.window(number, now, conn);
            }
        }
    }

    /// Full segments (or datagrams) of a flow were delivered.
    pub(crate) fn count_packets(&mut self, now: Time, n: u64) {
        for _ in 0..self.stop.count(now, n) {
            for flow in &mut self.all {
                let account = &mut flow.account;
                account.batches.push(account.bytes - account.batched);
                account.batched = account.bytes;
            }
        }
    }

    /// A flow has nothing left to do.
    pub(crate) fn flow_done(&mut self, number: u32) {
        let flow = &mut self[number];
        if core::mem::replace(&mut flow.done, true) {
            return;
        }
        let (finite, asks, count) = (
            flow.finite,
            flow.spec.app.asks(),
            flow.account.requests.len(),
        );
        if finite {
            self.stop.flow_done();
        }
        if asks {
            self.stop.asks_no_more(count);
        }
    }

    /// The flow's application acts at `at`.
    pub(crate) fn step_at(&mut self, clock: &mut Clock, number: u32, at: Time) {
        self[number].step = at;
        if at < Time::NEVER {
            clock.push(at, Class::Application, What::App(number));
        }
    }

    /// How far the run is.
    pub(crate) fn progress(&self, now: Time) -> Progress {
        self.stop.progress(now, || {
            if let Some(wanted) = self.stop.requests {
                let asking = self.all.iter().filter(|f| f.spec.app.asks());
                let least = asking.map(|f| f.account.requests.len()).min();
                return least.unwrap_or(0) as f64 / wanted as f64;
            }
            let finite = self.all.iter().filter(|f| f.finite);
            finite.map(|f| f.share(now)).fold(1.0, f64::min)
        })
    }
}
