//! Time goes on: events, wake-ups, applications.

use super::{HOST_QUEUE, Happening, Mock, Seen, Stop, address};
use crate::link::Link;
use crate::packet::Side;
use crate::queue::Class;
use core::net::SocketAddrV4;
use wifu_engine::{Conn, ConnId, Event};
use wifu_wire::{Span, Time};

impl Mock {
    /// Run until nothing is left to happen or so much time has passed since the start.
    pub fn run(&mut self, limit: Span) -> Stop {
        let until = self.start + limit;
        while let Some(at) = self.queue.next_at() {
            if at > until {
                self.now = self.now.max(until);
                return Stop::Time;
            }
            self.step();
        }
        Stop::Idle
    }

    /// Run for so long from now on.
    pub fn run_for(&mut self, span: Span) -> Stop {
        let limit = self.elapsed() + span;
        let stop = self.run(limit);
        self.now = self.now.max(self.start + limit);
        stop
    }

    /// Run until `done` holds after an event. False if it never did within `limit` of the start.
    pub fn run_until(&mut self, limit: Span, mut done: impl FnMut(&Mock) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            match self.queue.next_at() {
                Some(at) if at <= self.start + limit => self.step(),
                _ => return false,
            }
        }
    }

    fn step(&mut self) {
        let Some((at, happening)) = self.queue.pop() else {
            return;
        };
        self.now = self.now.max(at);
        match happening {
            Happening::Arrive { packet, at } => self.arrive(packet, at),
            Happening::Forward { packet, at } => self.forward(packet, at),
            Happening::Release { side, number } => {
                let held = &mut self.held[side.index()];
                if let Some(at) = held.iter().position(|(p, _)| p.number == number) {
                    let (packet, _) = held.remove(at);
                    self.pass(packet);
                }
            }
            Happening::Wake { side, generation } => self.wake(side, generation),
            Happening::Open { flow, side } => self.open(flow, side),
            Happening::Work { flow, side } => {
                self.work(flow, side);
                self.pump(side);
            }
        }
    }

    fn open(&mut self, flow: usize, side: Side) {
        let (lane, i) = (&mut self.lanes[flow], side.index());
        let local = SocketAddrV4::new(address(side), lane.ports[i]);
        let remote = SocketAddrV4::new(address(side.other()), lane.ports[1 - i]);
        let endpoint = &mut self.hosts[i].endpoint;
        match endpoint.connect(self.now, &lane.flow.blueprints[i], local, remote) {
            Ok(id) => lane.apps[i].id = Some(id),
            Err(why) => panic!("flow {flow} cannot be opened: {why}"),
        }
        self.pump(side);
    }

    fn wake(&mut self, side: Side, generation: u64) {
        let host = &mut self.hosts[side.index()];
        if host.generation != generation {
            return;
        }
        host.wake = Time::NEVER;
        host.endpoint.handle_timeout(self.now);
        for flow in 0..self.lanes.len() {
            let before = self.lanes[flow].seen[side.index()].timeouts;
            self.look(flow, side);
            if self.lanes[flow].seen[side.index()].timeouts > before {
                let lane = &self.lanes[flow];
                self.trace.timed_out(self.now, lane, (flow, side));
            }
        }
        self.pump(side);
    }

    /// Applications work and the endpoint sends until neither has anything left to do; then the
    /// host's one wake-up is set.
    pub(super) fn pump(&mut self, side: Side) {
        let i = side.index();
        let mut out = core::mem::take(&mut self.out);
        loop {
            let mut busy = false;
            while let Some((id, event)) = self.hosts[i].endpoint.poll_event() {
                busy = true;
                self.event(side, id, event);
            }
            let now = self.now;
            let room = HOST_QUEUE.saturating_sub(self.own_link(side).inside(now));
            let endpoint = &mut self.hosts[i].endpoint;
            endpoint.set_room(room as u32);
            if let Some(datagram) = endpoint.poll_transmit(self.now, &mut out) {
                busy = true;
                self.depart(side, &datagram, &out[..datagram.len]);
            }
            if !busy {
                break;
            }
        }
        self.out = out;
        let mut at = self.hosts[i].endpoint.poll_timeout();
        // Who has no timer running would wait for a packet that nobody sends.
        let idle = at == Time::NEVER && self.hosts[i].endpoint.is_waiting();
        if at <= self.now || idle {
            // It waits for room.
            let now = self.now;
            at = self.own_link(side).next_left(now).max(now + Span(1));
        }
        let host = &mut self.hosts[i];
        if at != host.wake {
            host.wake = at;
            host.generation += 1;
            if at != Time::NEVER {
                let generation = host.generation;
                let event = Happening::Wake { side, generation };
                self.queue.push(at, Class::Wake, i as u64, event);
            }
        }
    }

    fn own_link(&mut self, side: Side) -> &mut Link {
        let at = match side {
            Side::A => 0,
            Side::B => self.path.len() - 1,
        };
        &mut self.path[at][side.index()]
    }

    fn event(&mut self, side: Side, id: ConnId, event: Event) {
        let Some(flow) = self.flow_of(side, id, event) else {
            return;
        };
        let now = self.now;
        let app = &mut self.lanes[flow].apps[side.index()];
        match event {
            Event::Accepted(_) | Event::Connected => {
                app.id = Some(id);
                app.outcome.opened_at = Some(now);
            }
            Event::PeerClosed => app.peer_closed(),
            Event::Closed(fault) => app.outcome.ended = Some(fault),
            Event::Readable | Event::Writable => {}
        }
        self.look(flow, side);
        self.work(flow, side);
    }

    fn flow_of(&self, side: Side, id: ConnId, event: Event) -> Option<usize> {
        let i = side.index();
        let tuple = self.hosts[i].endpoint.conn(id)?.tuple();
        let mut ports = [tuple.local.port(), tuple.remote.port()];
        if side == Side::B {
            ports.reverse();
        }
        let flow = *self.by_ports.get(&ports)?;
        let known = self.lanes[flow].apps[i].id;
        (known == Some(id) || matches!(event, Event::Accepted(_))).then_some(flow)
    }

    fn work(&mut self, flow: usize, side: Side) {
        let i = side.index();
        let lane = &mut self.lanes[flow];
        let next = lane.apps[i].work(&mut self.hosts[i].endpoint, self.now);
        if let Some(at) = next {
            let event = Happening::Work { flow, side };
            let source = 2 + 2 * flow as u64 + i as u64;
            self.queue.push(at, Class::Application, source, event);
        }
    }

    /// Remember what a sender is like.
    pub(super) fn look(&mut self, flow: usize, side: Side) {
        let Some(board) = self.conn(flow, side).map(Conn::board) else {
            return;
        };
        let seen = Seen {
            cwnd: board.win.cwnd,
            ssthresh: board.win.ssthresh,
            mss: board.conn.mss,
            una: board.tx.una,
            timeouts: board.tx.timeouts,
        };
        self.lanes[flow].seen[side.index()] = seen;
    }
}
