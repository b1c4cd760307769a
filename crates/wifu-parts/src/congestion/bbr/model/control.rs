//! What BBR's model says of the pacing rate, the send quantum and the window.

use super::{INFINITY, Model, Now, State};
use wifu_engine::kit::Sample;
use wifu_wire::Span;

impl Model {
    //= bbr-draft#summary-of-control-behavior-in-the-state-machine
    /// BBR.pacing_gain and BBR.cwnd_gain.
    pub(super) fn gains(&self) -> (f64, f64) {
        let k = &self.k;
        match self.state {
            State::Startup => (k.startup_gain, k.cwnd_gain),
            State::Drain => (k.drain_gain, k.cwnd_gain),
            State::Down => (k.down_gain, k.cwnd_gain),
            State::Cruise | State::Refill => (1.0, k.cwnd_gain),
            State::Up => (k.up_gain, k.up_cwnd_gain),
            State::ProbeRtt => (1.0, k.probe_rtt_gain),
        }
    }

    //= bbr-draft#pacing-rate-bbrpacingrate
    /// SetPacingRateWithGain.
    pub(super) fn set_pacing_rate(&mut self, gain: f64) {
        let rate = gain * self.bw * (100.0 - self.k.pacing_margin) / 100.0;
        if rate > self.pacing_rate || self.full.reached && rate > 0.0 {
            self.pacing_rate = rate;
        }
    }

    //= bbr-draft#send-quantum-bbrsendquantum
    pub(super) fn set_send_quantum(&mut self, c: &Now<'_>) {
        let quantum = (self.pacing_rate * 0.001) as u32;
        self.send_quantum = quantum.min(64 * 1024).max(c.smss.saturating_mul(2));
    }

    /// BBR.bdp, octets.
    pub(super) fn bdp(&self) -> f64 {
        self.bw * self.trip.min.map_or(0.0, Span::as_secs_f64)
    }

    /// TargetInflight.
    pub(super) fn target_inflight(&self) -> u32 {
        (self.bdp() as u32).min(self.cwnd)
    }

    pub(super) fn min_pipe_cwnd(&self, smss: u32) -> u32 {
        smss.saturating_mul(self.k.min_pipe)
    }

    //= bbr-draft#computing-bbrmaxinflight
    /// BDPMultiple.
    pub(super) fn bdp_multiple(&self, bw: f64, gain: f64, c: &Now<'_>) -> u32 {
        match self.trip.min {
            Some(rtt) => (gain * bw * rtt.as_secs_f64()) as u32,
            None => c.initial,
        }
    }

    /// QuantizationBudget.
    pub(super) fn quantization_budget(&self, inflight: u32, smss: u32) -> u32 {
        let offload_budget = self.send_quantum.saturating_mul(self.k.offload_quanta);
        let cap = inflight.max(offload_budget).max(self.min_pipe_cwnd(smss));
        match self.state {
            State::Up => cap.saturating_add(2 * smss),
            _ => cap,
        }
    }

    /// Inflight with a gain of 1: what fills the path at `bw` octets per second, octets.
    pub(super) fn inflight(&self, bw: f64, c: &Now<'_>) -> u32 {
        self.quantization_budget(self.bdp_multiple(bw, 1.0, c), c.smss)
    }

    pub(super) fn inflight_with_headroom(&self, smss: u32) -> u32 {
        if self.inflight_longterm == INFINITY {
            return INFINITY;
        }
        let headroom = (self.k.headroom * f64::from(self.inflight_longterm)) as u32;
        let left = self.inflight_longterm.saturating_sub(headroom.max(smss));
        left.max(self.min_pipe_cwnd(smss))
    }

    pub(super) fn probe_rtt_cwnd(&self, c: &Now<'_>) -> u32 {
        let share = self.bdp_multiple(self.bw, self.k.probe_rtt_gain, c);
        share.max(self.min_pipe_cwnd(c.smss))
    }

    //= bbr-draft#cwnd-adjustment-mechanism
    /// SetCwnd, with UpdateMaxInflight, BoundCwndForProbeRTT and BoundCwndForModel.
    pub(super) fn set_cwnd(&mut self, rs: &Sample, c: &Now<'_>) {
        let volume = self.bdp_multiple(self.bw, self.gains().1, c);
        let volume = volume.saturating_add(self.aggregation.extra());
        let max_inflight = self.quantization_budget(volume, c.smss);
        let grown = self.cwnd.saturating_add(rs.newly_acked);
        if self.full.reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || c.delivered < u64::from(c.initial) {
            self.cwnd = grown;
        }
        let least = self.min_pipe_cwnd(c.smss);
        self.cwnd = self.cwnd.max(least);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd(c));
        }
        //= bbr-draft#bounding-cwnd-based-on-recent-congestion
        let cap = match self.state {
            State::Startup | State::Drain => INFINITY,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(c.smss),
            State::Down | State::Refill | State::Up => self.inflight_longterm,
        };
        let cap = cap.min(self.inflight_shortterm).max(least);
        self.cwnd = self.cwnd.min(cap);
    }
}
