//! The receiver limits the sender by the window that it advertises, so that a few segments queue in
//! the path: in the manner of CLAMP.
//!
//! Hears segments and says nothing; stamps what leaves, after `receive` and `ack`, with a window
//! that is never larger than theirs. Sources: L. L. H. Andrew, S. V. Hanly and R. G. Mukhtar,
//! "CLAMP: maximizing the performance of TCP over low bandwidth variable rate access links", CUBIN
//! technical report 2004-02-01; the same, "Active queue management for fair resource allocation in
//! wireless networks", IEEE Trans. Mobile Computing 7(2), 2008.
//!
//! Of the papers: the sender is not touched; the receiver measures the rate at which data comes and
//! moves its window by dw/dt = (tau - p(q) * rate) / rtt, where the price p(q) is proportional to
//! the queue above a threshold, so that flows through one queue get equal rates. What it measures
//! and that it sets the window the abstracts say; the equation is from memory, not from the text.
//!
//! Simplified, because no node tells of its queue here: the price is made of the delay that the
//! queue causes, gain times (round trip - smallest round trip) less `clamp_spare`, which is as much
//! where the queue drains at the rate of the link. So a flow keeps tau segments queued, like Vegas
//! or FAST at the receiver, and unlike CLAMP it needs the smallest round trip of the path, which a
//! new route may raise for good. The window moves once per round trip, by half of what the equation
//! asks for in one. Ours, too: it starts with a few segments and doubles each round trip until more
//! than tau are queued; it does not grow while the sender uses less than half of it; it has a lower
//! bound.
//!
//! Round trips are timed by timestamps, from an acknowledgement to the data that it let out, which
//! counts the pauses of a sender that has nothing to send. Of a peer without timestamps nothing is
//! limited; a composition that has them switched off is refused.
//! The right edge that the peer was told never moves back (RFC 9293 3.8.6), nor by what a scaled
//! window cuts off (RFC 7323 2.4), and forth by a segment or more.

use wifu_engine::{
    Admit, Component, Cx, Descriptor, Facts, FieldUse, Out, ParamSpec, Params, Role, Segment, Value,
};
use wifu_wire::{Flags, HeadField, Seq, Span, Time};

/// The receiver limits what the sender may have in flight.
pub static CLAMP: Descriptor = Descriptor {
    name: "clamp",
    role: Role::Watch,
    doc: "The receiver advertises no more than keeps clamp_tau segments queued in the path, by the \
          rate at which data comes and the delay of round trips; needs timestamps.",
    cites: &[
        "Andrew, Hanly and Mukhtar, CUBIN technical report 2004-02-01",
        "Andrew, Hanly and Mukhtar, IEEE Trans. Mobile Computing 7(2), 2008",
    ],
    params: &[
        ParamSpec::real(
            "clamp_tau",
            2.0,
            0.1,
            1000.0,
            "Segments that are to be queued in the path: tau of the paper.",
        ),
        ParamSpec::real(
            "clamp_gain",
            1.0,
            0.01,
            2.0,
            "How steeply the price rises with the delay of the queue: b of the paper.",
        ),
        ParamSpec::span(
            "clamp_spare",
            Span::ZERO,
            Span::ZERO,
            Span(10_000_000_000),
            "Delay of the queue that costs nothing, times clamp_gain: a of the paper.",
        ),
        ParamSpec::int(
            "clamp_least",
            8,
            1,
            1000,
            "Smallest limit, segments, and the first one. The window does not slide while a hole is \
             open, and what lies behind it has to tell of it: of four, one loss more takes a timeout.",
        ),
    ],
    probes: &["limit", "queued", "trip_s"],
    reads: Facts::CONN.with(Facts::RX),
    hears: &[("segment", &[])],
    hooks: &["segment", "stamp"],
    fields: &[
        FieldUse::of(HeadField::Window),
        FieldUse::of(HeadField::TsPair).optional(),
    ],
    needs: &[("timestamps", &["on"])],
    build: |params| Ok(Box::new(Clamp::new(params))),
    ..Descriptor::EMPTY
};

/// Share of the way that the window goes per round trip: single round trips over radios say little.
const STEP: f64 = 0.5;

/// A round trip: from what we sent to the data that answers it.
#[derive(Clone, Copy)]
struct Trip {
    /// Our timestamp on it.
    stamp: u32,
    at: Time,
    /// Next in order then.
    from: Seq,
}

struct Clamp {
    tau: f64,
    gain: f64,
    spare: Span,
    least: u32,
    trip: Option<Trip>,
    /// The smallest round trip.
    base: Option<Span>,
    /// The latest one.
    last: Span,
    /// Octets; `None` before anything was timed.
    limit: Option<f64>,
    /// No queue was seen yet.
    starting: bool,
    /// Octets queued in the path, by the latest round trip.
    queued: f64,
    /// What the SYN showed.
    first: Option<u32>,
    /// The right edge that the peer was told.
    edge: Option<Seq>,
}

impl Clamp {
    fn new(p: &Params<'_>) -> Clamp {
        Clamp {
            tau: p.real("clamp_tau"),
            gain: p.real("clamp_gain"),
            spare: p.span("clamp_spare"),
            least: p.int("clamp_least") as u32,
            trip: None,
            base: None,
            last: Span::ZERO,
            limit: None,
            starting: true,
            queued: 0.0,
            first: None,
            edge: None,
        }
    }

    /// A round trip of this length is over, in which so many octets came in order.
    fn judge(&mut self, trip: Span, came: u32, mss: u32) {
        let base = self.base.map_or(trip, |b| b.min(trip));
        (self.base, self.last) = (Some(base), trip);
        let (d, least) = (trip.as_secs_f64(), f64::from(self.least) * f64::from(mss));
        let (rate, tau) = (f64::from(came) / d, self.tau * f64::from(mss));
        let price = self.gain * (trip - base).as_secs_f64() - self.spare.as_secs_f64();
        self.queued = price.max(0.0) * rate;
        let limit = self.limit.unwrap_or(least);
        let used = f64::from(came) * 2.0 >= limit;
        let next = match () {
            () if self.starting && self.queued > tau => {
                self.starting = false;
                rate * base.as_secs_f64() + tau
            }
            () if self.starting && used => limit * 2.0,
            () if self.starting => limit,
            () if used || self.queued > tau => limit + (tau - self.queued) * STEP,
            () => limit,
        };
        self.limit = Some(next.clamp(least, f64::from(1u32 << 30)));
    }

    /// Octets that the limit lets the peer have in flight.
    fn octets(&self, mss: u32) -> u32 {
        self.limit
            .map_or(self.least.saturating_mul(mss), |l| l as u32)
    }
}

impl Component for Clamp {
    fn on_segment(&mut self, seg: &Segment<'_>, cx: &mut Cx<'_>) -> Admit {
        let Some(trip) = self.trip.filter(|_| !seg.payload.is_empty()) else {
            return Admit::Pass;
        };
        let head = seg.head;
        let answers = head.ts.is_some() && head.ts_echo.wrapping_sub(trip.stamp) as i32 >= 0;
        if answers && cx.now > trip.at {
            let came = cx.board.rx.nxt.since(trip.from);
            self.judge(cx.now - trip.at, came, cx.board.conn.mss);
            self.trip = None;
        }
        Admit::Pass
    }

    fn stamp(&mut self, out: &mut Out<'_>, cx: &mut Cx<'_>) {
        let (head, board) = (&mut *out.head, &cx.board);
        if head.flags.has(Flags::RST) {
            return;
        }
        if head.flags.has(Flags::SYN) {
            let mss = board.site.mtu.saturating_sub(board.site.overhead);
            head.window = head.window.min(self.octets(mss));
            self.first = Some(head.window);
            return;
        }
        let (Some(ack), Some(stamp)) = (head.ack, head.ts) else {
            return;
        };
        if self.trip.is_none() && board.conn.running {
            self.trip = Some(Trip {
                stamp,
                at: cx.now,
                from: board.rx.nxt,
            });
        }
        let (mss, shift) = (board.conn.mss, board.conn.rcv_shift);
        let began = board.rx.irs.plus(1);
        let told = self.edge.unwrap_or_else(|| {
            let whole = board.site.rcv_buf.min(65_535);
            began.plus(self.first.unwrap_or(whole))
        });
        let theirs = ack.plus(head.window << shift);
        let ours = ack.plus(self.octets(mss)).earlier(theirs);
        let step = mss.min(board.site.rcv_buf / 2).max(1);
        //= rfc7323#section-2.4
        // The field has the grain of the scale. A new promise is cut to it; an old one is shown
        // whole, since cut anew at another acknowledgement it would be less.
        let kept = told.beyond(ack).div_ceil(1 << shift);
        let units = match ours.after(told) && ours.since(told) >= step {
            true => (ours.beyond(ack) >> shift).max(kept),
            false => kept,
        };
        head.window = head.window.min(units);
        self.edge = Some(ack.plus(head.window << shift).later(told));
    }

    fn set(&mut self, param: &str, value: Value) -> bool {
        match (param, value) {
            ("clamp_tau", Value::Real(tau)) => self.tau = tau,
            ("clamp_gain", Value::Real(gain)) => self.gain = gain,
            ("clamp_spare", Value::Span(spare)) => self.spare = spare,
            ("clamp_least", Value::Int(n)) => self.least = n as u32,
            _ => return false,
        }
        true
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        probe("limit", self.limit.unwrap_or(0.0));
        probe("queued", self.queued);
        probe("trip_s", self.last.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::{Bench, Kind};
    use wifu_wire::Head;

    const MSS: u32 = 1000;

    /// A receiver of a stream from 1 on, whose buffer shows `buffer` octets, and a path that holds
    /// `pipe` octets: it carries 1 MB/s.
    struct Receiver {
        bench: Bench,
        pipe: u32,
        buffer: u32,
    }

    impl Receiver {
        fn new(set: &[(&str, &str)], pipe: u32) -> Receiver {
            let least = [("clamp_least", "4")];
            let set: Vec<_> = least.iter().chain(set).copied().collect();
            let mut bench = Bench::new(&CLAMP, &set).unwrap();
            let board = &mut bench.board;
            (board.conn.mss, board.conn.running) = (MSS, true);
            (board.site.mtu, board.site.overhead) = (MSS + 52, 52);
            (board.site.rcv_buf, board.rx.nxt) = (60_000, Seq(1));
            let buffer = 60_000;
            Receiver {
                bench,
                pipe,
                buffer,
            }
        }

        fn stamp(&mut self, flags: Flags, ack: Option<Seq>) -> u32 {
            let mut head = Head::default();
            (head.flags, head.ack, head.window) = (flags, ack, self.buffer);
            head.ts = Some((self.bench.now.0 / 1000) as u32);
            self.bench.stamp(Kind::Ack, &mut head);
            head.window
        }

        /// An acknowledgement leaves; the window that it shows.
        fn acks(&mut self) -> u32 {
            let nxt = self.bench.board.rx.nxt;
            self.stamp(Flags::default(), Some(nxt))
        }

        /// The sender fills the window, and it takes a round trip to come: the window shown then.
        fn round(&mut self) -> u32 {
            let window = self.acks();
            self.brings(window)
        }

        /// The same where the sender sends so much.
        fn brings(&mut self, octets: u32) -> u32 {
            let echo = (self.bench.now.0 / 1000) as u32;
            // What does not fit into the path waits.
            let trip = Span::MICRO * u64::from(octets.max(self.pipe));
            self.bench.now += trip;
            self.bench.board.rx.nxt = self.bench.board.rx.nxt.plus(octets);
            let mut head = Head::default();
            (head.ts, head.ts_echo) = (Some(1), echo);
            let said = self.bench.segment(&head, &[0; 10]);
            assert_eq!((said.0, said.1.len()), (Admit::Pass, 0));
            self.acks()
        }
    }

    #[test]
    fn the_window_doubles_until_a_queue_is_seen_and_then_keeps_tau_segments_in_it() {
        let mut r = Receiver::new(&[], 20_000);
        assert_eq!(r.stamp(Flags::SYN, None), 4 * MSS);
        let seen: Vec<u32> = (0..5).map(|_| r.round()).collect();
        assert_eq!(seen, [8000, 16_000, 32_000, 22_000, 22_000]);
        assert_eq!(r.bench.probe("queued"), Some(2000.0));
        assert_eq!(r.bench.probe("trip_s"), Some(0.022));
        // With twice the price, half of it waits.
        assert!(r.bench.set("clamp_gain", Value::Real(2.0)));
        let late = (0..60).map(|_| r.round()).last();
        assert_eq!(late, Some(21_000));
        assert!(r.bench.set("clamp_tau", Value::Real(6.0)));
        assert!(r.bench.set("clamp_spare", Value::Span(Span::MILLI * 4)));
        let late = (0..60).map(|_| r.round()).last();
        assert!(late.is_some_and(|w| w.abs_diff(25_000) <= MSS), "{late:?}");
    }

    #[test]
    fn a_path_that_carries_less_lets_the_window_fall_but_not_below_the_least() {
        let mut r = Receiver::new(&[], 30_000);
        for _ in 0..8 {
            r.round();
        }
        r.pipe = 1000;
        r.bench.board.rx.nxt = Seq(500_000);
        // The base is that of before: all that comes in 30 ms waits for nobody.
        r.pipe = 200_000;
        let seen: Vec<u32> = (0..6).map(|_| r.round()).collect();
        assert!(seen.last() < Some(&8000), "{seen:?}");
        assert!(seen.iter().all(|w| *w >= 4 * MSS - MSS), "{seen:?}");
    }

    #[test]
    fn a_sender_that_uses_little_gets_no_more() {
        let mut r = Receiver::new(&[], 20_000);
        r.stamp(Flags::SYN, None);
        r.acks();
        let seen: Vec<u32> = (0..5).map(|_| r.brings(1500)).collect();
        assert_eq!(r.bench.probe("limit"), Some(4000.0), "{seen:?}");
        let seen: Vec<u32> = (0..2).map(|_| r.brings(2000)).collect();
        assert_eq!(r.bench.probe("limit"), Some(8000.0), "{seen:?}");
    }

    #[test]
    fn the_right_edge_goes_forth_by_segments_and_never_back() {
        let mut r = Receiver::new(&[], 20_000);
        r.stamp(Flags::SYN, None);
        let mut edge = Seq(1).plus(4 * MSS);
        for i in 0..200u32 {
            // Segments of odd sizes, and a path that grows and shrinks.
            r.pipe = 5000 + (i * 7919) % 40_000;
            let window = r.brings(100 + (i * 389) % 3000);
            let now = r.bench.board.rx.nxt.plus(window);
            assert!(now.from(edge), "{i}: {edge:?} to {now:?}");
            assert!(
                now == edge || now.since(edge) >= MSS,
                "{i}: {}",
                now.since(edge)
            );
            edge = now;
        }
    }

    /// What is told has the grain of the scale, and what of it was told stays told.
    //= rfc7323#section-2.4
    #[test]
    fn the_right_edge_never_goes_back_by_what_a_scale_cuts_off() {
        for shift in [1, 7, 10] {
            let mut r = Receiver::new(&[], 20_000);
            r.bench.board.conn.rcv_shift = shift;
            r.stamp(Flags::SYN, None);
            r.buffer = 60_000 >> shift;
            let mut edge = Seq(1).plus(4 * MSS);
            let mut told = |r: &Receiver, field: u32, i: u32| {
                let now = r.bench.board.rx.nxt.plus(field << shift);
                assert!(now.from(edge), "{shift}, {i}: {edge:?} to {now:?}");
                edge = now;
            };
            // While so little is used the limit stays, and what is cut off adds up to nothing.
            for i in 0..300 {
                let field = r.brings(1 + i % 7);
                told(&r, field, i);
                assert!(
                    field << shift < 4 * MSS + (1 << shift),
                    "{shift}, {i}: {field}"
                );
            }
            for i in 300..700 {
                r.pipe = 5000 + (i * 7919) % 40_000;
                let field = r.brings(1 + (i * 389) % 1400);
                told(&r, field, i);
            }
        }
    }

    #[test]
    fn what_the_buffer_shows_is_never_exceeded_and_without_timestamps_it_is_left() {
        let mut r = Receiver::new(&[], 20_000);
        r.stamp(Flags::SYN, None);
        r.round();
        r.buffer = 300;
        assert_eq!(r.acks(), 300);
        let mut r = Receiver::new(&[], 20_000);
        let mut head = Head::default();
        (head.ack, head.window) = (Some(Seq(1)), 60_000);
        r.bench.stamp(Kind::Ack, &mut head);
        assert_eq!(head.window, 60_000);
        assert_eq!(r.stamp(Flags::RST, Some(Seq(1))), 60_000);
    }

    #[test]
    fn what_the_peer_was_promised_before_stays_promised() {
        // The SYN's window was not ours to say: 60 kB are promised from the first octet on.
        let mut r = Receiver::new(&[], 20_000);
        assert_eq!(r.acks(), 60_000);
        assert_eq!(r.brings(10_000), 50_000);
        assert_eq!(r.brings(47_000), 22_000, "3000 of them were left");
    }
}
