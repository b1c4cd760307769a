//! The constants of BBR as parameters, with the draft's values.

use wifu_engine::{ParamSpec, Params};
use wifu_wire::Span;

/// The constants of the draft, and where they stand in it.
pub const PARAMS: [ParamSpec; 23] = [
    real(
        "startup_gain",
        2.77,
        1.0,
        4.0,
        "BBR.StartupPacingGain: 4 ln 2.",
    ),
    real("drain_gain", 0.5, 0.1, 1.0, "BBR.DrainPacingGain."),
    real(
        "down_gain",
        0.9,
        0.1,
        1.0,
        "Pacing gain of ProbeBW_DOWN (5.3.3.1).",
    ),
    real(
        "up_gain",
        1.25,
        1.0,
        4.0,
        "Pacing gain of ProbeBW_UP (5.3.3.5).",
    ),
    real("cwnd_gain", 2.0, 1.0, 4.0, "BBR.DefaultCwndGain."),
    real(
        "up_cwnd_gain",
        2.25,
        1.0,
        4.0,
        "Window gain of ProbeBW_UP (5.3.3.5).",
    ),
    real("probe_rtt_gain", 0.5, 0.1, 1.0, "BBR.ProbeRTTCwndGain."),
    real(
        "loss_thresh",
        0.02,
        0.0,
        1.0,
        "BBR.LossThresh: the share of a round trip that may be lost.",
    ),
    real(
        "beta",
        0.7,
        0.1,
        1.0,
        "BBR.Beta: what a round trip with losses leaves at the least.",
    ),
    real(
        "headroom",
        0.15,
        0.0,
        0.9,
        "BBR.Headroom: the share of inflight_longterm left to others.",
    ),
    real(
        "full_bw_growth",
        1.25,
        1.0,
        4.0,
        "Growth of the rate below which a round trip counts (5.3.1.2).",
    ),
    int(
        "full_bw_rounds",
        3,
        1,
        100,
        "Such round trips until the path is full (5.3.1.2).",
    ),
    int(
        "full_loss_ranges",
        6,
        1,
        1000,
        "BBRStartupFullLossCnt: ranges lost in a round trip that end Startup.",
    ),
    int("min_pipe", 4, 2, 64, "BBR.MinPipeCwnd, segments."),
    int(
        "offload_quanta",
        3,
        0,
        10,
        "Send quanta in BBR.offload_budget (5.5.8.1, of TCP); 0: no host offloads.",
    ),
    int(
        "extra_acked_rounds",
        10,
        1,
        1000,
        "BBR.ExtraAckedFilterLen, round trips.",
    ),
    int(
        "reno_rounds",
        63,
        2,
        1000,
        "Round trips between probes of bandwidth at the most (5.3.3.8).",
    ),
    real("pacing_margin", 1.0, 0.0, 50.0, "BBR.PacingMarginPercent."),
    span(
        "probe_wait",
        2000,
        100,
        60_000,
        "Time between probes of bandwidth at the least (5.3.3.8).",
    ),
    span(
        "probe_wait_random",
        1000,
        0,
        60_000,
        "What is drawn at most to be added to it (5.3.3.8).",
    ),
    span(
        "probe_rtt_interval",
        5000,
        500,
        600_000,
        "BBR.ProbeRTTInterval; the draft wants all to agree on it.",
    ),
    span(
        "probe_rtt_duration",
        200,
        0,
        10_000,
        "BBR.ProbeRTTDuration.",
    ),
    span(
        "min_rtt_filter",
        10_000,
        500,
        600_000,
        "BBR.MinRTTFilterLen.",
    ),
];

const fn real(name: &'static str, value: f64, low: f64, high: f64, doc: &'static str) -> ParamSpec {
    ParamSpec::real(name, value, low, high, doc)
}

const fn int(name: &'static str, value: u64, low: u64, high: u64, doc: &'static str) -> ParamSpec {
    ParamSpec::int(name, value, low, high, doc)
}

/// Milliseconds.
const fn span(name: &'static str, value: u64, low: u64, high: u64, doc: &'static str) -> ParamSpec {
    const fn ms(n: u64) -> Span {
        Span(n * 1_000_000)
    }
    ParamSpec::span(name, ms(value), ms(low), ms(high), doc)
}

/// The values of [`PARAMS`].
#[derive(Clone, Copy, Debug)]
pub struct Constants {
    pub startup_gain: f64,
    pub drain_gain: f64,
    pub down_gain: f64,
    pub up_gain: f64,
    pub cwnd_gain: f64,
    pub up_cwnd_gain: f64,
    pub probe_rtt_gain: f64,
    pub loss_thresh: f64,
    pub beta: f64,
    pub headroom: f64,
    pub full_bw_growth: f64,
    pub full_bw_rounds: u32,
    pub full_loss_ranges: u32,
    pub min_pipe: u32,
    pub offload_quanta: u32,
    pub extra_acked_rounds: u64,
    pub reno_rounds: f64,
    pub pacing_margin: f64,
    pub probe_wait: Span,
    pub probe_wait_random: Span,
    pub probe_rtt_interval: Span,
    pub probe_rtt_duration: Span,
    pub min_rtt_filter: Span,
}

impl Constants {
    pub fn new(p: &Params<'_>) -> Constants {
        Constants {
            startup_gain: p.real("startup_gain"),
            drain_gain: p.real("drain_gain"),
            down_gain: p.real("down_gain"),
            up_gain: p.real("up_gain"),
            cwnd_gain: p.real("cwnd_gain"),
            up_cwnd_gain: p.real("up_cwnd_gain"),
            probe_rtt_gain: p.real("probe_rtt_gain"),
            loss_thresh: p.real("loss_thresh"),
            beta: p.real("beta"),
            headroom: p.real("headroom"),
            full_bw_growth: p.real("full_bw_growth"),
            full_bw_rounds: p.int("full_bw_rounds") as u32,
            full_loss_ranges: p.int("full_loss_ranges") as u32,
            min_pipe: p.int("min_pipe") as u32,
            offload_quanta: p.int("offload_quanta") as u32,
            extra_acked_rounds: p.int("extra_acked_rounds"),
            reno_rounds: p.int("reno_rounds") as f64,
            pacing_margin: p.real("pacing_margin"),
            probe_wait: p.span("probe_wait"),
            probe_wait_random: p.span("probe_wait_random"),
            probe_rtt_interval: p.span("probe_rtt_interval"),
            probe_rtt_duration: p.span("probe_rtt_duration"),
            min_rtt_filter: p.span("min_rtt_filter"),
        }
    }
}
