//! Time goes on.

use super::Simulation;
use super::app::App;
use super::events::What;
use super::hop::Came;
use super::stop::EndReason;
use wifu_core::Hook;
use wifu_wire::{Span, Time};

impl Simulation {
    /// Run to the end.
    pub fn run(&mut self) -> EndReason {
        self.step_until(Time::NEVER);
        self.stop.ended.unwrap_or(EndReason::Idle)
    }

    /// Run until `time`; true if the run ended before. So a caller can show progress and be
    /// interrupted.
    pub fn step_until(&mut self, time: Time) -> bool {
        let limit = time.min(self.stop.time);
        while self.stop.ended.is_none() {
            let (radio, own) = (self.air.next(), self.events.next_at());
            let at = radio.min(own);
            if at > limit {
                self.pass_to(limit, at == Time::NEVER);
                break;
            }
            if radio <= own {
                let (now, moments) = self.air.run_until(own.min(limit));
                self.now = now;
                self.counted += moments;
            } else if let Some((_, what)) = self.events.pop() {
                self.now = at;
                self.air.pass_to(at);
                self.happen(what);
            }
            self.drain_air();
        }
        self.stop.ended.is_some()
    }

    /// Nothing happens until `limit`, or never again.
    fn pass_to(&mut self, limit: Time, never: bool) {
        if never && self.scenario.stop.time.is_none() {
            self.stop.ended = Some(EndReason::Idle);
            return;
        }
        self.now = self.now.max(limit);
        self.air.pass_to(self.now);
        if limit == self.stop.time {
            self.stop.ended = Some(EndReason::Time);
        }
    }

    fn happen(&mut self, what: What) {
        self.counted += u64::from(what != What::Sample);
        match what {
            What::Arrive(wire) => self.wire_arrival(wire),
            What::Forward(packet) => self.at_hook(Hook::Postrouting, packet, Came::HERE),
            What::Chain(node) => self.chain_due(node as u16),
            What::Wake(host) => self.wake(host),
            What::App(flow) => self.app_step(flow),
            What::Hello(node) => self.hello(node as u16),
            What::Control(node) => self.topology_control(node as u16),
            What::Relay(packet) => self.relay(packet),
            What::Move => self.move_nodes(),
            What::Sample => self.sample(),
        }
    }

    /// A flow's application acts by itself.
    fn app_step(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        if self.now >= flow.stop_at && !flow.stopped {
            self.stop_flow(number);
        }
        let flow = &mut self.flows[number as usize];
        if flow.step != self.now || flow.stopped {
            return;
        }
        flow.step = Time::NEVER;
        if flow.account.start.is_none() {
            return self.start_flow(number);
        }
        if flow.udp.is_some() {
            return self.send_due(number);
        }
        match &mut flow.app {
            App::Http(files) => {
                let size = files.size();
                flow.request = Some((self.now, size));
                flow.ends[0].goal = size;
                flow.ends[0].last = true;
                return self.connect(number);
            }
            App::Request(dialogue) => {
                flow.request = Some((self.now, dialogue.response));
                flow.ends[0].goal += dialogue.request;
            }
            App::OnOff(talk) => {
                flow.ends[0].goal += talk.chunk;
                let at = talk.next(self.now);
                self.step_at(number, at);
            }
            App::Trace { rows, next } => {
                let start = flow.account.start.unwrap_or(self.now);
                while let Some((at, octets)) = rows.get(*next).filter(|r| start + r.0 <= self.now) {
                    debug_assert!(start + *at <= self.now);
                    flow.ends[0].goal += octets;
                    *next += 1;
                }
                match rows.get(*next).map(|r| start + r.0) {
                    Some(at) => self.step_at(number, at),
                    None => flow.ends[0].last = true,
                }
            }
            App::Bulk | App::File(_) | App::Stream => {}
        }
        self.write_and_pump(number);
    }

    fn start_flow(&mut self, number: u32) {
        let now = self.now;
        let route = {
            let flow = &self.flows[number as usize];
            self.route(flow.src, flow.dst).len()
        };
        let flow = &mut self.flows[number as usize];
        flow.account.start = Some(now);
        flow.account.hops = route.saturating_sub(1) as u32;
        if let Some(time) = flow.spec.time {
            flow.stop_at = flow.stop_at.min(now + time.0);
        }
        let stop_at = flow.stop_at;
        if flow.udp.is_some() {
            self.step_at(number, now);
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
            if !matches!(flow.app, App::Http(_)) {
                self.connect(number);
            }
            self.step_at(number, step);
        }
        if stop_at < Time::NEVER {
            let class = super::events::Class::Application;
            self.events.push(stop_at, class, What::App(number));
        }
    }

    /// The flow's application writes nothing more.
    fn stop_flow(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.stopped = true;
        if flow.account.start.is_none() {
            return self.flow_done(number);
        }
        if flow.udp.is_some() {
            return self.datagram_over(number);
        }
        match flow.app {
            // What is under way is completed.
            App::Http(_) | App::Request(_) if flow.request.is_some() => return,
            App::Http(_) => {
                flow.account.finished = true;
                return self.look(number);
            }
            _ => {}
        }
        flow.ends[0].goal = flow.ends[0].written;
        flow.ends[0].last = true;
        if matches!(flow.app, App::Request(_)) {
            (flow.account.finished, flow.account.known) = (true, Some(self.now));
            self.flow_done(number);
        }
        self.write_and_pump(number);
        self.progressed(number, 1);
    }

    fn write_and_pump(&mut self, number: u32) {
        self.write(number, 0);
        let flow = &self.flows[number as usize];
        let host = self.host_of(flow, 0) as u32;
        self.pump(host);
    }
}
