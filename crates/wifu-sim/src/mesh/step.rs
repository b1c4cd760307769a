//! Time goes on: what is due next, on the air or off it, and whom it concerns.

use super::Simulation;
use super::events::What;
use super::stop::EndReason;
use wifu_wire::Time;

impl Simulation {
    /// Run to the end.
    pub fn run(&mut self) -> EndReason {
        self.step_until(Time::NEVER);
        self.flows.stop.ended.unwrap_or(EndReason::Idle)
    }

    /// Run until `time`; true if the run ended before. So a caller can show progress and be
    /// interrupted.
    pub fn step_until(&mut self, time: Time) -> bool {
        let limit = time.min(self.flows.stop.time);
        while self.flows.stop.ended.is_none() {
            let (radio, own) = (self.net.air.next(), self.clock.events.next_at());
            let at = radio.min(own);
            if at > limit {
                self.pass_to(limit, at == Time::NEVER);
                break;
            }
            if radio <= own {
                let (now, moments) = self.net.air.run_until(own.min(limit));
                self.clock.now = now;
                self.counted += moments;
            } else if let Some((_, what)) = self.clock.events.pop() {
                self.clock.now = at;
                self.net.air.pass_to(at);
                self.happen(what);
            }
            self.drain_air();
        }
        self.flows.stop.ended.is_some()
    }

    /// Nothing happens until `limit`, or never again.
    fn pass_to(&mut self, limit: Time, never: bool) {
        let stop = &mut self.flows.stop;
        if never && !stop.timed {
            stop.ended = Some(EndReason::Idle);
            return;
        }
        if limit == stop.time {
            stop.ended = Some(EndReason::Time);
        }
        self.clock.now = self.clock.now.max(limit);
        self.net.air.pass_to(self.clock.now);
    }

    fn happen(&mut self, what: What) {
        self.counted += u64::from(what != What::Sample);
        let (clock, net) = (&mut self.clock, &mut self.net);
        match what {
            What::Arrive(wire) => {
                if let Some((id, from)) = net.wire_arrival(clock, wire) {
                    self.arrive(id, from, None);
                }
            }
            What::Forward(packet) => self.relayed(packet),
            What::Lanes(node) => self.lanes_due(node as u16),
            What::Chain(node) => self.chain_due(node as u16),
            What::Wake(host) => {
                if self.nodes.wake(clock.now, host) {
                    self.pump(host);
                }
            }
            What::App(flow) => self.app_step(flow),
            What::Hello(node) => {
                if let Some(daemon) = &mut self.daemon {
                    daemon.hello(clock, net, node as u16);
                }
            }
            What::Control(node) => {
                if let Some(daemon) = &mut self.daemon {
                    daemon.topology_control(clock, net, node as u16);
                }
            }
            What::Relay(packet) => net.broadcast(clock.now, packet),
            What::Move => {
                if let Some(motion) = &mut self.motion {
                    motion.step(clock, &mut self.plan, net, self.daemon.as_mut());
                }
            }
            What::Sample => self.flows.sample(clock, &self.nodes, &net.air),
        }
        if core::mem::take(&mut self.net.laid) {
            self.reroute();
        }
    }
}
