//! The model of the path and the state machine of BBR (draft-ietf-ccwg-bbr, section 5). Names are
//! the draft's, its C and RS being [`Now`] and [`Sample`]; infinity is `u32::MAX` and
//! `f64::INFINITY`.

mod constants;
mod control;
mod cycle;
mod estimators;

use constants::Constants;
pub use constants::PARAMS;
use estimators::{Aggregation, FullPipe, Trip};
use wifu_engine::Params;
use wifu_engine::kit::{LostPacket, Sample};
use wifu_wire::{Rng, Seq, Span, Time};

const INFINITY: u32 = u32::MAX;

/// BBR.state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// BBR.ack_phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// C: the connection at this moment.
pub struct Now<'a> {
    pub now: Time,
    /// C.SMSS.
    pub smss: u32,
    /// C.inflight.
    pub inflight: u32,
    /// C.InitialCwnd.
    pub initial: u32,
    /// C.srtt.
    pub srtt: Span,
    /// C.has_selective_acks.
    pub selective: bool,
    /// C.delivered.
    pub delivered: u64,
    pub rng: &'a mut Rng,
}

/// What is restored if nothing was lost: BBR.undo_*.
#[derive(Clone, Copy, Debug, Default)]
struct Undo {
    state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: u32,
    inflight_longterm: u32,
}

/// BBR, and what it says: C.cwnd, C.pacing_rate, C.send_quantum.
#[derive(Clone, Debug)]
pub struct Model {
    k: Constants,
    pub state: State,
    /// C.cwnd, octets.
    pub cwnd: u32,
    /// C.pacing_rate, octets per second.
    pub pacing_rate: f64,
    /// C.send_quantum, octets.
    pub send_quantum: u32,
    /// The window was full in this round trip, and in the last one: C.is_cwnd_limited.
    cwnd_limited: [bool; 2],
    /// The connection is in fast recovery; or in any, that of a timeout too.
    pub recovering: bool,
    pub repairing: bool,

    pub round_count: u64,
    round_start: bool,
    next_round_delivered: u64,
    idle_restart: bool,
    has_seen_rtt: bool,

    /// BBR.max_bw_filter: of the previous cycle and of this one, octets per second.
    max_bw_filter: [f64; 2],
    bw_shortterm: f64,
    pub bw: f64,
    pub trip: Trip,
    pub inflight_longterm: u32,
    pub inflight_shortterm: u32,
    aggregation: Aggregation,

    bw_latest: f64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    /// Ranges lost in this round trip, and where the last one ends.
    ranges_lost: u32,
    last_lost: Option<Seq>,

    pub full: FullPipe,
    drain_start_round: u64,

    ack_phase: Phase,
    is_bw_probe_sample: bool,
    bw_probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    bw_probe_wait: Span,
    cycle_stamp: Time,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,

    prior_cwnd: u32,
    undo: Undo,
    probe_rtt_done_stamp: Option<Time>,
    probe_rtt_round_done: bool,
    /// What is in flight does not show what the path carries: MarkConnectionAppLimited.
    pub marks_limited: bool,
}

// Initialization, and the order of things on each acknowledgement.
impl Model {
    pub fn new(p: &Params<'_>) -> Model {
        Model {
            k: Constants::new(p),
            state: State::Startup,
            cwnd: 0,
            pacing_rate: 0.0,
            send_quantum: 0,
            cwnd_limited: [false; 2],
            recovering: false,
            repairing: false,
            round_count: 0,
            round_start: false,
            next_round_delivered: 0,
            idle_restart: false,
            has_seen_rtt: false,
            max_bw_filter: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            bw: 0.0,
            trip: Trip::default(),
            inflight_longterm: INFINITY,
            inflight_shortterm: INFINITY,
            aggregation: Aggregation::default(),
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round_delivered: 0,
            loss_round_start: false,
            is_loss_in_round: false,
            ranges_lost: 0,
            last_lost: None,
            full: FullPipe::default(),
            drain_start_round: 0,
            ack_phase: Phase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: Span::ZERO,
            cycle_stamp: Time::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            prior_cwnd: 0,
            undo: Undo::default(),
            probe_rtt_done_stamp: None,
            probe_rtt_round_done: false,
            marks_limited: false,
        }
    }

    //= bbr-draft#initialization
    /// OnInit, with InitPacingRate.
    pub fn init(&mut self, c: &Now<'_>) {
        self.trip.init(c.srtt, c.now);
        self.aggregation.start = c.now;
        self.cwnd = c.initial;
        self.init_pacing_rate(c.srtt, c);
        self.set_send_quantum(c);
    }

    //= bbr-draft#pacing-rate-bbrpacingrate
    fn init_pacing_rate(&mut self, srtt: Span, c: &Now<'_>) {
        self.has_seen_rtt = srtt > Span::ZERO;
        let srtt = if self.has_seen_rtt { srtt } else { Span::MILLI };
        self.pacing_rate = self.k.startup_gain * f64::from(c.initial) / srtt.as_secs_f64();
    }

    //= bbr-draft#per-ack-steps
    /// UpdateOnACK.
    pub fn on_ack(&mut self, rs: &Sample, c: &mut Now<'_>) {
        if let Some(rtt) = rs.rtt.filter(|_| !self.has_seen_rtt) {
            self.init_pacing_rate(rtt, c);
        }
        self.marks_limited = false;
        self.update_latest_delivery_signals(rs, c);
        self.update_congestion_signals(rs, c);
        let startup = !self.full.reached;
        let window = if startup {
            1
        } else {
            self.k.extra_acked_rounds
        };
        let (rates, rounds) = ((self.bw, self.cwnd), (window, self.round_count));
        self.aggregation
            .update(rs.newly_acked, rates, rounds, c.now);
        if self.round_start {
            let (growth, rounds) = (self.k.full_bw_growth, self.k.full_bw_rounds);
            self.full.check(rs, growth, rounds);
        }
        self.check_startup_done(rs, c);
        self.check_drain_done(c);
        self.update_probe_bw_cycle_phase(rs, c);
        let windows = (self.k.probe_rtt_interval, self.k.min_rtt_filter);
        self.trip.update(rs.rtt, windows, c.now);
        self.check_probe_rtt(rs, c);
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (rs.rate, rs.delivered);
        }
        self.bw = self.max_bw().min(self.bw_shortterm);
        self.set_pacing_rate(self.gains().0);
        self.set_send_quantum(c);
        self.set_cwnd(rs, c);
    }

    /// A segment left: whether it filled the window.
    pub fn on_sent(&mut self, inflight: u32, smss: u32) {
        self.cwnd_limited[0] |= inflight.saturating_add(smss) > self.cwnd;
    }

    //= bbr-draft#actions-when-restarting-from-idle
    /// HandleRestartFromIdle: there was nothing in flight, for want of data.
    pub fn restart_from_idle(&mut self, c: &mut Now<'_>) {
        self.idle_restart = true;
        self.aggregation.start = c.now;
        if self.is_probing_bw_state() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(c);
        }
    }
}

// The model: rounds, bandwidth, and what losses say.
impl Model {
    /// BBR.max_bw, octets per second.
    pub fn max_bw(&self) -> f64 {
        self.max_bw_filter[0].max(self.max_bw_filter[1])
    }

    /// BBR.extra_acked, octets.
    pub fn extra_acked(&self) -> u32 {
        self.aggregation.extra()
    }

    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited[0] || self.cwnd_limited[1]
    }

    //= bbr-draft#bbr-round-count
    fn start_round(&mut self, c: &Now<'_>) {
        self.next_round_delivered = c.delivered;
    }

    fn update_round(&mut self, rs: &Sample, c: &Now<'_>) {
        self.round_start = rs.prior.is_some_and(|p| p >= self.next_round_delivered);
        if self.round_start {
            self.start_round(c);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
            self.cwnd_limited = [false, self.cwnd_limited[0]];
        }
    }

    //= bbr-draft#when-not-probing-for-bandwidth
    fn update_latest_delivery_signals(&mut self, rs: &Sample, c: &Now<'_>) {
        self.bw_latest = self.bw_latest.max(rs.rate);
        self.inflight_latest = self.inflight_latest.max(rs.delivered);
        self.loss_round_start = rs.prior.is_some_and(|p| p >= self.loss_round_delivered);
        if self.loss_round_start {
            self.loss_round_delivered = c.delivered;
        }
    }

    fn update_congestion_signals(&mut self, rs: &Sample, c: &Now<'_>) {
        self.update_round(rs, c);
        //= bbr-draft#updating-the-bbrmaxbw-max-filter
        if rs.rate > 0.0 && (rs.rate >= self.max_bw() || !rs.app_limited) {
            self.max_bw_filter[1] = self.max_bw_filter[1].max(rs.rate);
        }
        if !self.loss_round_start {
            return;
        }
        if self.is_loss_in_round && !self.is_accelerating() {
            self.adapt_lower_bounds();
        }
        self.is_loss_in_round = false;
    }

    /// InitLowerBounds and LossLowerBounds.
    fn adapt_lower_bounds(&mut self) {
        if self.bw_shortterm.is_infinite() {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm == INFINITY {
            self.inflight_shortterm = self.cwnd;
        }
        let beta = self.k.beta;
        self.bw_shortterm = self.bw_latest.max(beta * self.bw_shortterm);
        let left = (beta * f64::from(self.inflight_shortterm)) as u32;
        self.inflight_shortterm = left.max(octets(self.inflight_latest));
    }

    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.bw_latest, self.inflight_latest) = (0.0, 0);
    }

    fn reset_short_term_model(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (f64::INFINITY, INFINITY);
    }

    //= bbr-draft#probing-for-bandwidth-in-probebw
    /// HandleLostPacket.
    pub fn on_lost(&mut self, p: &LostPacket, c: &mut Now<'_>) {
        self.note_loss(c);
        if self.last_lost != Some(p.range.0) {
            self.ranges_lost = self.ranges_lost.saturating_add(1);
        }
        self.last_lost = Some(p.range.1);
        if self.is_bw_probe_sample && self.is_too_high(p.lost, p.in_flight, c.selective) {
            // InflightAtLoss.
            let size = f64::from(p.range.1.since(p.range.0));
            let thresh = self.k.loss_thresh.min(0.99);
            let inflight_prev = f64::from(p.in_flight) - size;
            let lost_prev = p.lost as f64 - size;
            let lost_prefix = (thresh * inflight_prev - lost_prev) / (1.0 - thresh);
            let inflight = (inflight_prev + lost_prefix) as u32;
            self.handle_inflight_too_high(inflight, p.app_limited, c);
        }
    }

    //= bbr-draft#ecn
    /// A queue on the way marked a packet while so much was in flight: "MUST treat any CE marks as
    /// congestion", here as a share of losses above the threshold.
    pub fn on_mark(&mut self, inflight: u32, c: &mut Now<'_>) {
        self.note_loss(c);
        if self.state == State::Startup {
            self.leave_startup();
        } else if self.is_bw_probe_sample {
            self.handle_inflight_too_high(inflight, false, c);
        }
    }

    fn note_loss(&mut self, c: &Now<'_>) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = c.delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }

    /// IsInflightTooHigh.
    fn is_too_high(&self, lost: u64, inflight: u32, selective: bool) -> bool {
        let share = f64::from(inflight) * self.k.loss_thresh;
        lost as f64 > share || lost > 0 && !selective
    }

    fn handle_inflight_too_high(&mut self, inflight: u32, app_limited: bool, c: &mut Now<'_>) {
        self.prev_probe_too_high = true;
        self.is_bw_probe_sample = false;
        if !app_limited {
            let least = (f64::from(self.target_inflight()) * self.k.beta) as u32;
            self.inflight_longterm = inflight.max(least);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(c);
        }
    }
}

// Recovery.
impl Model {
    //= bbr-draft#modulating-cwnd-in-loss-recovery
    fn save_cwnd(&mut self) {
        let known = !self.repairing && self.state != State::ProbeRtt;
        self.prior_cwnd = if known {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    //= bbr-draft#saving-state-on-loss-recovery
    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// OnEnterFastRecovery; the end of whatever recovery there was.
    pub fn recovery(&mut self, recovering: bool, repairing: bool) {
        if recovering && !self.recovering {
            self.save_cwnd();
        }
        if !repairing && self.repairing {
            self.restore_cwnd();
        }
        (self.recovering, self.repairing) = (recovering, repairing);
    }

    /// OnEnterRTO.
    pub fn on_timeout(&mut self, c: &Now<'_>) {
        self.save_cwnd();
        self.save_state_upon_loss();
        (self.recovering, self.repairing) = (false, true);
        self.cwnd = c.inflight.saturating_add(c.smss);
    }

    //= bbr-draft#handling-spurious-loss-recovery
    /// HandleSpuriousLossDetection.
    pub fn on_spurious(&mut self, c: &Now<'_>) {
        self.restore_cwnd();
        self.is_loss_in_round = false;
        self.full.reset(0.0);
        let undo = self.undo;
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.start_refill(c);
            }
            _ => {}
        }
        self.undo.state = None;
    }
}

fn octets(volume: u64) -> u32 {
    u32::try_from(volume).unwrap_or(INFINITY - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMSS: u32 = 1000;
    /// 1 MB/s and 100 ms: a bandwidth-delay product of 100 segments.
    const BW: f64 = 1e6;
    const BDP: u32 = 100_000;

    /// A model, and the connection as it sees it.
    struct Path {
        m: Model,
        rng: Rng,
        now: Time,
        inflight: u32,
        delivered: u64,
        selective: bool,
    }

    impl Path {
        fn new() -> Path {
            let values: Vec<_> = PARAMS.iter().map(|p| (p.name, p.default)).collect();
            let params = Params {
                part: "bbr",
                values: &values,
                words: &[],
                notes: &[],
                exts: &[],
            };
            let mut path = Path {
                m: Model::new(&params),
                rng: Rng::new(1),
                now: Time(1_000_000_000),
                inflight: BDP,
                delivered: 10_000_000,
                selective: true,
            };
            path.with(|m, c| m.init(c));
            path
        }

        /// In this state for a while, with the path known.
        fn at(state: State) -> Path {
            let mut path = Path::new();
            let (now, delivered) = (path.now, path.delivered);
            let m = &mut path.m;
            (m.state, m.bw, m.max_bw_filter) = (state, BW, [BW, BW]);
            (m.cwnd, m.pacing_rate, m.send_quantum) = (2 * BDP, BW, 2 * SMSS);
            m.full.reached = state != State::Startup;
            m.trip.init(Span::MILLI * 100, now);
            (m.cycle_stamp, m.bw_probe_wait) = (now, Span::MILLI * 2500);
            (m.next_round_delivered, m.loss_round_delivered) = (delivered, delivered);
            m.drain_start_round = m.round_count;
            if state == State::Startup {
                path.inflight = 2 * BDP;
            }
            path
        }

        fn with<T>(&mut self, f: impl FnOnce(&mut Model, &mut Now<'_>) -> T) -> T {
            let mut c = Now {
                now: self.now,
                smss: SMSS,
                inflight: self.inflight,
                initial: 10 * SMSS,
                srtt: Span::MILLI * 100,
                selective: self.selective,
                delivered: self.delivered,
                rng: &mut self.rng,
            };
            f(&mut self.m, &mut c)
        }

        /// An acknowledgement of one segment, in the midst of a round trip.
        fn rs(&self) -> Sample {
            Sample {
                rate: BW,
                delivered: u64::from(BDP),
                prior: Some(self.delivered - u64::from(BDP)),
                rtt: Some(Span::MILLI * 100),
                newly_acked: SMSS,
                in_flight: BDP,
                ..Sample::default()
            }
        }

        /// The first acknowledgement of what left in this round trip.
        fn next_round(&mut self) -> Sample {
            self.delivered += u64::from(BDP);
            Sample {
                prior: Some(self.delivered),
                ..self.rs()
            }
        }

        fn ack(&mut self, rs: Sample) -> State {
            self.now += Span::MILLI;
            self.delivered += u64::from(rs.newly_acked);
            self.with(|m, c| m.on_ack(&rs, c));
            self.m.state
        }

        fn round(&mut self) -> State {
            let rs = self.next_round();
            self.ack(rs)
        }

        /// Segment `n` is lost, the `lost`-th octets since it left with so much in flight.
        fn lose(&mut self, n: u32, lost: u64, in_flight: u32) {
            let p = LostPacket {
                range: (Seq(n * SMSS), Seq((n + 1) * SMSS)),
                in_flight,
                lost,
                app_limited: false,
            };
            self.with(|m, c| m.on_lost(&p, c));
        }
    }

    /// The transitions of the draft's pseudocode: from which state, what is so, to which state.
    #[test]
    fn the_states_follow_each_other_as_in_the_pseudocode() {
        use State::{Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};
        type Change = fn(&mut Path);
        let long = |p: &mut Path| p.now += Span::MILLI * 2600;
        let stale = |p: &mut Path| p.now += Span::MILLI * 5100;
        let too_high = |p: &mut Path| {
            p.m.prev_probe_too_high = true;
            p.m.inflight_longterm = BDP;
        };
        let bounded = |p: &mut Path| {
            p.m.full.now = true;
            p.m.inflight_longterm = p.m.cwnd;
            p.m.cwnd_limited = [true; 2];
        };
        // (section, from, what, whether a round trip ends, to)
        let table: &[(&str, State, Change, bool, State)] = &[
            ("5.3.1.2", Startup, |_| (), true, Startup),
            (
                "5.3.1.2",
                Startup,
                |p| p.m.full.reached = true,
                false,
                Drain,
            ),
            ("5.3.2", Drain, |p| p.inflight = BDP, false, Cruise),
            ("5.3.2", Drain, |p| p.inflight = BDP + 1, false, Drain),
            (
                "5.3.2",
                Drain,
                |p| (p.inflight, p.m.round_count) = (2 * BDP, 3),
                true,
                Down,
            ),
            (
                "5.3.2",
                Drain,
                |p| (p.inflight, p.m.round_count) = (2 * BDP, 2),
                true,
                Drain,
            ),
            ("5.3.3.1", Down, |p| p.inflight = BDP, false, Cruise),
            ("5.3.3.1", Down, |p| p.inflight = BDP + 1, false, Down),
            (
                "5.3.3.1",
                Down,
                |p| p.m.inflight_longterm = 110_000,
                false,
                Down,
            ),
            (
                "5.3.3.1",
                Down,
                |p| (p.inflight, p.m.inflight_longterm) = (93_500, 110_000),
                false,
                Cruise,
            ),
            ("5.3.3.8", Down, long, false, Refill),
            ("5.3.3.8", Cruise, |_| (), false, Cruise),
            ("5.3.3.8", Cruise, long, false, Refill),
            (
                "5.3.3.8",
                Cruise,
                |p| p.m.rounds_since_probe_up = 62,
                true,
                Refill,
            ),
            (
                "5.3.3.8",
                Cruise,
                |p| p.m.rounds_since_probe_up = 61,
                true,
                Cruise,
            ),
            // A path of 20 segments: as often as Reno, and those of a small window as well.
            (
                "5.3.3.8",
                Cruise,
                |p| (p.m.bw, p.m.rounds_since_probe_up) = (BW / 5.0, 19),
                true,
                Refill,
            ),
            (
                "5.3.3.8",
                Cruise,
                |p| (p.m.cwnd, p.m.rounds_since_probe_up) = (20 * SMSS, 19),
                true,
                Refill,
            ),
            ("5.3.3.3", Refill, |_| (), false, Refill),
            ("5.3.3.3", Refill, |_| (), true, Up),
            ("5.3.3.7", Up, |_| (), false, Up),
            ("5.3.3.7", Up, |p| p.m.full.now = true, false, Down),
            ("5.3.3.7", Up, bounded, false, Up),
            ("5.3.3.6", Up, too_high, false, Down),
            (
                "5.3.3.6",
                Up,
                |p| {
                    p.m.prev_probe_too_high = true;
                    p.m.inflight_longterm = BDP + 2 * SMSS;
                },
                false,
                Up,
            ),
            (
                "5.3.3.6",
                Down,
                |p| {
                    p.m.ack_phase = Phase::ProbeStopping;
                    p.m.prev_probe_precautionary = true;
                },
                true,
                Refill,
            ),
            ("5.3.4", Startup, stale, false, ProbeRtt),
            ("5.3.4", Drain, stale, false, ProbeRtt),
            ("5.3.4", Cruise, stale, false, ProbeRtt),
            ("5.3.4", Up, stale, false, ProbeRtt),
            (
                "5.3.4",
                Startup,
                |p| {
                    p.now += Span::MILLI * 5100;
                    p.m.idle_restart = true;
                },
                false,
                Startup,
            ),
        ];
        for (i, (section, from, change, ends, to)) in table.iter().enumerate() {
            let mut p = Path::at(*from);
            change(&mut p);
            let rs = if *ends { p.next_round() } else { p.rs() };
            assert_eq!(p.ack(rs), *to, "row {i}: {section} from {from:?}");
        }
    }

    //= bbr-draft#exiting-acceleration-based-on-bandwidth-plateau
    #[test]
    fn three_round_trips_without_a_quarter_more_fill_the_path() {
        let mut p = Path::at(State::Startup);
        let round = |p: &mut Path, rate: f64, app_limited: bool| {
            let rs = p.next_round();
            let state = p.ack(Sample {
                rate,
                app_limited,
                ..rs
            });
            (state, p.m.full.count)
        };
        assert_eq!(round(&mut p, 1e6, false), (State::Startup, 0));
        assert_eq!(round(&mut p, 1.25e6, false), (State::Startup, 0));
        assert_eq!(round(&mut p, 1.56e6, false), (State::Startup, 1));
        assert_eq!(
            round(&mut p, 1.56e6, true),
            (State::Startup, 1),
            "the application's"
        );
        assert_eq!(
            round(&mut p, 1.57e6, false),
            (State::Startup, 0),
            "it grows"
        );
        for n in 1..3 {
            assert_eq!(round(&mut p, 1.58e6, false), (State::Startup, n));
        }
        assert_eq!(round(&mut p, 1.58e6, false), (State::Drain, 3));
        assert!(p.m.full.now && p.m.full.reached);
        assert_eq!(p.m.max_bw(), 1.58e6);
    }

    //= bbr-draft#exiting-startup-based-on-packet-loss
    #[test]
    fn six_ranges_and_a_fiftieth_lost_in_a_round_trip_of_recovery_end_startup() {
        // Ranges, octets lost, whether it recovers, whether the round trip is over.
        let cases = [
            (6, 2001, true, true, State::Drain),
            (5, 9000, true, true, State::Startup),
            (6, 2000, true, true, State::Startup),
            (6, 2001, false, true, State::Startup),
            (6, 2001, true, false, State::Startup),
        ];
        for (i, (ranges, lost, recovering, over, state)) in cases.into_iter().enumerate() {
            let mut p = Path::at(State::Startup);
            p.m.inflight_latest = 130_000;
            for n in 0..ranges {
                // Two segments each, which are one range.
                p.lose(10 * n, 1000, BDP);
                p.lose(10 * n + 1, 1000, BDP);
            }
            p.m.recovery(recovering, recovering);
            let rs = if over { p.next_round() } else { p.rs() };
            let rs = Sample {
                lost,
                app_limited: true,
                ..rs
            };
            assert_eq!(p.ack(rs), state, "case {i}");
            if state == State::Drain {
                assert_eq!(
                    p.m.inflight_longterm, 130_000,
                    "the most that was delivered"
                );
                assert!(p.m.full.now && p.m.full.reached);
            }
        }
        let mut p = Path::at(State::Startup);
        p.selective = false;
        p.m.recovery(true, true);
        let rs = p.rs();
        let one = Sample {
            newly_lost: 1000,
            ..rs
        };
        assert_eq!(p.ack(one), State::Drain, "without ranges any loss does");
        assert_eq!(p.m.inflight_longterm, BDP);
    }

    //= bbr-draft#probing-for-bandwidth-in-probebw
    #[test]
    fn a_fiftieth_lost_while_probing_bounds_what_may_be_in_flight() {
        let mut p = Path::at(State::Refill);
        assert_eq!(p.round(), State::Up);
        p.lose(0, 2000, 120_000);
        p.lose(1, 2400, 120_000);
        assert_eq!((p.m.state, p.m.inflight_longterm), (State::Up, INFINITY));
        // 2 % of 120000 are 2400; with this segment it is 2 % at 119000 + 18.4 % of it:
        // (0.02 * 119000 - 2200) / 0.98 = 183.7.
        p.lose(2, 3200, 120_000);
        assert_eq!(p.m.state, State::Down);
        assert_eq!(p.m.inflight_longterm, 119_183);
        assert!(p.m.prev_probe_too_high);
        // Once per probe.
        p.lose(3, 30_000, 120_000);
        assert_eq!(p.m.inflight_longterm, 119_183);
        // At least beta of the path.
        let mut p = Path::at(State::Refill);
        p.round();
        p.lose(0, 9000, 30_000);
        assert_eq!(p.m.inflight_longterm, 70_000);
        // What the application limited says nothing of the path.
        let mut p = Path::at(State::Refill);
        p.round();
        let limited = LostPacket {
            range: (Seq(0), Seq(1000)),
            in_flight: 30_000,
            lost: 9000,
            app_limited: true,
        };
        p.with(|m, c| m.on_lost(&limited, c));
        assert_eq!((p.m.state, p.m.inflight_longterm), (State::Down, INFINITY));
        // Not while probing: the same says nothing of the long term.
        let mut p = Path::at(State::Cruise);
        p.lose(0, 9000, 30_000);
        assert_eq!(
            (p.m.state, p.m.inflight_longterm),
            (State::Cruise, INFINITY)
        );
    }

    #[test]
    fn the_bound_grows_by_one_two_and_four_segments_in_successive_round_trips() {
        let mut p = Path::at(State::Refill);
        (p.m.inflight_longterm, p.m.cwnd) = (100_000, 100_000);
        p.round();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let before = p.m.inflight_longterm;
            for n in 0..100 {
                p.with(|m, c| m.on_sent(BDP * 2, c.smss));
                let rs = if n == 99 { p.next_round() } else { p.rs() };
                // Never so much in flight that this alone raised it.
                assert_eq!(p.ack(Sample { in_flight: 0, ..rs }), State::Up);
            }
            seen.push((p.m.inflight_longterm - before) / SMSS);
        }
        let expected = [1, 2, 4, 8].into_iter().zip(&seen);
        let off: Vec<u32> = expected.map(|(n, seen)| seen.abs_diff(n)).collect();
        assert!(off.iter().all(|n| *n <= 1), "{seen:?}");
        // Not where the window was not full.
        let before = p.m.inflight_longterm;
        p.m.cwnd_limited = [false; 2];
        for _ in 0..50 {
            let rs = p.rs();
            p.ack(Sample { in_flight: 0, ..rs });
        }
        assert_eq!(p.m.inflight_longterm, before);
        // What was in flight without losses raises it at once, in any state.
        let mut p = Path::at(State::Cruise);
        p.m.inflight_longterm = 90_000;
        let rs = p.rs();
        p.ack(Sample { lost: 2001, ..rs });
        assert_eq!(p.m.inflight_longterm, 90_000);
        p.ack(Sample { lost: 2000, ..rs });
        assert_eq!(p.m.inflight_longterm, BDP);
    }

    //= bbr-draft#when-not-probing-for-bandwidth
    #[test]
    fn a_round_trip_with_losses_lowers_the_short_term_bounds_but_not_while_probing() {
        let mut p = Path::at(State::Cruise);
        p.m.cwnd = 150_000;
        p.lose(0, 1000, BDP);
        let rs = p.next_round();
        p.ack(Sample {
            rate: 0.9e6,
            delivered: 90_000,
            ..rs
        });
        assert_eq!((p.m.bw_shortterm, p.m.inflight_shortterm), (0.9e6, 105_000));
        assert_eq!((p.m.bw, p.m.max_bw()), (0.9e6, BW));
        assert_eq!(p.m.cwnd, 105_000);
        // Once per round trip, and to 0.7 at the least.
        p.lose(1, 1000, BDP);
        let rs = p.rs();
        p.ack(Sample { rate: 0.1e6, ..rs });
        assert_eq!(p.m.bw_shortterm, 0.9e6);
        p.m.bw_latest = 0.0;
        let rs = p.next_round();
        p.ack(Sample {
            rate: 0.1e6,
            delivered: 1000,
            ..rs
        });
        assert_eq!(p.m.bw_shortterm, 0.7 * 0.9e6);
        // Without losses nothing changes, and the next probe forgets it all.
        p.round();
        assert_eq!(p.m.bw_shortterm, 0.7 * 0.9e6);
        p.m.bw_probe_wait = Span::ZERO;
        assert_eq!(p.round(), State::Refill);
        assert_eq!((p.m.bw, p.m.inflight_shortterm), (BW, INFINITY));
        for state in [State::Startup, State::Refill, State::Up] {
            let mut p = Path::at(state);
            p.lose(0, 1000, BDP);
            p.round();
            assert_eq!(p.m.inflight_shortterm, INFINITY, "{state:?}");
        }
    }

    //= bbr-draft#exiting-probertt
    #[test]
    fn probe_rtt_holds_half_of_the_path_for_200_ms_and_a_round_trip() {
        for (reached, next) in [(true, State::Cruise), (false, State::Startup)] {
            let mut p = Path::at(State::Cruise);
            p.m.full.reached = reached;
            p.now += Span::MILLI * 5100;
            let rs = p.rs();
            p.ack(Sample {
                rtt: Some(Span::MILLI * 130),
                ..rs
            });
            assert_eq!((p.m.state, p.m.cwnd), (State::ProbeRtt, BDP / 2));
            assert!(p.m.marks_limited, "what is measured meanwhile is of no use");
            let began = p.now;
            p.inflight = BDP / 2 + 1;
            assert_eq!(p.round(), State::ProbeRtt);
            p.inflight = BDP / 2;
            assert_eq!(p.round(), State::ProbeRtt, "it begins here");
            p.now += Span::MILLI * 202;
            let rs = p.rs();
            assert_eq!(p.ack(rs), State::ProbeRtt, "no round trip yet");
            assert_eq!(p.round(), next);
            assert!(p.now - began > Span::MILLI * 200);
            assert!(p.m.cwnd >= 2 * BDP - SMSS, "{} as before", p.m.cwnd);
            assert_eq!(p.m.trip.min, Some(Span::MILLI * 100), "within ten seconds");
            assert_ne!(p.round(), State::ProbeRtt, "not again at once");
        }
    }

    #[test]
    fn the_smallest_round_trip_is_that_of_ten_seconds() {
        let mut p = Path::at(State::Cruise);
        let mut seen = Vec::new();
        for _ in 0..12 {
            p.now += Span::SECOND;
            let rs = p.rs();
            p.ack(Sample {
                rtt: Some(Span::MILLI * 150),
                ..rs
            });
            seen.push(p.m.trip.min.map_or(0, |m| m.micros() / 1000));
        }
        assert_eq!(seen[..9], [100; 9]);
        assert_eq!(seen[10..], [150; 2]);
        let rs = p.rs();
        p.ack(Sample {
            rtt: Some(Span::MILLI * 90),
            ..rs
        });
        assert_eq!(p.m.trip.min, Some(Span::MILLI * 90), "less counts at once");
    }

    //= bbr-draft#updating-the-bbrmaxbw-max-filter
    #[test]
    fn the_bandwidth_is_the_most_of_two_cycles_and_not_what_the_application_limits() {
        let mut p = Path::at(State::Cruise);
        let mut ack = |rate: f64, app_limited: bool, advance: bool| {
            if advance {
                p.m.advance_max_bw_filter();
            }
            let rs = p.rs();
            p.ack(Sample {
                rate,
                app_limited,
                ..rs
            });
            p.m.max_bw()
        };
        assert_eq!(ack(2e6, false, true), 2e6);
        assert_eq!(ack(3e6, true, false), 3e6, "more is more");
        assert_eq!(ack(1.5e6, false, true), 3e6, "of the cycle before");
        assert_eq!(ack(1.4e6, false, true), 1.5e6);
        assert_eq!(
            ack(0.5e6, true, true),
            1.4e6,
            "the application's are left out"
        );
        assert_eq!(ack(0.5e6, true, true), 1.4e6, "and leave the cycle empty");
    }

    //= bbr-draft#pacing-rate-bbrpacingrate
    #[test]
    fn gains_pace_and_bound_as_the_table_of_the_draft_says() {
        let table = [
            (State::Startup, 2.77, 2.0),
            (State::Drain, 0.5, 2.0),
            (State::Down, 0.9, 2.0),
            (State::Cruise, 1.0, 2.0),
            (State::Refill, 1.0, 2.0),
            (State::Up, 1.25, 2.25),
            (State::ProbeRtt, 1.0, 0.5),
        ];
        for (state, pacing, window) in table {
            let mut p = Path::at(state);
            (p.inflight, p.m.cwnd) = (3 * BDP, 3 * BDP);
            let rs = p.rs();
            assert_eq!(p.ack(rs), state);
            let rate = p.m.pacing_rate / (pacing * BW * 0.99);
            assert!((rate - 1.0).abs() < 1e-9, "{state:?}: {rate}");
            if state == State::Startup {
                continue; // it never takes anything back
            }
            // ProbeBW_UP: two segments more.
            let more = if state == State::Up { 2 * SMSS } else { 0 };
            let extra = match state {
                State::ProbeRtt => 0,
                _ => p.m.extra_acked(),
            };
            let cwnd = (window * f64::from(BDP)) as u32 + more + extra;
            assert_eq!(p.m.cwnd, cwnd, "{state:?}");
        }
        // Where the long term has a bound, a part of it is left to others in CRUISE.
        for (state, cwnd) in [
            (State::Down, 120_000),
            (State::Cruise, 102_000),
            (State::Up, 120_000),
            (State::Drain, 200_000),
        ] {
            let mut p = Path::at(state);
            (p.inflight, p.m.inflight_longterm) = (BDP + 1, 120_000);
            let rs = p.rs();
            assert_eq!(
                p.ack(Sample {
                    newly_acked: 0,
                    ..rs
                }),
                state
            );
            assert_eq!(p.m.cwnd, cwnd, "{state:?}");
        }
    }

    #[test]
    fn startup_paces_no_slower_and_the_quantum_is_a_millisecond() {
        let mut p = Path::new();
        // 2.77 windows of ten segments in 100 ms.
        assert!((p.m.pacing_rate - 277_000.0).abs() < 1e-6);
        assert_eq!(p.m.send_quantum, 2 * SMSS);
        let rs = p.rs();
        p.ack(Sample {
            rate: 50_000.0,
            app_limited: true,
            ..rs
        });
        assert!((p.m.pacing_rate - 277_000.0).abs() < 1e-6);
        for (rate, quantum) in [(8e6, 8000), (1e9, 65_536)] {
            p.m.pacing_rate = rate;
            p.with(|m, c| m.set_send_quantum(c));
            assert_eq!(p.m.send_quantum, quantum);
        }
        // A budget of three quanta is in flight at the least, whatever the path.
        let mut p = Path::at(State::Cruise);
        (p.m.bw, p.m.max_bw_filter) = (1e4, [1e4; 2]);
        let rs = p.rs();
        p.ack(Sample { rate: 1e4, ..rs });
        let extra = p.m.extra_acked();
        assert_eq!(p.m.cwnd, 6 * SMSS.max(extra));
    }

    //= bbr-draft#bbrextraacked
    #[test]
    fn what_is_acknowledged_at_once_is_added_to_the_window() {
        let mut p = Path::at(State::Cruise);
        p.m.aggregation.start = p.now;
        // 30 segments at once every 30 ms, of which one's time had passed.
        for _ in 0..3 {
            p.now += Span::MILLI * 29;
            let rs = p.rs();
            p.ack(Sample {
                newly_acked: 30_000,
                ..rs
            });
        }
        let extra = p.m.extra_acked();
        assert!((28_000..=31_000).contains(&extra), "{extra}");
        let rs = p.rs();
        p.ack(Sample {
            newly_acked: 60_000,
            ..rs
        });
        assert_eq!(p.m.cwnd, 2 * BDP + p.m.extra_acked());
        // Ten round trips later it is forgotten.
        for _ in 0..12 {
            p.now += Span::MILLI * 100;
            p.round();
        }
        assert!(p.m.extra_acked() <= 2 * SMSS, "{}", p.m.extra_acked());
    }

    //= bbr-draft#modulating-cwnd-in-loss-recovery
    #[test]
    fn a_timeout_leaves_one_segment_and_the_end_of_it_restores_the_window() {
        let mut p = Path::at(State::Cruise);
        p.inflight = 3000;
        p.with(|m, c| m.on_timeout(c));
        assert_eq!(p.m.cwnd, 4000);
        let rs = p.rs();
        p.ack(rs);
        assert_eq!(p.m.cwnd, 5000, "it grows by what is acknowledged");
        p.m.recovery(false, false);
        assert_eq!(p.m.cwnd, 2 * BDP);
        // Fast recovery leaves it to the model.
        p.m.recovery(true, true);
        assert_eq!(p.m.cwnd, 2 * BDP);
        p.m.cwnd = 50_000;
        p.m.recovery(false, false);
        assert_eq!(p.m.cwnd, 2 * BDP);
    }

    //= bbr-draft#handling-spurious-loss-recovery
    #[test]
    fn a_recovery_that_was_spurious_is_undone() {
        // Out of ProbeBW_UP by losses.
        let mut p = Path::at(State::Refill);
        p.round();
        p.lose(0, 5000, 120_000);
        assert_eq!((p.m.state, p.m.inflight_longterm), (State::Down, 117_346));
        p.with(|m, c| m.on_spurious(c));
        assert_eq!(
            (p.m.state, p.m.inflight_longterm),
            (State::Refill, INFINITY)
        );
        // Out of Startup.
        let mut p = Path::at(State::Startup);
        for n in 0..6 {
            p.lose(2 * n, 1000, BDP);
        }
        p.m.recovery(true, true);
        let rs = p.next_round();
        assert_eq!(p.ack(Sample { lost: 6000, ..rs }), State::Drain);
        p.with(|m, c| m.on_spurious(c));
        assert_eq!((p.m.state, p.m.full.reached), (State::Startup, false));
        assert_eq!(p.m.inflight_longterm, INFINITY);
        // What the short term lost, where the state had not changed.
        let mut p = Path::at(State::Cruise);
        p.lose(0, 1000, BDP);
        let rs = p.next_round();
        p.ack(Sample {
            rate: 0.5e6,
            delivered: 50_000,
            ..rs
        });
        assert!(p.m.bw_shortterm < BW);
        p.with(|m, c| m.on_spurious(c));
        assert_eq!(
            (p.m.state, p.m.bw_shortterm),
            (State::Cruise, f64::INFINITY)
        );
        assert_eq!(p.m.cwnd, 2 * BDP);
    }

    //= bbr-draft#actions-when-restarting-from-idle
    #[test]
    fn after_a_silence_data_leaves_at_the_bandwidth() {
        let mut p = Path::at(State::Down);
        p.m.pacing_rate = 0.5 * BW;
        p.with(|m, c| m.restart_from_idle(c));
        assert!((p.m.pacing_rate - 0.99 * BW).abs() < 1e-6);
        // In ProbeRTT, which is over by then, the window is restored.
        let mut p = Path::at(State::Cruise);
        p.now += Span::MILLI * 5100;
        p.inflight = 0;
        let rs = p.rs();
        p.ack(rs);
        assert_eq!((p.m.state, p.m.cwnd), (State::ProbeRtt, BDP / 2));
        p.with(|m, c| m.restart_from_idle(c));
        assert_eq!(p.m.state, State::ProbeRtt, "not yet");
        p.now += Span::MILLI * 300;
        p.with(|m, c| m.restart_from_idle(c));
        assert_eq!((p.m.state, p.m.cwnd), (State::Cruise, 2 * BDP));
    }

    //= bbr-draft#ecn
    #[test]
    fn a_mark_is_a_congestion() {
        let mut p = Path::at(State::Startup);
        p.with(|m, c| m.on_mark(BDP, c));
        let rs = p.rs();
        assert_eq!(p.ack(rs), State::Drain);
        let mut p = Path::at(State::Refill);
        p.round();
        p.with(|m, c| m.on_mark(120_000, c));
        assert_eq!((p.m.state, p.m.inflight_longterm), (State::Down, 120_000));
        let mut p = Path::at(State::Cruise);
        p.with(|m, c| m.on_mark(BDP, c));
        p.m.bw_latest = 0.0;
        let rs = p.next_round();
        p.ack(Sample { rate: 0.8e6, ..rs });
        assert_eq!(p.m.bw, 0.8e6);
    }

    #[test]
    fn when_to_probe_is_drawn_between_two_and_three_seconds() {
        let mut p = Path::at(State::Up);
        let mut waits = Vec::new();
        let mut rounds = [0; 2];
        for _ in 0..1000 {
            p.with(|m, c| m.start_down(c));
            waits.push(p.m.bw_probe_wait.as_secs_f64());
            rounds[p.m.rounds_since_probe_up as usize] += 1;
        }
        waits.sort_by(f64::total_cmp);
        assert!(waits[0] >= 2.0 && waits[0] < 2.01 && waits[999] > 2.99 && waits[999] < 3.0);
        assert!((waits[500] - 2.5).abs() < 0.05, "{}", waits[500]);
        assert!(rounds.iter().all(|n| *n > 450), "{rounds:?}");
    }
}
