//! What a flow's application does by itself, step by step.

use super::app::App;
use super::clock::Clock;
use super::events::{Class, What};
use super::flows::Flows;
use super::nodes::Nodes;
use wifu_wire::{Span, Time};

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
        match &mut flow.app {
            App::Http(files) => {
                let size = files.size();
                flow.request = Some((clock.now, size));
                flow.ends[0].goal = size;
                flow.ends[0].last = true;
                let opened = self.connect(clock, nodes, number);
                return if opened { Then::Send } else { Then::Rest };
            }
            App::Request(dialogue) => {
                flow.request = Some((clock.now, dialogue.response));
                flow.ends[0].goal += dialogue.request;
            }
            App::OnOff(talk) => {
                flow.ends[0].goal += talk.chunk;
                let at = talk.next(clock.now);
                self.step_at(clock, number, at);
            }
            App::Trace { rows, next } => {
                let start = flow.account.start.unwrap_or(clock.now);
                while let Some((_, octets)) = rows.get(*next).filter(|r| start + r.0 <= clock.now) {
                    flow.ends[0].goal += octets;
                    *next += 1;
                }
                match rows.get(*next).map(|r| start + r.0) {
                    Some(at) => self.step_at(clock, number, at),
                    None => flow.ends[0].last = true,
                }
            }
            App::Bulk | App::File(_) | App::Stream => {}
        }
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
            let (goal, last, step) = match &flow.app {
                App::File(octets) => (*octets, true, Time::NEVER),
                App::Bulk | App::Stream => (u64::MAX, false, Time::NEVER),
                App::Trace { rows, .. } => {
                    let first = rows.first().map_or(Span::ZERO, |r| r.0);
                    (0, false, now + first)
                }
                App::Http(_) | App::Request(_) | App::OnOff(_) => (0, false, now),
            };
            (flow.ends[0].goal, flow.ends[0].last) = (goal, last);
            if !matches!(flow.app, App::Http(_)) && self.connect(clock, nodes, number) {
                then = Then::Send;
            }
            self.step_at(clock, number, step);
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
                flow.account.finished = true;
                self.look(now, nodes, number);
                return Then::Rest;
            }
            _ => {}
        }
        flow.ends[0].goal = flow.ends[0].written;
        flow.ends[0].last = true;
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
