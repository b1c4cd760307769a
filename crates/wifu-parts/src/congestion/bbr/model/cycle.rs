//! The states of BBR and what leads from one to the next.

use super::{INFINITY, Model, Now, Phase, State, octets};
use wifu_engine::kit::Sample;
use wifu_wire::Span;

/// BBR.bw_probe_up_rounds is bounded by it.
const STEEPEST: u32 = 30;

// Startup and Drain.
impl Model {
    //= bbr-draft#startup-dynamics
    /// CheckStartupDone.
    pub(super) fn check_startup_done(&mut self, rs: &Sample, c: &Now<'_>) {
        if self.state == State::Startup && self.loses_much(rs, c.selective) {
            self.leave_startup();
        }
        if self.loss_round_start {
            self.ranges_lost = 0;
        }
        if self.state == State::Startup && self.full.reached {
            self.state = State::Drain;
            self.drain_start_round = self.round_count;
        }
    }

    //= bbr-draft#exiting-startup-based-on-packet-loss
    /// The criteria of CheckStartupHighLoss. The round of losses that ends began with the first of
    /// them, so it is as long as the recovery, or longer.
    pub(super) fn loses_much(&self, rs: &Sample, selective: bool) -> bool {
        if !self.recovering {
            return false;
        }
        if !selective {
            return rs.newly_lost > 0;
        }
        self.loss_round_start
            && self.ranges_lost >= self.k.full_loss_ranges
            && self.is_too_high(rs.lost, rs.in_flight, selective)
    }

    pub(super) fn leave_startup(&mut self) {
        self.undo.state = Some(State::Startup);
        (self.full.reached, self.full.now) = (true, true);
        self.inflight_longterm = (self.bdp() as u32).max(octets(self.inflight_latest));
    }

    //= bbr-draft#drain
    pub(super) fn check_drain_done(&mut self, c: &mut Now<'_>) {
        if self.state == State::Drain
            && (c.inflight <= self.inflight(self.bw, c)
                || self.round_count > self.drain_start_round + 3)
        {
            self.start_down(c);
        }
    }
}

// ProbeBW.
//= bbr-draft#probebw-algorithm-details
impl Model {
    pub(super) fn start_down(&mut self, c: &mut Now<'_>) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = INFINITY;
        // PickProbeWait.
        self.rounds_since_probe_up = c.rng.below(2);
        let more = self.k.probe_wait_random.as_secs_f64() * c.rng.unit();
        self.bw_probe_wait = self.k.probe_wait + Span::from_secs_f64(more);
        self.cycle_stamp = c.now;
        self.ack_phase = Phase::ProbeStopping;
        self.start_round(c);
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self, c: &Now<'_>) {
        self.reset_short_term_model();
        (self.bw_probe_up_rounds, self.bw_probe_up_acked) = (0, 0);
        self.prev_probe_precautionary = false;
        self.ack_phase = Phase::Refilling;
        self.start_round(c);
        self.state = State::Refill;
    }

    pub(super) fn start_up(&mut self, rs: &Sample, c: &Now<'_>) {
        self.ack_phase = Phase::ProbeStarting;
        self.start_round(c);
        self.full.reset(rs.rate);
        self.state = State::Up;
        self.raise_inflight_longterm_slope(c.smss);
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, rs: &Sample, c: &mut Now<'_>) {
        if !self.full.reached || self.adapt_long_term_model(rs, c) {
            return;
        }
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.is_time_to_probe_bw(c) => self.start_refill(c),
            State::Down if self.is_time_to_cruise(c) => self.state = State::Cruise,
            State::Refill if self.round_start => {
                self.is_bw_probe_sample = true;
                self.start_up(rs, c);
            }
            State::Up if self.is_time_to_go_down(rs, c) => {
                self.prev_probe_too_high = false;
                self.start_down(c);
            }
            _ => {}
        }
    }

    /// Round trips are as many as Reno's window has segments.
    pub(super) fn is_time_to_probe_bw(&self, c: &Now<'_>) -> bool {
        let segments = f64::from(self.target_inflight()) / f64::from(c.smss.max(1));
        let rounds = segments.min(self.k.reno_rounds);
        c.now > self.cycle_stamp + self.bw_probe_wait || self.rounds_since_probe_up as f64 >= rounds
    }

    pub(super) fn is_time_to_cruise(&self, c: &Now<'_>) -> bool {
        c.inflight <= self.inflight_with_headroom(c.smss)
            && c.inflight <= self.inflight(self.max_bw(), c)
    }

    pub(super) fn is_time_to_go_down(&mut self, rs: &Sample, c: &Now<'_>) -> bool {
        // Reached before this acknowledgement, as far as whole segments go.
        let before = c.inflight.saturating_add(rs.newly_acked + rs.newly_lost);
        let reached = before.saturating_add(c.smss) > self.inflight_longterm;
        if self.prev_probe_too_high && reached {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= self.inflight_longterm {
            self.full.reset(rs.rate);
            return false;
        }
        self.full.now
    }

    pub(super) fn is_probing_bw_state(&self) -> bool {
        use State::{Cruise, Down, Refill, Up};
        matches!(self.state, Down | Cruise | Refill | Up)
    }

    /// IsProbingBW.
    pub(super) fn is_accelerating(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    /// AdaptLongTermModel: whether it decided about the state.
    pub(super) fn adapt_long_term_model(&mut self, rs: &Sample, c: &mut Now<'_>) -> bool {
        if self.ack_phase == Phase::ProbeStarting && self.round_start {
            self.ack_phase = Phase::ProbeFeedback;
        }
        if self.ack_phase == Phase::ProbeStopping && self.round_start {
            self.is_bw_probe_sample = false;
            self.ack_phase = Phase::Init;
            if self.is_probing_bw_state() {
                if !rs.app_limited {
                    self.advance_max_bw_filter();
                }
                if self.prev_probe_precautionary && !self.prev_probe_too_high {
                    self.start_refill(c);
                    return true;
                }
            }
        }
        let safe = !self.is_too_high(rs.lost, rs.in_flight, c.selective);
        if safe && self.inflight_longterm != INFINITY {
            self.inflight_longterm = self.inflight_longterm.max(rs.in_flight);
            if self.state == State::Up {
                self.probe_inflight_longterm_upward(rs, c.smss);
            }
        }
        false
    }

    /// A cycle without any sample leaves those before as they are.
    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] > 0.0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0.0];
        }
    }

    pub(super) fn raise_inflight_longterm_slope(&mut self, smss: u32) {
        let growth_this_round = 1 << self.bw_probe_up_rounds;
        self.bw_probe_up_rounds = (self.bw_probe_up_rounds + 1).min(STEEPEST);
        self.probe_up_acked_per_inc = (self.cwnd / growth_this_round).max(smss).max(1);
    }

    pub(super) fn probe_inflight_longterm_upward(&mut self, rs: &Sample, smss: u32) {
        if !self.is_cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        self.bw_probe_up_acked = self.bw_probe_up_acked.saturating_add(rs.newly_acked);
        let delta = self.bw_probe_up_acked / self.probe_up_acked_per_inc;
        self.bw_probe_up_acked -= delta * self.probe_up_acked_per_inc;
        let more = delta.saturating_mul(smss);
        self.inflight_longterm = self
            .inflight_longterm
            .saturating_add(more)
            .min(INFINITY - 1);
        if self.round_start {
            self.raise_inflight_longterm_slope(smss);
        }
    }
}

// ProbeRTT.
//= bbr-draft#probertt-logic
impl Model {
    pub(super) fn check_probe_rtt(&mut self, rs: &Sample, c: &mut Now<'_>) {
        if self.state != State::ProbeRtt && self.trip.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.probe_rtt_done_stamp = None;
            self.ack_phase = Phase::ProbeStopping;
            self.start_round(c);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(c);
        }
        if rs.delivered > 0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn handle_probe_rtt(&mut self, c: &mut Now<'_>) {
        self.marks_limited = true;
        if self.probe_rtt_done_stamp.is_none() {
            if c.inflight <= self.probe_rtt_cwnd(c) {
                self.probe_rtt_done_stamp = Some(c.now + self.k.probe_rtt_duration);
                self.probe_rtt_round_done = false;
                self.start_round(c);
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.check_probe_rtt_done(c);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, c: &mut Now<'_>) {
        if self.probe_rtt_done_stamp.is_none_or(|at| c.now <= at) {
            return;
        }
        self.trip.delay_stamp = c.now;
        self.restore_cwnd();
        //= bbr-draft#exiting-probertt
        self.reset_short_term_model();
        if self.full.reached {
            self.start_down(c);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
