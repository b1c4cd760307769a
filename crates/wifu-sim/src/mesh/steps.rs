//! What a flow's application does by itself, step by step.

use super::clock::Clock;
use super::events::{Class, What};
use super::flows::Flows;
use super::nodes::Nodes;
use crate::traffic::{App, Step};
use wifu_wire::Time;

/// What an application's step leaves for the network to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing.
    Rest,
    /// The endpoint of the flow's sender may have something to send.
    Send,
    /// The same, and that was the last; its receiver's application looks at what it has after it.
    End,
    /// A datagram is sent now.
    Datagram,
    /// Datagrams are sent as long as there is room.
    Load,
}

impl Flows {
    /// A flow's application acts by itself. `hops` of its route are asked for when it starts.
    pub(crate) fn step(
        &mut self,
        clock: &mut Clock,
        nodes: &mut Nodes,
        number: u32,
        hops: impl FnOnce(u16, u16) -> u32,
    ) -> Then {
        let flow = &mut self[number];
        if clock.now >= flow.stop_at && !flow.stopped {
            return self.stop_flow(clock.now, nodes, number);
        }
        if flow.step != clock.now || flow.stopped {
            return Then::Rest;
        }
        flow.step = Time::NEVER;
        if flow.account.start.is_none() {
            flow.account.hops = hops(flow.src, flow.dst);
            return self.start_flow(clock, nodes, number);
        }
        if flow.udp.is_some() {
            return self.datagram_due(clock, number);
        }
        let step = flow.app.step(clock.now);
        self.act(clock, nodes, number, &step)
    }

    /// Do what the flow's application wants.
    fn act(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32, step: &Step) -> Then {
        let flow = &mut self[number];
        if let Some(octets) = step.expects {
            flow.request = Some((clock.now, octets));
        }
        let end = &mut flow.ends[0];
        if step.connect {
            (end.goal, end.last) = (step.write, step.last);
            flow.answered = 0;
            // Before it: where none can be opened, that says when the next is tried.
            self.step_at(clock, number, step.next);
            let opened = self.connect(clock, nodes, number);
            return if opened { Then::Send } else { Then::Rest };
        }
        end.goal = end.goal.saturating_add(step.write);
        end.last |= step.last;
        self.step_at(clock, number, step.next);
        self[number].write(clock.now, nodes, 0);
        Then::Send
    }

    fn start_flow(&mut self, clock: &mut Clock, nodes: &mut Nodes, number: u32) -> Then {
        let now = clock.now;
        let flow = &mut self[number];
        flow.account.start = Some(now);
        if let Some(time) = flow.spec.time {
            flow.stop_at = flow.stop_at.min(now + time.0);
        }
        let stop_at = flow.stop_at;
        let mut then = Then::Rest;
        if flow.udp.is_some() {
            self.step_at(clock, number, now);
        } else {
            let step = flow.app.begin(now);
            match step.connect {
                true => then = self.act(clock, nodes, number, &step),
                false => self.step_at(clock, number, step.next),
            }
        }
        if stop_at < Time::NEVER {
            clock.push(stop_at, Class::Application, What::App(number));
        }
        then
    }

    /// The flow's application writes nothing more.
    fn stop_flow(&mut self, now: Time, nodes: &mut Nodes, number: u32) -> Then {
        let flow = &mut self[number];
        flow.stopped = true;
        if flow.account.start.is_none() {
            self.flow_done(number);
            return Then::Rest;
        }
        if flow.udp.is_some() {
            self.datagram_over(now, number);
            return Then::Rest;
        }
        match flow.app {
            // What is under way is completed.
            App::Http(_) | App::Request(_) if flow.request.is_some() => return Then::Rest,
            App::Http(_) => {
                let waits = flow.app.persistent();
                self.no_more_files(now, nodes, number);
                return if waits { Then::Send } else { Then::Rest };
            }
            _ => {}
        }
        flow.ends[0].goal = flow.ends[0].written;
        flow.ends[0].last = true;
        if !matches!(flow.app, App::Request(_)) {
            let held = flow.ends[0].written.saturating_sub(flow.account.bytes);
            flow.account.held = Some((now, held));
            flow.account.written = flow.ends[0].written;
        }
        if matches!(flow.app, App::Request(_)) {
            (flow.account.finished, flow.account.known) = (true, Some(now));
            self.flow_done(number);
        }
        self[number].write(now, nodes, 0);
        Then::End
    }

    /// A datagram is due, or the source starts at full load.
    fn datagram_due(&mut self, clock: &mut Clock, number: u32) -> Then {
        match self[number].datagram_due(clock.now) {
            Some(Some(at)) => {
                self.step_at(clock, number, at);
                Then::Datagram
            }
            Some(None) => Then::Load,
            None => Then::Rest,
        }
    }
}
