//! `tpa-rate`: one data packet per delay of the path, as acknowledgements bring it back (WiFu paper
//! V.B, Behaviour 9).
//!
//! Contributes the interval D_s and the clock that it runs; there is no congestion window. Hears
//! segments, `opened`, `acked` and `sent`; says nothing; gates data of every kind, the segment that
//! a recovery turns on included; writes `rate`. The delay is what the handler `tpa-shim` found in
//! an acknowledgement's shim, from which it comes as an annotation. The rule is ATP's with
//! THETA = phi - 1 and K = 1/kappa of WiFu's code.

use wifu_engine::board::RateFacts;
use wifu_engine::component::Cx;
use wifu_engine::descriptor::NoteSpec;
use wifu_engine::kit::{DS_FIRST, Interval, KAPPA, PHI};
use wifu_engine::{
    Access, Admit, Board, Component, Descriptor, Facts, Kind, Limit, ParamSpec, Params, Permit,
    Role, Segment, Signal, Want,
};
use wifu_wire::{Note, Rate, Seq, Time};

const FIXED_RATE: ParamSpec = ParamSpec::optional_rate(
    "fixed_rate",
    // The bounds of D_s.
    Rate(8 * OCTETS),
    Rate(8 * OCTETS * 10_000),
    "IP packets of 1500 bytes leave at this rate, whatever is fed back (WiFu paper VI.C); auto: \
     the rate follows the delay of the path.",
);

/// What [`FIXED_RATE`] takes a packet to be.
const OCTETS: u64 = 1500;

const FB_DELAY: NoteSpec = NoteSpec {
    name: "fb_delay",
    access: Access::Read,
    unit: "us",
    doc: "The delay that the peer feeds back; absent, or 0: none.",
};

/// See the module.
pub static TPA_RATE: Descriptor = Descriptor {
    name: "tpa-rate",
    role: Role::Gate,
    doc: "One data packet, new or not, per path delay as acknowledgements bring it back; losses \
          change nothing.",
    cites: &["WiFu paper V.B", "WiFu paper VI.C", "Behaviour 9"],
    params: &[PHI, KAPPA, DS_FIRST, FIXED_RATE],
    notes: &[FB_DELAY],
    probes: &["ds_us", "d_us", "raised", "lowered"],
    reads: Facts::CONN.with(Facts::TX),
    writes: Facts::RATE,
    hears: &[
        ("segment", &[]),
        ("opened", &[]),
        ("acked", &[]),
        ("sent", &[]),
    ],
    hooks: &["segment", "permit"],
    build: |p| Ok(Box::new(TpaRate::new(p))),
    ..Descriptor::EMPTY
};

struct TpaRate {
    note: Note,
    /// The rate is fixed.
    fixed: bool,
    interval: Interval,
    /// What the segment that came last feeds back, microseconds; 0: nothing.
    told: u32,
    /// What was fed back last, microseconds.
    d: u32,
}

impl TpaRate {
    fn new(p: &Params<'_>) -> TpaRate {
        let mut interval = Interval::new(p, 1.0);
        let fixed = p.optional_rate(FIXED_RATE.name);
        if let Some(rate) = fixed {
            interval.set(8e6 * OCTETS as f64 / rate.0 as f64);
        }
        TpaRate {
            note: p.note(FB_DELAY.name),
            fixed: fixed.is_some(),
            interval,
            told: 0,
            d: 0,
        }
    }

    /// What was fed back is heeded: D_s is it where the connection `opens`, and later follows.
    fn heed(&mut self, opens: bool, cx: &mut Cx<'_>) {
        let told = core::mem::take(&mut self.told);
        if told > 0 {
            self.d = told;
        }
        match (self.fixed, opens) {
            (true, _) => {}
            (false, true) => self.interval.start(f64::from(told)),
            (false, false) => self.interval.follow(f64::from(told)),
        }
        let mss = cx.board.conn.mss;
        cx.write(|r: &mut RateFacts| self.interval.publish(mss, r));
    }
}

/// Whether from `at` on there is only a FIN, which waits for no turn.
fn is_end(board: &Board, at: Seq) -> bool {
    board.app.fin && !board.app.end.after(at)
}

impl Component for TpaRate {
    fn on_segment(&mut self, seg: &Segment<'_>, _cx: &mut Cx<'_>) -> Admit {
        self.told = seg.frame.notes.get(self.note).unwrap_or(0);
        Admit::Pass
    }

    //= spec#9
    // "Initial D_s from fb_delay of SYN+ACK (D_init 20 ms if 0)."
    fn on_signal(&mut self, signal: &Signal, cx: &mut Cx<'_>) {
        match signal {
            Signal::Opened => self.heed(true, cx),
            // That of the handshake acknowledges no data.
            Signal::Acked(a) if a.bytes > 0 => self.heed(false, cx),
            Signal::Sent(s) if s.kind.is_data() && !is_end(&cx.board, s.seq) => {
                self.interval.sent(cx.now, s.late);
            }
            _ => {}
        }
    }

    //= spec#9
    // "Pacing: one data packet (new or retransmitted) per D_s; pure ACKs, SYN, FIN unpaced"
    fn permit(&self, want: &Want, board: &Board, _now: Time) -> Permit {
        let at = match want.kind {
            Kind::Rescue => board.tx.una,
            _ => board.tx.nxt,
        };
        match want.kind.is_data() && !is_end(board, at) {
            true => Permit::at(self.interval.due(), Limit::Pace),
            false => Permit::OPEN,
        }
    }

    fn observe(&self, probe: &mut dyn FnMut(&'static str, f64)) {
        let [raised, lowered] = self.interval.moved().map(f64::from);
        probe("ds_us", self.interval.us());
        probe("d_us", f64::from(self.d));
        probe("raised", raised);
        probe("lowered", lowered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wifu_engine::signal::{Acked, Sent};
    use wifu_engine::{Bench, Reason};
    use wifu_wire::{FrameFacts, Head, Notes, Span};

    const MSS: u32 = 1_436;

    /// A sender of five segments whose handshake brought a delay of so many microseconds.
    fn opened(set: &[(&str, &str)], d: u32) -> Bench {
        let mut t = Bench::new(&TPA_RATE, set).unwrap();
        (t.board.conn.mss, t.board.app.end) = (MSS, Seq(5 * MSS));
        t.now = Time(1_000_000_000);
        feedback(&mut t, d, None);
        t.signal(Signal::Opened);
        t
    }

    /// A segment brings a delay, and acknowledges so much.
    fn feedback(t: &mut Bench, d: u32, acked: Option<u32>) {
        let (mut frame, mut notes) = (FrameFacts::default(), Notes::default());
        notes.set(Note(0), d);
        frame.notes = notes;
        let _ = t.segment_by(&Head::default(), &[], &frame);
        if let Some(bytes) = acked {
            t.signal(Signal::Acked(Acked {
                bytes,
                upto: Seq(0),
                in_recovery: false,
                limited_by: Limit::Pace,
            }));
        }
    }

    fn ds(t: &Bench) -> f64 {
        t.probe("ds_us").unwrap()
    }

    //= spec#9
    // "elif R > 1.1*S: S += (R-S)/5 [WC THETA .1, K 5]; else keep"
    #[test]
    fn the_interval_falls_by_a_fifth_rises_at_once_and_keeps_within_a_tenth() {
        let mut t = opened(&[], 2_000);
        for (d, expected) in [
            (1_900, 2_000.0),
            (1_819, 2_000.0),
            (1_818, 1_960.742),
            (60_000, 60_000.0),
            (2_000, 8_823.529),
            (0, 8_823.529),
        ] {
            feedback(&mut t, d, Some(MSS));
            assert!((ds(&t) - expected).abs() < 5e-4, "{d}: {}", ds(&t));
        }
        let moved = ["raised", "lowered", "d_us"].map(|p| t.probe(p).unwrap());
        assert_eq!(moved, [2.0, 1.0, 2_000.0]);
        assert_eq!(t.board.rate.gap, Some(Span(8_823_529)));
    }

    #[test]
    fn the_handshake_sets_the_interval_and_only_new_data_move_it() {
        assert_eq!(ds(&opened(&[], 3_000)), 3_000.0);
        assert_eq!(ds(&opened(&[], 0)), 20_000.0, "no node said its delay");
        assert_eq!(
            (ds(&opened(&[], 7)), ds(&opened(&[], 2_000_000))),
            (100.0, 1e6)
        );
        let mut t = opened(&[], 3_000);
        for acked in [None, Some(0)] {
            feedback(&mut t, 9_000, acked);
            assert_eq!(ds(&t), 3_000.0, "{acked:?}");
        }
        // What a segment fed back counts once.
        feedback(&mut t, 9_000, Some(MSS));
        feedback(&mut t, 1_000, Some(MSS));
        let before = ds(&t);
        t.signal(Signal::Acked(Acked {
            bytes: MSS,
            upto: Seq(0),
            in_recovery: false,
            limited_by: Limit::Pace,
        }));
        assert_eq!(ds(&t), before);
    }

    #[test]
    fn a_fixed_rate_stays_what_it_is() {
        let mut t = opened(&[("fixed_rate", "6 Mb/s")], 9_000);
        assert_eq!(ds(&t), 2_000.0);
        feedback(&mut t, 60_000, Some(MSS));
        assert_eq!((ds(&t), t.probe("d_us")), (2_000.0, Some(60_000.0)));
        assert_eq!(t.board.rate.gap, Some(Span::MILLI * 2));
        let bounds = ["12 kb/s", "120 Mb/s"].map(|r| ds(&opened(&[("fixed_rate", r)], 0)));
        assert_eq!(bounds, [1e6, 100.0]);
        assert!(Bench::new(&TPA_RATE, &[("fixed_rate", "11 kb/s")]).is_err());
    }

    fn leaves(t: &mut Bench, kind: Kind, at: u32) {
        t.signal(Signal::Sent(Sent {
            kind,
            reason: Reason::First,
            acks: true,
            seq: Seq(at),
            bytes: MSS,
            late: Span::ZERO,
        }));
    }

    fn wait(t: &Bench, kind: Kind) -> Span {
        let (bytes, least) = (MSS, MSS);
        let permit = t.permit(&Want { kind, bytes, least });
        permit.not_before.max(t.now) - t.now
    }

    #[test]
    fn data_of_every_kind_wait_by_the_interval_as_it_is_now() {
        let mut t = opened(&[], 3_000);
        assert_eq!(wait(&t, Kind::New), Span::ZERO, "the first at once");
        leaves(&mut t, Kind::New, 0);
        for kind in [Kind::New, Kind::Resend, Kind::Rescue] {
            assert_eq!(wait(&t, kind), Span::MILLI * 3, "{kind:?}");
        }
        for kind in [Kind::Control, Kind::Ack, Kind::Urgent, Kind::Probe] {
            assert_eq!(wait(&t, kind), Span::ZERO, "{kind:?}");
        }
        feedback(&mut t, 9_000, Some(MSS));
        assert_eq!(wait(&t, Kind::New), Span::MILLI * 9);
        // What goes again takes its turn as well.
        t.now += Span::MILLI * 20;
        leaves(&mut t, Kind::Rescue, 0);
        assert_eq!(wait(&t, Kind::New), Span::MILLI * 9);
    }

    //= spec#9
    // "FIN not before the last data byte left"
    #[test]
    fn a_fin_alone_waits_for_nothing_and_costs_no_turn() {
        let mut t = opened(&[], 3_000);
        t.board.app.fin = true;
        (t.board.tx.una, t.board.tx.nxt) = (Seq(3 * MSS), Seq(4 * MSS));
        leaves(&mut t, Kind::New, 4 * MSS);
        assert_eq!(wait(&t, Kind::New), Span::MILLI * 3, "with data");
        t.board.tx.nxt = Seq(5 * MSS);
        assert_eq!(wait(&t, Kind::New), Span::ZERO, "alone");
        assert_eq!(wait(&t, Kind::Rescue), Span::MILLI * 3, "data go again");
        t.board.tx.una = Seq(5 * MSS);
        assert_eq!(wait(&t, Kind::Rescue), Span::ZERO, "the FIN goes again");
        t.now += Span::MILLI;
        leaves(&mut t, Kind::New, 5 * MSS);
        t.board.tx.nxt = Seq(4 * MSS);
        assert_eq!(wait(&t, Kind::Resend), Span::MILLI * 2, "as before");
    }
}
