//! The window of RFC 5681 with its options: what the rules that descend from it share.

use super::hystart::{HYSTART, HyStart, Pace};
use super::pipe::PipeAck;
use crate::board::Board;
use crate::params::{ParamSpec, Params, Value};
use crate::permit::Limit;
use crate::signal::{Acked, Cause, Congested, RttSample, Sent};
use wifu_wire::{Seq, Span, Time};

/// Initial window.
pub const IW: ParamSpec = ParamSpec::optional(
    "iw",
    1,
    64,
    "Initial window, segments; auto: min(4 MSS, max(2 MSS, 4380 bytes)) (RFC 3390). After a lost \
     SYN it is one segment whatever is set (RFC 5681 3.1).",
);

/// Initial slow-start threshold.
pub const SSTHRESH: ParamSpec = ParamSpec::optional(
    "ssthresh",
    1,
    u32::MAX as u64,
    "Initial slow-start threshold, bytes; auto: as high as can be (RFC 5681 3.1).",
);

/// Growth only of a window that is used.
pub const CWV: ParamSpec = ParamSpec::flag(
    "cwv",
    false,
    "Grow only if the window was what limited the sender, or if half of it and more was used: if \
     that much was acknowledged in one of the last three round trips, or in the last second (RFC \
     7661 4.3).",
);

/// A repeated timeout leaves the threshold alone.
pub const RTO_HOLD: ParamSpec = ParamSpec::flag(
    "rto_hold",
    false,
    "A further timeout of the same data leaves ssthresh alone (RFC 5681 3.1); off: it is halved \
     again (RFC 2581).",
);

/// Byte counting.
pub const ABC: ParamSpec = ParamSpec::flag(
    "abc",
    false,
    "Count bytes instead of acknowledgements, at most two segments per acknowledgement, eight \
     while HyStart++ watches (RFC 9406 4.3), one after a timeout (RFC 3465).",
);

/// Restart after idling.
pub const IDLE_RESTART: ParamSpec = ParamSpec::flag(
    "idle_restart",
    false,
    "Nothing sent for longer than the RTO: continue with the initial window (RFC 5681 4.1).",
);

/// What a loss reduces.
pub const REDUCES: ParamSpec = ParamSpec::text(
    "reduces",
    "flight",
    &["flight", "window"],
    "What a loss leaves a part of as threshold: of what is in flight (RFC 5681, equation 4), or of the \
     window, which is smaller where a timeout found much outstanding, in whole segments (Linux, \
     tcp_reno_ssthresh and cubictcp_recalc_ssthresh).",
);

/// Where a recovery leaves the window.
pub const EXIT: ParamSpec = ParamSpec::text(
    "exit",
    "careful",
    &["careful", "threshold"],
    "The window at the end of a recovery: at most one segment more than is in flight, or the \
     threshold (the two ways of RFC 6582 3.2 step 3; threshold: Linux, tcp_end_cwnd_reduction).",
);

/// How much one acknowledgement may count for in slow start.
pub const ABC_LIMIT: ParamSpec = ParamSpec::optional(
    "abc_limit",
    1,
    65_535,
    "With `abc`, segments that one acknowledgement counts for at the most, and the window grows no \
     further than to the threshold; what is more counts for avoidance, where it may grow by \
     several segments. Reports count, and what they told of does not again (Linux, tcp_slow_start, \
     tcp_cong_avoid_ai: 65535); auto: as RFC 3465 and RFC 9406 say.",
);

/// The initial window, octets, where [`IW`] is `iw` segments.
pub fn initial_window(iw: Option<u64>, board: &Board) -> u32 {
    let mss = board.conn.mss;
    match iw {
        _ if board.tx.syn_lost => mss, //= rfc5681#section-3.1
        Some(segments) => mss.saturating_mul(segments as u32),
        None => (4 * mss).min(4380.max(2 * mss)), //= rfc3390#section-1
    }
}

/// cwnd and ssthresh, their start, their growth, and the threshold that congestion leaves.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Octets.
    pub cwnd: u32,
    /// Octets.
    pub ssthresh: u32,
    iw: Option<u64>,
    first_ssthresh: u32,
    cwv: bool,
    rto_hold: bool,
    abc: bool,
    idle_restart: bool,
    counted: u32,
    after_timeout: bool,
    last_sent: Option<Time>,
    hystart: HyStart,
    pipe: PipeAck,
    /// A recovery episode is under way in which the window fell.
    reduced: bool,
    /// A mark made it fall: losses below are of the same congestion.
    marked: Option<Seq>,
    /// By [`REDUCES`], [`EXIT`] and [`ABC_LIMIT`].
    by_window: bool,
    to_threshold: bool,
    abc_limit: Option<u32>,
    /// Window and threshold before the last reduction, until it is too late to take it back.
    prior: Option<(u32, u32)>,
}

impl Growth {
    /// By [`IW`], [`SSTHRESH`], [`CWV`], [`RTO_HOLD`], [`ABC`] and [`IDLE_RESTART`], all of which
    /// the descriptor must declare.
    pub fn new(params: &Params<'_>) -> Growth {
        let ssthresh = params.optional(SSTHRESH.name);
        Growth {
            cwnd: 0,
            ssthresh: 0,
            iw: params.optional(IW.name),
            first_ssthresh: ssthresh.map_or(u32::MAX, |n| n.min(u64::from(u32::MAX)) as u32),
            cwv: params.flag(CWV.name),
            rto_hold: params.flag(RTO_HOLD.name),
            abc: params.flag(ABC.name),
            idle_restart: params.flag(IDLE_RESTART.name),
            counted: 0,
            after_timeout: false,
            last_sent: None,
            hystart: HyStart::new(false),
            pipe: PipeAck::default(),
            reduced: false,
            marked: None,
            by_window: false,
            to_threshold: false,
            abc_limit: None,
            prior: None,
        }
    }

    /// The same, and by [`REDUCES`] and [`ABC_LIMIT`].
    pub fn variant(self, params: &Params<'_>) -> Growth {
        let limit = params.optional(ABC_LIMIT.name);
        Growth {
            by_window: params.text(REDUCES.name) == "window",
            abc_limit: limit.map(|n| n as u32),
            ..self
        }
    }

    /// The same, and by [`EXIT`].
    pub fn leaving(self, params: &Params<'_>) -> Growth {
        Growth {
            to_threshold: params.text(EXIT.name) == "threshold",
            ..self
        }
    }

    /// As [`Growth::new`], and by [`HYSTART`], for a part that hears `rtt` and hands it on.
    pub fn with_hystart(params: &Params<'_>) -> Growth {
        Growth {
            hystart: HyStart::new(params.flag(HYSTART.name)),
            ..Growth::new(params)
        }
    }

    /// The connection opened.
    pub fn open(&mut self, board: &Board) {
        self.cwnd = self.initial(board);
        self.ssthresh = self.first_ssthresh;
    }

    /// The initial window, octets.
    pub fn initial(&self, board: &Board) -> u32 {
        initial_window(self.iw, board)
    }

    /// Whether an acknowledgement lets the window grow at all: not without data, not in a recovery
    /// episode, not if it echoes a mark, and with `cwv` only if the window is validated. To be
    /// asked of each once.
    pub fn counts(&mut self, acked: &Acked, board: &Board, now: Time) -> bool {
        if acked.bytes == 0 || acked.in_recovery {
            return false;
        }
        self.marked = self.marked.filter(|upto| acked.upto.before(*upto));
        if self.cwv {
            self.pipe.acked(acked, board, now);
        }
        if board.conn.marked || !self.cwv {
            return !board.conn.marked; //= rfc3168#section-6.1.2
        }
        // A window that was binding was used whole; the volume of a round trip is known at its end.
        acked.limited_by == Limit::Window || self.validated(board, now)
    }

    //= rfc7661#section-4.3
    fn validated(&self, board: &Board, now: Time) -> bool {
        let pipe = self.pipe.octets(board, now);
        pipe.is_none_or(|pipe| pipe >= self.cwnd / 2)
    }

    /// Below or at the threshold.
    pub fn slow_start(&self) -> bool {
        self.cwnd <= self.ssthresh
    }

    /// Grow by RFC 5681 if the acknowledgement counts.
    pub fn grow(&mut self, acked: &Acked, board: &Board, now: Time) {
        if !self.counts(acked, board, now) {
            return;
        }
        if self.slow_start() {
            self.start(acked, board);
        } else {
            self.avoid(acked, board);
        }
    }

    /// Slow start for one acknowledgement that counts.
    pub fn start(&mut self, acked: &Acked, board: &Board) {
        let mss = board.conn.mss;
        if let (Some(limit), true) = (self.abc_limit, self.abc) {
            return self.start_at_once(acked, limit, board);
        }
        let most = match self.after_timeout {
            true => 1,                             //= rfc3465#section-2.3
            false if self.hystart.watching() => 8, //= rfc9406#section-4.3
            false => 2,                            //= rfc3465#section-2.3
        };
        let step = if self.abc {
            acked.bytes.min(mss.saturating_mul(most))
        } else {
            mss
        };
        match self.hystart.acked(acked.upto, board.tx.max) {
            Pace::Full => self.cwnd = self.cwnd.saturating_add(step),
            Pace::Careful => self.cwnd = self.cwnd.saturating_add(step / 4), //= rfc9406#section-4.2
            Pace::Over => self.ssthresh = self.cwnd,
        }
    }

    /// Slow start by all that an acknowledgement told of, up to the threshold; what is more counts
    /// for avoidance.
    #[cold]
    fn start_at_once(&mut self, acked: &Acked, limit: u32, board: &Board) {
        let fresh = Growth::fresh(acked, board);
        let step = fresh.min(board.conn.mss.saturating_mul(limit));
        let grown = match self.hystart.acked(acked.upto, board.tx.max) {
            Pace::Full => step,
            Pace::Careful => step / 4,
            Pace::Over => return self.ssthresh = self.cwnd,
        };
        let room = self.ssthresh.saturating_sub(self.cwnd);
        self.cwnd = self.cwnd.saturating_add(grown.min(room));
        if grown > room || room == 0 {
            self.avoid_by(grown - grown.min(room), board);
        }
    }

    /// A round trip was timed.
    pub fn timed(&mut self, sample: &RttSample) {
        self.hystart.sample(sample.rtt);
    }

    /// Congestion avoidance for one acknowledgement that counts.
    pub fn avoid(&mut self, acked: &Acked, board: &Board) {
        if !self.abc {
            let mss = board.conn.mss;
            self.after_timeout = false;
            let step = u64::from(mss) * u64::from(mss) / u64::from(self.cwnd.max(1));
            self.cwnd = self.cwnd.saturating_add((step as u32).max(1)); //= rfc5681#equation-3
            return;
        }
        self.avoid_by(Growth::fresh(acked, board), board);
    }

    /// Octets that an acknowledgement told of for the first time, where that is known, reports
    /// included; else what it acknowledged.
    pub fn fresh(acked: &Acked, board: &Board) -> u32 {
        board.tx.fresh.unwrap_or(acked.bytes)
    }

    fn avoid_by(&mut self, octets: u32, board: &Board) {
        let mss = board.conn.mss;
        self.after_timeout = false;
        if self.at_once() {
            return self.avoid_at_once(octets, mss);
        }
        self.counted = self.counted.saturating_add(octets);
        if self.counted >= self.cwnd {
            self.counted -= self.cwnd; //= rfc3465#section-2.1
            self.cwnd = self.cwnd.saturating_add(mss);
        }
    }

    /// An acknowledgement counts for all that it tells of.
    pub fn at_once(&self) -> bool {
        self.abc && self.abc_limit.is_some()
    }

    /// As many segments as whole windows were delivered, however many at once: what is left of an
    /// acknowledgement of sixty segments opens a window of two to thirty (Linux,
    /// tcp_cong_avoid_ai).
    fn avoid_at_once(&mut self, octets: u32, mss: u32) {
        if self.counted >= self.cwnd {
            (self.counted, self.cwnd) = (0, self.cwnd.saturating_add(mss));
        }
        let counted = self.counted.saturating_add(octets);
        let windows = counted / self.cwnd.max(1);
        self.counted = counted - windows * self.cwnd;
        self.cwnd = self.cwnd.saturating_add(windows.saturating_mul(mss));
    }

    /// Set the threshold to `ssthresh`, at least two segments, unless a repeated timeout leaves it
    /// alone. The caller sets cwnd; [`Growth::collapse`] does it after a timeout.
    pub fn lower(&mut self, ssthresh: u32, what: &Congested, board: &Board) {
        self.counted = 0;
        self.hystart.finish();
        self.pipe.clear(); //= rfc7661#section-4.4
        if !(self.rto_hold && what.repeat && what.cause == Cause::Timeout) {
            self.prior = Some((self.cwnd, self.ssthresh));
            let part = if self.by_window {
                ssthresh % board.conn.mss.max(1)
            } else {
                0
            };
            self.ssthresh = (ssthresh - part).max(2 * board.conn.mss);
        }
    }

    /// One segment more than the `flight` octets that are out.
    fn careful(flight: u32, board: &Board) -> u32 {
        let mss = board.conn.mss;
        flight.max(mss).saturating_add(mss)
    }

    /// Set the window to the threshold, as after the loss of a segment, at which a recovery episode
    /// begins; a mark begins none, and raises no window that is smaller.
    //= rfc5681#section-3.2
    //= rfc3168#section-6.1.2
    pub fn fall(&mut self, cause: Cause, board: &Board) {
        if cause == Cause::Mark {
            self.cwnd = self.cwnd.min(self.ssthresh);
            self.marked = Some(board.tx.max);
        } else {
            self.cwnd = self.ssthresh;
            self.reduced = true;
        }
    }

    /// A recovery episode ended with `flight` octets out. If the window fell in it, or for a mark
    /// just before it, it falls once more where a burst would follow: to one segment more than is
    /// out. An episode that was no congestion leaves the window alone.
    //= rfc6582#section-3.2
    pub fn recovered(&mut self, flight: u32, board: &Board) {
        let fell = core::mem::take(&mut self.reduced) || self.marked.take().is_some();
        if fell && !self.to_threshold {
            self.cwnd = self.cwnd.min(Growth::careful(flight, board));
        }
    }

    /// Set the threshold to half of what was in flight (RFC 5681, equation 4), or of the window.
    pub fn halve(&mut self, what: &Congested, board: &Board) {
        self.lower(self.base(what) / 2, what, board);
    }

    /// What a loss reduces, octets.
    pub fn base(&self, what: &Congested) -> u32 {
        if self.by_window {
            self.cwnd
        } else {
            what.flight
        }
    }

    /// The last reduction was for nothing: window and threshold are what they were before, or what
    /// they grew to since.
    //= rfc4015#section-3.2
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
            (self.reduced, self.after_timeout) = (false, false);
        }
    }

    /// One segment; with `reduces=window` beside those that are not taken for lost (Linux,
    /// tcp_enter_loss).
    pub fn collapse(&mut self, board: &Board) {
        (self.reduced, self.marked) = (false, None);
        self.cwnd = board.conn.mss;
        if self.by_window {
            self.cwnd = self.cwnd.saturating_add(board.tx.pipe);
        }
        self.after_timeout = true;
    }

    /// A segment left: data is remembered for [`Growth::restart`].
    pub fn sent(&mut self, sent: &Sent, now: Time) {
        if sent.kind.is_data() {
            self.last_sent = Some(now);
        }
    }

    /// The application wrote: after a long silence the window falls back to the initial one.
    pub fn restart(&mut self, board: &Board, now: Time) {
        let rto = board.tx.rto;
        let idle = self
            .last_sent
            .is_some_and(|t| rto > Span::ZERO && now - t > rto);
        if self.idle_restart && idle && board.tx.una == board.tx.max {
            self.cwnd = self.cwnd.min(self.initial(board)); //= rfc5681#section-4.1
        }
    }

    /// Change a switch at run time.
    pub fn set(&mut self, param: &str, value: Value) -> bool {
        let Value::Flag(on) = value else {
            return false;
        };
        let switch = [
            (CWV.name, &mut self.cwv),
            (RTO_HOLD.name, &mut self.rto_hold),
            (ABC.name, &mut self.abc),
            (IDLE_RESTART.name, &mut self.idle_restart),
        ];
        match switch.into_iter().find(|(name, _)| *name == param) {
            Some((_, place)) => {
                *place = on;
                true
            }
            None => false,
        }
    }
}

/// In an `impl WindowControl`: methods that only hand on to the [`Growth`] in a field, by name, as
/// in `from_growth!(growth: window, on_opened, on_sent, set);`. What is not named stays the
/// window's own, or the default; the descriptor hears the signals of what is named.
#[macro_export]
macro_rules! from_growth {
    ($field:tt: $($method:ident),+) => {
        $($crate::from_growth!(@ $field $method);)+
    };
    (@ $field:tt window) => {
        fn window(&self) -> (u32, u32) {
            (self.$field.cwnd, self.$field.ssthresh)
        }
    };
    (@ $field:tt on_opened) => {
        fn on_opened(&mut self, board: &$crate::Board, _now: $crate::kit::Time) {
            self.$field.open(board);
        }
    };
    (@ $field:tt on_acked) => {
        fn on_acked(
            &mut self,
            acked: &$crate::signal::Acked,
            board: &$crate::Board,
            now: $crate::kit::Time,
        ) {
            self.$field.grow(acked, board, now);
        }
    };
    (@ $field:tt on_rtt) => {
        fn on_rtt(
            &mut self,
            sample: &$crate::signal::RttSample,
            _board: &$crate::Board,
            _now: $crate::kit::Time,
        ) {
            self.$field.timed(sample);
        }
    };
    (@ $field:tt on_recovered) => {
        fn on_recovered(&mut self, flight: u32, board: &$crate::Board, _now: $crate::kit::Time) {
            self.$field.recovered(flight, board);
        }
    };
    (@ $field:tt on_undone) => {
        fn on_undone(&mut self, _board: &$crate::Board, _now: $crate::kit::Time) {
            self.$field.undo();
        }
    };
    (@ $field:tt on_sent) => {
        fn on_sent(
            &mut self,
            sent: &$crate::signal::Sent,
            _board: &$crate::Board,
            now: $crate::kit::Time,
        ) {
            self.$field.sent(sent, now);
        }
    };
    (@ $field:tt on_wrote) => {
        fn on_wrote(&mut self, board: &$crate::Board, now: $crate::kit::Time) {
            self.$field.restart(board, now);
        }
    };
    (@ $field:tt set) => {
        fn set(&mut self, param: &str, value: $crate::Value) -> bool {
            self.$field.set(param, value)
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permit::{Kind, Reason};

    fn growth(over: &[(&'static str, Value)]) -> Growth {
        let specs = [IW, SSTHRESH, CWV, RTO_HOLD, ABC, IDLE_RESTART];
        let value = |p: &ParamSpec| {
            over.iter()
                .find(|o| o.0 == p.name)
                .map_or(p.default, |o| o.1)
        };
        let values: Vec<_> = specs.iter().map(|p| (p.name, value(p))).collect();
        Growth::new(&Params {
            part: "growth",
            values: &values,
            words: &[],
            notes: &[],
            exts: &[],
        })
    }

    fn board(mss: u32) -> Board {
        let mut b = Board::default();
        b.conn.mss = mss;
        b.tx.rto = Span::SECOND;
        b
    }

    fn acked(bytes: u32, limited_by: Limit) -> Acked {
        Acked {
            bytes,
            upto: Seq(0),
            in_recovery: false,
            limited_by,
        }
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_3390_unless_set() {
        let opened = |over: &[(&'static str, Value)], mss: u32| {
            let mut g = growth(over);
            g.open(&board(mss));
            g.cwnd
        };
        assert_eq!(opened(&[], 1448), 4380);
        assert_eq!(opened(&[], 500), 2000);
        assert_eq!(opened(&[], 4000), 8000);
        assert_eq!(opened(&[("iw", Value::Opt(Some(2)))], 1000), 2000);
        let mut b = board(1448);
        b.tx.syn_lost = true;
        let mut g = growth(&[("iw", Value::Opt(Some(10)))]);
        g.open(&b);
        assert_eq!((g.cwnd, g.ssthresh), (1448, u32::MAX));
    }

    //= rfc3168#section-6.1.2
    #[test]
    fn a_mark_is_no_episode_and_one_congestion_with_the_losses_of_its_window() {
        let congested = |cause| Congested {
            flight: 20_000,
            cause,
            repeat: false,
        };
        let after = |cause, acked_upto: Option<u32>| {
            let mut b = board(1000);
            b.tx.max = Seq(20_000);
            let mut g = growth(&[]);
            g.open(&b);
            g.cwnd = 20_000;
            g.halve(&congested(cause), &b);
            g.fall(cause, &b);
            assert_eq!(g.cwnd, 10_000);
            if let Some(upto) = acked_upto {
                let upto = Seq(upto);
                g.counts(
                    &Acked {
                        upto,
                        ..acked(1000, Limit::Window)
                    },
                    &b,
                    Time::ZERO,
                );
            }
            g.recovered(3_000, &b);
            g.cwnd
        };
        // A loss that the judge took for the same congestion: left without a burst.
        assert_eq!(after(Cause::Mark, Some(19_999)), 4_000);
        // Later ones are none of it, and those that are no congestion at all change nothing.
        assert_eq!(after(Cause::Mark, Some(20_000)), 10_000);
        assert_eq!(after(Cause::DupAcks, None), 4_000);
    }

    #[test]
    fn growth_is_per_acknowledgement_and_byte_counting_is_per_octet() {
        let b = board(1000);
        let mut g = growth(&[("ssthresh", Value::Opt(Some(5000)))]);
        g.open(&b);
        g.cwnd = 4000;
        let mut seen = Vec::new();
        for _ in 0..4 {
            g.grow(&acked(2000, Limit::Source), &b, Time::ZERO);
            seen.push(g.cwnd);
        }
        // Equal to the threshold is still slow start (Behaviour 4.5).
        assert_eq!(seen, [5000, 6000, 6166, 6328]);
        let mut g = growth(&[("abc", Value::Flag(true))]);
        g.open(&b);
        (g.cwnd, g.ssthresh) = (4000, 6000);
        let mut seen = Vec::new();
        for _ in 0..6 {
            g.grow(&acked(3000, Limit::Source), &b, Time::ZERO);
            seen.push(g.cwnd);
        }
        assert_eq!(seen, [6000, 8000, 8000, 8000, 9000, 9000]);
    }

    #[test]
    fn a_watched_slow_start_doubles_although_acknowledgements_are_stretched() {
        let b = board(1000);
        let grown = |watched: bool| {
            let mut g = growth(&[("abc", Value::Flag(true))]);
            g.hystart = HyStart::new(watched);
            g.open(&b);
            (g.cwnd, g.ssthresh) = (14_000, u32::MAX);
            g.grow(&acked(7000, Limit::Window), &b, Time::ZERO);
            g.grow(&acked(7000, Limit::Window), &b, Time::ZERO);
            g.cwnd
        };
        assert_eq!((grown(false), grown(true)), (18_000, 28_000));
    }

    /// With `cwv`, after one round trip, which acknowledged `first` octets.
    fn used(first: u32) -> (Growth, Board) {
        let mut b = board(1000);
        let mut g = growth(&[("cwv", Value::Flag(true))]);
        g.open(&b);
        (g.cwnd, b.tx.max) = (4000, Seq(first));
        let one = Acked {
            upto: Seq(first),
            ..acked(first, Limit::Source)
        };
        let _grows = g.counts(&one, &b, Time::ZERO);
        (g, b)
    }

    #[test]
    fn a_window_of_which_half_was_used_grows() {
        for (volume, grown) in [(1000, 4000), (1999, 4000), (2000, 5000), (4000, 5000)] {
            let (mut g, b) = used(volume);
            g.grow(&acked(1000, Limit::Source), &b, Time::ZERO);
            assert_eq!(g.cwnd, grown, "{volume}");
        }
        // After a loss nothing is known: until something is, it grows.
        let (mut g, mut b) = used(1000);
        let what = Congested {
            flight: 8000,
            cause: Cause::DupAcks,
            repeat: false,
        };
        g.halve(&what, &b);
        b.tx.max = Seq(9000);
        g.grow(&acked(1000, Limit::Source), &b, Time::ZERO);
        assert_eq!(g.cwnd, 5000);
    }

    #[test]
    fn what_does_not_count_does_not_grow() {
        let (mut g, b) = used(1000);
        g.grow(&acked(1000, Limit::Source), &b, Time::ZERO);
        g.grow(&acked(0, Limit::Window), &b, Time::ZERO);
        let recovering = Acked {
            in_recovery: true,
            ..acked(1000, Limit::Window)
        };
        g.grow(&recovering, &b, Time::ZERO);
        assert_eq!(g.cwnd, 4000);
        g.grow(&acked(1000, Limit::Window), &b, Time::ZERO);
        assert_eq!(g.cwnd, 5000);
    }

    #[test]
    fn a_repeated_timeout_holds_the_threshold_if_asked() {
        let b = board(1000);
        let mut what = Congested {
            flight: 20_000,
            cause: Cause::Timeout,
            repeat: false,
        };
        for (hold, expected) in [(false, 2000), (true, 10_000)] {
            let mut g = growth(&[("rto_hold", Value::Flag(hold))]);
            g.open(&b);
            (what.flight, what.repeat) = (20_000, false);
            g.halve(&what, &b);
            assert_eq!(g.ssthresh, 10_000);
            (what.flight, what.repeat) = (1000, true);
            g.halve(&what, &b);
            assert_eq!(g.ssthresh, expected);
        }
    }

    #[test]
    fn silence_longer_than_the_timeout_restarts() {
        let b = board(1000);
        let mut g = growth(&[("idle_restart", Value::Flag(true))]);
        g.open(&b);
        g.cwnd = 50_000;
        let sent = Sent {
            kind: Kind::New,
            reason: Reason::First,
            acks: true,
            seq: Seq(1),
            bytes: 1000,
            late: Span::ZERO,
        };
        g.sent(&sent, Time(5_000_000_000));
        let ack = Sent {
            kind: Kind::Ack,
            ..sent
        };
        g.sent(&ack, Time(5_900_000_000));
        g.restart(&b, Time(6_000_000_000));
        assert_eq!(g.cwnd, 50_000);
        g.restart(&b, Time(6_000_000_001));
        assert_eq!(g.cwnd, 4000);
    }

    #[test]
    fn all_that_an_acknowledgement_tells_of_opens_the_window_up_to_the_threshold() {
        let mut b = board(1000);
        let mut g = growth(&[("abc", Value::Flag(true)), ("rto_hold", Value::Flag(true))]);
        g.abc_limit = Some(65_535);
        g.by_window = true;
        g.open(&b);
        g.cwnd = 40_000;
        let what = Congested {
            flight: 90_000,
            cause: Cause::Timeout,
            repeat: false,
        };
        b.tx.pipe = 2_000;
        g.halve(&what, &b);
        g.collapse(&b);
        // By the window, not by what is outstanding; what is on its way stays beside the first.
        assert_eq!((g.cwnd, g.ssthresh), (3_000, 20_000));
        g.grow(&acked(8_000, Limit::Window), &b, Time::ZERO);
        assert_eq!(g.cwnd, 11_000);
        b.tx.fresh = Some(1_000);
        g.grow(&acked(8_000, Limit::Window), &b, Time::ZERO);
        assert_eq!(g.cwnd, 12_000, "the rest was reported before");
        b.tx.fresh = None;
        g.grow(&acked(30_000, Limit::Window), &b, Time::ZERO);
        assert_eq!(
            g.cwnd, 21_000,
            "22 segments beyond the threshold are a round trip"
        );
        g.undo();
        assert_eq!((g.cwnd, g.ssthresh), (40_000, u32::MAX));
        g.undo();
        assert_eq!((g.cwnd, g.ssthresh), (40_000, u32::MAX));
    }
}
